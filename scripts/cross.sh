#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the command and the library for another machine, and checks recorded networks on it under an emulator.
#
#   scripts/cross.sh aarch64 [--check-only]   arm64 Linux: Debian's cross compiler, the networks under qemu on the CPU
#   scripts/cross.sh mingw                    Windows x64: mingw-w64; every file is compiled, nothing linked
#
# Nothing of this machine changes: the packages, Debian 13's, are unpacked below .cache/cross (1.2 GB for arm64). Needs
# an x86-64 Debian or Ubuntu with a C library as new as Debian 13's, apt-get, dpkg-deb, cmake, ninja and
# glslangValidator. The build is in build/aarch64. KRAFLA_CROSS_JOBS is the number of processes of a build (1). The
# last line says what was checked, and build/aarch64/checked says when.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-}
case "$target" in
  aarch64|mingw) shift ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "cross.sh: aarch64 or mingw is expected, not '$target' (try --help)" >&2; exit 2 ;;
esac
cross=$PWD/.cache/cross
jobs=${KRAFLA_CROSS_JOBS:-1}
say() { printf 'cross: %s\n' "$*" >&2; }

# unpack ARCH FOLDER PACKAGE..: the packages with all that they need, below .cache/cross/FOLDER, by an apt with a state of
# its own, which believes that nothing is installed.
unpack() {
  local arch=$1 folder=$cross/$2; shift 2
  local list="$*"
  if [ "$(cat "$folder/packages" 2>/dev/null)" = "$list" ]; then return; fi
  local apt=$cross/apt-$arch
  mkdir -p "$apt"/lists/partial "$apt"/archives/partial "$folder"
  : >"$apt/status"
  printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' \
    "${KRAFLA_DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$apt/sources.list"
  local options=(-q -y -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$apt"
    -o Dir::State::Lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt"
    -o Dir::Cache::archives="$apt/archives" -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Debug::NoLocking=1 -o APT::Install-Recommends=0 -o Acquire::Languages=none)
  say "fetching packages of $arch for $folder"
  apt-get "${options[@]}" update >"$apt/log" 2>&1
  rm -f "$apt"/archives/*.deb
  apt-get "${options[@]}" --download-only install "$@" >>"$apt/log" 2>&1 || { tail -5 "$apt/log" >&2; exit 1; }
  local package
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
  rm -f "$apt"/archives/*.deb
  local merged
  for merged in lib bin sbin; do [ -e "$folder/$merged" ] || ln -s "usr/$merged" "$folder/$merged"; done
  printf '%s' "$list" >"$folder/packages"
}

# The unpacked compilers find their own libraries first, but the C library, which has to fit this machine's loader.
with_tools() {
  local libraries=$1/usr/lib/x86_64-linux-gnu
  rm -f "$libraries"/{libc,libm,libmvec,libpthread,libdl,librt,libresolv,libnsl,libutil}.so.* "$libraries"/ld-linux*
  LD_LIBRARY_PATH=$libraries "${@:2}"
}

build() { # NAME TOOLS-FOLDER TOOLCHAIN CMAKE-OPTION.. -- TARGET..
  local name=$1 tools=$2 toolchain=$3; shift 3
  local options=()
  while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  with_tools "$tools" cmake -S . -B "build/$name" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/$toolchain.cmake" \
    -DKRAFLA_CROSS="$cross" -DCMAKE_BUILD_TYPE=Release -DKRAFLA_TESTS=OFF -DKRAFLA_EXAMPLES=OFF -DKRAFLA_PJRT=OFF \
    "${options[@]}" >"build/$name.log" 2>&1 || { tail -20 "build/$name.log" >&2; return 1; }
  with_tools "$tools" ninja -C "build/$name" -j "$jobs" "$@"
}

mkdir -p "$cross" build
case "$target" in
  aarch64)
    unpack arm64 arm64 libc6-dev libstdc++-14-dev libhwy-dev zlib1g-dev libvulkan-volk-dev libvulkan-dev \
      libvulkan-memory-allocator-dev nlohmann-json3-dev libcli11-dev libprotozero-dev libxxhash-dev spirv-headers
    unpack amd64 tools g++-14-aarch64-linux-gnu qemu-user
    # The linker scripts of the C library name files by where Debian would have put them.
    sed -i 's,/usr/aarch64-linux-gnu/lib/,,g' "$cross"/tools/usr/aarch64-linux-gnu/lib/lib{c,m}.so
    run=("$cross/tools/usr/bin/qemu-aarch64" -L "$cross/arm64" build/aarch64/krafla)
    if [ "${1:-}" != --check-only ]; then
      export PKG_CONFIG_LIBDIR=$cross/arm64/usr/lib/aarch64-linux-gnu/pkgconfig:$cross/arm64/usr/share/pkgconfig
      export PKG_CONFIG_SYSROOT_DIR=$cross/arm64
      build aarch64 "$cross/tools" aarch64-linux-gnu -DKRAFLA_ONEDNN=OFF -DKRAFLA_JIT=OFF -- krafla libkrafla
    fi
    checked=$("${run[@]}" check tests/models -d cpu --quiet | tail -1)
    say "krafla for arm64 Linux under qemu, tests/models on the CPU: $checked"
    printf '%s %s\n' "$(date -u +%FT%TZ)" "$checked" >build/aarch64/checked
    case "$checked" in *' 0 failed, 0 skipped') ;; *) exit 1 ;; esac
    ;;
  mingw)
    unpack amd64 mingw g++-mingw-w64-x86-64-posix libz-mingw-w64-dev
    # Debian has no mingw packages of these: headers of this machine say what the rooms are compiled against.
    headers=$cross/w64-headers
    mkdir -p "$headers"
    for name in vulkan vk_video volk.h vk_mem_alloc.h nlohmann CLI protozero spirv hwy xxhash.h zlib.h zconf.h; do
      for place in /usr/include /usr/include/volk /usr/include/vma "/usr/include/$(uname -m)-linux-gnu"; do
        if [ -e "$place/$name" ]; then ln -sfn "$place/$name" "$headers/$name"; fi
      done
    done
    generated=build/release/generated/include
    [ -d "$generated" ] || { say "build the preset release first: its generated headers are needed"; exit 1; }
    failed=0
    mkdir -p build/mingw
    while read -r source; do
      options=(-std=c++23 -Isrc -Iinclude "-I$generated" -Ibuild/release/src/vk_runtime/shaders -isystem "$headers"
        -Wall -Wextra -Wshadow -Werror -D_GLIBCXX_ASSERTIONS -DKRAFLA_HAVE_VULKAN '-DKRAFLA_VERSION="0"'
        '-DKRAFLA_DEMO_DIR=""')
      with_tools "$cross/mingw" "$cross/mingw/usr/bin/x86_64-w64-mingw32-g++-posix" "${options[@]}" -fsyntax-only "$source" \
        || { failed=$((failed + 1)); say "$source does not compile"; }
    done < <(find src tools -name '*.cpp' | grep -vE 'vma\.cpp|volk\.cpp|_posix\.cpp|native/x86|cpu_fallback/kernels' | sort)
    say "mingw-w64: $failed files of src and tools do not compile; nothing was linked or run"
    [ "$failed" = 0 ]
    ;;
esac
