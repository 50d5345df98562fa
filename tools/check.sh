#!/usr/bin/env bash
# The whole check of gpunode from a fresh clone: packages, format, build, and through ctest every test
# but those behind a flag, one stage a label. Made for a bare Debian 12 machine; can be run again at
# any time. Ends with the time of each stage and exits 0 only when all of them passed. Takes about
# half an hour on two cores the first time; `--quick` is for the minutes in between.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'TEXT'
usage: tools/check.sh [flags]
  (none)       packages, format, build; then unit, parity, house, sim, fuzz (a second each), process,
               install, and peers
               where their environment is already
  --quick      build and run the unit tests only
  --sanitize   unit and sim under the address and undefined-behaviour sanitizers (preset asan)
  --threads    unit (with a job of three nodes in one process) and sim under the thread sanitizer
               (preset tsan), with a CAF and a libzmq that are fetched and built for it first
  --fuzz       each fuzzer for 60 seconds: with libFuzzer where clang is (preset fuzz), else with
               our own driver under the sanitizers (preset asan)
  --fuzz-seconds N  likewise, for N seconds each
  --learn      also train on the real text of the learning test (minutes)
  --kill-all   also kill every member at every point and at 20 random moments, run 50 faults of
               every kind in one job, and hang what has never been done before (minutes)
  --hostile    also five minutes of a hostile member beside five nodes, with the bars on speed, calls
               and memory; on a quiet machine only
  --peers      fetch the peers' environment first (tests/peers/environment.sh: 600 MB of PyPI)
  --pace       also measure throughput and who is slowest; on a quiet machine only
  --jobs N     run N compilers and tests at once (default: the cores, bounded by free memory)
  --help       this text
TEXT
}

die() {  # die CODE CAUSE REMEDY
  printf 'check: error: %s\ncheck: try:   %s\n' "$2" "$3" >&2
  exit "$1"
}

# ---- flags
sanitize=no threads=no fuzz=no hostile=no learn=no kill_all=no pace=no quick=no jobs=
while [ $# -gt 0 ]; do
  case "$1" in
    --sanitize) sanitize=yes ;;
    --threads) threads=yes ;;
    --fuzz) fuzz=yes ;;
    --fuzz-seconds) shift; fuzz=yes; fuzz_seconds=${1:-} ; [[ $fuzz_seconds =~ ^[1-9][0-9]*$ ]] ||
              die 2 "--fuzz-seconds needs a number, got '${fuzz_seconds}'" "tools/check.sh --fuzz" ;;
    --hostile) hostile=yes ;;
    --learn) learn=yes ;;
    --kill-all) kill_all=yes ;;
    --pace) pace=yes ;;
    --peers) export GPUNODE_PEERS_FETCH=1 ;;
    --quick) quick=yes ;;
    --jobs) shift; jobs=${1:-} ; [[ $jobs =~ ^[1-9][0-9]*$ ]] ||
              die 2 "--jobs needs a number, got '${jobs}'" "tools/check.sh --jobs 2" ;;
    -h | --help) usage; exit 0 ;;
    *) die 2 "unknown flag '$1'" "tools/check.sh --help" ;;
  esac
  shift
done
if [ -z "$jobs" ]; then
  jobs=$(nproc)
  # One compiler takes up to about 700 MB (CAF, CLI11); swapping would be slower than waiting.
  fit=$(($(awk '/MemAvailable/ {print $2}' /proc/meminfo) / 700000))
  [ "$fit" -ge 1 ] || fit=1
  [ "$jobs" -le "$fit" ] || jobs=$fit
fi

# ---- stages and their times
names=() times=() results=() tests_total=0 failed_total=0 ctest_seconds=0
log=$(mktemp) || die 1 "no temporary file could be made" "free space in ${TMPDIR:-/tmp}"
trap 'rm -f "$log"' EXIT

summary() {
  printf '\n%-20s %9s  %s\n' stage seconds result
  local i
  for i in "${!names[@]}"; do
    printf '%-20s %9s  %s\n' "${names[$i]}" "${times[$i]}" "${results[$i]}"
  done
  [ "$tests_total" -gt 0 ] || return 0
  # All ctest stages together, in the form in which ctest itself closes.
  printf '\n%d%% tests passed, %d tests failed out of %d\n' \
    $(((tests_total - failed_total) * 100 / tests_total)) "$failed_total" "$tests_total"
  printf '\nTotal Test time (real) = %6.2f sec\n' "$ctest_seconds"
}

note() { names+=("$1"); times+=("$2"); results+=("$3"); }

stage() {  # stage NAME COMMAND...: a failure ends the run, as what follows needs it
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then
    note "$name" $((SECONDS - begin)) passed
  else
    note "$name" $((SECONDS - begin)) FAILED
    summary
    exit 1
  fi
}

failed_stages=0
tests() {  # tests NAME BUILD_DIR JOBS CTEST_ARGUMENTS...: a failure is noted and the next one runs
  local name=$1 dir=$2 width=$3 begin=$SECONDS count failed seconds
  shift 3
  printf '\n== %s\n' "$name"
  ctest --test-dir "$dir" --output-on-failure --no-tests=error -j "$width" "$@" 2>&1 | tee "$log"
  local status=${PIPESTATUS[0]}
  count=$(sed -nE 's/.*tests? failed out of ([0-9]+)$/\1/p' "$log" | tail -1)
  failed=$(sed -nE 's/.*passed, ([0-9]+) tests? failed out of [0-9]+$/\1/p' "$log" | tail -1)
  seconds=$(sed -nE 's/^Total Test time \(real\) = +([0-9.]+) sec$/\1/p' "$log" | tail -1)
  tests_total=$((tests_total + ${count:-0}))
  failed_total=$((failed_total + ${failed:-0}))
  ctest_seconds=$(awk "BEGIN { print $ctest_seconds + ${seconds:-0} }")
  if [ "$status" -eq 0 ]; then
    note "$name" $((SECONDS - begin)) "passed (${count:-0} tests)"
  else
    failed_stages=$((failed_stages + 1))
    note "$name" $((SECONDS - begin)) "FAILED (${failed:-no} of ${count:-no} tests)"
  fi
}

