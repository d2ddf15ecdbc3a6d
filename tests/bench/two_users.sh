#!/usr/bin/env bash
# Measures whether a user's operations suffer from another user of the same daemon who takes all that it can get. It is
# started by hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/two_users.sh [OPTIONS]
Prints the times of one user's all-reduces through one daemon, in turns: alone, beside a process that only spins, and
beside a second user who holds all the memory and descriptors that a user can get and joins and dies without end. That
costs its own processor time, which is what the spinning one has it compared with; both run with the least priority.
As root, for the two users.

  --bytes SIZE     of an operation (64K)
  --iters N        measured operations a turn (2000)
  --turns N        (3)
  --build-dir DIR  release build with the tests' programs (build/test-release)
TEXT
}

BYTES=64K ITERS=2000 TURNS=3 BUILD_DIR=$ROOT/build/test-release
read_options "--bytes=BYTES --iters=ITERS --turns=TURNS --build-dir=BUILD_DIR" "$@"
[[ -x $BUILD_DIR/bin/greed_run ]] || die "no greed_run in $BUILD_DIR/bin; see tests/README.md"
((EUID == 0)) || die "only root can run processes of two users"

WORK=$(mktemp -d)
chmod 755 "$WORK"
STARTED=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$BUILD_DIR/bin/ringway-master" --listen 127.0.0.1:0 >"$WORK/master.log" 2>&1 </dev/null &
STARTED+=("$!")
await master master_is_ready
prlimit --nofile=4096:4096 "$BUILD_DIR/bin/ringwayd" --master "$(master_address)" --socket "$WORK/daemon0.sock" \
  --socket-mode 0666 --listen 127.0.0.1:0 --name daemon0 --memory-max 64M >"$WORK/daemon0.log" 2>&1 </dev/null &
STARTED+=("$!")
await daemon0 grep -qs ' ready ' "$WORK/daemon0.log"

# measure NAME: one turn; its line is the table's of rank 0.
measure() {
  run_ranks ringway 2 setpriv --reuid 1 --regid 1 --clear-groups "$BUILD_DIR/bin/ringway-bench" \
    --socket "$WORK/daemon0.sock" --group modest --world 2 --bytes "$BYTES" --iters "$ITERS" --warmup 50
  printf '%-10s' "$1"
  cat "$WORK"/ringway.*.log | grep -v '^#'
}

# beside NAME COMMAND...: one turn while another user's command runs, from its line "ready" on until SIGTERM.
beside() {
  local name=$1
  shift
  setpriv --reuid 65534 --regid 65534 --clear-groups nice -n 19 "$@" >"$WORK/$name.log" 2>&1 </dev/null &
  local pid=$!
  STARTED+=("$pid")
  await "$name" grep -qsx ready "$WORK/$name.log"
  measure "$name"
  kill -TERM "$pid"
  wait "$pid" || die "$name failed: $(<"$WORK/$name.log")"
  STARTED=("${STARTED[@]:0:${#STARTED[@]}-1}")
}

say "           bytes        count  type redop        min     median        p99 (ms) ..."
for ((turn = 0; turn < TURNS; ++turn)); do
  measure alone
  beside spinning bash -c 'trap "exit 0" TERM; echo ready; while :; do :; done'
  beside greedy "$BUILD_DIR/bin/greed_run" --socket "$WORK/daemon0.sock"
done
