#!/usr/bin/env bash
# Builds CAF's core with the thread sanitizer into build/tsan-caf, from the source package of the
# release that Debian ships; the preset `tsan` looks for it there. Debian's own CAF is compiled
# without the sanitizer, which then reports dozens of races that are none. Takes about three
# minutes on two cores and nothing once it is there. Leaves the system and its apt lists as they are.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

version=0.17.6
prefix=$PWD/build/tsan-caf

usage() {
  cat <<'TEXT'
usage: tools/tsan_caf.sh [--jobs N | --help]
  builds CAF 0.17.6 with the thread sanitizer into build/tsan-caf, from the source in
  Debian's archive, or from build/tsan-caf.tar.gz where somebody put it.
TEXT
}

die() {  # die CODE CAUSE REMEDY
  printf 'tsan_caf: error: %s\ntsan_caf: try:   %s\n' "$2" "$3" >&2
  exit "$1"
}

jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --jobs) shift; jobs=${1:-} ; [[ $jobs =~ ^[1-9][0-9]*$ ]] ||
              die 2 "--jobs needs a number, got '${jobs}'" "tools/tsan_caf.sh --jobs 2" ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown flag '$1'" "tools/tsan_caf.sh --help" ;;
  esac
  shift
done

if [ -e "$prefix/built-$version" ]; then
  echo "tsan_caf: CAF $version is in build/tsan-caf"
  exit 0
fi

work=$(mktemp -d) || die 1 "no temporary folder could be made" "free space in ${TMPDIR:-/tmp}"
trap 'rm -rf "$work"' EXIT
tarball=$PWD/build/tsan-caf.tar.gz

# apt with lists, cache and sources of its own: deb-src lines are seldom in the system's.
fetch() {
  mkdir -p "$work/lists/partial" "$work/archives/partial" || return 1
  local codename
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
  local mirror=${GPUNODE_DEB_MIRROR:-http://deb.debian.org/debian}
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  echo "deb-src [signed-by=$keys] $mirror $codename main" >"$work/sources.list"
  local -a private=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o Acquire::Retries=3
    -o APT::Sandbox::User=root)
  # The tarball alone: Debian's changes touch neither the core nor its headers. apt checks its hash.
  (cd "$work" && apt-get "${private[@]}" update &&
    apt-get "${private[@]}" source --download-only --tar-only actor-framework) >"$work/log" 2>&1 &&
    mv "$work"/actor-framework_"$version".orig.tar.* "$tarball" 2>>"$work/log"
}

mkdir -p build || exit 1
if [ ! -e "$tarball" ] && ! fetch; then
  tail -n 8 "$work/log" >&2
  die 1 "the source package actor-framework $version is out of reach" \
    "a network with a Debian mirror (GPUNODE_DEB_MIRROR), or put the release's tarball at $tarball"
fi
mkdir "$work/source" && tar xf "$tarball" -C "$work/source" --strip-components 1 ||
  die 1 "$tarball is no tarball of CAF" "rm $tarball"
grep -q "CAF_VERSION 1706" "$work/source/libcaf_core/caf/config.hpp" ||
  die 1 "$tarball is not CAF $version" "rm $tarball"

launcher=$(command -v ccache || true)
# The two includes: this release relies on an older compiler's headers to bring them.
configure=(cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo
  "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1"
  "-DCMAKE_CXX_FLAGS=-std=c++17 -fsanitize=thread -fno-omit-frame-pointer -include limits -include cstdint -w"
  "-DCMAKE_CXX_COMPILER_LAUNCHER=$launcher" "-DCMAKE_INSTALL_PREFIX=$prefix"
  -DCMAKE_INSTALL_LIBDIR=lib)
for part in IO TOOLS EXAMPLES UNIT_TESTS OPENCL OPENSSL PYTHON; do
  configure+=("-DCAF_NO_$part=ON")
done
echo "tsan_caf: building CAF $version with the thread sanitizer"
rm -rf "$prefix"
if ! { "${configure[@]}" && nice -n 10 ninja -C "$work/build" -j "$jobs" install; } >"$work/log" 2>&1
then
  tail -n 25 "$work/log" >&2
  die 1 "CAF $version did not build; its last lines stand above" "tools/packages.sh, then this again"
fi
touch "$prefix/built-$version"
echo "tsan_caf: done"
