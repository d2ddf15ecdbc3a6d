#!/usr/bin/env bash
# On each host of two-sites: fails if large operations do not go by the hierarchical schedule, of which each
# chunk leaves a site once and comes back once (tests/proto/collective/schedule_test.cc).
#
#   sites_test.sh BIN WORLD SOCKET OUT
set -euo pipefail
BIN=$1 WORLD=$2 SOCKET=$3 OUT=$4
"$BIN/ringway-bench" --socket "$SOCKET" --group g --world "$WORLD" --bytes 16M --iters 1 --warmup 1 --settle 40 --json "$OUT"
grep -q '"algorithm": "hierarchical"' "$OUT"
