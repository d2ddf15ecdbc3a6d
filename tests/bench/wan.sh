#!/usr/bin/env bash
# Compares Ringway with Gloo over an emulated WAN: both in the same namespaces, taking turns. By hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/wan.sh [--scenario NAME] [--sizes "4K 1M 64M"] [--iters N] [--line-mbit N]
Needs root. Scenarios: tests/wan/run --help. Prints medians of all-reduce of float32, and how often Ringway is faster.

  --scenario NAME   us
  --sizes LIST      "4K 1M 64M" (suffixes K M G)
  --iters N         measured operations of each system and size (5)
  --line-mbit N     uplink of a host: to say how much of it was used (800)
TEXT
}

SCENARIO=us SIZES="4K 1M 64M" ITERS=5 LINE=800
while (($#)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --scenario | --sizes | --iters | --line-mbit) (($# >= 2)) || die "$1 needs a value; --help lists the options" ;;
    *) die "unknown argument $1; --help lists them" ;;
  esac
  case $1 in
    --scenario) SCENARIO=$2 ;;
    --sizes) SIZES=$2 ;;
    --iters) ITERS=$2 ;;
    --line-mbit) LINE=$2 ;;
  esac
  shift 2
done
[[ $ITERS =~ ^[1-9][0-9]*$ ]] || die "--iters takes a number from 1"

install_packages g++ python3-minimal libgloo-dev
OUT=$(mktemp -d)
trap 'rm -rf "$OUT"' EXIT
# For build_baselines.
# shellcheck disable=SC2034
WORK=$OUT SYSTEMS=gloo
build_baselines
# What the hosts run: a name and its bytes each.
RUNS=''
for size in $SIZES; do
  bytes=$(bytes_of "$size")
  RUNS+=" $size:$bytes"
done

# What each host runs: for every size Gloo, then Ringway. Their start-ups are where the hosts meet.
cat >"$OUT/host" <<'HOST'
set -euo pipefail
host=$1 world=$2 address=$3 socket=$4 work=$5
for run in $RUNS; do
  size=${run%:*} bytes=${run#*:}
  mkdir -p "$work/store.$size"
  "$OUT/gloo_bench" --rank "$host" --world "$world" --address "$address" --store "$work/store.$size" --bytes "$bytes" \
    --iters "$ITERS" --warmup 2 --json "$OUT/gloo.$size.$host.json"
  ringway-bench --socket "$socket" --group "bench.$size" --world "$world" --bytes "$bytes" --iters "$ITERS" --warmup 2 \
    --line-mbit "$LINE" --json "$OUT/ringway.$size.$host.json"
done
HOST
export OUT SIZES RUNS ITERS LINE
"$ROOT/tests/wan/run" "$SCENARIO" -- bash "$OUT/host" '{host}' '{world}' '{address}' '{socket}' '{work}' >"$OUT/log" || {
  tail -n 20 "$OUT/log" >&2
  die "a host failed (the last words are above)"
}
python3 - "$SCENARIO" <<'TABLE'
import json, os, statistics, sys
out, sizes = os.environ["OUT"], os.environ["SIZES"].split()

def result(system, size):
    """Of one system: the ranks' medians, and what rank 0 of Ringway says besides."""
    files = [f for f in os.listdir(out) if f.startswith(f"{system}.{size}.")]
    runs = [json.load(open(os.path.join(out, f)))["results"][0] for f in files]
    return statistics.median(run["time_ms_median"] for run in runs), runs[0]

print(f"scenario {sys.argv[1]}, medians of {os.environ['ITERS']}, ms")
print(f"{'size':>6} {'ringway':>10} {'gloo':>10} {'faster by':>10} {'line used':>10}  algorithm")
for size in sizes:
    ours, run = result("ringway", size)
    gloo, _ = result("gloo", size)
    print(f"{size:>6} {ours:>10.1f} {gloo:>10.1f} {gloo / ours:>9.1f}x {run['line_fraction']:>10.0%}  {run['algorithm']}")
TABLE
