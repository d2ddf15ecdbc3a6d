#!/bin/bash
# Compares Ringway with Gloo's ring and Open MPI on this machine: builds the baselines from Debian's packages, runs all
# three alternately over loopback, prints a table. By hand only; ctest does not run it.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<TEXT
Usage: tests/bench/compare.sh [OPTIONS]

  --worlds "2 4"          world sizes, a process (and for Ringway a daemon) each
  --sizes "4K 64M 256M"   buffer sizes of float32 (suffixes K M G)
  --rounds 3              rounds; the systems take turns in each
  --iters N               measured iterations a run (default: by size, 200 to 3)
  --systems "ringway gloo mpi"
  --build-dir DIR         release build of Ringway (default: build/release); its bin/ holds the programs
  --ranks-per-daemon 1    trainers that share a daemon, as on a host with several
  --lanes N               passed to ringwayd
  --mpi-shared-memory     let Open MPI use shared memory instead of TCP
  --json FILE             also write all runs, a JSON object a line; tests/bench/plot draws them

Ringway's CPU time is that of trainer and daemon together. Missing Debian packages are installed when run as root.
TEXT
}

WORLDS="2 4"
SIZES="4K 64M 256M"
ROUNDS=3
ITERS=''
SYSTEMS="ringway gloo mpi"
BUILD_DIR=$ROOT/build/release
RANKS_PER_DAEMON=1
LANES=''
MPI_TRANSPORT=tcp,self
JSON=''
read_options "--worlds=WORLDS --sizes=SIZES --rounds=ROUNDS --iters=ITERS --systems=SYSTEMS --build-dir=BUILD_DIR \
  --ranks-per-daemon=RANKS_PER_DAEMON --lanes=LANES --json=JSON --mpi-shared-memory:MPI_TRANSPORT=vader,self" "$@"
[[ $ROUNDS =~ ^[1-9][0-9]*$ ]] || die "--rounds takes a number from 1"
[[ $RANKS_PER_DAEMON =~ ^[1-9][0-9]*$ ]] || die "--ranks-per-daemon takes a number from 1"
[[ -z $ITERS || $ITERS =~ ^[1-9][0-9]*$ ]] || die "--iters takes a number from 1"
for program in ringway-master ringwayd ringway-bench; do
  [[ " $SYSTEMS " != *" ringway "* || -x $BUILD_DIR/bin/$program ]] ||
    die "no $program in $BUILD_DIR/bin; first: cmake --preset release && cmake --build --preset release"
done

WORK=$(mktemp -d)
STARTED=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

install_packages "${BASELINE_PACKAGES[@]}"
build_baselines

for world in $WORLDS; do
  [[ " $SYSTEMS " != *" ringway "* ]] || start_cluster "$(((world + RANKS_PER_DAEMON - 1) / RANKS_PER_DAEMON))"
  for size in $SIZES; do
    bytes=$(bytes_of "$size")
    for ((round = 1; round <= ROUNDS; ++round)); do
      for system in $SYSTEMS; do
        say "world $world, $size, round $round of $ROUNDS: $system" >&2
        "run_$system" "$world" "$bytes" "$(iterations_for "$bytes")"
        record_run "$system" "$round"
      done
    done
  done
  stop_cluster
done
[[ -z $JSON ]] || cp "$WORK/runs.jsonl" "$JSON"
python3 "$ROOT/tests/bench/compare_table.py" "$WORK/runs.jsonl"
