#!/bin/sh
# Cut a damaged append-only file off where it can be read no more; what was written later is gone.
#
# For a server that does not run. The file as it was is kept beside it, for whoever asks what was
# lost. The program asks before it cuts.
set -eu
data=appendonlydir
check=$(command -v valkey-check-aof || command -v redis-check-aof)
kept="$data.$(date -u +%Y%m%dT%H%M%SZ)"
cp -Rp "$data" "$kept"
echo "repair.sh: the file as it was is $PWD/$kept" >&2
exec "$check" --fix "$data/appendonly.aof.manifest"
