#!/usr/bin/env bash
# Measures whether a running group notices a flood at the master's port. It is started by hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/flood.sh [OPTIONS]
Prints the times of all-reduces on this host, in turns: with nothing at the master's port, beside a process that only
spins, and beside a flood there (1000 connections at once of garbage, half hellos, and storms of requests). The flood
costs its own processor time, which is what the spinning one has it compared with; both run with the least priority, and
so does the master, which would be on another machine.

  --world N        daemons (3)
  --bytes SIZE     of an operation (64K)
  --iters N        measured operations a turn (2000)
  --turns N        (3)
  --build-dir DIR  release build with the tests' programs (build/test-release)
TEXT
}

WORLD=3 BYTES=64K ITERS=2000 TURNS=3 BUILD_DIR=$ROOT/build/test-release
read_options "--world=WORLD --bytes=BYTES --iters=ITERS --turns=TURNS --build-dir=BUILD_DIR" "$@"
[[ -x $BUILD_DIR/bin/flood_run ]] || die "no flood_run in $BUILD_DIR/bin; see tests/README.md"

WORK=$(mktemp -d)
STARTED=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# shellcheck disable=SC2034  # for start_cluster
LANES=''
start_cluster "$WORLD"
renice -n 19 -p "${STARTED[0]}" >/dev/null  # the master would be on another machine

# measure NAME: one turn; its line is the table's of rank 0.
measure() {
  run_ranks ringway "$WORLD" "$BUILD_DIR/bin/ringway-bench" --socket "$WORK/daemon%r.sock" --group flooded \
    --world "$WORLD" --bytes "$BYTES" --iters "$ITERS" --warmup 50
  printf '%-10s' "$1"
  cat "$WORK"/ringway.*.log | grep -v '^#'
}

# beside NAME COMMAND...: one turn while the command runs.
beside() {
  local name=$1
  shift
  nice -n 19 "$@" >"$WORK/$name.log" 2>&1 </dev/null &
  local pid=$!
  STARTED+=("$pid")
  measure "$name"
  kill -TERM "$pid"
  wait "$pid" || true
  STARTED=("${STARTED[@]:0:${#STARTED[@]}-1}")
}

say "           bytes        count  type redop        min     median        p99 (ms) ..."
for ((turn = 0; turn < TURNS; ++turn)); do
  measure nothing
  beside spinning bash -c 'while :; do :; done'
  beside flood "$BUILD_DIR/bin/flood_run" --master "$(master_address)" --group flooded
  say "           $(cat "$WORK/flood.log")"
done
