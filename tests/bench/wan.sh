#!/usr/bin/env bash
# Compares Ringway with Gloo and Open MPI over an emulated WAN: all in the same namespaces, taking turns. By hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/wan.sh [OPTIONS]
Needs root. Scenarios: tests/wan/run --help. Prints medians of all-reduce of float32, and how often Ringway is faster.

  --scenario NAME         us
  --sizes LIST            "4K 1M 64M" (suffixes K M G)
  --systems LIST          "ringway gloo"; mpi is the third, ringway is always there
  --iters N               measured operations of each system and size (5)
  --warmup N              operations of each before that (2)
  --settle S              seconds that Ringway gets first to measure the paths (0)
  --kernel WHICH          tuned, default or debian: the hosts' kernel, as tests/wan/run has it (tuned)
  --gloo-congestion NAME  the congestion control while Gloo runs (the kernel's default)
  --gloo-algorithm NAME   allreduce (what PyTorch calls), allreduce_ring or allreduce_ring_chunked (the fastest of them)
  --daemon-option TEXT    one more argument for every ringwayd; may be repeated
  --bin DIR               Ringway's programs and wan_emulator (built first)
  --json FILE             also write all runs, a JSON object a line; tests/bench/plot draws them
TEXT
}

SCENARIO=us SIZES="4K 1M 64M" SYSTEMS="ringway gloo" ITERS=5 WARMUP=2 SETTLE=0 KERNEL=tuned GLOO_CONGESTION='' GLOO_ALGORITHM='' JSON=''
WAN_OPTIONS=()
read_options "--scenario=SCENARIO --sizes=SIZES --systems=SYSTEMS --iters=ITERS --warmup=WARMUP --settle=SETTLE \
  --kernel=KERNEL --gloo-congestion=GLOO_CONGESTION --gloo-algorithm=GLOO_ALGORITHM --daemon-option=WAN_OPTIONS+ \
  --bin=WAN_OPTIONS+ --json=JSON" "$@"
[[ $ITERS =~ ^[1-9][0-9]*$ ]] || die "--iters takes a number from 1"
[[ $WARMUP =~ ^[0-9]+$ && $SETTLE =~ ^[0-9]+$ ]] || die "--warmup and --settle take a number"
for system in $SYSTEMS; do
  [[ $system =~ ^(ringway|gloo|mpi)$ ]] || die "--systems takes ringway, gloo and mpi, not $system"
done
[[ -z $GLOO_CONGESTION || " $(</proc/sys/net/ipv4/tcp_available_congestion_control) " == *" $GLOO_CONGESTION "* ]] ||
  die "--gloo-congestion $GLOO_CONGESTION: this kernel has $(</proc/sys/net/ipv4/tcp_available_congestion_control)"
install_packages "${BASELINE_PACKAGES[@]}"
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
# shellcheck disable=SC2034  # for build_baselines and record
WORK=$OUT
build_baselines

export ROOT OUT SIZES SYSTEMS ITERS WARMUP SETTLE GLOO_CONGESTION GLOO_ALGORITHM RUN_SECONDS_MAX
"$ROOT/tests/wan/run" --kernel "$KERNEL" "${WAN_OPTIONS[@]}" "$SCENARIO" -- bash "$ROOT/tests/bench/wan_host.sh" \
  '{host}' '{world}' '{address}' '{socket}' '{work}' '{uplink_mbit}' >"$OUT/log" || {
  tail -n 20 "$OUT/log" >&2
  die "a host failed (the last words are above)"
}
for file in "$OUT"/[0-9]*.json; do
  record "$file" ringway 1 scenario="$SCENARIO" kernel="$KERNEL" gloo_congestion="$GLOO_CONGESTION"
done
[[ -z $JSON ]] || cp "$OUT/runs.jsonl" "$JSON"
say "scenario $SCENARIO, kernel $KERNEL${GLOO_CONGESTION:+, Gloo with $GLOO_CONGESTION}, $ITERS operations"
python3 "$ROOT/tests/bench/compare_table.py" "$OUT/runs.jsonl"
grep 'was not measured' "$OUT/log" || true
