#!/bin/sh
# Write a backup of the running server, as of now, to standard output: an RDB file.
#
# By way of the disk, because the program cuts the mark off that ends such a copy only in a file.
set -eu
umask 077
file=$(mktemp "$PWD/.backup.XXXXXX")
trap 'rm -f "$file"' EXIT
sh "${0%/*}/cli.sh" backup "$@" --rdb "$file" >&2
cat "$file"
