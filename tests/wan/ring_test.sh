#!/usr/bin/env bash
# On each host of near-but-slow: fails if the daemons' measurements do not lead the ring around the slow link.
#
#   ring_test.sh BIN HOST WORLD SOCKET MASTER WORK
set -euo pipefail
BIN=$1 HOST=$2 WORLD=$3 SOCKET=$4 MASTER=$5 WORK=$6

# The hosts' numbers in ring order: "0 2 1 3".
ring() {
  "$BIN/ringwayctl" --master "$MASTER" status --json | grep -o '"ring":\[[^]]*\]' | grep -o 'host[0-9]*' | cut -c5- | paste -sd' '
}

# Two of four hosts that are not neighbours are opposite.
avoids_the_link() {
  case $(ring) in
    '0 '?' 1 '? | '1 '?' 0 '? | ?' 0 '?' 1' | ?' 1 '?' 0') return 0 ;;
  esac
  return 1
}

"$BIN/ringway-bench" --socket "$SOCKET" --group g --world "$WORLD" --bytes 4M --iters 1 --warmup 1 --settle 60 &
BENCH=$!
trap 'kill "$BENCH" 2>/dev/null || true' EXIT
until [[ -e $WORK/avoided ]]; do
  kill -0 "$BENCH" 2>/dev/null || {
    echo "host $HOST: the ring is still $(ring)" >&2
    exit 1
  }
  if avoids_the_link; then touch "$WORK/avoided"; fi
  sleep 0.2
done
