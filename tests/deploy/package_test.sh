#!/usr/bin/env bash
# package_test.sh [DIRECTORY]: the packages in DIRECTORY (build/package) in a fresh Debian 12: they install, their programs run with
# the configuration they bring, are replaced by a newer version under a training that goes on, are removed, and purged.
# By hand, after deploy/package.sh; as root. A root of its own by debootstrap, without a service manager: what systemd would start
# and restart is started here; that it would is tested by units_test.py and systemd_test.sh. 77: no namespaces, or no network.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
PACKAGES=$(realpath "${1:-$ROOT/build/package}")
MIRROR=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
CHROOT=$ROOT/build/package/debian12
INSTALLED=(ringway-master ringwayd ringway-tools libringway0.10 libringway-dev)
SETTINGS=(ringway-master ringwayd)

if [[ ${RINGWAY_PACKAGE_TEST:-} != inside ]]; then
  compgen -G "$PACKAGES/ringwayd_*.deb" >/dev/null || die "there are no packages in $PACKAGES: deploy/package.sh makes them"
  install_packages debootstrap
  if [[ ! -e $CHROOT/etc/debian_version ]]; then
    say "making a fresh Debian 12 in $CHROOT"
    rm -rf "$CHROOT"
    debootstrap --variant=minbase bookworm "$CHROOT" "$MIRROR" >"$CHROOT.log" 2>&1 || exit 77
  fi
  rm -rf "$CHROOT.now"
  cp -a "$CHROOT" "$CHROOT.now"
  cp /etc/resolv.conf "$CHROOT.now/etc/resolv.conf"
  trap 'rm -rf --one-file-system "$CHROOT.now"' EXIT
  unshare --mount --pid --fork --kill-child --mount-proc true || exit 77
  RINGWAY_PACKAGE_TEST=inside unshare --mount --pid --fork --kill-child --mount-proc "$0" "$PACKAGES"
  exit
fi

NOW=$CHROOT.now
mount --bind "$NOW" "$NOW"
mount -t proc proc "$NOW/proc"
mount --rbind /dev "$NOW/dev"
mount -t tmpfs tmpfs "$NOW/run"
# A service manager would be asked to start what is installed.
printf '#!/bin/sh\nexit 101\n' >"$NOW/usr/sbin/policy-rc.d"
chmod 755 "$NOW/usr/sbin/policy-rc.d"

