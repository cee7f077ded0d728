#!/bin/sh
# Talk to this container's Redis or Valkey as one of its users; the password comes from its file.
#
#   sh /etc/redis/cli.sh ROLE ARGUMENT...      such as: cli.sh exporter info memory
set -eu
role=$1
shift
cli=$(command -v valkey-cli || command -v redis-cli)
REDISCLI_AUTH=$(cat "${SECRETS_DIR:-/run/secrets}/redis_${role}_password")
export REDISCLI_AUTH
exec "$cli" --user "$role" "$@"
