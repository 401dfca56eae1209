# What is there: arguments are the agent's directory, empty for the usual one, and the hash of the agent's program.
dir=$1
case $dir in
'') dir=${DROVER_AGENT_DIR:-/var/tmp/drover-$(id -u)} ;;
'~/'*) dir=$HOME/${dir#??} ;;
esac
case $dir in
/*) ;;
*) dir=$PWD/$dir ;;
esac
say system "$(uname -sm)"
say dir "$dir"
set -- $2 $SSH_CONNECTION
say address "$4"
if [ -e "$dir" ] || [ -L "$dir" ]; then
    why=$(open_to_others "$dir")
    [ -z "$why" ] || say bad "$why"
fi
agent=$dir/bin/drover-agent-$1
[ -s "$agent" ] && [ -x "$agent" ] && say agent
[ -S "$dir/agent.sock" ] && say socket
say end
