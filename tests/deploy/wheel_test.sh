#!/usr/bin/env bash
# wheel_test.sh [DIRECTORY]: the wheels in DIRECTORY (build/wheel) in a fresh Debian 12 and a fresh Debian 13, which have Python and no
# compiler: a user without rights does there what README.md shows first, and two trainers sum.
# By hand, after deploy/wheel.sh; as root. Each root is made by debootstrap; NumPy comes from PyPI. 77: no namespaces, or no network.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
WHEELS=$(realpath "${1:-$ROOT/build/wheel}")
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
declare -A WHEEL_OF=([bookworm]=cp311-cp311 [trixie]=cp312-abi3)

# Runs in a mount namespace of its own: test_in SUITE.
test_in() {
  local now=$WHEELS/$1.now user=65534 started program
  mount --bind "$now" "$now"
  mount -t proc proc "$now/proc"
  mount --rbind /dev "$now/dev"
  mkdir -p "$now/try"
  cp "$WHEELS"/ringway-*-"${WHEEL_OF[$1]}"-*.whl "$now/try"
  awk '/^## / { on = /First steps/ } on && $0 == "\140\140\140" { if (++fences == 2) exit; next } fences' "$ROOT/README.md" \
    >"$now/try/commands"
  [[ $(<"$now/try/commands") == *"pip install"*"ringway run"* ]] || die "README.md does not show a wheel's first steps"
  chown -R "$user:$user" "$now/try"
  if chroot "$now" sh -c 'command -v cc c++ gcc g++ cmake'; then die "the root of $1 has a compiler"; fi
  started=$SECONDS
  # The certificates are those of this machine, which may have another way to PyPI than the world has.
  chroot --userspec="$user:$user" "$now" env -i HOME=/try PATH=/usr/bin:/bin LC_ALL=C.UTF-8 PIP_CERT=/etc/ssl/ca.pem \
    PIP_INDEX_URL="${PIP_INDEX_URL:-https://pypi.org/simple}" timeout 300 bash -euc 'cd /try && source ./commands' \
    >"$WHEELS/$1.out" 2>&1 || {
    cat "$WHEELS/$1.out" >&2
    die "$1: what README.md shows first fails"
  }
  [[ $(grep -c 'the sum is 3.0' "$WHEELS/$1.out") == 2 ]] || die "$1: two trainers do not sum: $(<"$WHEELS/$1.out")"
  for program in ringway-master ringwayd ringwayctl ringway-bench; do
    chroot --userspec="$user:$user" "$now" "/try/venv/bin/$program" --version >/dev/null || die "$1: $program does not run"
  done
  good "$1: from pip install to the sum in $((SECONDS - started)) s"
}

if [[ ${RINGWAY_WHEEL_TEST:-} ]]; then
  test_in "$RINGWAY_WHEEL_TEST"
  exit
fi

install_packages debootstrap
for suite in "${!WHEEL_OF[@]}"; do
  compgen -G "$WHEELS/ringway-*-${WHEEL_OF[$suite]}-*.whl" >/dev/null ||
    die "there is no ${WHEEL_OF[$suite]} wheel in $WHEELS: deploy/wheel.sh makes it"
  unpacked=$WHEELS/$suite.root
  if [[ ! -e $unpacked/ready ]]; then
    say "making a fresh Debian ($suite) in $unpacked"
    rm -rf "$unpacked"
    debootstrap --variant=minbase --include=python3-venv "$suite" "$unpacked" "$MIRROR" >"$unpacked.log" 2>&1 || exit 77
    touch "$unpacked/ready"
  fi
  rm -rf "$WHEELS/$suite.now"
  cp -a "$unpacked" "$WHEELS/$suite.now"
  cp /etc/resolv.conf "$WHEELS/$suite.now/etc/resolv.conf"
  cp -L /etc/ssl/certs/ca-certificates.crt "$WHEELS/$suite.now/etc/ssl/ca.pem"
  trap 'rm -rf --one-file-system "$WHEELS"/*.now' EXIT
  unshare --mount --pid --fork --kill-child --mount-proc true || exit 77
  RINGWAY_WHEEL_TEST=$suite unshare --mount --pid --fork --kill-child --mount-proc "$0" "$WHEELS"
done
