#!/usr/bin/env bash
# The whole story on one machine, from a fresh clone: installs what is missing, builds, starts three
# nodes, trains a small GPT on text of this machine, kills one node with SIGKILL in mid-run, lets a
# fourth join, trains the same job undisturbed on one node, compares the two results bit by bit, and
# serves the model. Leaves nothing behind but the build. Some minutes after the build on two cores.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
  cat <<'TEXT'
usage: tools/quickstart.sh [flags]
  --data DIR   train on the files of DIR (default: /usr/share/common-licenses and our documents)
  --steps N    training steps (default 1000)
  --keep       keep the nodes' state directories and logs, and say where they are
  --help       this text
TEXT
}

refuse() { printf 'quickstart: error: %s\nquickstart: try:   %s\n' "$1" "$2" >&2; exit 2; }

data= steps=1000 keep=no
while [ $# -gt 0 ]; do
  case "$1" in
    --data) shift; data=${1:-}
      [ -d "$data" ] && [ -r "$data" ] || refuse "--data: '$data' is no readable folder" \
        "tools/quickstart.sh --data /usr/share/common-licenses"
      data=$(realpath "$data") ;;
    --steps) shift; steps=${1:-}
      [[ $steps =~ ^[1-9][0-9]{2,}$ ]] ||
        refuse "--steps needs a number of at least 100, got '$steps'" "tools/quickstart.sh --steps 1000" ;;
    --keep) keep=yes ;;
    -h | --help) usage; exit 0 ;;
    *) refuse "unknown flag '$1'" "tools/quickstart.sh --help" ;;
  esac
  shift
done

# ---- telling, failing, and leaving nothing behind
begin=$SECONDS
declare -A pid=()
work=

say() { printf '[%3d s] %s\n' $((SECONDS - begin)) "$*"; }
mark() { printf '\n[%3d s] == %s\n' $((SECONDS - begin)) "$*"; }

clean_up() {
  local name
  for name in "${!pid[@]}"; do kill -9 "${pid[$name]}" 2>/dev/null; done
  wait 2>/dev/null
  [ -n "$work" ] || return 0
  if [ $keep = yes ]; then echo "kept: $work"; else rm -rf "$work"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

die() {
  printf 'quickstart: error: %s\n' "$*" >&2
  local log
  for log in "$work"/*.log; do
    [ -s "$log" ] && { printf -- '--- the end of %s\n' "$log"; tail -n 15 "$log"; } >&2
  done
  keep=yes
  exit 1
}

# ---- build
mark "packages"
tools/packages.sh || exit 1
mark "build"
log=$(mktemp) && cmake --preset release >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 1; }
rm -f "$log"
cmake --build build/release --target gpunode || exit 1
gpunode=$PWD/build/release/tools/gpunode/gpunode
begin=$SECONDS

work=$(mktemp -d /tmp/gpunode-quickstart.XXXXXX) || exit 1
if [ -z "$data" ]; then
  data=$work/text
  mkdir "$data"
  find /usr/share/common-licenses -type f -exec cp {} "$data" \; 2>/dev/null
  for page in README.md CHANGELOG.md LICENSE */README.md; do cp "$page" "$data/${page//\//-}"; done
fi

# ---- small tools
json() {  # json KEY...: one value of the JSON on standard input
  python3 -c 'import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value[int(key)] if isinstance(value, list) else value.get(key, "")
print(value)' "$@"
}

await() {  # await SECONDS WHAT COMMAND...: until the command succeeds
  local deadline=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || die "$what did not happen in time"
    sleep 0.2
  done
}

cores=$(nproc)
share=$(((cores + 2) / 3))

node() {  # node NAME COMMAND...: a node of its own process, with its own state directory
  local name=$1
  shift
  "$gpunode" "$@" --state "$work/$name" --name "$name" --listen 127.0.0.1:0 \
    --data "text=$data" >"$work/$name.log" 2>&1 &
  pid[$name]=$!
  disown  # so that bash does not comment on the one that is killed
  await 30 "the start of $name" "$gpunode" nodes --state "$work/$name"
}

join() {  # join NAME THROUGH: a token made on one node lets another in
  "$gpunode" token create --role all --state "$work/$2" --json >"$work/token.json" ||
    die "no token could be made on $2"
  (umask 077 && json token <"$work/token.json" >"$work/token")
  node "$1" join "$(json endpoints 0 <"$work/token.json")" --token-file "$work/token" \
    --threads "$share"
  rm -f "$work/token" "$work/token.json"
}

sees() {  # sees NODE COUNT: this node knows so many that are alive, itself included
  "$gpunode" nodes --state "$work/$1" --json | python3 -c 'import json, sys
nodes = json.load(sys.stdin)["nodes"]
sys.exit(sum(node["health"] == "alive" for node in nodes) != int(sys.argv[1]))' "$2"
}

job_file() {  # job_file NODES: the same job, whoever computes it
  cat <<TOML
name = "quickstart"
nodes = $1
min_nodes = 1

[data]
set = "text"

[model]
kind = "gpt"
layers = 3
heads = 4
channels = 96
context = 64

[train]
seed = 1
steps = $steps
batch = 16
slices = 8
learning_rate = 2e-3
warmup_steps = 50

[checkpoint]
every = 100
TOML
}

progress() {  # progress NODE KEY: of the job, as this node sees it
  "$gpunode" jobs --state "$work/$1" --json | python3 -c 'import json, sys
print(json.load(sys.stdin)["jobs"][0].get(sys.argv[1], ""))' "$2"
}
reached() { [ "$(progress "$1" step)" -ge "$2" ]; }
ended() { case $(progress "$1" phase) in finished | failed) ;; *) return 1 ;; esac }

