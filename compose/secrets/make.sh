#!/bin/sh
# Make what is secret about this deployment, each in a file of its own here; existing ones stay.
#
#   secrets/make.sh            make what is missing, and users.acl from all of them
#   secrets/make.sh NAME...    make these anew; README.md says what to restart then
#
# Nothing is printed, put into an environment or on a command line. Containers read the files as
# users of their own: so the files are readable, and this folder is closed to everybody else.
set -eu
umask 077
cd "$(dirname "$0")"

roles="client worker extension exporter backup"
names="toolrail_secret grafana_admin_password"
for role in $roles; do names="$names redis_${role}_password"; done

fail() {
    echo "make.sh: $1" >&2
    exit 1
}

# Written aside and moved, so that a reader sees the old file or the new one, never half of one.
put() {
    cat >".$1.new"
    chmod 444 ".$1.new"
    mv -f ".$1.new" "$1"
}

# Hexadecimal digits only, so that no program on the way takes one of them for its own.
make_secret() {
    secret=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n')
    [ "${#secret}" -eq 64 ] || fail "the system gave no random bytes"
    echo "$secret" | put "$1"
}

hash_of() {
    if command -v sha256sum >/dev/null; then set -- "$1" sha256sum; else set -- "$1" shasum -a 256; fi
    file=$1
    shift
    tr -d '\n' <"$file" | "$@" | cut -d ' ' -f 1
}

for name in "$@"; do
    case " $names " in
    *" $name "*) rm -f "$name" ;;
    *) fail "there is no secret $name; there are: $names" ;;
    esac
done

chmod 700 .
for name in $names; do
    [ -s "$name" ] || make_secret "$name"
done

script='/^#/d'
for role in $roles; do
    script="$script;s/@$role@/#$(hash_of "redis_${role}_password")/"
done
sed -e "$script" ../redis/users.acl.in | put users.acl
