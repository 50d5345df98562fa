#!/usr/bin/env bash
# Builds CAF's core and libzmq with the thread sanitizer into build/tsan-libraries, from the source
# packages of the releases that Debian ships; the preset `tsan` takes them from there. Debian's own
# are compiled without the sanitizer, which then cannot see what they synchronise and reports races
# that are none: in them, and in our code on what they hand over. Takes about five minutes on two
# cores, and nothing once they are there. Leaves the system and its apt lists as they are.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

prefix=$PWD/build/tsan-libraries

usage() {
  cat <<'TEXT'
usage: tools/tsan_libraries.sh [--jobs N | --help]
  builds CAF 0.17.6 and libzmq 4.3.4 with the thread sanitizer into build/tsan-libraries, from the
  sources in Debian's archive, or from tarballs build/<source package>.tar.gz where somebody put them
TEXT
}

die() {  # die CODE CAUSE REMEDY
  printf 'tsan_libraries: error: %s\ntsan_libraries: try:   %s\n' "$2" "$3" >&2
  exit "$1"
}

jobs=$(nproc)
while [ $# -gt 0 ]; do
  case "$1" in
    --jobs) shift; jobs=${1:-} ; [[ $jobs =~ ^[1-9][0-9]*$ ]] ||
              die 2 "--jobs needs a number, got '${jobs}'" "tools/tsan_libraries.sh --jobs 2" ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown flag '$1'" "tools/tsan_libraries.sh --help" ;;
  esac
  shift
done

# Below build/, so that a compiler cache knows the sources again; one run at a time.
work=$prefix/work
mkdir -p "$work" || exit 1
exec 9>"$prefix/lock"
flock 9
trap 'rm -rf "$work"' EXIT

# apt with lists, cache and sources of its own: deb-src lines are seldom in the system's.
fetch() {  # fetch PACKAGE VERSION TARBALL
  local mirror=${GPUNODE_DEB_MIRROR:-http://deb.debian.org/debian}
  local keys=/usr/share/keyrings/debian-archive-keyring.gpg
  local -a private=(-q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work" -o Acquire::Retries=3
    -o APT::Sandbox::User=root)
  if [ ! -e "$work/sources.list" ]; then
    mkdir -p "$work/lists/partial" "$work/archives/partial" || return 1
    echo "deb-src [signed-by=$keys] $mirror bookworm main" >"$work/sources.list"
    apt-get "${private[@]}" update >"$work/log" 2>&1 || return 1
  fi
  # The tarball alone: what Debian changes is not in the parts used here. apt checks its hash.
  (cd "$work" && apt-get "${private[@]}" source --download-only --tar-only "$1") >>"$work/log" 2>&1 &&
    mv "$work/$1_$2".orig.tar.* "$3" 2>>"$work/log"
}

build() {  # build PACKAGE VERSION CMAKE_ARGUMENTS...
  local package=$1 version=$2 tarball=$PWD/build/$1.tar.gz source=$work/$1
  shift 2
  if [ -e "$prefix/$package-$version" ]; then
    echo "tsan_libraries: $package $version is in build/tsan-libraries"
    return
  fi
  if [ ! -e "$tarball" ] && ! fetch "$package" "$version" "$tarball"; then
    tail -n 8 "$work/log" >&2
    die 1 "the source package $package $version is out of reach" \
      "a network with a Debian mirror (GPUNODE_DEB_MIRROR), or put the release's tarball at $tarball"
  fi
  mkdir -p "$source" && tar xf "$tarball" -C "$source" --strip-components 1 ||
    die 1 "$tarball is no tarball of $package" "rm $tarball"
  echo "tsan_libraries: building $package $version"
  local -a configure=(cmake -S "$source" -B "$source-build" -G Ninja
    -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1 -g1"
    "-DCMAKE_CXX_COMPILER_LAUNCHER=$(command -v ccache)" "-DCMAKE_INSTALL_PREFIX=$prefix"
    -DCMAKE_INSTALL_LIBDIR=lib "$@")
  if ! { "${configure[@]}" && nice -n 10 ninja -C "$source-build" -j "$jobs" install; } \
    >"$work/log" 2>&1; then
    tail -n 25 "$work/log" >&2
    die 1 "$package $version did not build; its last lines stand above" \
      "tools/packages.sh, then this again"
  fi
  touch "$prefix/$package-$version"
}

sanitized="-std=c++17 -fsanitize=thread -fno-omit-frame-pointer -w"
# CAF relies on an older compiler's headers to bring these two.
build actor-framework 0.17.6 "-DCMAKE_CXX_FLAGS=$sanitized -include limits -include cstdint" \
  -DCAF_NO_IO=ON -DCAF_NO_TOOLS=ON -DCAF_NO_EXAMPLES=ON -DCAF_NO_UNIT_TESTS=ON \
  -DCAF_NO_OPENCL=ON -DCAF_NO_OPENSSL=ON -DCAF_NO_PYTHON=ON
build zeromq3 4.3.4 "-DCMAKE_CXX_FLAGS=$sanitized" -DWITH_LIBSODIUM=ON -DENABLE_CURVE=ON \
  -DBUILD_STATIC=OFF -DBUILD_TESTS=OFF -DWITH_PERF_TOOL=OFF -DWITH_DOCS=OFF -DWITH_LIBBSD=OFF \
  -DENABLE_CPACK=OFF -DENABLE_PRECOMPILED=OFF
