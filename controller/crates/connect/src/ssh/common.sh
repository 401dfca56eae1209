say() { printf '%s %s\n' "$mark" "$*"; }

# Says why the directory is not private, as the agent demands it; says nothing if it is.
open_to_others() {
    set -f
    set -- "$1" $(LC_ALL=C ls -ldn "$1" 2>&1)
    set +f
    case $2 in
    d???--[-x]--[-x]*) [ "$4" = "$(id -u)" ] || printf '%s' "it belongs to user id $4, not to $(id -u)" ;;
    d*) printf '%s' "it is open to other users (chmod go-rw $1)" ;;
    l*) printf '%s' "it is a symbolic link" ;;
    *) shift && printf '%s' "$*" ;;
    esac
}
