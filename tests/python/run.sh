#!/usr/bin/env bash
# tests/python/run.sh PROGRAMS DIRECTORY: makes a virtual environment in DIRECTORY, installs the wheel there, and runs the
# tests of it against the programs in PROGRAMS. Prints what ran on stdout, all else on stderr. To install it needs PyPI. With
# RINGWAY_TEST_TORCH=1 it installs torch, too, 5.4 GB, and tests what is for it.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
PROGRAMS=$(realpath "$1")
mkdir -p "$2"
DIRECTORY=$(realpath "$2")
PYTHON=$DIRECTORY/venv/bin/python

log=$DIRECTORY/install.log
install() {
  [[ -x $PYTHON ]] || python3 -m venv "$DIRECTORY/venv" || return 1
  # The build tools stay installed: without isolation the next build is one of what changed.
  "$PYTHON" -m pip install --no-input --disable-pip-version-check 'scikit-build-core>=0.10' 'nanobind>=2.8,<4' ninja numpy \
    ml_dtypes ${RINGWAY_TEST_TORCH:+torch expecttest torchft==0.2.0 parameterized accelerate lightning transformers
    kubernetes-validate} || return 1
  "$PYTHON" -m pip install --no-input --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall \
    --config-settings build-dir="$DIRECTORY/wheel" --config-settings cmake.define.CMAKE_EXPORT_COMPILE_COMMANDS=ON \
    "$ROOT/client/python"
}
if ! install >"$log" 2>&1 </dev/null; then
  tail -n 40 "$log" >&2
  echo "the wheel could not be installed (the last words are above, all of them in $log)" >&2
  exit 1
fi

cd "$ROOT/tests/python"
RINGWAY_PROGRAMS=$PROGRAMS "$PYTHON" -B run.py
