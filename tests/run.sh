#!/usr/bin/env bash
# Installs what is needed, builds, runs all tests, and says what ran. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=deploy/programs.sh
source "$ROOT/deploy/programs.sh"
# shellcheck source=tests/pace.sh
source "$ROOT/tests/pace.sh"
cd "$ROOT"

usage() {
  cat <<'TEXT'
Usage: tests/run.sh [--preset STAGE]... [--all] [--quick]
Installs Debian packages where they are missing (as root), builds and tests Ringway. Works from any directory.

Stages, all of them but the last two without arguments:
  release   everything with the flags of a release, in build/test-release
  asan      tests with AddressSanitizer and UndefinedBehaviorSanitizer, in build/asan
  tsan      tests of what has threads with ThreadSanitizer, in build/tsan
  python    the wheel, built and installed as its users do (needs PyPI), and clang-tidy over its module, in build/python
  fuzz      the fuzz targets, each for a while, in build/fuzz
  tidy      clang-format, clang-tidy and shellcheck, with build/tidy
Only where it is named:
  aarch64   sums, codecs and an all-reduce of programs for aarch64, cross-compiled and under qemu-user, in build/aarch64
  releases  the release before this one, built once in build/previous, beside this one: upgrades one process at a time, and chaos

A test that fails is repeated twice, alone: if both pass it is a flake, and the run passes; a report of a sanitizer always fails the
run. The closing table has each stage's time to build and to test, and names flakes, and skipped tests with their reasons.

A short calibration first: a slow machine runs fewer seeds and shorter chaos and fuzzing, and the table says how much.
RINGWAY_TEST_EFFORT=PERCENT sets that instead. Of all stages, one that would not end within 80 minutes at the pace of
those before it is left out, and the table says so.

  --preset STAGE   only this stage; may be repeated
  --all            all stages
  --quick          the release build and its unit tests alone
  --help           this text
TEXT
}

