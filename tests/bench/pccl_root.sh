#!/usr/bin/env bash
# Unpacks PCCL from PyPI with a Python that runs it, into DIRECTORY, and prints that Python's path: pccl_root.sh DIRECTORY. The wheel
# wants a newer C library than Debian 12 has, so Debian 13's Python comes with its own, beside and not instead; and CUDA's driver,
# for which a stub stands that has no device. As root.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

DIRECTORY=$(realpath -m "${1:?the directory}")
PYTHON=$DIRECTORY/python
if [[ ! -x $PYTHON ]]; then
  install_packages debootstrap python3-pip binutils >&2
  rm -rf "$DIRECTORY"
  mkdir -p "$DIRECTORY"
  debootstrap --variant=minbase --include=python3-minimal,python3-numpy,python3-cffi,python3-ply,libgomp1 trixie "$DIRECTORY/root" \
    http://deb.debian.org/debian >"$DIRECTORY/debootstrap.log" 2>&1 || die "debootstrap failed: see $DIRECTORY/debootstrap.log"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 -d "$DIRECTORY" pypccl==1.0.0 >&2
  python3 -m zipfile -e "$DIRECTORY"/pypccl-*.whl "$DIRECTORY/pccl"
  libraries=$DIRECTORY/root/usr/lib/x86_64-linux-gnu
  nm -D --undefined-only "$DIRECTORY/pccl/pccl/libpccl.so" | awk '$2 ~ /^cu[A-Z]/ { print "int " $2 "(void) { return 100; }" }' |
    gcc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$libraries/libcuda.so.1" -x c -
  cat >"$PYTHON" <<TEXT
#!/bin/sh
export PYTHONHOME=$DIRECTORY/root/usr PYTHONPATH=$DIRECTORY/pccl
exec $DIRECTORY/root/lib64/ld-linux-x86-64.so.2 --library-path $libraries $DIRECTORY/root/usr/bin/python3 "\$@"
TEXT
  chmod +x "$PYTHON"
fi
"$PYTHON" -c 'import pccl' || die "PCCL does not start"
echo "$PYTHON"
