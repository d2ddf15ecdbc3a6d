#!/usr/bin/env bash
# aarch64_test.sh BUILD [NATIVE_BUILD]: programs for aarch64 in BUILD, under qemu-user. Its tests of sums and codecs pass: their golden
# vectors say that bytes are those of other architectures. A master and two daemons sum, and every element is right; with NATIVE_BUILD
# once more, one of the daemons and its trainer being of this machine's architecture.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
BUILD=$(realpath "$1")
NATIVE=${2:+$(realpath "$2")}
EMULATED=(qemu-aarch64-static -L "$ROOT/build/sysroot-aarch64")
WORK=$(mktemp -d)
PIDS=()
finish() {
  ((!${#PIDS[@]})) || kill "${PIDS[@]}" 2>/dev/null || true
  wait
  rm -rf "$WORK"
}
trap finish EXIT

for test in "$BUILD"/bin/*_test; do
  "${EMULATED[@]}" "$test" >"$WORK/test" 2>&1 || {
    grep -E '^\[  FAILED|Failure' -A 10 "$WORK/test" >&2 || tail -n 20 "$WORK/test" >&2
    die "$(basename "$test") fails on aarch64"
  }
  say "aarch64 $(basename "$test"): $(grep -o '[0-9]* tests ran\|[0-9]* tests from .* ran' "$WORK/test" | grep -o '^[0-9]*') tests"
done

# start LOG COMMAND...: in the background.
start() {
  local log=$WORK/$1
  shift
  "$@" >"$log" 2>&1 </dev/null &
  PIDS+=($!)
}
# field LOG EVENT NAME: of the event's line, once that is there.
field() {
  wait_until 60 grep -qs " $2 " "$WORK/$1" || die "$1 does not say $2: $(tail -n 5 "$WORK/$1")"
  grep " $2 " "$WORK/$1" | grep -o "$3=[^ ]*" | cut -d= -f2
}

# program NAME ARCHITECTURE: what runs it, in COMMAND.
program() {
  COMMAND=("${EMULATED[@]}" "$BUILD/bin/$1")
  [[ $2 == aarch64 ]] || COMMAND=("$NATIVE/bin/$1")
}

# sum GROUP ARCHITECTURE ARCHITECTURE: two ranks, each of whose daemon and trainer is of such an architecture.
sum() {
  local group=$1 architectures=("${@:2}") rank master bench=()
  program ringway-master aarch64
  start "$group.master" "${COMMAND[@]}" --listen 127.0.0.1:0 --journal none --detect-ms 5000
  master=$(field "$group.master" listening address)
  for rank in 0 1; do
    program ringwayd "${architectures[rank]}"
    start "$group.d$rank" "${COMMAND[@]}" --master "$master" --listen 127.0.0.1:0 --socket "$WORK/$group.$rank" --name "d$rank"
    field "$group.d$rank" ready socket >/dev/null
  done
  for rank in 0 1; do
    program ringway-bench "${architectures[rank]}"
    timeout 120 "${COMMAND[@]}" --socket "$WORK/$group.$rank" --group "$group" --world 2 --bytes 4K,1M --iters 3 --check \
      >"$WORK/$group.bench$rank" 2>&1 </dev/null &
    bench+=($!)
  done
  for rank in 0 1; do
    wait "${bench[rank]}" || die "the sum of $group is wrong: $(tail -n 5 "$WORK/$group".*)"
  done
  good "$group: ranks on ${architectures[*]} sum, every element right"
}

sum alike aarch64 aarch64
[[ -z $NATIVE ]] || sum mixed aarch64 "$(uname -m)"
