#!/usr/bin/env bash
# A batch job for Slurm: a Ringway daemon on each node, and a trainer for each task. Arguments are the trainer's command:
#
#   sbatch --nodes 4 --ntasks-per-node 8 slurm.sh python train.py
#
# Trainers find the daemon of their node by RINGWAY_SOCKET, and have RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and
# MASTER_PORT as torchrun sets them. When a node fails, the others go on. The job's certificates, its journal and logs are in
# ringway-JOB where it was submitted, which all nodes share. Programs are found by PATH on each node.
#SBATCH --job-name=ringway
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --no-kill
set -euo pipefail
(($#)) || { echo "usage: sbatch slurm.sh COMMAND..." >&2; exit 2; }

export RINGWAY_JOB=$SLURM_SUBMIT_DIR/ringway-$SLURM_JOB_ID${SLURM_RESTART_COUNT:+.$SLURM_RESTART_COUNT}
export RINGWAY_MASTER

# The first address of this node. Where that is not the one by which nodes reach each other, name yours here.
address() { hostname -I | cut -d ' ' -f 1; }

# The node's own directory, for its socket; several nodes may be on one machine.
directory() { echo "/tmp/ringway-$SLURM_JOB_ID-$SLURMD_NODENAME"; }

# Runs on each node, until all of the step get SIGTERM.
node_daemon() {
  local directory
  directory=$(directory)
  (umask 077 && mkdir -p "$directory")
  [[ -O $directory && ! -L $directory ]] || { echo "$directory is somebody else's" >&2; exit 1; }
  ringwayd --tls-dir "$RINGWAY_JOB/tls" --name "$SLURMD_NODENAME" --master "$RINGWAY_MASTER" --listen "$(address):0" \
    --socket "$directory/ringwayd.sock" --log-file "$RINGWAY_JOB/$SLURMD_NODENAME.log" &
  ((SLURM_PROCID)) || echo "$SLURM_JOB_ID.$SLURM_STEP_ID" >"$RINGWAY_JOB/step"
  trap : TERM
  wait || wait || true  # the signal ends the first one
  rmdir "$directory"
}

# Runs for each task: the trainer, once its node's daemon is there.
trainer() {
  local deadline=$((SECONDS + 60))
  RINGWAY_SOCKET=$(directory)/ringwayd.sock
  until [[ -S $RINGWAY_SOCKET ]]; do
    ((SECONDS < deadline)) || { echo "no daemon on $SLURMD_NODENAME: see $RINGWAY_JOB/$SLURMD_NODENAME.log" >&2; exit 1; }
    sleep 0.2
  done
  export RINGWAY_SOCKET RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID
  export LOCAL_WORLD_SIZE=${SLURM_STEP_TASKS_PER_NODE%%[^0-9]*}
  exec "$@"
}

export -f address directory node_daemon trainer

umask 077
mkdir "$RINGWAY_JOB"
{
  ringwayctl certs init "$RINGWAY_JOB/ca"
  ringwayctl certs issue master --role master --dir "$RINGWAY_JOB/ca" --out "$RINGWAY_JOB/tls"
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    ringwayctl certs issue "$node" --role daemon --dir "$RINGWAY_JOB/ca" --out "$RINGWAY_JOB/tls"
  done
} >/dev/null

ringway-master --tls-dir "$RINGWAY_JOB/tls" --listen "$(address):0" --journal "$RINGWAY_JOB/master.db" \
  --log-file "$RINGWAY_JOB/master.log" &
master=$!
daemons=''
step=''

# Gently, then surely; srun itself would only kill them.
end() {
  local deadline=$((SECONDS + 45))
  [[ -z $step ]] || scancel --signal=TERM "$step" || true
  while [[ -n $daemons ]] && ((SECONDS < deadline)) && kill -0 "$daemons" 2>/dev/null; do sleep 0.2; done
  [[ -z $daemons ]] || kill "$daemons" 2>/dev/null || true
  kill "$master" 2>/dev/null || true
  wait
}
trap end EXIT

# wait_for PID COMMAND...: prints what it prints, once that is something; fails when the process ends or a minute is over.
wait_for() {
  local pid=$1 deadline=$((SECONDS + 60)) said=''
  shift
  until said=$("$@" 2>/dev/null) && [[ -n $said ]]; do
    if ! kill -0 "$pid" || ((SECONDS >= deadline)); then
      echo "no answer to $*" >&2
      return 1
    fi
    sleep 0.2
  done
  echo "$said"
}

RINGWAY_MASTER=$(wait_for "$master" sed -n 's/.* listening address=\([^ ]*\).*/\1/p' "$RINGWAY_JOB/master.log")
srun --overlap --no-kill --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --kill-on-bad-exit=0 bash -c node_daemon &
daemons=$!
step=$(wait_for "$daemons" cat "$RINGWAY_JOB/step")
MASTER_ADDR=$(address)
export MASTER_ADDR MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
srun --overlap --no-kill --kill-on-bad-exit=0 bash -c 'trainer "$@"' trainer "$@"
