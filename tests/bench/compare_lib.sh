# shellcheck shell=bash
# The parts of compare.sh: baselines (for wan.sh too), a Ringway cluster on this host, one run of each system. To be
# sourced.

# Seconds that one run of one system may take.
RUN_SECONDS_MAX=300

# Debian packages of the baselines, and what prints the tables.
# shellcheck disable=SC2034  # used by those who source this
BASELINE_PACKAGES=(g++ python3 libgloo-dev libopenmpi-dev openmpi-bin)

# Ends what was started, gently, then surely; then removes the files.
clean_up() {
  local status=$?
  trap - EXIT INT TERM HUP
  stop_all
  rm -rf "$WORK"
  exit "$status"
}

stop_all() {
  local pid deadline=$((SECONDS + 5))
  for pid in "${STARTED[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${STARTED[@]}"; do
    while ((SECONDS < deadline)) && kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  STARTED=()
}

bytes_of() {
  local number=${1%[KMG]}
  [[ $number =~ ^[0-9]+$ ]] || die "not a size: $1 (write 4096, 4K, 256M or 1G)"
  case $1 in
    *K) echo $((number << 10)) ;;
    *M) echo $((number << 20)) ;;
    *G) echo $((number << 30)) ;;
    *) echo "$number" ;;
  esac
}

# Small operations are noisy and quick: more of them.
iterations_for() {
  if [[ -n $ITERS ]]; then
    echo "$ITERS"
  elif (($1 <= 65536)); then
    echo 200
  elif (($1 <= 4 << 20)); then
    echo 30
  elif (($1 <= 64 << 20)); then
    echo 6
  else
    echo 3
  fi
}

build_baselines() {
  local flags=(-std=c++20 -O3 -march=native -I"$ROOT")
  say "building the baselines" >&2
  if [[ " $SYSTEMS " == *" gloo "* ]]; then
    g++ "${flags[@]}" "$ROOT/tests/bench/gloo_bench.cc" -o "$WORK/gloo_bench" -lgloo -pthread
  fi
  if [[ " $SYSTEMS " == *" mpi "* ]]; then
    OMPI_CXX=g++ mpicxx "${flags[@]}" "$ROOT/tests/bench/mpi_bench.cc" -o "$WORK/mpi_bench"
  fi
}

# await PROGRAM COMMAND...: until the command says that the program is ready.
await() {
  local program=$1
  shift
  wait_until 10 "$@" || die "$program was not ready in time; its log: $(tail -n 3 "$WORK/$program.log")"
}

master_address() { sed -n 's/.*listening.*address=\([^ ]*\).*/\1/p' "$WORK/master.log" | head -n 1; }
master_is_ready() { [[ -n $(master_address) ]]; }

# One master and so many daemons; sockets are $WORK/daemonN.sock.
start_cluster() {
  local i
  "$BUILD_DIR/bin/ringway-master" --listen 127.0.0.1:0 >"$WORK/master.log" 2>&1 </dev/null &
  STARTED+=("$!")
  await master master_is_ready
  for ((i = 0; i < $1; ++i)); do
    "$BUILD_DIR/bin/ringwayd" --master "$(master_address)" --socket "$WORK/daemon$i.sock" --listen 127.0.0.1:0 \
      --name "daemon$i" ${LANES:+--lanes "$LANES"} >"$WORK/daemon$i.log" 2>&1 </dev/null &
    STARTED+=("$!")
  done
  for ((i = 0; i < $1; ++i)); do await "daemon$i" test -S "$WORK/daemon$i.sock"; done
}

stop_cluster() { stop_all; }

# Starts one process a rank and waits for all; the first that fails ends the script with its last words.
# run_ranks SYSTEM WORLD COMMAND...: "%r" in the command becomes the rank, "%d" the number of its daemon.
run_ranks() {
  local system=$1 world=$2 rank pids=() command
  shift 2
  rm -f "$WORK/run".*.json
  for ((rank = 0; rank < world; ++rank)); do
    command=("${@//%r/$rank}")
    timeout "$RUN_SECONDS_MAX" "${command[@]//%d/$((rank / ${RANKS_PER_DAEMON:-1}))}" >"$WORK/$system.$rank.log" 2>&1 </dev/null &
    pids+=("$!")
    STARTED+=("$!")
  done
  for ((rank = 0; rank < world; ++rank)); do
    if ! wait "${pids[rank]}"; then
      tail -n 5 "$WORK/$system.$rank.log" >&2
      die "$system failed on rank $rank (its last words are above)"
    fi
  done
  STARTED=("${STARTED[@]:0:${#STARTED[@]}-world}")
}

RUN=0
run_ringway() {
  RUN=$((RUN + 1))
  run_ranks ringway "$1" "$BUILD_DIR/bin/ringway-bench" --socket "$WORK/daemon%d.sock" --group "compare$RUN" \
    --world "$1" --bytes "$2" --iters "$3" --warmup 2 --json "$WORK/run.%r.json" --timeout "$RUN_SECONDS_MAX"
}

run_gloo() {
  rm -rf "$WORK/store"
  mkdir "$WORK/store"
  run_ranks gloo "$1" "$WORK/gloo_bench" --rank %r --world "$1" --store "$WORK/store" --bytes "$2" --iters "$3" \
    --warmup 2 --json "$WORK/run.%r.json"
}

run_mpi() {
  rm -f "$WORK/run".*.json
  if ! OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout "$RUN_SECONDS_MAX" \
    mpirun --oversubscribe --bind-to none --mca btl "$MPI_TRANSPORT" --mca btl_tcp_if_include lo -np "$1" \
    "$WORK/mpi_bench" --bytes "$2" --iters "$3" --warmup 2 --json "$WORK/run.%r.json" \
    >"$WORK/mpi.log" 2>&1 </dev/null; then
    tail -n 5 "$WORK/mpi.log" >&2
    die "Open MPI failed (its last words are above)"
  fi
}

# record FILE SYSTEM ROUND [NAME=VALUE...]: adds a rank's results to runs.jsonl. The file's name ends in RANK.json.
record() {
  PYTHONPATH=$ROOT/tests/bench python3 -B -c 'import sys, runs
path, system, turn, rank, *more = sys.argv[1:]
print(runs.lines(path, system, rank, turn, **dict(pair.split("=", 1) for pair in more)))' \
    "$1" "$2" "$3" "$(basename "$1" .json | sed 's/.*\.//')" "${@:4}" >>"$WORK/runs.jsonl"
}

# record_run SYSTEM ROUND: of all ranks of the last run.
record_run() {
  local file
  for file in "$WORK/run".*.json; do record "$file" "$@"; done
}
