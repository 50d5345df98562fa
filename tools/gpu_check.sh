#!/usr/bin/env bash
# What has to be seen on a real GPU, as one table. Builds here and packs a folder of at most 50 MB that
# runs by itself on any Linux machine with an NVIDIA driver (glibc of Debian 12 or newer, no package,
# no network; cuBLASLt is that machine's own), then runs it. Rows that need a device are skipped by name
# where there is none, and the script ends well. Under nine minutes on a GPU.
# shellcheck disable=SC2317  # rows are called by their names
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd) || exit 1

usage() {
  cat <<'TEXT'
usage: gpu_check.sh [flags]
  --only ROW     only this row: devices, parity, sanitizer, digest, learn, rejoin, bench,
                 products, memory, bf16, traffic, torch, nccl
  --device NAME  what to try: cuda (the default), cuda:N; cpu tries the rows themselves without a GPU
  --json FILE    write the table there as JSON, too
  --out FOLDER   where the folder to carry is made (default: build/gpu_check); of the source tree only
  --build DIR    take what was built there instead of building; of the source tree only
  --help         this text
TEXT
}
refuse() { printf 'gpu_check: error: %s\ngpu_check: try:   %s\n' "$1" "$2" >&2; exit 2; }

rows=(devices parity sanitizer digest learn rejoin bench products memory bf16 traffic torch nccl)
only='' device=cuda json='' out='' build=''
while [ $# -gt 0 ]; do
  flag=$1
  case "$flag" in
    --only | --device | --json | --out | --build)
      [ $# -gt 1 ] || refuse "$flag wants a value" "gpu_check.sh --help"
      printf -v "${flag#--}" '%s' "$2"
      shift ;;
    -h | --help) usage; exit 0 ;;
    *) refuse "unknown flag '$flag'" "gpu_check.sh --help" ;;
  esac
  shift
done
case " ${rows[*]} " in
  *" ${only:-devices} "*) ;;
  *) refuse "no row '$only'" "one of: ${rows[*]}" ;;
esac
[[ $device =~ ^(cpu|cuda(:[0-9]+)?)$ ]] || refuse "no device '$device'" "--device cuda"

# ---- the folder: this script and what it runs

programs=(tools/gpunode/gpunode tools/gpunode/gpunode-carrier tests/parity/parity_gpu)

build_programs() {  # prints the build folder
  local nvcc cuda=OFF
  nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
  [ -n "$nvcc" ] && cuda=ON
  [ $cuda = ON ] || echo "gpu_check: no nvcc here: built without CUDA" >&2
  cmake -G Ninja -S "$root" -B "$root/build/gpu_check_build" -DCMAKE_BUILD_TYPE=Release \
    -DGPUNODE_CUDA=$cuda >&2 || return 1
  cmake --build "$root/build/gpu_check_build" --target gpunode gpunode-carrier parity_gpu >&2 || return 1
  echo "$root/build/gpu_check_build"
}

pack() {  # pack BUILD FOLDER
  local stage program
  stage=$(mktemp -d) || return 1
  mkdir -p "$stage/bin" "$stage/lib" "$2" || return 1
  for program in "${programs[@]}"; do
    [ -x "$1/$program" ] || { echo "gpu_check: $1/$program is not built" >&2; return 1; }
    cp "$1/$program" "$stage/bin/" && strip "$stage/bin/${program##*/}" || return 1
    # All but the loader and what belongs to it, which must be the machine's own.
    ldd "$1/$program" | awk '$3 ~ /^\// {print $3}' |
      grep -vE '/lib(c|m|pthread|dl|rt|resolv)\.so' | xargs -I{} cp -Ln {} "$stage/lib/"
  done
  tar -C "$stage" -czf "$2/payload.tar.gz" bin lib && cp "${BASH_SOURCE[0]}" "$2/gpu_check.sh"
  rm -rf "$stage"
  local kilobytes
  kilobytes=$(du -sk "$2" | cut -f1)
  echo "gpu_check: $2 has $((kilobytes / 1024)) MB" >&2
  [ "$kilobytes" -le $((50 * 1024)) ] || { echo "gpu_check: more than 50 MB" >&2; return 1; }
}

