#!/usr/bin/env bash
# wan.sh runs this on every host of the emulated WAN: wan_host.sh HOST WORLD ADDRESS SOCKET WORK UPLINK_MBIT: one
# ringway-bench for all sizes, which runs the other systems after each.
#
# From wan.sh: ROOT, OUT (what was built, and the results: HOST.json), SIZES, SYSTEMS, ITERS, WARMUP, SETTLE,
# GLOO_CONGESTION, GLOO_ALGORITHM, RUN_SECONDS_MAX.
set -euo pipefail
host=$1 world=$2 address=$3 socket=$4 work=$5 uplink=$6

# Sets the congestion control of connections to the other hosts that do not choose one themselves. (A namespace's sysctl
# takes only those that the machine allows to everybody.)
route="ip route replace ${address%.*}.0/24 dev wan0 proto kernel scope link src $address"

compare=()
if [[ " $SYSTEMS " == *" gloo "* ]]; then
  compare+=(--compare "gloo=mkdir -p $work/store.{bytes} && \
    $route ${GLOO_CONGESTION:+congctl $GLOO_CONGESTION} && $OUT/gloo_bench --rank {rank} --world {world} \
    --address $address ${GLOO_ALGORITHM:+--algorithm $GLOO_ALGORITHM} --store $work/store.{bytes} --bytes {bytes} \
    --iters {iters} --warmup {warmup} --json {json} && $route")
fi
if [[ " $SYSTEMS " == *" mpi "* ]]; then
  # The first rank starts it on all hosts; it names its own first.
  hosts=$address:1
  for ((i = 1; i <= world; ++i)); do
    [[ ${address%.*}.$i == "$address" ]] || hosts+=",${address%.*}.$i:1"
  done
  compare+=(--compare "mpi=[ {rank} != 0 ] || { NAMESPACES=$work/namespaces OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --mca plm_rsh_agent $ROOT/tests/bench/wan_mpi_agent.sh --mca pml ob1 \
    --mca btl tcp,self --mca btl_tcp_if_include wan0 --mca oob_tcp_if_include wan0 --mca mpi_yield_when_idle 1 \
    --bind-to none -host $hosts -np {world} $OUT/mpi_bench --bytes {bytes} --iters {iters} --warmup {warmup} \
    --json {json}.%r && mv {json}.0 {json}; }")
fi

ringway-bench --socket "$socket" --group bench --world "$world" --bytes "${SIZES// /,}" --iters "$ITERS" \
  --warmup "$WARMUP" --settle "$SETTLE" --line-mbit "$uplink" --timeout "$RUN_SECONDS_MAX" --json "$OUT/$host.json" \
  "${compare[@]}"
