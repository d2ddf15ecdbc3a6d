#!/usr/bin/env bash
# Builds Ringway and shows it at work on this machine. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

usage() {
  cat <<'TEXT'
Usage: deploy/quickstart.sh [--seconds S]
Installs Debian packages where they are missing (as root), builds Ringway (release), then on this machine alone:
one master, four daemons on two simulated sites, four trainers that learn English from /usr/share/common-licenses.
Half-way one daemon is killed. At the end: loss curve, speed, what the death cost, and whether all models are equal.

  --seconds S   how long to train, 10 to 70 (default 40)
  --help        this text

Leaves nothing behind but the build in build/release; a second run builds only what changed.
TEXT
}

SECONDS_TO_TRAIN=40
while (($#)); do
  case $1 in
    --seconds)
      if [[ ! ${2:-} =~ ^[0-9]{2}$ ]] || ((10#$2 < 10 || 10#$2 > 70)); then die "--seconds takes 10 to 70"; fi
      SECONDS_TO_TRAIN=$2
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown argument $1; --help lists them" ;;
  esac
done

BIN=$ROOT/build/release/bin
SITES=(eu eu us us)
VICTIM=3  # the daemon that is killed, counted from 0
DAEMONS=()
TRAINERS=()
STARTED=()
WORK=''

# ------------------------------------------------------------------------------------------------ processes

# Ends what this script started, gently, then surely; then removes the files.
clean_up() {
  local status=$? pid deadline=$((SECONDS + 3))
  trap - EXIT ERR INT TERM HUP
  for pid in "${STARTED[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${STARTED[@]}"; do
    while ((SECONDS < deadline)) && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  [[ -z $WORK ]] || rm -rf "$WORK"
  exit "$status"
}
trap clean_up EXIT
set -E
trap 'complain "stopped by: $BASH_COMMAND (line $LINENO)"' ERR
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# start NAME COMMAND...: in the background, output to NAME.out and NAME.err; the process id is left in PID.
start() {
  local name=$1
  shift
  "$@" >"$WORK/$name.out" 2>"$WORK/$name.err" </dev/null &
  PID=$!
  STARTED+=("$PID")
}

# wait_for SECONDS NAME PID COMMAND...: until the command succeeds; ends the script if NAME's process dies first.
wait_for() {
  local deadline=$((SECONDS + $1)) name=$2 pid=$3
  shift 3
  until "$@"; do
    if ! kill -0 "$pid" 2>/dev/null; then
      tail -n 5 "$WORK/$name.out" "$WORK/$name.err" >&2
      die "$name ended before it was ready (its last words are above)"
    fi
    if ((SECONDS >= deadline)); then
      tail -n 5 "$WORK/$name.out" "$WORK/$name.err" >&2
      die "$name was not ready in time (its last words are above)"
    fi
    sleep 0.05
  done
}

output_of() { cat "$WORK/$1.out" "$WORK/$1.err"; }
has_event() { output_of "$1" | grep -q -E "(^|[[:space:]\"=])$2([[:space:]\",]|$)"; }
is_ready() { [[ -S $WORK/$1.sock ]] && has_event "$1" ready; }

start_cluster() {
  local i name master
  start master "$BIN/ringway-master" --listen 127.0.0.1:0
  wait_for 10 master "$PID" has_event master listening
  master=$(output_of master | sed -n 's/.*listening.*address=\([^ ]*\).*/\1/p' | head -n 1)
  MASTER=$master
  say "master    $master"
  for i in "${!SITES[@]}"; do
    name=daemon$i
    start "$name" "$BIN/ringwayd" --master "$master" --socket "$WORK/$name.sock" --listen 127.0.0.1:0 \
      --site "${SITES[i]}" --name "${SITES[i]}-$i"
    DAEMONS+=("$PID")
  done
  for i in "${!SITES[@]}"; do
    wait_for 10 "daemon$i" "${DAEMONS[i]}" is_ready "daemon$i"
    say "daemon    ${SITES[i]}-$i"
  done
}

start_trainers() {
  local i
  for i in "${!SITES[@]}"; do
    start "trainer$i" "$BIN/train_text" --socket "$WORK/daemon$i.sock" --group quickstart --world "${#SITES[@]}" \
      --reconnect 0 --seconds "$SECONDS_TO_TRAIN" --log "$WORK/trainer$i.jsonl" --sample-chars 500
    TRAINERS+=("$PID")
  done
  say "trainers  ${#SITES[@]}, $SECONDS_TO_TRAIN s"
}

# ------------------------------------------------------------------------------------------------ training

# last FIELD FILE: its number in the last whole line of the log.
last() { { tail -n 2 "$2" 2>/dev/null || true; } | sed -n "s/.*\"$1\": \([0-9.]*\).*}\$/\1/p" | tail -n 1; }

# Shows progress; kills the victim half-way; returns when all trainers have ended.
watch_training() {
  local log=$WORK/trainer0.jsonl deadline=$((SECONDS + SECONDS_TO_TRAIN + 40)) percent step
  KILLED_AT=0
  while kill -0 "${TRAINERS[0]}" 2>/dev/null; do
    ((SECONDS < deadline)) || give_up "the training did not end in time"
    percent=$(last progress "$log" | awk '{ print int($1 * 100) }')
    step=$(last step "$log")
    if [[ -n $percent ]] && ((percent < 100)); then
      progress_bar training "$percent" 100 "step ${step:-0}, loss $(last loss "$log"), $(last world "$log") ranks"
      if ((percent >= 50 && KILLED_AT == 0)); then
        KILLED_AT=$step
        kill -KILL "${DAEMONS[VICTIM]}"
        wait "${DAEMONS[VICTIM]}" 2>/dev/null || true
      fi
      if ((percent >= 80)) && [[ ! -s $WORK/status ]]; then
        "$BIN/ringwayctl" --master "$MASTER" status >"$WORK/status" 2>&1 </dev/null || true
      fi
    fi
    sleep 0.1
  done
  progress_bar training 100 100 "step $(last step "$log"), loss $(last loss "$log"), $(last world "$log") ranks"
  ((KILLED_AT > 0)) || give_up "the training ended before a daemon could be killed"
  wait_for_trainers
}

wait_for_trainers() {
  local i status
  for i in "${!TRAINERS[@]}"; do
    status=0
    wait_until 15 is_gone "${TRAINERS[i]}" || give_up "trainer $i does not end"
    wait "${TRAINERS[i]}" 2>/dev/null || status=$?
    if ((i == VICTIM)); then
      ((status != 0)) || give_up "the trainer of the killed daemon ended as if nothing had happened"
    elif ((status != 0)); then
      give_up "trainer $i failed with status $status"
    fi
  done
}

is_gone() { ! kill -0 "$1" 2>/dev/null; }

give_up() {
  local file
  for file in "$WORK"/*.err "$WORK"/*.out; do
    [[ -s $file ]] || continue
    printf -- '--- %s\n' "$(basename "$file")" >&2
    tail -n 5 "$file" >&2
  done
  die "$@"
}

# ------------------------------------------------------------------------------------------------ report

mean_speed() { awk -F'"ms": ' '{ seconds += $2 / 1000 } END { printf "%.1f", NR / seconds }' "$1"; }
median_ms() { sed 's/.*"ms": \([0-9.]*\).*/\1/' "$1" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# longest_ms LOG STEP: the longest step from the one at which the daemon was killed on.
longest_ms() {
  awk -v from="$2" -F'[:,] *' '{ if ($2 + 0 >= from && seen++ < 100 && $8 + 0 > longest) longest = $8 + 0 }
    END { print longest + 0 }' "$1"
}

report_numbers() {
  local log=$WORK/trainer0.jsonl median longest i sent total=0
  median=$(median_ms "$log")
  longest=$(longest_ms "$log" "$KILLED_AT")
  for i in "${!TRAINERS[@]}"; do
    sent=$(last wire_bytes "$WORK/trainer$i.jsonl")
    total=$((total + ${sent:-0}))
  done
  say "speed       $(mean_speed "$log") steps/s (median $median ms a step)"
  say "moved       $(awk -v bytes="$total" 'BEGIN { printf "%.2f GB", bytes / 1e9 }') between daemons"
  say "the death   cost $(awk -v l="$longest" -v m="$median" 'BEGIN { printf "%.0f", (l > m) ? l - m : 0 }') ms" \
    "(longest step after the kill less the median)"
  say "            its trainer said: $(tail -n 1 "$WORK/trainer$VICTIM.err")"
}

# Succeeds if all survivors' models have the same hash.
report_hashes() {
  local i line hash first=''
  for i in "${!TRAINERS[@]}"; do
    ((i != VICTIM)) || continue
    line=$(grep 'model hash' "$WORK/trainer$i.out" || true)
    hash=${line##* }
    say "  ${SITES[i]}-$i: ${line:-no result}"
    [[ -n $hash ]] || return 1
    [[ -z $first || $hash == "$first" ]] || return 1
    first=$hash
  done
}

report() {
  local status=0
  headline "loss"
  awk -v marked="$KILLED_AT" -f "$ROOT/deploy/loss_curve.awk" "$WORK/trainer0.jsonl"
  headline "what the model writes"
  sed -e '1,/^sample:/d' -e '/^rank .* model hash/d' -e '/^step /d' "$WORK"/trainer[0-9].out | fold -s -w 100 | sed 's/^/  /'
  if [[ -s $WORK/status ]]; then
    headline "ringwayctl status, after the death"
    sed 's/^/  /' "$WORK/status"
  fi
  headline "numbers"
  report_numbers
  headline "models of the survivors"
  report_hashes || status=1
  if ((status)); then die "the models differ: please report this"; fi
  good "all bit-identical"
}

install_packages "${BUILD_PACKAGES[@]}"
cd "$ROOT"
headline "build"
configure release build/release || exit 1
build_with_bar build/release ringway-master ringwayd ringwayctl ringway-bench train_text || die "the build failed"

WORK=$(mktemp -d "${TMPDIR:-/tmp}/ringway-quickstart.XXXXXX")
cd "$WORK"
headline "run"
start_cluster
start_trainers
watch_training
report
