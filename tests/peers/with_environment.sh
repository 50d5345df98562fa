#!/usr/bin/env bash
# Runs a Python test in the peers' environment. It is made only where GPUNODE_PEERS_FETCH=1 says so
# (tools/check.sh --peers), as it fetches 600 MB; else it must be there already.
# usage: with_environment.sh SCRIPT [ARGUMENTS...]
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${GPUNODE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpunode/peers}
if [ ! -e "$folder/ready-5" ] && [ "${GPUNODE_PEERS_FETCH:-}" != 1 ]; then
  echo "skipped: no peers in $folder; tools/check.sh --peers fetches them"
  exit 77
fi
python=$("$here/environment.sh" "$folder") || { echo "$python"; exit 77; }
exec "$python" "$@"
