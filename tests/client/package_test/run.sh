#!/bin/bash
# Installs the client library into a temporary directory and builds a trainer against it, with find_package and with
# pkg-config, as a user would.
#
# usage: run.sh BUILD_DIR CXX [CXXFLAGS]
set -euo pipefail
build_dir=$1
compiler=$2
flags=${3:-}
source_dir=$(cd "$(dirname "$0")" && pwd)
work_dir=$(mktemp -d)
trap 'rm -rf "$work_dir"' EXIT

cmake --install "$build_dir" --component ringway-dev --prefix "$work_dir/root" >"$work_dir/install.log"
# Moved after the installation: nothing installed may remember where it was.
mv "$work_dir/root" "$work_dir/moved"
prefix=$work_dir/moved
library_dir=$(dirname "$(find "$prefix" -name libringway.so)")

cmake -S "$source_dir" -B "$work_dir/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_CXX_FLAGS="$flags" >"$work_dir/configure.log"
cmake --build "$work_dir/cmake" >"$work_dir/build.log"
"$work_dir/cmake/trainer_ringway"
"$work_dir/cmake/trainer_ringway_static"

export PKG_CONFIG_PATH=$library_dir/pkgconfig
read -r -a package_flags < <(pkg-config --cflags --libs ringway)
read -r -a compile_flags <<<"$flags"
"$compiler" -std=c++20 -Wall -Wextra -Wpedantic -Werror "${compile_flags[@]}" "$source_dir/trainer.cc" \
  -o "$work_dir/trainer" "${package_flags[@]}"
LD_LIBRARY_PATH=$library_dir "$work_dir/trainer"

read -r -a static_flags < <(pkg-config --static --libs ringway)
for library in -lringway -lstdc++ -lpthread; do
  [[ " ${static_flags[*]} " == *" $library "* ]] || {
    echo "pkg-config --static lacks $library: ${static_flags[*]}" >&2
    exit 1
  }
done

# The C++ runtime and libc only.
needed=$(readelf -d "$library_dir/libringway.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
for library in $needed; do
  case $library in
    libstdc++.so.6 | libgcc_s.so.1 | libc.so.6 | libm.so.6 | ld-linux*) ;;
    libasan* | libubsan* | libtsan*) ;;
    *) echo "libringway.so needs $library" >&2; exit 1 ;;
  esac
done
foreign=$(nm -DC --defined-only "$library_dir/libringway.so" | cut -d' ' -f3- | grep -v '^ringway' || true)
if [[ -n $foreign ]]; then
  echo "libringway.so exports what is not its interface: $foreign" >&2
  exit 1
fi
echo "the installed package works"
