#!/usr/bin/env bash
# Builds the Debian packages. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"

if (($#)); then
  cat <<'TEXT'
Usage: deploy/package.sh
Installs what building packages takes (as root), builds ringway-master, ringwayd, ringway-tools, libringway0.10 and
libringway-dev from this directory's sources, and lets lintian judge them: an error of its ends this with 1. The packages are
then in build/package. tests/deploy/package_test.sh tries them in a fresh Debian 12.
TEXT
  [[ $1 == --help || $1 == -h ]] && exit 0
  exit 2
fi

install_packages "${BUILD_PACKAGES[@]}" debhelper dpkg-dev fakeroot help2man lintian
OUT=$ROOT/build/package
SOURCE=$OUT/ringway
mkdir -p "$SOURCE"
# The build of an earlier run stays: only what changed is built again.
for part in CMakeLists.txt CMakePresets.json README.md proto master daemon client deploy; do
  rm -rf "${SOURCE:?}/$part"
  cp -rp "$ROOT/$part" "$SOURCE/$part"
done
rm -rf "$SOURCE/debian"
cp -r "$ROOT/deploy/debian" "$SOURCE/debian"
rm -f "$OUT"/*.deb "$OUT"/*.buildinfo "$OUT"/*.changes
cd "$SOURCE"
headline "building packages in $OUT"
dpkg-buildpackage --build=binary --no-sign --no-pre-clean >"$OUT/log" 2>&1 || {
  tail -n 30 "$OUT/log"
  die "the packages could not be built; all of it is in $OUT/log"
}
cd "$OUT"
headline "lintian"
lintian --allow-root --fail-on error --tag-display-limit 0 ./*.changes || die "lintian has found errors"
say "$(ls "$OUT"/*.deb)"
