#!/usr/bin/env bash
# What wan.sh runs on every host of the emulated WAN: wan_host.sh HOST WORLD ADDRESS SOCKET WORK. For every size each system
# in turn; their start-ups are where the hosts meet.
#
# From wan.sh: ROOT, OUT (what was built, and the results: SYSTEM.SIZE.RANK.json), RUNS (SIZE:BYTES ...), SYSTEMS, ITERS,
# WARMUP, SETTLE, LINE, GLOO_CONGESTION, GLOO_ALGORITHM, RUN_SECONDS_MAX.
set -euo pipefail
host=$1 world=$2 address=$3 socket=$4 work=$5

# route [congctl NAME]: what becomes of connections to the other hosts that do not choose a congestion control themselves.
# (A namespace's sysctl takes only those that the machine allows to everybody.)
route() { ip route replace "${address%.*}.0/24" dev wan0 proto kernel scope link src "$address" "$@"; }

run_gloo() {
  [[ -z $GLOO_CONGESTION ]] || route congctl "$GLOO_CONGESTION"
  mkdir -p "$work/store.$size"
  timeout "$RUN_SECONDS_MAX" "$OUT/gloo_bench" --rank "$host" --world "$world" --address "$address" \
    ${GLOO_ALGORITHM:+--algorithm "$GLOO_ALGORITHM"} --store "$work/store.$size" --bytes "$bytes" \
    --iters "$ITERS" --warmup "$WARMUP" --json "$OUT/gloo.$size.$host.json"
  route
}

# The first host starts it on all; the others go on and meet it at the next system.
run_mpi() {
  local hosts='' i
  ((host == 0)) || return 0
  for ((i = 1; i <= world; ++i)); do hosts+="${address%.*}.$i:1,"; done
  NAMESPACES=$work/namespaces OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout "$RUN_SECONDS_MAX" \
    mpirun --mca plm_rsh_agent "$ROOT/tests/bench/wan_mpi_agent.sh" --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include wan0 --mca oob_tcp_if_include wan0 --mca mpi_yield_when_idle 1 --bind-to none \
    -host "${hosts%,}" -np "$world" \
    "$OUT/mpi_bench" --bytes "$bytes" --iters "$ITERS" --warmup "$WARMUP" --json "$OUT/mpi.$size.%r.json"
}

run_ringway() {
  ringway-bench --socket "$socket" --group "bench.$size" --world "$world" --bytes "$bytes" \
    --iters "$ITERS" --warmup "$WARMUP" --settle "$SETTLE" --line-mbit "$LINE" --timeout $((2 * RUN_SECONDS_MAX)) --json "$OUT/ringway.$size.$host.json"
}

for run in $RUNS; do
  size=${run%:*} bytes=${run#*:}
  # Ringway comes last: it waits for everybody, however long the others took.
  for system in gloo mpi ringway; do
    [[ " $SYSTEMS " != *" $system "* ]] || "run_$system"
  done
done
