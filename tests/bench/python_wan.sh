#!/usr/bin/env bash
# Measures what a trainer in Python gets over an emulated WAN, by Ringway, by torch's Gloo and by PCCL in turn. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
BENCH=$ROOT/tests/bench
VENV=$ROOT/build/python/venv/bin/python

usage() {
  cat <<'TEXT'
Usage: tests/bench/python_wan.sh [OPTIONS]
Needs root, and build/python: RINGWAY_TEST_TORCH=1 tests/run.sh --preset python makes it (without torch: without Gloo and DDP).
PCCL is fetched into build/pccl.

  --scenario NAME    as tests/wan/run has them (us)
  --what LIST        "torch join": all-reduces (PCCL: of NumPy arrays) and DDP's steps, a join with a large state (Ringway);
                     goodput.py measures deaths
  --systems LIST     "ringway gloo pccl"
  --bytes LIST       of the all-reduces (4K,64K,1M,16M,64M)
  --state-mib N      of the join (1024)
  --json FILE        also write the all-reduces, a JSON object a line
  --plot FILE        also draw them
TEXT
}

# One rank of torch.distributed: --rank BACKEND HOST WORLD SOCKET MASTER ADDRESS
if [[ ${1:-} == --rank ]]; then
  GLOO_SOCKET_IFNAME=$(ip -o -4 addr show | grep -wF "$7" | awk '{print $2; exit}')
  export GLOO_SOCKET_IFNAME RINGWAY_SOCKET=$5
  exec "$VENV" -B "$BENCH/torch_bench.py" --backend "$2" --rank "$3" --world "$4" --store "tcp://${6%:*}:29611" --bytes "$BYTES" \
    --iters 6 --warmup 2 --steps 8 --settle "$([[ $2 == ringway ]] && echo 25 || echo 1)" --json "$JSON"
fi

SCENARIO=us WHAT="torch join" SYSTEMS="ringway gloo pccl" BYTES=4K,64K,1M,16M,64M STATE_MIB=1024 KEPT='' PLOT=''
read_options "--scenario=SCENARIO --what=WHAT --systems=SYSTEMS --bytes=BYTES --state-mib=STATE_MIB --json=KEPT \
  --plot=PLOT" "$@"
[[ -x $VENV ]] || die "no $VENV: make it by RINGWAY_TEST_TORCH=1 tests/run.sh --preset python"
JSON=$(mktemp)
trap 'rm -f "$JSON"' EXIT
export JSON BYTES

for what in $WHAT; do
  for system in $SYSTEMS; do
    [[ $what-$system =~ ^(torch-.*|join-ringway)$ ]] || continue
    headline "$what: $system"
    case $what-$system in
      torch-pccl)
        # At the first host, whose address is always this.
        PCCL_PYTHON=$("$BENCH/pccl_root.sh" "$ROOT/build/pccl")
        export PCCL_PYTHON
        "$ROOT/tests/wan/run" --bare "$SCENARIO" -- "$PCCL_PYTHON" -B "$BENCH/pccl_bench.py" --rank '{host}' --world '{world}' \
          --master 10.111.0.1 --settle 5 --bytes "$BYTES" --json "$JSON"
        ;;
      torch-*)
        "$ROOT/tests/wan/run" "$SCENARIO" -- "$BENCH/python_wan.sh" --rank "$system" '{host}' '{world}' '{socket}' '{master}' '{address}'
        ;;
      *)
        "$ROOT/tests/wan/run" "$SCENARIO" -- "$VENV" -B "$BENCH/state_bench.py" --state-mib "$STATE_MIB" \
          --host '{host}' --world '{world}' --socket '{socket}' --work '{work}'
        ;;
    esac
  done
done
[[ -z $KEPT ]] || cp "$JSON" "$KEPT"
[[ -z $PLOT ]] || python3 -B "$BENCH/plot" --out "$PLOT" --title "Time of an all-reduce from Python, $SCENARIO" "$JSON"
