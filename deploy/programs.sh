# shellcheck shell=bash
# The programs as wheels and images carry them, for this machine's architecture or another. To be sourced after lib.sh.

PROGRAMS=(ringway-master ringwayd ringwayctl ringway-bench)
# What the programs and the module are linked with, or compiled from, by the names of Debian's packages.
LINKED=(libprotobuf-dev libspdlog-dev libfmt-dev libssl-dev libsqlite3-dev libxxhash-dev libasio-dev libcli11-dev
  libtomlplusplus-dev nlohmann-json3-dev)
# shellcheck disable=SC2034  # used by those who source this
CROSS_PACKAGES=(g++-aarch64-linux-gnu mmdebstrap qemu-user-static)
# shellcheck disable=SC2034
declare -A DEBIAN_ARCHITECTURE=([x86_64]=amd64 [aarch64]=arm64)

# quietly LOG WHAT COMMAND...: its output goes to the log; if it fails, the script ends with the log's last words.
quietly() {
  local log=$1 what=$2
  shift 2
  "$@" >"$log" 2>&1 </dev/null || {
    tail -n 30 "$log" >&2
    die "$what (the last words are above, all of them in $log)"
  }
}

# is_cross ARCHITECTURE: whether it is not this machine's. Ends the script if programs cannot be built for it here.
is_cross() {
  [[ $1 == "$(uname -m)" ]] && return 1
  [[ $1 == aarch64 && $(uname -m) == x86_64 ]] || die "programs for $1 cannot be built on $(uname -m): --arch takes x86_64 and aarch64"
}

# debian_root DIRECTORY SUITE ARCHITECTURE PACKAGE...: the packages of Debian, and all that they depend on, unpacked there; nothing is
# installed or run. An earlier call's root stays if it asked for the same.
debian_root() {
  local directory=$1 suite=$2 architecture=$3 link
  local wanted="${*:2}"
  shift 3
  [[ $(cat "$directory/wanted" 2>/dev/null) != "$wanted" ]] || return 0
  rm -rf "$directory"
  mkdir -p "$(dirname "$directory")"
  quietly "$directory.log" "Debian's packages for $architecture cannot be unpacked" mmdebstrap --mode=root --variant=extract \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --architectures="$architecture" --include="$(IFS=, && echo "$*")" \
    --skip=check/empty "$suite" "$directory" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}"
  rm -rf "${directory:?}"/dev/*
  # An absolute link would lead to this machine's libraries.
  while read -r link; do
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$directory$(readlink "$link")")" "$link"
  done < <(find "$directory" -lname '/*')
  printf '%s\n' "$wanted" >"$directory/wanted"
}

# What the toolchain file aarch64.cmake compiles against, with what tests need on top.
aarch64_sysroot() {
  say "unpacking Debian 12's libraries for aarch64"
  debian_root "$ROOT/build/sysroot-aarch64" bookworm arm64 libc6-dev libstdc++-12-dev zlib1g-dev "${LINKED[@]}" libgtest-dev \
    libgmock-dev libbenchmark-dev librapidcheck-dev libcpp-httplib-dev
}

# build_programs ARCHITECTURE: linked with archives of all but libc and the C++ runtime, and without symbols, in STRIPPED.
build_programs() {
  local architecture=$1 directory=$ROOT/build/programs-$1 preset=release strip=strip program
  if is_cross "$architecture"; then
    preset=$architecture strip=$architecture-linux-gnu-strip
    aarch64_sysroot
  fi
  configure "$preset" "$directory" -DRINGWAY_STATIC=ON -DRINGWAY_CUDA=OFF || exit 1
  build_with_bar "$directory" "${PROGRAMS[@]}" || die "the programs could not be built"
  STRIPPED=$directory/stripped
  mkdir -p "$STRIPPED"
  for program in "${PROGRAMS[@]}"; do "$strip" -o "$STRIPPED/$program" "$directory/bin/$program"; done
}

# collect_licences DIRECTORY: of what the programs are linked with, as Debian's packages have them, and those that these only refer to.
collect_licences() {
  local package file
  rm -rf "$1"
  mkdir -p "$1"
  for package in "${LINKED[@]}"; do cp -L "/usr/share/doc/$package/copyright" "$1/$package.txt"; done
  while read -r file; do cp -L "$file" "$1/$(basename "$file").txt"; done \
    < <(grep -oh '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$1"/* | sort -u)
}
