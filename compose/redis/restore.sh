#!/bin/sh
# Make a backup (an RDB file on standard input) the data that the server in this folder starts with.
#
# The server reads its append-only file and no RDB file, so the backup becomes the base of one. For
# an empty data folder only: there is no way back from overwriting another.
set -eu
data=appendonlydir
if [ -e "$data" ]; then
    echo "restore.sh: $PWD/$data exists; remove the volume first if its data may go" >&2
    exit 1
fi
mkdir -p ".$data"
cat >".$data/appendonly.aof.1.base.rdb"
case $(head -c 6 ".$data/appendonly.aof.1.base.rdb" | tr -d '\0') in
REDIS* | VALKEY*) ;;
*)
    rm -r ".$data"
    echo "restore.sh: standard input is no RDB file" >&2
    exit 1
    ;;
esac
echo "file appendonly.aof.1.base.rdb seq 1 type b" >".$data/appendonly.aof.manifest"
mv ".$data" "$data"
