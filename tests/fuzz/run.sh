#!/usr/bin/env bash
# Builds the fuzz targets and lets each search for a while. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
cd "$ROOT"

usage() {
  cat <<'TEXT'
Usage: tests/fuzz/run.sh [--seconds N] [--seed S] [TARGET...]
Builds the fuzz targets with clang into build/fuzz and runs each for N seconds (20; RINGWAY_TEST_EFFORT percent of them), one a
core. Starts from
tests/fuzz/corpus and tests/fuzz/regressions; what is found on the way stays in build/fuzz/found/TARGET.

  --seed S   of the search (1, so that a clean clone searches the same way each time); 0 draws one

An input that fails lies in build/fuzz/failed/TARGET-*. Once it is mended, move it to tests/fuzz/regressions/TARGET/:
the ordinary tests replay it from then on.
TEXT
}

SECONDS_EACH=$((20 * ${RINGWAY_TEST_EFFORT:-100} / 100))
SEED=1
TARGETS=()
while (($#)); do
  case $1 in
    --seconds)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || die "--seconds takes a number"
      SECONDS_EACH=$2
      shift 2
      ;;
    --seed)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "--seed takes a number"
      SEED=$2
      shift 2
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    -*) die "unknown argument $1; --help lists them" ;;
    *)
      [[ -f tests/fuzz/$1_fuzz.cc ]] || die "there is no target $1"
      TARGETS+=("$1")
      shift
      ;;
  esac
done
if ((${#TARGETS[@]} == 0)); then
  for source in tests/fuzz/*_fuzz.cc; do TARGETS+=("$(basename "${source%_fuzz.cc}")"); done
fi

# fuzz TARGET: its last lines, and all of them if it failed.
fuzz() {
  local target=$1 log folders=("build/fuzz/found/$1" "tests/fuzz/corpus/$1")
  [[ ! -d tests/fuzz/regressions/$target ]] || folders+=("tests/fuzz/regressions/$target")
  mkdir -p "${folders[0]}" build/fuzz/failed
  log=build/fuzz/$target.log
  if ! "build/fuzz/bin/${target}_fuzz" -seed="$SEED" -max_total_time="$SECONDS_EACH" -max_len=4096 -rss_limit_mb=2048 \
    -timeout=10 -artifact_prefix="build/fuzz/failed/$target-" "${folders[@]}" >"$log" 2>&1; then
    tail -n 60 "$log"
    complain "$target failed"
    return 1
  fi
  printf '%-16s %s\n' "$target" "$(tail -n 1 "$log")"
}
export -f fuzz complain
export SECONDS_EACH SEED RED PLAIN

configure fuzz build/fuzz
build_with_bar build/fuzz "${TARGETS[@]/%/_fuzz}"
printf '%s\n' "${TARGETS[@]}" | xargs -P "$(nproc)" -I{} bash -euo pipefail -c 'fuzz {}'
