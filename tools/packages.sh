#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that building and testing gpunode needs, and only those that
# are missing; with all of them there it touches neither the network nor sudo. Called by
# tools/check.sh and tools/quickstart.sh; `--list` prints the names, `--missing` those not there.
# `--bench` adds what only the benchmarks' rivals need.
set -u

packages=(
  # to build
  build-essential cmake ninja-build pkg-config ca-certificates git python3
  # links and formats: actors, sockets, schemas
  libcaf-dev libzmq3-dev cppzmq-dev libflatbuffers-dev flatbuffers-compiler
  # keys, hashes
  libsodium-dev libssl-dev libxxhash-dev
  # text: JSON, TOML, command lines
  nlohmann-json3-dev libtomlplusplus-dev libcli11-dev
  # tokens of language models: Unicode, regular expressions
  libutf8proc-dev libonig-dev
  # metrics over HTTP
  # matrix products
  libdnnl-dev
  # tests
  libgtest-dev libgmock-dev clang-format
)

bench_packages=(libgloo-dev libopenmpi-dev openmpi-bin iproute2)

say() { printf 'packages: %s\n' "$*"; }

fail() {  # fail CAUSE REMEDY [CODE]
  printf 'packages: error: %s\n' "$1" >&2
  printf 'packages: try:   %s\n' "$2" >&2
  exit "${3:-1}"
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

if [ "${1:-}" = --bench ]; then
  packages+=("${bench_packages[@]}")
  shift
fi
case "${1:-}" in
  --list) printf '%s\n' "${packages[@]}"; exit 0 ;;
  -h | --help) echo "usage: tools/packages.sh [--bench] [--list | --missing]"; exit 0 ;;
  '' | --missing) ;;
  *) fail "unknown flag '$1'" "tools/packages.sh --help" 2 ;;
esac

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  fail "this system has no apt; gpunode is built on Debian 12 and its relatives" \
    "install the counterparts of these packages yourself, then run cmake as README.md shows: ${packages[*]}"
fi

mapfile -t missing < <(missing_packages)
if [ "${1:-}" = --missing ]; then
  [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"
  exit 0
fi
if [ ${#missing[@]} -eq 0 ]; then
  say "all ${#packages[@]} are installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null ||
    fail "${#missing[@]} packages are missing, and this user is not root and has no sudo" \
      "as root: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi

# sudo drops the environment, so what apt must see is named behind it.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C \
    apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"
}

say "installing ${#missing[@]} of ${#packages[@]}: ${missing[*]}"
log=$(mktemp) || fail "no temporary file could be made" "free space in ${TMPDIR:-/tmp}"
trap 'rm -f "$log"' EXIT
# A mirror that is out of reach fails at the install below, with a better message than here.
apt update >"$log" 2>&1 || say "warning: apt-get update failed; going on with the lists at hand"
if ! apt install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
  tail -n 25 "$log" >&2
  if grep -qE 'Unable to locate package|no installation candidate' "$log"; then
    fail "apt knows no package named above" \
      "Debian 12 (bookworm) with the component main in /etc/apt/sources.list, then: apt-get update"
  elif grep -qE 'Could not resolve|Failed to fetch|Unable to connect|Temporary failure' "$log"; then
    fail "apt could not reach its mirror" \
      "check network and proxy (Acquire::http::Proxy), or install by hand: ${missing[*]}"
  elif grep -q 'No space left' "$log"; then
    fail "the disk is full" "free about 2 GB under /usr and /var/cache/apt, then run this again"
  elif grep -qE 'Could not get lock|Unable to acquire' "$log"; then
    fail "another apt is running" "wait for it to end, then run this again"
  fi
  fail "apt-get install failed; its last lines stand above" \
    "${as_root[*]:+sudo }apt-get install --no-install-recommends ${missing[*]}"
fi
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] || fail "apt succeeded but these are still missing: ${missing[*]}" \
  "apt-get install ${missing[*]}"
say "done"
