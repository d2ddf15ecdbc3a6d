#!/usr/bin/env bash
# Builds the programs of the release before this one, and prints where they lie. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

usage() {
  cat <<'TEXT'
Usage: tests/releases/build.sh
Builds the programs of the release that tests/releases/previous names (RELEASE COMMIT), from this repository's history,
into build/previous/RELEASE, once a COMMIT, and prints the directory of the programs, for RINGWAY_TEST_PREVIOUS.
TEXT
}
if (($#)); then
  usage
  [[ $1 == -h || $1 == --help ]] || die "unknown argument $1"
  exit 0
fi

read -r RELEASE COMMIT <"$ROOT/tests/releases/previous"
DIRECTORY=$ROOT/build/previous/$RELEASE
PROGRAMS=(ringway-master ringwayd ringwayctl ringway-bench chaos_trainer)

if [[ ! -e $DIRECTORY/built || $(<"$DIRECTORY/built") != "$COMMIT" ]]; then
  git -C "$ROOT" cat-file -e "$COMMIT^{commit}" 2>/dev/null ||
    die "commit $COMMIT of release $RELEASE is not in this repository: git fetch --unshallow"
  rm -rf "$DIRECTORY"
  mkdir -p "$DIRECTORY/source"
  git -C "$ROOT" archive "$COMMIT" | tar -x -C "$DIRECTORY/source"
  cd "$DIRECTORY/source"
  configure release "$DIRECTORY" -DRINGWAY_TESTS=ON >&2 || die "release $RELEASE cannot be configured"
  build_with_bar "$DIRECTORY" "${PROGRAMS[@]}" >&2 || die "release $RELEASE does not build"
  printf '%s\n' "$COMMIT" >"$DIRECTORY/built"
fi
printf '%s\n' "$DIRECTORY/bin"
