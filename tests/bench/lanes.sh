#!/usr/bin/env bash
# One lane beside as many as help, over an emulated WAN, on a kernel as it comes and on a tuned one. By hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/lanes.sh [OPTIONS]
Needs root. Prints medians of all-reduce in ms, with one lane a pair and with as many as the daemons find helpful.

  --scenario NAME     of tests/wan/run (us, whose 800 Mbit/s and 100 ms exceed a connection's window on a default kernel)
  --kernels LIST      "default tuned"
  --congestions LIST  "cubic bbr", or what else this kernel has
  --algorithm NAME    ring, whose whole rate goes over one path; others share it among paths with a window each
  --bytes SIZE        of a buffer (64M)
  --iters N           measured operations (5)
  --warmup N          operations before (8)
  --settle S          seconds for the daemons to measure the paths, before that (15)
  --bin DIR           Ringway's programs and wan_emulator (built first)
TEXT
}

SCENARIO=us KERNELS="default tuned" CONGESTIONS="cubic bbr" ALGORITHM=ring BYTES=64M ITERS=5 WARMUP=8 SETTLE=15
WAN_OPTIONS=()
read_options "--scenario=SCENARIO --kernels=KERNELS --congestions=CONGESTIONS --algorithm=ALGORITHM --bytes=BYTES \
  --iters=ITERS --warmup=WARMUP --settle=SETTLE --bin=WAN_OPTIONS+" "$@"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# measure KERNEL CONGESTION [DAEMON-OPTION]...: the median.
measure() {
  local options=(--kernel "$1" --daemon-option "--congestion=$2") option
  for option in "${@:3}"; do options+=(--daemon-option "$option"); done
  "$ROOT/tests/wan/run" "${WAN_OPTIONS[@]}" "${options[@]}" "$SCENARIO" -- \
    ringway-bench --socket '{socket}' --group lanes --world '{world}' --algorithm "$ALGORITHM" --bytes "$BYTES" \
    --iters "$ITERS" --warmup "$WARMUP" --settle "$SETTLE" --json "$WORK/result" >"$WORK/log" 2>&1 || {
    tail -n 5 "$WORK/log" >&2
    die "a host failed (the last words are above)"
  }
  sed -n 's/.*"time_ms_median": \([0-9]*\).*/\1/p' "$WORK/result"
}

say "scenario $SCENARIO, $ALGORITHM, $BYTES, medians of $ITERS in ms"
printf '%-8s %-10s %10s %10s %8s\n' kernel congestion 'one lane' adaptive faster
for kernel in $KERNELS; do
  for congestion in $CONGESTIONS; do
    one=$(measure "$kernel" "$congestion" --lanes=1)
    adaptive=$(measure "$kernel" "$congestion")
    printf '%-8s %-10s %10s %10s %8s\n' "$kernel" "$congestion" "$one" "$adaptive" \
      "$(awk -v a="$one" -v b="$adaptive" 'BEGIN { printf "%.2fx", a / b }')"
  done
done