if [ ! -f "$here/payload.tar.gz" ]; then
  root=$(cd "$here/.." && pwd) || exit 1
  [ -n "$build" ] || build=$(build_programs) || exit 1
  out=${out:-$root/build/gpu_check}
  pack "$build" "$out" || exit 1
  set -- --device "$device"
  [ -z "$only" ] || set -- "$@" --only "$only"
  [ -z "$json" ] || set -- "$@" --json "$(realpath -m "$json")"
  exec "$out/gpu_check.sh" "$@"
fi

# ---- running

work=$(mktemp -d) || exit 1
declare -A pids=()
clean_up() {
  local name
  for name in "${!pids[@]}"; do kill -9 "${pids[$name]}" 2>/dev/null; done
  wait 2>/dev/null
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
tar -C "$work" -xzf "$here/payload.tar.gz" || exit 1
machine_path=${LD_LIBRARY_PATH:-}  # what the machine's own programs run with
# cuBLASLt and NCCL as python3's packages bring them, behind those that the loader finds.
beside_python=$(python3 -c 'import glob, os, sys
print(":".join(sorted({os.path.dirname(one) for place in sys.path for folder in ("nvidia/*/lib", "torch/lib")
    for name in ("libcublasLt.so.1*", "libnccl.so.2") for one in glob.glob(os.path.join(place, folder, name))})))' 2>/dev/null)
export LD_LIBRARY_PATH="$work/lib${machine_path:+:$machine_path}:/usr/local/cuda/lib64${beside_python:+:$beside_python}" LC_ALL=C
gpunode=$work/bin/gpunode

detail=
skip() { detail=$1; return 77; }
fail() { detail=$1; return 1; }

# The GPU that is tried, or why there is none.
no_device=
if [ "$device" != cpu ]; then
  asked=$("$gpunode" bench compute --device "$device" --model small-gpt --ops slice --seconds 0 2>&1) ||
    no_device=$(head -n 1 <<<"$asked" | cut -c1-160)
fi
needs_device() { [ -z "$no_device" ] || skip "$no_device"; }
needs_gpu() {
  [ "$device" != cpu ] || { skip "of a GPU only"; return; }
  needs_device
}

field() { sed -nE "s/.*\"$1\":\"?([^\",}]*).*/\\1/p" | head -n 1; }  # of one line of JSON

start() {  # start NAME [join ADDRESS]: a node of its own, on loopback
  local name=$1
  shift
  [ $# -gt 0 ] || set -- up
  "$gpunode" "$@" --state "$work/$name" --name "$name" --listen 127.0.0.1:0 --device "$device" --json \
    --data "text=$work/text" >"$work/$name.out" 2>"$work/$name.log" &
  pids[$name]=$!
  for _ in $(seq 300); do
    [ -s "$work/$name.out" ] && break
    kill -0 "${pids[$name]}" 2>/dev/null || break
    sleep 0.1
  done
  [ -s "$work/$name.out" ] || fail "node $name did not start: $(tail -n 1 "$work/$name.log")"
}
stop() { kill "${pids[$1]}" 2>/dev/null; wait "${pids[$1]}" 2>/dev/null; unset "pids[$1]"; }

text() {  # made here, so that nothing is needed
  [ -f "$work/text" ] || awk 'BEGIN { for (i = 0; i < 9000; ++i)
    printf "%d: the %d brown foxes jump over %d lazy dogs\n", i, i * i % 977, i * 7919 % 10007 }' \
    >"$work/text"
}
job() {  # job NAME KIND NODES STEPS: its file
  text
  cat >"$work/$1.toml" <<TOML
name = "$1"
nodes = $3
min_nodes = 1
[data]
set = "text"
[model]
kind = "$2"
layers = 2
heads = 4
channels = 64
context = 32
[train]
seed = 1
steps = $4
batch = 8
slices = 8
warmup_steps = 20
[checkpoint]
every = 100
TOML
  echo "$work/$1.toml"
}
digest_of() {  # digest_of NODE JOB: of the final weights
  "$gpunode" checkpoint export "$2" --state "$work/$1" --out "$work/$1-$2.safetensors" \
    >/dev/null 2>>"$work/$1.log" && sha256sum <"$work/$1-$2.safetensors" | cut -c1-16
}
trained() {  # trained NODE KIND STEPS: a job of its own, to the end; prints its digest
  start "$1" || return 1
  "$gpunode" train "$(job "$1" "$2" 1 "$3")" --follow --state "$work/$1" >"$work/$1.follow" 2>&1 ||
    { fail "the job failed: $(tail -n 1 "$work/$1.follow")"; return; }
  digest=$(digest_of "$1" "$1") || { fail "no weights of $1"; return; }
  loss=$("$gpunode" job show "$1" --state "$work/$1" --json | field validation_loss)
  stop "$1"
}

row_devices() {
  needs_device || return
  start devices || return
  detail=$("$gpunode" devices --state "$work/devices" | sed -n 2p | tr -s ' ')
  stop devices
}
row_parity() {
  needs_gpu || return
  "$work/bin/parity_gpu" --gtest_filter=-NcclGroup.*:CublasProducts.* >"$work/parity.log" 2>&1 || { fail "$(grep -m1 -A3 Failure "$work/parity.log" | tr '\n' ' ')"; return; }
  detail=$(grep -m1 'tests ran' "$work/parity.log")
}
row_sanitizer() {
  needs_gpu || return
  local tool
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null) ||
    { skip "no compute-sanitizer on this machine"; return; }
  timeout 240 "$tool" --error-exitcode 9 "$work/bin/parity_gpu" --gtest_filter='*Cuda.RepeatsItsBits*' \
    >"$work/sanitizer.log" 2>&1 || { grep -q 'Device not supported' "$work/sanitizer.log" && { skip "compute-sanitizer does not support this device"; return; }; fail "$(tail -n 2 "$work/sanitizer.log" | tr '\n' ' ')"; return; }
  detail=$(tail -n 1 "$work/sanitizer.log")
}
row_digest() {
  needs_device || return
  local first
  trained twice1 gpt 200 || return
  first=$digest
  rm -rf "$work/twice1"
  trained twice1 gpt 200 || return
  [ "$first" = "$digest" ] || { fail "two runs differ: $first, $digest"; return; }
  detail="weights after 200 steps, twice: $digest"
}
row_learn() {
  needs_device || return
  local kind told=
  for kind in gpt llama; do
    trained "learn$kind" "$kind" 300 || return
    awk -v loss="${loss:-9}" 'BEGIN { exit !(loss > 0 && loss < 2.5) }' ||
      { fail "$kind: a validation loss of ${loss:-nothing}, not under 2.5"; return; }
    told+="$kind $(printf %.3f "$loss") "
  done
  detail="validation loss after 300 steps: $told"
}
row_rejoin() {
  needs_device || return
  local wanted address token
  trained alone gpt 400 || return
  wanted=$digest
  start one || return
  address=$(sed -nE 's/.*"join_endpoints":\["tcp:\/\/([^"]*)".*/\1/p' "$work/one.out")
  token=$("$gpunode" token create --role all --uses 2 --state "$work/one" 2>/dev/null) || { fail "no token"; return; }
  export GPUNODE_TOKEN=$token
  start two join "$address" || return
  "$gpunode" train "$(sed 's/"two"/"alone"/' "$(job two gpt 2 400)" >"$work/both.toml"; echo "$work/both.toml")" \
    --state "$work/one" >/dev/null 2>"$work/both.log" || { fail "$(tail -n 1 "$work/both.log")"; return; }
  sleep 1
  kill -9 "${pids[two]}"
  wait "${pids[two]}" 2>/dev/null
  start two || return
  unset GPUNODE_TOKEN
  for _ in $(seq 1200); do
    [ "$("$gpunode" jobs --state "$work/one" --json | field phase)" = finished ] && break
    sleep 0.1
  done
  digest=$(digest_of one alone) || { fail "the job did not end"; return; }
  stop two
  stop one
  [ "$digest" = "$wanted" ] || { fail "another state than undisturbed: $digest, $wanted"; return; }
  detail="one of two nodes killed and back: $digest as undisturbed"
}
row_bench() {
  needs_device || return
  "$gpunode" bench compute --device "$device" --seconds 0.5 --model small-gpt --model gpt2-124m \
    >"$work/bench.txt" 2>"$work/bench.log" || { fail "$(tail -n 1 "$work/bench.log")"; return; }
  cp "$work/bench.txt" "${json:+${json%.json}_bench.txt}" 2>/dev/null
  detail=$(awk '/^(peak|copy) /{sub(/ \(.*/, ""); sub(/ read.*/, ""); printf "%s; ", $0}
    /, slices of/{model = $1} /^slice /{printf "%s a slice in %s %s, %s%% of the peak; ", model, $4, $5, $8}' \
    "$work/bench.txt" | tr -s ' ')
}
# Lines of the benchmark's JSON as "operation, share of peak, share of copy, flops".
rates() {  # rates OPERATIONS [SAMPLES]
  "$gpunode" bench compute --device "$device" --model gpt2-124m --ops "$1" --samples "${2:-1}" --json 2>"$work/rates.log" |
    tr '{' '\n' | awk '
    function number(name) {
      return match($0, "\"" name "\":[-+.0-9e]+") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) : 0
    }
    match($0, /"op":"[a-z0-9_]+"/) {
      print substr($0, RSTART + 6, RLENGTH - 7), number("of_peak_flops"), number("of_copy_bandwidth"), number("flops")
    }'
}
row_products() {  # cuBLASLt's proposal that is used, against the fastest of its proposals
  needs_gpu || return
  timeout 240 "$work/bin/parity_gpu" --gtest_filter='CublasProducts.*' >"$work/products.log" 2>&1 ||
    { fail "$(grep -m1 -A3 Failure "$work/products.log" | tr '\n' ' ')"; return; }
  detail=$(grep '^product ' "$work/products.log" | sort -k2,2n | head -n 1)
  [ -n "$detail" ] || { skip "$(grep -m1 -A1 Skipped "$work/products.log" | tail -n 1 | cut -c1-200)"; return; }
  detail="the slowest choice: ${detail#product }"
  awk '/^product / && $2 < 0.95 { low = 1 } END { exit low }' "$work/products.log" || fail "$detail"
}
row_memory() {  # what memory bounds, against a large copy of the same run; operands too large for a cache
  needs_device || return
  local samples=32 bar=0.85
  [ "$device" != cpu ] || samples=1 bar=0
  detail=$(rates layernorm,add_layernorm,layernorm_backward,gelu_backward,cross_entropy_both,column_sum $samples |
    awk -v bar=$bar '{ if (!($1 in least)) names[++count] = $1
           if (!($1 in least) || $3 < least[$1]) least[$1] = $3 }
      END { if (!count) exit 1
        printf "of a copy, at least:"
        for (at = 1; at <= count; ++at) {
          printf " %s %.0f %%", names[at], 100 * least[names[at]]
          if (least[names[at]] < bar) low = 1
        }
        exit low ? 3 : 0 }')
  case $? in
    0) ;;
    3) fail "$detail: some are below 85 %" ;;
    *) fail "nothing was measured: $(tail -n 1 "$work/rates.log")" ;;
  esac
}
row_bf16() {
  needs_device || return
  detail=$("$gpunode" bench compute --device "$device" --model gpt2-124m --ops slice --precision bf16 \
    2>"$work/bf16.log" | grep '^slice ' | tr -s ' ')
  [ -n "$detail" ] || fail "$(tail -n 1 "$work/bf16.log")"
}
row_traffic() {  # of the last step, which neither a checkpoint nor an evaluation falls into
  needs_device || return
  local shown to_device to_host
  start traffic || return
  "$gpunode" train "$(job traffic gpt 1 20)" --follow --state "$work/traffic" >"$work/traffic.follow" 2>&1 ||
    { fail "the job failed: $(tail -n 1 "$work/traffic.follow")"; return; }
  shown=$("$gpunode" job show traffic --state "$work/traffic" --json)
  to_device=$(field to_device <<<"$shown") to_host=$(field to_host <<<"$shown")
  stop traffic
  [[ $to_device =~ ^[0-9]+$ && $to_host =~ ^[0-9]+$ ]] || { fail "job show does not tell it"; return; }
  detail="host traffic a step: $((to_device / 1000)) kB to the device, $((to_host / 1000)) kB to the host"
  [ $((to_device + to_host)) -lt 1000000 ] || fail "$detail: 1 MB or more"
}
row_torch() {  # forward and backward of the same model and the same eight windows, both in bf16
  needs_gpu || return
  LD_LIBRARY_PATH=$machine_path python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
    { skip "python3 has no torch with CUDA"; return; }
  local theirs ours
  theirs=$(torch_seconds cuda 8 1024 2>"$work/torch.log") ||
    { fail "PyTorch: $(tail -n 1 "$work/torch.log")"; return; }
  ours=$("$gpunode" bench compute --device "$device" --model gpt2-124m --samples 8 --ops slice \
    --precision bf16 --json 2>"$work/torch.log" | tr '{' '\n' |
    grep '"op":"slice"' | field seconds)
  [ -n "$ours" ] || { fail "nothing was measured: $(tail -n 1 "$work/torch.log")"; return; }
  detail=$(awk -v ours="$ours" -v theirs="$theirs" 'BEGIN {
    printf "GPT-2 124M bf16, forward and backward of 8192 tokens: %.2f ms, PyTorch compiled %.2f ms: %.2f x",
      1e3 * ours, 1e3 * theirs, theirs / ours; exit theirs < ours }') || fail "$detail"
}
torch_seconds() {  # torch_seconds DEVICE SAMPLES TOKENS: of forward and backward, compiled, flash attention
  LD_LIBRARY_PATH=$machine_path python3 - "$@" <<'PYTHON'
import sys, time, torch
from torch import nn
from torch.nn import functional as F
device, samples, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(768), nn.LayerNorm(768)
        self.qkv, self.out = nn.Linear(768, 2304), nn.Linear(768, 768)
        self.up, self.down = nn.Linear(768, 3072), nn.Linear(3072, 768)
    def forward(self, x):
        q, k, v = (part.unflatten(-1, (12, 64)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh"))
class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50257, 768), nn.Embedding(1024, 768)
        self.blocks, self.last = nn.Sequential(*(Block() for _ in range(12))), nn.LayerNorm(768)
    def forward(self, x, y):
        x = self.blocks(self.tokens(x) + self.places.weight[: x.shape[1]])
        return F.cross_entropy((self.last(x) @ self.tokens.weight.T).flatten(0, 1), y.flatten())
model = Gpt2().to(device)
loss = torch.compile(model) if device == "cuda" else model
window = torch.randint(50257, (samples, tokens + 1), device=device)
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
def step():
    model.zero_grad(set_to_none=True)
    with torch.autocast(device, torch.bfloat16): out = loss(window[:, :-1], window[:, 1:])
    out.backward()
for _ in range(5): step()
times = []
for _ in range(5):
    wait(); begin = time.perf_counter()
    for _ in range(4): step()
    wait(); times.append((time.perf_counter() - begin) / 4)
print(sorted(times)[2])
PYTHON
}
row_nccl() {  # spans of device memory, through NCCL in a process of its own; two GPUs where there are
  needs_gpu || return
  timeout 240 "$work/bin/parity_gpu" --gtest_filter='NcclGroup.*' >"$work/nccl.log" 2>&1 ||
    { fail "$(grep -m1 -A3 Failure "$work/nccl.log" | tr '\n' ' ')"; return; }
  detail=$(grep '^group of' "$work/nccl.log" | paste -sd ';')
  [ -n "$detail" ] || skip "$(grep -m1 -A1 Skipped "$work/nccl.log" | tail -n 1 | cut -c1-200)"
}

# ---- the table

failed=0 lines=
printf '%-10s %-7s %5s  %s\n' ROW RESULT SEC DETAIL
for row in "${rows[@]}"; do
  [ -z "$only" ] || [ "$only" = "$row" ] || continue
  begin=$SECONDS detail='' digest='' loss=''
  "row_$row"
  case $? in
    0) result=ok ;;
    77) result=skipped ;;
    *) result=FAILED failed=1 ;;
  esac
  detail=${detail//[$'\n\r\t']/ }
  printf '%-10s %-7s %5d  %s\n' "$row" $result $((SECONDS - begin)) "$detail"
  escaped=${detail//\\/\\\\}
  lines+="${lines:+,}{\"row\":\"$row\",\"result\":\"${result,,}\",\"seconds\":$((SECONDS - begin)),\"detail\":\"${escaped//\"/\\\"}\"}"
done
if [ -n "$json" ]; then
  printf '{"date":"%s","device":"%s","rows":[%s]}\n' "$(date -u +%FT%TZ)" \
    "$( (nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || true) | head -n 1)" "$lines" >"$json" ||
    refuse "cannot write $json" "--json FILE in a folder that can be written"
fi
exit $failed
