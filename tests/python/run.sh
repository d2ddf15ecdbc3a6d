#!/usr/bin/env bash
# tests/python/run.sh DEVICE_LIBRARY DIRECTORY: builds the wheel in DIRECTORY as users get it (deploy/wheel.sh), installs it in a
# virtual environment there, and runs the tests against the programs that it brings, and with that library as the device.
# Prints what ran on stdout, all else on stderr. To install it needs PyPI. With RINGWAY_TEST_TORCH=1 it installs torch, too,
# 5.4 GB, and tests what is for it.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
DEVICE_LIBRARY=$(realpath "$1")
mkdir -p "$2"
DIRECTORY=$(realpath "$2")
PYTHON=$DIRECTORY/venv/bin/python

log=$DIRECTORY/install.log
install() {
  [[ -x $PYTHON ]] || python3 -m venv "$DIRECTORY/venv" || return 1
  "$PYTHON" -m pip install --no-input --disable-pip-version-check numpy ml_dtypes \
    ${RINGWAY_TEST_TORCH:+torch expecttest torchft==0.2.0 parameterized accelerate lightning transformers
    kubernetes-validate} || return 1
  "$ROOT/deploy/wheel.sh" --python "$PYTHON" --out "$DIRECTORY" || return 1
  "$PYTHON" -m pip install --no-input --disable-pip-version-check --no-deps --force-reinstall "$DIRECTORY"/ringway-*.whl
}
if ! install >"$log" 2>&1 </dev/null; then
  tail -n 40 "$log" >&2
  echo "the wheel could not be installed (the last words are above, all of them in $log)" >&2
  exit 1
fi

cd "$ROOT/tests/python"
RINGWAY_WHEEL_BUILD=$DIRECTORY RINGWAY_PROGRAMS=$DIRECTORY/venv/bin RINGWAY_TEST_DEVICE_LIBRARY=$DEVICE_LIBRARY "$PYTHON" -B run.py