in_root() { chroot "$NOW" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
# as_service PROGRAM [ARGUMENT]...: as its unit would start it.
as_service() { in_root setpriv --reuid=ringway --regid=ringway --clear-groups "$@" >>"$NOW/var/log/services" 2>&1 & }
expect() { # TEXT COMMAND...
  local text=$1
  shift
  "$@" || die_with_services "$text"
}
die_with_services() {
  tail -n 30 "$NOW/var/log/services" "$NOW/tmp/train" >&2 || true
  die "$1"
}
install_debs() {
  in_root apt-get install -y --no-install-recommends "$@" >"$NOW/tmp/apt" 2>&1 || {
    tail -n 20 "$NOW/tmp/apt"
    die "apt-get fails"
  }
}
install_from() { # DIRECTORY
  local debs
  mapfile -t debs < <(cd "$NOW" && printf '/%s\n' "$1"/*.deb)
  install_debs "${debs[@]}"
}
start_services() {
  as_service ringway-master --config /etc/ringway/master.toml --journal /var/lib/ringway/master.db
  as_service ringwayd --config /etc/ringway/ringwayd.toml
  wait_until 30 test -S "$NOW/run/ringway/ringwayd.sock" || die_with_services "the daemon does not come up"
}

headline "install"
mkdir "$NOW/debs"
cp "$PACKAGES"/*.deb "$NOW/debs"
rm -f "$NOW"/debs/*dbgsym*
in_root apt-get update >/dev/null
install_from debs
for program in ringway-master ringwayd ringwayctl ringway-bench train_text; do
  expect "$program does not run" in_root "$program" --version
done
expect "no user ringway" in_root getent passwd ringway >/dev/null
[[ $(in_root stat -c '%a %U %G' /etc/ringway/tls) == "750 root ringway" ]] || die "/etc/ringway/tls is not root's for ringway to read"
for program in "${SETTINGS[@]}"; do
  file=${program#ringway-}
  expect "the configuration of $program is not in order" in_root "$program" --config "/etc/ringway/$file.toml" --check-config
done
for page in ringway-master.8 ringwayd.8 ringwayctl.1 ringway-bench.1 train_text.1; do
  [[ -s $NOW/usr/share/man/man${page##*.}/$page.gz ]] || die "no manual page $page"
done
# shellcheck disable=SC2016  # for the shell inside
[[ $(in_root bash -c 'source /usr/share/bash-completion/completions/ringway; COMP_WORDS=(ringwayctl ""); COMP_CWORD=1; _ringway ringwayctl;
  echo ${COMPREPLY[*]}') == *"certs"* ]] || die "no completion of ringwayctl's subcommands"

headline "train, and install a newer version meanwhile"
install -d -o "$(in_root id -u ringway)" "$NOW/run/ringway" "$NOW/var/lib/ringway"
start_services
in_root ringwayctl --socket /run/ringway/ringwayd.sock status
in_root sh -c 'exec train_text --group p --world 1 --seconds 40 --text /usr/share/common-licenses >/tmp/train 2>&1' &
TRAINER=$!
wait_until 30 grep -qs 'world 1' "$NOW/tmp/train" || die_with_services "the trainer does not train"
mkdir "$NOW/newer"
for package in "${INSTALLED[@]}"; do
  rm -rf "$NOW/unpacked"
  dpkg-deb -R "$NOW"/debs/"$package"_*.deb "$NOW/unpacked"
  sed -i -E 's/^(Version: [^ ]+)$/\1+newer/; s/\(= ([0-9.]+)\)/(= \1+newer)/g' "$NOW/unpacked/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$NOW/unpacked" "$NOW/newer" >/dev/null
done
rm -rf "$NOW/unpacked"
install_from newer
# Restarts the services as systemd does when a newer version replaces them.
pkill -TERM ringwayd && pkill -TERM ringway-master
wait_until 60 bash -c '! pgrep -x ringwayd && ! pgrep ringway-master' >/dev/null || die_with_services "the old ones do not end"
start_services
wait_until 60 grep -qs rejoined "$NOW/tmp/train" || die_with_services "the trainer does not join again"
wait "$TRAINER" || die_with_services "the trainer has failed"
grep -E 'rejoined|hash' "$NOW/tmp/train"
pkill -TERM ringwayd && pkill -TERM ringway-master

headline "link"
install_debs g++ cmake make pkg-config
cp -r "$ROOT/tests/client/package_test" "$NOW/tmp/package_test"
for step in "-S /tmp/package_test -B /tmp/package_build" "--build /tmp/package_build"; do
  # shellcheck disable=SC2086  # words
  in_root cmake $step >"$NOW/tmp/cmake" 2>&1 || {
    tail -n 20 "$NOW/tmp/cmake"
    die "what libringway-dev installs cannot be linked"
  }
done

headline "remove and purge"
in_root apt-get remove -y "${INSTALLED[@]}" >/dev/null
[[ ! -e $NOW/usr/bin/ringwayd && -e $NOW/etc/ringway/ringwayd.toml ]] || die "remove leaves a program or takes the configuration"
in_root dpkg --purge "${SETTINGS[@]}" >/dev/null 2>&1
[[ ! -e $NOW/etc/ringway/ringwayd.toml && ! -e $NOW/usr/lib/sysctl.d/60-ringway.conf ]] || die "purge leaves a configuration"
good "the packages install, are replaced under load, and go"
