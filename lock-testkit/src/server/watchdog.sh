# Cleans up behind a test process that could not: one that was killed or aborted.
#
# $1 the directory of the server   $2 its port
# Standard input: the server's process id when it starts, a dash when it has ended. The test process
# holds the other end, so its death, however it dies, is the end of the input.

# A Ctrl-C is meant for the tests. What is to be cleaned up after it is known once they have ended.
trap '' HUP INT QUIT TERM

pid=-
while read -r line; do pid=$line; done

if [ "$pid" != - ]; then
  # The server may have ended by itself, and its id may be somebody else's by now. It is ours if its
  # command line names the directory or, once the server has set its title, the port.
  if [ -r "/proc/$pid/cmdline" ]; then
    title=$(tr '\0' ' ' <"/proc/$pid/cmdline")
  else
    title=$(ps -o command= -p "$pid")
  fi
  case $title in
    *"$1"* | *redis-server*":$2"* | *valkey-server*":$2"*) kill -KILL "$pid" ;;
  esac
fi
rm -rf "$1"
