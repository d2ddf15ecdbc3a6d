#!/usr/bin/env bash
# How long small all-reduces take beside a large one: on loopback, and over an emulated WAN. By hand only.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=tests/bench/compare_lib.sh
source "$ROOT/tests/bench/compare_lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/bench/beside.sh [OPTIONS]
Prints the times of small all-reduces alone, and while a large one is always under way in the same group.

  --on LIST        "loopback us": loopback, or scenarios of tests/wan/run, which need root
  --world N        daemons on loopback (2)
  --bytes SIZE     of the small ones (4K)
  --beside SIZE    of the large one (256M)
  --iters N        measured operations (200)
  --build-dir DIR  release build of Ringway and wan_emulator (build/test-release)
TEXT
}

PLACES="loopback us" WORLD=2 BYTES=4K BESIDE=256M ITERS=200 BUILD_DIR=$ROOT/build/test-release
read_options "--on=PLACES --world=WORLD --bytes=BYTES --beside=BESIDE --iters=ITERS --build-dir=BUILD_DIR" "$@"
[[ -x $BUILD_DIR/bin/ringway-bench ]] || die "no ringway-bench in $BUILD_DIR/bin; see tests/README.md"

WORK=$(mktemp -d)
STARTED=()
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# The daemons' probes come first.
BENCH=(--bytes "$BYTES" --beside "$BESIDE" --iters "$ITERS" --warmup 10)
for place in $PLACES; do
  headline "$place: $BYTES beside $BESIDE"
  if [[ $place == loopback ]]; then
    # shellcheck disable=SC2034  # for start_cluster
    LANES=''
    start_cluster "$WORLD"
    run_ranks ringway "$WORLD" "$BUILD_DIR/bin/ringway-bench" --socket "$WORK/daemon%r.sock" --group beside \
      --world "$WORLD" "${BENCH[@]}"
    cat "$WORK"/ringway.*.log  # rank 0 speaks, whoever that is
    stop_cluster
  else
    "$ROOT/tests/wan/run" --bin "$BUILD_DIR/bin" "$place" -- \
      ringway-bench --socket '{socket}' --group beside --world '{world}' --settle 15 "${BENCH[@]}"
  fi
done
