#!/usr/bin/env bash
# systemd_test.sh SOURCE_DIR: the units are free of errors and warnings, stay hardened, and retry for ever. 77: systemd is not
# installed.
set -euo pipefail
ROOT=$1
command -v systemd-analyze >/dev/null || exit 77
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

status=0
for unit in "$ROOT"/deploy/systemd/*.service; do
  name=$(basename "$unit")
  # The binaries are not installed where tests run; everything else is verified as it is.
  sed 's|^ExecStart=/usr/bin/ringway[^ ]*|ExecStart=/bin/true|' "$unit" >"$WORK/$name"
  grep -q '^ExecStart=/bin/true --config /etc/ringway/' "$WORK/$name" || {
    echo "$name: ExecStart is not what packages will install"
    status=1
  }
  for line in StartLimitIntervalSec=0 Restart=on-failure RestartSec=5; do
    grep -qx "$line" "$unit" || {
      echo "$name has no $line: it is to retry for ever"
      status=1
    }
  done
  if ! systemd-analyze verify --man=no --recursive-errors=no "$WORK/$name" >"$WORK/out" 2>&1 || grep -F "$name" "$WORK/out"; then
    cat "$WORK/out"
    echo "$name: systemd-analyze verify is not content"
    status=1
  fi
  # 0.0 is sealed, 10.0 is open; the number is ten times that.
  worst=20
  [[ $name != ringway-master.service ]] || worst=15
  if ! systemd-analyze security --offline=true --threshold="$worst" --no-pager "$WORK/$name" >"$WORK/out" 2>&1; then
    tail -n 3 "$WORK/out"
    echo "$name: less hardened than it was"
    status=1
  fi
done
cp "$ROOT/deploy/systemd/ringwayd.socket" "$WORK"
if ! systemd-analyze verify --man=no --recursive-errors=no "$WORK/ringwayd.socket" >"$WORK/out" 2>&1 || [[ -s $WORK/out ]]; then
  cat "$WORK/out"
  echo "ringwayd.socket: systemd-analyze verify is not content"
  status=1
fi
grep -qx RuntimeDirectoryPreserve=yes "$ROOT/deploy/systemd/ringwayd.service" || {
  echo "ringwayd.service: trainers lose the directory of the socket over a restart"
  status=1
}
exit "$status"