follow() {  # follow NODE: a line every few seconds until the job ends
  local deadline=$((SECONDS + 240))
  until ended "$1"; do
    [ $SECONDS -lt $deadline ] || die "the job did not end in time"
    say "step $(progress "$1" step) of $steps, loss $(progress "$1" loss | cut -c1-5)"
    sleep 3
  done
  [ "$(progress "$1" phase)" = finished ] || die "the job failed: $(progress "$1" reason)"
}

# ---- three nodes, one of them killed, a fourth
mark "three nodes on this machine"
node ada up --threads "$share"
join bob ada
join cyd ada
for name in ada bob cyd; do await 30 "the meeting of all three" sees "$name" 3; done
"$gpunode" nodes --state "$work/cyd"

mark "training on $(find "$data" -type f | wc -l) files, $(du -sbL "$data" | cut -f1) bytes"
job_file 3 >"$work/job.toml"
"$gpunode" train "$work/job.toml" --state "$work/cyd" || die "the job was not accepted"
await 120 "a quarter of the job" reached cyd $((steps / 4))
say "step $(progress cyd step): killing ada, who founded the cluster (process ${pid[ada]}), with SIGKILL"
kill -9 "${pid[ada]}"
unset "pid[ada]"
say "dan joins"
join dan cyd
follow cyd
say "finished: step $(progress cyd step), loss $(progress cyd loss | cut -c1-5)"

mark "who computed what, and what the model was fed"
"$gpunode" job show quickstart --state "$work/cyd" --json >"$work/report.json" ||
  die "the job cannot be shown"
python3 - "$work/report.json" <<'PYTHON' || die "the report does not prove what it should"
import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
for event in sorted(report.get("events", []), key=lambda e: -e["seconds_ago"]):
    print(f"  {event['seconds_ago']:6.1f} s ago: {event['text']}")
slices = {line["node"]: line["slices"] for line in report["computed"]}
for name, count in sorted(slices.items()):
    print(f"  {name} computed {count} slices")
proof = report["proof"]
print(f"  {proof.get('samples')} samples fed; running hash sum equal to an independent scan of the "
      f"data: {proof.get('equal_to_data')}; each sample once an epoch: "
      f"{proof.get('each_sample_once_an_epoch')}")
sound = proof.get("equal_to_data") and proof.get("each_sample_once_an_epoch")
sys.exit(0 if sound and all(slices.get(n, 0) > 0 for n in ("ada", "bob", "cyd", "dan")) else 1)
PYTHON
"$gpunode" checkpoint export quickstart --state "$work/cyd" --out "$work/three.safetensors" ||
  die "the weights could not be exported"

# ---- the same job, undisturbed, alone
mark "the same job undisturbed on one node that has no peers"
node eve up --threads "$cores"
job_file 1 >"$work/job.toml"
"$gpunode" train "$work/job.toml" --state "$work/eve" || die "the job was not accepted"
follow eve
"$gpunode" checkpoint export quickstart --state "$work/eve" --out "$work/one.safetensors" ||
  die "the weights could not be exported"

mark "the two results"
disturbed=$(sha256sum "$work/three.safetensors" | cut -d' ' -f1)
alone=$(sha256sum "$work/one.safetensors" | cut -d' ' -f1)
printf '  three nodes, one killed, one joined: %s\n  one node, undisturbed:              %s\n' \
  "$disturbed" "$alone"
[ "$disturbed" = "$alone" ] || die "the results differ: please report this"
echo "  equal, bit for bit"

# ---- serve on one node, ask another
mark "bob serves the model, dan is asked"
"$gpunode" serve quickstart --state "$work/bob" || die "bob cannot serve the model"
await 30 "an answer" "$gpunode" generate --model quickstart --max-tokens 1 --state "$work/dan"
prompt="This License "
printf '%s' "$prompt"
"$gpunode" generate --model quickstart --prompt "$prompt" --max-tokens 200 --temperature 0.6 \
  --state "$work/dan" 2>"$work/generate.log" || die "dan got no answer"
printf '\n(%s)\n' "$(cat "$work/generate.log")"

mark "goodbye"
for name in dan cyd bob eve; do
  "$gpunode" leave --state "$work/$name" >/dev/null || say "warning: $name did not answer"
done
for name in "${!pid[@]}"; do
  await 30 "the end of $name" bash -c "! kill -0 ${pid[$name]}"
  unset "pid[$name]"
done
for line in /proc/[0-9]*/cmdline; do
  words=$(tr '\0' ' ' 2>/dev/null <"$line") || continue
  [[ $words != *"$work"* ]] || die "a process was left behind: $words"
done
say "all nodes have ended; everything above took $((SECONDS - begin)) seconds after the build"