# ---- the stages themselves
check_format() {
  local tool
  for tool in clang-format-14 clang-format; do
    "$tool" --version 2>/dev/null | grep -q 'version 14\.' && break
    tool=
  done
  # Other versions break lines elsewhere; their verdict would be about them, not about the code.
  [ -n "$tool" ] || { echo "skipped: clang-format 14 is not here"; return 0; }
  local -a files
  if ! mapfile -d '' files < <(git ls-files -z -- '*.cpp' '*.hpp' '*.cu' '*.cuh' 2>/dev/null) ||
    [ ${#files[@]} -eq 0 ]; then
    mapfile -d '' files < <(find runtime kernels actors tools examples tests \
      -regex '.*\.\(cpp\|hpp\|cu\|cuh\)' -print0)
  fi
  printf '%s\0' "${files[@]}" | xargs -0 -n 16 -P "$jobs" "$tool" --dry-run -Werror ||
    { echo "run: $tool -i on the files named above" >&2; return 1; }
  echo "${#files[@]} files are in the house's format"
}

# The CUDA twins are compiled where nvcc 12 or newer is; CMake looks for it and says what it found.
build() {  # build PRESET CUDA TARGETS...
  local preset=$1 cuda=$2
  shift 2
  cmake --preset "$preset" "-DGPUNODE_CUDA=$cuda" >"$log" 2>&1 || {
    cat "$log" >&2
    echo "check: configuring failed; a foreign build/$preset can be the cause: rm -r build/$preset" >&2
    return 1
  }
  sed -n 's/^-- CUDA twins: /CUDA twins: /p' "$log"
  cmake --build "build/$preset" -j "$jobs" ${1:+--target "$@"}
}

stage packages tools/packages.sh
stage format check_format

if [ $sanitize = yes ]; then
  # Some hundred seeds, not thousands: the whole stage is to end in a quarter of an hour.
  export GPUNODE_SIM_SEEDS="${GPUNODE_SIM_SEEDS:-300}"
  # detect_leaks stays on; the suppressions name two null references inside Debian's CAF.
  # GCC before 14 misplaces locals aligned to 64 bytes on the fake stack (its bug 110027).
  export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=0}"
  export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:suppressions=$PWD/tests/house/ubsan.supp"
  stage "build (asan)" build asan OFF tests_unit tests_sim
  tests "unit (asan)" build/asan "$jobs" -L '^unit$' -LE '^(learn|killall)$'
  tests "sim (asan)" build/asan "$jobs" -L '^sim$' -LE '^(learn|killall)$'
fi
if [ $threads = yes ]; then
  export GPUNODE_SIM_SEEDS="${GPUNODE_SIM_SEEDS:-100}"
  # No suppressions: a report is a failure, wherever it is from.
  export TSAN_OPTIONS="second_deadlock_stack=1"
  stage "libraries (tsan)" tools/tsan_libraries.sh --jobs "$jobs"
  stage "build (tsan)" build tsan OFF tests_unit tests_sim
  tests "unit (tsan)" build/tsan "$jobs" -L '^unit$' -LE '^(learn|killall)$'
  tests "sim (tsan)" build/tsan "$jobs" -L '^sim$' -LE '^(learn|killall)$'
fi
if [ $fuzz = yes ]; then
  export GPUNODE_FUZZ_SECONDS="${fuzz_seconds:-60}" GPUNODE_FUZZ_SEED="${GPUNODE_FUZZ_SEED:-$RANDOM}"
  export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=0}"
  export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:suppressions=$PWD/tests/house/ubsan.supp"
  preset=asan
  printf 'int main() {}' | clang++ -x c++ -fsanitize=fuzzer-no-link - -o /dev/null 2>"$log" && preset=fuzz
  stage "build ($preset)" build $preset OFF tests_fuzz
  tests "fuzz ($preset)" build/$preset "$jobs" -L '^fuzz$'
fi
if [ $sanitize = no ] && [ $threads = no ] && [ $fuzz = no ]; then
  dir=build/release
  if [ $quick = yes ]; then
    stage build build release ON tests_unit
  else
    stage build build release ON
  fi
  tests unit $dir "$jobs" -L '^unit$'
  if [ $quick = no ]; then
    tests parity $dir "$jobs" -L '^(parity|gpu)$'
    tests house $dir "$jobs" -L '^house$'
    tests sim $dir "$jobs" -L '^sim$' -LE '^(learn|killall)$'
    tests fuzz $dir "$jobs" -L '^fuzz$'
    tests process $dir "$((jobs < 2 ? jobs : 2))" -L '^process$' -LE '^(learn|killall)$'
    tests install $dir 1 -L '^install$'
    # They skip themselves where their environment is not.
    tests peers $dir 1 -L '^peers$'
  fi
  if [ $learn = yes ] || [ $kill_all = yes ] || [ $hostile = yes ] || [ $pace = yes ]; then
    [ $quick = no ] || stage "build (rest)" build release ON
  fi
  [ $learn = no ] || tests learn $dir 1 -L '^learn$'
  [ $kill_all = no ] || tests kill-all $dir 1 -L '^killall$'
  [ $hostile = no ] || tests hostile $dir 1 -L '^hostile$'
  [ $pace = no ] || tests pace $dir 1 -L '^pace$'
fi

summary
[ $failed_stages -eq 0 ]