ALL_STAGES=(release python asan tsan tidy fuzz)
NAMED_STAGES=(aarch64 releases) # only where they are named
STAGES=()
while (($#)); do
  case $1 in
    --preset)
      [[ " ${ALL_STAGES[*]} ${NAMED_STAGES[*]} " == *" ${2:-} "* ]] ||
        die "--preset takes one of: ${ALL_STAGES[*]} ${NAMED_STAGES[*]}"
      STAGES+=("$2")
      shift 2
      ;;
    --quick)
      STAGES+=(quick)
      shift
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
NAMED=${#STAGES[@]} # who names stages has the time for them
((NAMED)) || STAGES=("${ALL_STAGES[@]}")

JOBS=$(($(nproc) + 1)) # tests at a time: those of whole clusters wait more than they compute
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
LEFT_OUT=()
PACE_MINUTES=0 # that the stages so far take on the reference

# timed_build DIRECTORY [TARGET...]: builds, and counts its time as the stage's time to build.
timed_build() {
  local start=$SECONDS outcome=0
  build_with_bar "$@" || outcome=1
  BUILD_SECONDS=$((BUILD_SECONDS + SECONDS - start))
  return "$outcome"
}

# build_and_test DIRECTORY: builds everything there, the tests too, and runs them. Sanitizers write their reports to files, so that
# those of a daemon that a test started and killed are seen, too.
build_and_test() {
  local directory=$1 outcome=0 reports="$ROOT/$1/sanitizer-reports"
  shift
  timed_build "$directory" || return 1
  rm -rf "$directory/junit.xml" "$reports"
  mkdir -m 1777 "$reports"
  ASAN_OPTIONS+=:log_path=$reports/report UBSAN_OPTIONS+=:log_path=$reports/report TSAN_OPTIONS+=:log_path=$reports/report \
    "${BUILD_PREFIX[@]}" ctest --test-dir "$directory" --output-on-failure --no-tests=error -j "$JOBS" "$@" \
    --output-junit "$ROOT/$directory/junit.xml" </dev/null 2>&1 | show_tests || true # the report judges
  DETAIL=$("${BUILD_PREFIX[@]}" python3 -B tests/ctest_report.py "$directory" "$directory/junit.xml" "$reports") || outcome=1
  return "$outcome"
}

# Passing tests are one line each in ctest's output: drop them, keep failures and the closing lines.
show_tests() { grep -v -E '^ *(Start +[0-9]+: |[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed +[0-9.]+ sec$)' || true; }

stage_release() {
  configure release build/test-release -DRINGWAY_TESTS=ON && build_and_test build/test-release
}

stage_python() {
  configure release build/test-release -DRINGWAY_TESTS=ON || return 1
  timed_build build/test-release ringway_test_device || return 1
  DETAIL=$(tests/python/run.sh build/test-release/tests/device/libringway_test_device.so build/python) &&
    tidy_with build/python/module-* '^client/python/'
}

stage_quick() {
  configure release build/test-release -DRINGWAY_TESTS=ON && build_and_test build/test-release -L unit
}

stage_asan() { configure asan build/asan && build_and_test build/asan; }

stage_tsan() { configure tsan build/tsan && build_and_test build/tsan; }

stage_fuzz() {
  local targets
  mapfile -t targets < <(basename -s .cc tests/fuzz/*_fuzz.cc)
  configure fuzz build/fuzz && timed_build build/fuzz "${targets[@]}" || return 1
  tests/fuzz/run.sh
}

stage_aarch64() {
  install_packages "${CROSS_PACKAGES[@]}"
  aarch64_sysroot
  configure release build/test-release -DRINGWAY_TESTS=ON && timed_build build/test-release ringwayd ringway-bench || return 1
  configure aarch64 build/aarch64 -DRINGWAY_TESTS=ON -DRINGWAY_STATIC=ON -DRINGWAY_CUDA=OFF &&
    timed_build build/aarch64 kernels_test executor_test proto_test "${PROGRAMS[@]}" || return 1
  DETAIL=$(tests/deploy/aarch64_test.sh build/aarch64 build/test-release)
}

stage_releases() {
  local previous
  previous=$(tests/releases/build.sh) || return 1
  configure release build/test-release -DRINGWAY_TESTS=ON && timed_build build/test-release e2e_test chaos_run || return 1
  RINGWAY_TEST_PREVIOUS=$previous build/test-release/bin/e2e_test --gtest_filter='RollingUpgrade.*:ReleasesTest.*' &&
    RINGWAY_TEST_PREVIOUS=$previous build/test-release/bin/chaos_run --previous --seconds 60 --seed 3 &&
    RINGWAY_TEST_PREVIOUS=$previous build/test-release/bin/chaos_run --previous --seconds 60 --seed 4 --tls --detect-ms 1000
}

# Our own files, tracked or new, that end in one of the suffixes.
own_files() { git ls-files --cached --others --exclude-standard -- "$@" | sort -u | while read -r file; do
  [[ ! -f $file ]] || printf '%s\n' "$file"
done; }

# tidy_with DIRECTORY REGEX: clang-tidy over the sources whose path matches, with the build there.
tidy_with() {
  local said
  said=$(python3 -B tests/style/tidy.py "$1" --match "$2") || {
    say "$said"
    return 1
  }
  DETAIL+=${DETAIL:+$'\n'}$said
}

stage_tidy() {
  local sources
  mapfile -t sources < <(own_files '*.cc' '*.h' '*.hpp')
  clang-format --dry-run -Werror "${sources[@]}" || return 1
  own_files '*.sh' .ci/run deploy/ringway-ready tests/chaos/run tests/wan/run | xargs shellcheck -x || return 1
  configure release build/tidy -DRINGWAY_TESTS=ON && timed_build build/tidy ringway_generated || return 1
  tidy_with build/tidy '^(?!client/python/)' # whose headers stage python has
}

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

INDENT=$(printf '%*s' 32 '')

run_stage() {
  local stage=$1 start=$SECONDS outcome=ok
  if ((!NAMED)) && ! stage_fits "$stage" "$SECONDS" "$PACE_MINUTES"; then
    LEFT_OUT+=("$stage")
    REPORT+=("$(printf '%-8s %-7s %6s %6s  %s' "$stage" 'not run' - - "would not end within $PACE_BUDGET_MINUTES minutes here")")
    return
  fi
  PACE_MINUTES=$((PACE_MINUTES + ${PACE_STAGE_MINUTES[$stage]:-0}))
  DETAIL='' BUILD_SECONDS=0
  headline "$stage"
  if ! "stage_$stage"; then
    outcome=FAILED
    FAILED+=("$stage")
    complain "stage $stage failed"
  fi
  local took=$((SECONDS - start))
  REPORT+=("$(printf '%-8s %-7s %6s %6s  %s' "$stage" "$outcome" "$(minutes "$BUILD_SECONDS")" \
    "$(minutes $((took - BUILD_SECONDS)))" "${DETAIL//$'\n'/$'\n'$INDENT}")")
  say "stage $stage: $outcome, $took s"
}

install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
if [[ -z ${RINGWAY_TEST_EFFORT:-} ]]; then
  PACE_MS=$(pace_compile)
  RINGWAY_TEST_EFFORT=$(effort_of "$PACE_MS")
  say "calibration: $PACE_MS ms, $PACE_REFERENCE_MS on the reference; effort of random tests $RINGWAY_TEST_EFFORT%"
fi
export RINGWAY_TEST_EFFORT
for stage in "${STAGES[@]}"; do run_stage "$stage"; done

headline "what ran"
say "effort of random tests (seeds, chaos, fuzzing): $RINGWAY_TEST_EFFORT%${PACE_MS:+, for $PACE_MS ms of calibration}"
printf '%-8s %-7s %6s %6s\n' stage outcome build test
printf '%s\n' "${REPORT[@]}"
if ((${#FAILED[@]})); then die "failed: ${FAILED[*]}"; fi
if ((${#LEFT_OUT[@]})); then
  complain "this machine is too slow for all stages: ${LEFT_OUT[*]} did not run; name them by --preset"
else
  good "all stages passed"
fi
