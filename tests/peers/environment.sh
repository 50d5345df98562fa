#!/usr/bin/env bash
# The peers' own environment: newest torch, transformers, torchvision, timm, openai, tritonclient and playwright of PyPI
# in a folder of their own, without CUDA's packages (cuda_stubs.py says how). About 600 MB are fetched and 2 GB written
# the first time, a minute and a half on a fast line; later calls return at once.
# usage: environment.sh [FOLDER]     default: $GPUNODE_PEERS, else ~/.cache/gpunode/peers
#   Prints the interpreter's path. Exits with 77 and one line where PyPI is out of reach.
#   $GPUNODE_PEER_WHEELS: a folder of wheels that need not be fetched.
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${1:-${GPUNODE_PEERS:-${XDG_CACHE_HOME:-$HOME/.cache}/gpunode/peers}}
log=$folder/install.log
ready=$folder/ready-5 # another number whenever other packages are wanted; with_environment.sh has it too

skip() {
  printf 'skipped: %s\n' "$1"
  exit 77
}

if [ ! -e "$ready" ]; then
  python3 -c 'import venv, ensurepip' 2>/dev/null || skip "python3 has no venv here"
  mkdir -p "$folder" && python3 -m venv "$folder/venv" >"$log" 2>&1 || skip "no venv in $folder"
  pip=("$folder/venv/bin/python" -m pip --disable-pip-version-check --retries 1 --timeout 20
    install --no-compile --find-links "${GPUNODE_PEER_WHEELS:-$folder}")
  "${pip[@]}" safetensors numpy >>"$log" 2>&1 || skip "PyPI is out of reach ($log)"
  # The wheels of torch and torchvision name CUDA's packages: gigabytes that a CPU never loads. timm
  # wants both and nothing that transformers does not.
  "${pip[@]}" filelock 'typing-extensions>=4.13' sympy networkx jinja2 fsspec pillow setuptools \
    >>"$log" 2>&1 && "${pip[@]}" --no-deps torch torchvision timm >>"$log" 2>&1 &&
    "${pip[@]}" transformers openai "tritonclient[http]" playwright >>"$log" 2>&1 || skip "PyPI did not give all packages ($log)"
  libraries=$("$folder/venv/bin/python" -c 'import importlib.util
print(importlib.util.find_spec("torch").submodule_search_locations[0] + "/lib")')
  python3 "$here/cuda_stubs.py" "$libraries" >>"$log" 2>&1 &&
    "$folder/venv/bin/python" -c 'import torch, torchvision, transformers, timm, openai, tritonclient.http, playwright.sync_api' >>"$log" 2>&1 ||
    skip "torch cannot be imported on this machine ($log)"
  touch "$ready"
fi
echo "$folder/venv/bin/python"
