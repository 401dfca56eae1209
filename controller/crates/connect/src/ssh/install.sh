# Stores the agent, whose bytes come from standard input. Arguments: directory, hash, name of the temporary file, POSIX
# checksum, size, then the arguments that make the program act as the agent.
dir=$1 hash=$2 temporary=$1/bin/$3 checksum=$4 size=$5
shift 5
LC_ALL=C
export LC_ALL
umask 077

failed() {
    say failed "$*"
    exit 1
}

[ -d "$dir" ] || mkdir -p -m 711 "$dir" || failed dir
why=$(open_to_others "$dir")
[ -z "$why" ] || failed dir "$why"
[ -d "$dir/bin" ] || mkdir -p -m 700 "$dir/bin" || failed dir
why=$(open_to_others "$dir/bin")
[ -z "$why" ] || failed dir "in $dir/bin: $why"

trap 'rm -f "$temporary"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cat >"$temporary" || failed store
stored=$(cksum <"$temporary") || failed store
[ "$stored" = "$checksum $size" ] || failed store "its checksum and size are $stored instead of $checksum $size"
chmod 700 "$temporary" || failed store
said=$("$temporary" "$@" --version 2>&1)
code=$?
set -f
[ $code = 0 ] || failed run $code $said
set +f
# Another controller may have stored and started it meanwhile: what is there stays, unless a crash left nothing in it.
agent=$dir/bin/drover-agent-$hash
ln "$temporary" "$agent" 2>/dev/null || [ -s "$agent" ] || mv -f "$temporary" "$agent" || failed store

# The three newest stay, and the one that runs.
running=$(readlink "/proc/$(cat "$dir/lock" 2>/dev/null)/exe" 2>/dev/null)
count=0
for name in $(ls -t "$dir/bin"); do
    case $name in
    drover-agent-*)
        count=$((count + 1))
        [ $count -le 3 ] || [ "$dir/bin/$name" = "$running" ] || rm -f "$dir/bin/$name"
        ;;
    esac
done
# Left by uploads that were cut off.
find "$dir/bin" -name 'upload-*' -mtime +0 -exec rm -f '{}' + 2>/dev/null
say end
