#!/usr/bin/env bash
# Builds the OCI image. See --help.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/lib.sh
source "$ROOT/deploy/lib.sh"
# shellcheck source=deploy/programs.sh
source "$ROOT/deploy/programs.sh"

usage() {
  cat <<'TEXT'
Usage: deploy/image.sh [--arch ARCHITECTURE] [--out DIRECTORY]
Installs what building takes (Debian packages, as root) and builds on Debian 12, without a container engine or a registry:

  ringway-ARCHITECTURE      an OCI image layout, for `skopeo copy oci:... docker://...`
  ringway-ARCHITECTURE.tar  the same as one file, for `docker load` and `podman load`
  files                     what is in it beside Debian's files; deploy/Containerfile makes an image of these

The image has ringway-master, ringwayd, ringwayctl, ringway-bench and the health check ringway-ready on bash, coreutils and the C++ runtime
of Debian 12, and runs as user 10001.

  --arch ARCHITECTURE  x86_64 or aarch64, by a cross compiler (default: this machine's)
  --out DIRECTORY      where images go (default build/image)
  --help               this text
TEXT
}

OUT=$ROOT/build/image
ARCHITECTURE=$(uname -m)
read_options '--arch=ARCHITECTURE --out=OUT' "$@"
USER_OF_IMAGE=10001
cross=()
if is_cross "$ARCHITECTURE"; then cross=("${CROSS_PACKAGES[@]}"); fi

# What both this and the Containerfile put on top of Debian.
gather_files() {
  local files=$OUT/files
  rm -rf "$files"
  install -d "$files"/{usr/bin,etc/ringway/tls,usr/share/doc/ringway}
  install -d -o "$USER_OF_IMAGE" -g "$USER_OF_IMAGE" "$files"/{run,var/lib}/ringway
  install "$STRIPPED"/* "$ROOT/deploy/ringway-ready" "$files/usr/bin"
  collect_licences "$files/usr/share/doc/ringway/licences"
}

# Debian's part: nothing of it is configured, so its users are put there by hand.
gather_root() {
  local debian=$OUT/debian-$ARCHITECTURE
  root=$OUT/root-$ARCHITECTURE
  debian_root "$debian" bookworm "${DEBIAN_ARCHITECTURE[$ARCHITECTURE]}" base-files base-passwd bash coreutils libstdc++6
  rm -rf "$root"
  cp -a "$debian" "$root"
  cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
  cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
  rm -rf "$root"/{wanted,etc/apt,etc/resolv.conf,etc/hostname,var/cache/apt,var/lib/apt} "$root"/usr/share/{man,info,locale}/*
  cp -a "$OUT/files/." "$root"
}

[[ $(os_release ID)-$(os_release VERSION_ID) == debian-12 ]] ||
  die "images are built on Debian 12, whose libraries the programs are linked for; this is $(os_release PRETTY_NAME)"
install_packages "${BUILD_PACKAGES[@]}" "${LINKED[@]}" binutils mmdebstrap python3 "${cross[@]}"
mkdir -p "$OUT"
OUT=$(realpath "$OUT")
cd "$ROOT"
headline "programs"
build_programs "$ARCHITECTURE"
headline "image in $OUT"
gather_files
gather_root
image=$OUT/ringway-$ARCHITECTURE
rm -rf "$image" "$image.tar"
python3 -B "$ROOT/deploy/oci_image.py" "$ROOT/deploy/Containerfile" "$root" "${DEBIAN_ARCHITECTURE[$ARCHITECTURE]}" "$image"
tar -C "$image" -cf "$image.tar" .
du -sh "$image"
