#!/usr/bin/env bash
# torch.distributed over an emulated WAN: all-reduces and DDP's steps by Ringway and by Gloo, one after the other in the same
# network. As root, after `tests/run.sh --preset python` with RINGWAY_TEST_TORCH=1.
#   tests/bench/torch_wan.sh [SCENARIO]     as tests/wan/run has it; us
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

# One rank: torch_wan.sh --rank BACKEND HOST WORLD SOCKET MASTER ADDRESS
if [[ ${1:-} == --rank ]]; then
  interface=$(ip -o -4 addr show | grep -wF "$7" | awk '{print $2; exit}')
  export RINGWAY_SOCKET=$5 GLOO_SOCKET_IFNAME=$interface
  exec "$ROOT/build/python/venv/bin/python" -B "$ROOT/tests/bench/torch_bench.py" --backend "$2" --rank "$3" --world "$4" \
    --store "tcp://${6%:*}:29611" --bytes 4K,64M --iters 6 --warmup 2 --steps 8 --settle "$([[ $2 == ringway ]] && echo 25 || echo 1)"
fi

for backend in ringway gloo; do
  "$ROOT/tests/wan/run" "${1:-us}" -- "$ROOT/tests/bench/torch_wan.sh" --rank "$backend" '{host}' '{world}' '{socket}' '{master}' \
    '{address}'
done
