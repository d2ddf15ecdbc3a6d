#!/usr/bin/env bash
# Training over an emulated WAN from Python: what a join with a large state takes, and what deaths cost. As root, after
# `tests/run.sh --preset python`.
#   tests/bench/state_wan.sh [SCENARIO [STATE_MIB]]     as tests/wan/run has it; us 1024
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PYTHON=$ROOT/build/python/venv/bin/python

for mode in join deaths; do
  "$ROOT/tests/wan/run" "${1:-us}" -- "$PYTHON" -B "$ROOT/tests/bench/state_bench.py" --mode "$mode" --state-mib "${2:-1024}" \
    --host '{host}' --world '{world}' --socket '{socket}' --work '{work}'
done
