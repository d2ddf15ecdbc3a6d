#!/usr/bin/env bash
# Installs what is needed, builds, runs all tests, and says what ran. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
cd "$ROOT"

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--preset STAGE]... [--all]
Installs Debian packages where they are missing (as root), builds and tests Ringway. Works from any directory.

Stages, all of them without arguments:
  release   binaries into build/release, tests with the same flags in build/test-release
  asan      tests with AddressSanitizer and UndefinedBehaviorSanitizer, in build/asan
  tsan      tests with ThreadSanitizer, in build/tsan
  fuzz      the fuzz targets, each for a while, in build/fuzz
  tidy      clang-format, clang-tidy and shellcheck, with build/tidy

  --preset STAGE   only this stage; may be repeated
  --all            all stages
  --help           this text
TEXT
}

ALL_STAGES=(release asan tsan fuzz tidy)
STAGES=()
while (($#)); do
  case $1 in
    --preset)
      [[ " ${ALL_STAGES[*]} " == *" ${2:-} "* ]] || die "--preset takes one of: ${ALL_STAGES[*]}"
      STAGES+=("$2")
      shift 2
      ;;
    --all)
      STAGES=("${ALL_STAGES[@]}")
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown argument $1; --help lists them" ;;
  esac
done
((${#STAGES[@]})) || STAGES=("${ALL_STAGES[@]}")

JOBS=$(nproc)
# The stages compile the same sources in other directories: let ccache see that.
export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=$ROOT
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

# ThreadSanitizer of g++ 12 does not start where the kernel places programs with more random bits than it knows. The build
# runs test programs too, to list their cases.
if setarch "$(uname -m)" -R true 2>/dev/null; then BUILD_PREFIX=(setarch "$(uname -m)" -R); fi

REPORT=()
FAILED=()

# build_and_test DIRECTORY: builds everything there, the tests too, and runs them.
build_and_test() {
  local directory=$1 log count
  build_with_bar "$directory" || return 1
  log=$(mktemp)
  # Real processes on a busy two-core machine: a test that fails gets a second try, and its first failure stays in the output.
  if ! "${BUILD_PREFIX[@]}" ctest --test-dir "$directory" --output-on-failure --no-tests=error --repeat until-pass:2 -j "$JOBS" \
    </dev/null 2>&1 | tee "$log" | show_tests; then
    DETAIL="failed: $(sed -n 's/^[[:space:]]*[0-9]* - \(.*\) (.*)$/\1/p' "$log" | paste -sd ' ')"
    rm -f "$log"
    return 1
  fi
  count=$(sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p' "$log")
  DETAIL="${count:-0} tests"
  rm -f "$log"
}

# Passing tests are one line each in ctest's output: drop them, keep failures and the closing lines.
show_tests() { grep -v -E '^ *(Start +[0-9]+: |[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed +[0-9.]+ sec$)' || true; }

stage_release() {
  configure release build/release && build_with_bar build/release || return 1
  configure release build/test-release -DRINGWAY_TESTS=ON && build_and_test build/test-release
}

stage_asan() { configure asan build/asan && build_and_test build/asan; }

stage_tsan() { configure tsan build/tsan && build_and_test build/tsan; }

stage_fuzz() { tests/fuzz/run.sh; }

# Our own files, tracked or new, that end in one of the suffixes.
own_files() { git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
  [[ ! -f $file ]] || printf '%s\n' "$file"
done; }

stage_tidy() {
  local sources headers
  # Benchmarks beside other systems need headers that nothing else does.
  mapfile -t sources < <(own_files '*.cc' | grep -v '^tests/bench/')
  mapfile -t headers < <(own_files '*.h' '*.hpp')
  if ((${#sources[@]} == 0)); then
    complain "git lists no sources here"
    return 1
  fi
  clang-format --dry-run -Werror "${sources[@]}" "${headers[@]}" || return 1
  own_files '*.sh' .ci/run tests/chaos/run tests/wan/run | xargs shellcheck -x || return 1
  configure release build/tidy -DRINGWAY_TESTS=ON && build_with_bar build/tidy ringway_generated || return 1
  # clang-tidy 14 parses Asio's coroutines only with these three.
  printf '%s\n' "${sources[@]}" | xargs -P "$JOBS" -n 1 \
    clang-tidy -p build/tidy --quiet --extra-arg=-D__cpp_impl_coroutine=201902L --extra-arg=-DASIO_HAS_CO_AWAIT \
    --extra-arg=-DASIO_HAS_STD_COROUTINE 2> >(grep -v -E '^[0-9]+ warnings? generated\.$' >&2) || return 1
  DETAIL="${#sources[@]} sources, ${#headers[@]} headers"
}

run_stage() {
  local stage=$1 start=$SECONDS outcome=ok
  DETAIL=''
  headline "$stage"
  if ! "stage_$stage"; then
    outcome=FAILED
    FAILED+=("$stage")
    complain "stage $stage failed"
  fi
  local took=$((SECONDS - start))
  REPORT+=("$(printf '%-8s %-7s %3d:%02d  %s' "$stage" "$outcome" $((took / 60)) $((took % 60)) "$DETAIL")")
  say "stage $stage: $outcome, $took s"
}

install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
for stage in "${STAGES[@]}"; do run_stage "$stage"; done

headline "what ran"
printf '%s\n' "${REPORT[@]}"
if ((${#FAILED[@]})); then die "failed: ${FAILED[*]}"; fi
good "all stages passed"
