#!/usr/bin/env bash
# install_test.sh BUILD_DIR VERSION: everything is installed, prints that version, and names the others by where they are.
set -euo pipefail
BUILD_DIR=$1 VERSION=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

wrong() {
  printf '%s\n' "$*"
  exit 1
}

for prefix in /usr /opt/ringway; do
  root=$WORK/root$prefix
  DESTDIR=$WORK/root cmake --install "$BUILD_DIR" --prefix "$prefix" >"$WORK/log" 2>&1 || wrong "$(cat "$WORK/log")"
  for program in ringway-master ringwayd ringwayctl ringway-bench train_text; do
    [[ -x $root/bin/$program ]] || wrong "$prefix has no $program"
    said=$("$root/bin/$program" --version 2>&1) || wrong "$program --version fails: $said"
    [[ $said == "$program $VERSION" ]] || wrong "$program --version says: $said"
    code=0
    said=$("$root/bin/$program" --no-such-option x 2>&1) || code=$?
    ((code == 2)) || wrong "$program with a wrong option ends with $code: $said"
    [[ $said == "$program: "* && $said != *$'\n'* ]] || wrong "$program with a wrong option says: $said"
  done
  for unit in ringway-master ringwayd; do
    grep -qx "ExecStart=$prefix/bin/$unit --config /etc/ringway/.*" "$root/lib/systemd/system/$unit.service" ||
      wrong "$prefix: the unit $unit does not start the installed program"
  done
  for file in lib/sysctl.d/60-ringway.conf lib/modules-load.d/ringway.conf lib/sysusers.d/ringway.conf lib/tmpfiles.d/ringway.conf \
    lib/systemd/system/ringwayd.socket include/ringway/ringway.h \
    share/doc/ringway/examples/{master.toml,ringwayd.toml,shortest/shortest.cc,shortest/shortest.c,train_text/train_text.cc}; do
    [[ -s $root/$file ]] || wrong "$prefix has no $file"
  done
done
