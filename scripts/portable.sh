#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds packages that run on any Linux with a C library as old as Debian 10's (glibc 2.28, of 2018): an archive of the
# command, the libraries and the headers, and a Python wheel. They need nothing beyond the C library; Vulkan is opened
# at run time.
#
#   scripts/portable.sh [x86_64|aarch64] [--no-wheel]   for Linux
#   scripts/portable.sh windows                         an archive for Windows on x86-64
#   scripts/portable.sh macos                           an archive for macOS on arm64
#   scripts/portable.sh android                         an archive for Android on arm64, with the NDK (r29 or later) that
#                                                       ANDROID_NDK_HOME names in the place of zig
#   scripts/portable.sh TARGET --runtime                an archive of the library for apps that load compiled models alone
#
# The packages are in build/packages. zig's clang compiles (from PyPI, into .cache/portable); Highway, zlib and AsmJit
# are built from Debian's sources, whose checksums are below; headers are those that scripts/setup.sh installed. Nothing
# of this machine changes. oneDNN is left out: docs/packages.md says what that costs. On the machine that it was built
# for, the archive is unpacked and recorded networks are checked with it.
set -euo pipefail
cd "$(dirname "$0")/.."

arch=x86_64 wheel=1 runtime=
for argument; do
  case "$argument" in
    x86_64|aarch64|windows|macos|android) arch=$argument ;;
    --no-wheel) wheel= ;;
    --runtime) wheel='' runtime=-runtime ;;
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "portable.sh: x86_64, aarch64, windows, macos, android, --no-wheel or --runtime is expected, not '$argument' (try --help)" >&2; exit 2 ;;
  esac
done
target=$arch-linux-gnu.2.28 system=linux$runtime-$arch
if [ "$arch" = windows ]; then target=x86_64-windows-gnu system=windows$runtime-x86_64 wheel=; fi
if [ "$arch" = macos ]; then target=aarch64-macos.13.3 system=macos$runtime-arm64 wheel=; fi
if [ "$arch" = android ]; then
  target=aarch64-linux-android29 system=android$runtime-arm64 wheel=
  [ -e "${ANDROID_NDK_HOME:-}/build/cmake/android.toolchain.cmake" ] || {
    echo "portable.sh: ANDROID_NDK_HOME has to name the folder of Android's NDK, r29 or later" >&2; exit 2; }
fi
portable=$PWD/.cache/portable-$arch sources=$PWD/.cache/portable-sources
say() { printf 'portable: %s\n' "$*" >&2; }
python=$(scripts/python_environment.sh portable)
zig=$("$python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')

mkdir -p "$portable/bin" "$sources" build/packages
for tool in cc c++; do printf '#!/bin/sh\nexec "%s" %s -target %s "$@"\n' "$zig" $tool "$target" >"$portable/bin/$tool"; done
for tool in ar ranlib; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" $tool >"$portable/bin/$tool"; done
# CMake wants it, and has nothing for it to do (cmake/toolchains/portable.cmake).
printf '#!/bin/sh\n' >"$portable/bin/install_name_tool"
chmod +x "$portable"/bin/*

# source NAME CHECKSUM PATH: unpacks a source archive of Debian's pool to $sources/NAME.
source_of() {
  local name=$1 checksum=$2 path=$3 archive=$sources/${3##*/}
  if [ "$(cat "$sources/$name/.checksum" 2>/dev/null)" = "$checksum" ]; then return; fi
  say "fetching the sources of $name"
  local mirror
  for mirror in "${KRAFLA_DEBIAN_MIRROR:-http://deb.debian.org/debian}" http://snapshot.debian.org/archive/debian/20251101T000000Z; do
    curl -fsSL --retry 2 -o "$archive" "$mirror/pool/main/$path" && break
  done
  echo "$checksum  $archive" | sha256sum --check --quiet || { say "'$path' is not what it should be, or cannot be had"; exit 1; }
  rm -rf "${sources:?}/$name"
  mkdir "$sources/$name"
  tar xf "$archive" -C "$sources/$name" --strip-components=1
  rm "$archive"
  echo "$checksum" >"$sources/$name/.checksum"
}
source_of highway 7e0be78b8318e8bdbf6fa545d2ecb4c90f947df03f7aadc42c1967f019e63343 h/highway/highway_1.2.0.orig.tar.gz
source_of zlib 60dd315c07f616887caa029408308a018ace66e3d142726a97db164b3b8f69fb 'z/zlib/zlib_1.3.dfsg+really1.3.1.orig.tar.gz'
source_of asmjit 361308fc510137aa87d4dd6587ec84949b01ad654b77feea8ef145046587d493 \
  'a/asmjit/asmjit_0.0~git20231115.1da9e4d.orig.tar.xz'

# Headers of no library that is linked: the machine's.
mkdir -p "$portable/include" "$portable/share/cmake"
for name in vulkan vk_video volk.h volk.c vk_mem_alloc.h nlohmann CLI protozero spirv xxhash.h; do
  for place in /usr/include /usr/include/volk /usr/include/vma; do
    if [ -e "$place/$name" ]; then cp -rLu "$place/$name" "$portable/include/"; fi
  done
done
for name in nlohmann_json CLI11; do cp -ru /usr/share/cmake/$name "$portable/share/cmake/"; done

toolchain=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/portable.cmake"
  -DKRAFLA_PORTABLE="$portable" -DKRAFLA_PORTABLE_TARGET="$target")
if [ "$arch" = android ]; then toolchain+=(-DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/android.cmake"); fi
if [ "$(cat "$portable/built" 2>/dev/null)" != "$target $(sha256sum <cmake/portable/CMakeLists.txt)" ]; then
  say "building Highway, zlib and AsmJit for $target"
  cmake -S cmake/portable -B "build/portable-libraries-$arch" "${toolchain[@]}" -DKRAFLA_SOURCES="$sources" \
    -DCMAKE_INSTALL_PREFIX="$portable" -DCMAKE_INSTALL_LIBDIR=lib >/dev/null
  cmake --build "build/portable-libraries-$arch" --target install >/dev/null
  printf '%s %s\n' "$target" "$(sha256sum <cmake/portable/CMakeLists.txt)" >"$portable/built"
fi

build=build/portable$runtime-$arch
options=("${toolchain[@]}" -DKRAFLA_TESTS=OFF -DKRAFLA_EXAMPLES=OFF -DKRAFLA_ONEDNN=OFF)
if [ -n "$runtime" ]; then options+=(-DCMAKE_BUILD_TYPE=MinSizeRel -DKRAFLA_RUNTIME_ONLY=ON); fi
say "building krafla for $target"
cmake -S . -B "$build" "${options[@]}" -DKRAFLA_PACKAGE_SYSTEM="$system" -USKBUILD* >/dev/null
cmake --build "$build"
(cd "$build" && cpack -G TGZ >/dev/null)
archive=$(ls -t "$PWD"/build/packages/krafla-*-"$system".tar.gz | head -1)
say "made $archive, $(stat -c %s "$archive") bytes"

# Nothing beyond the system, and nothing in the C library that is younger than the target says.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$archive" -C "$work" --strip-components=1
files=("$work"/bin/krafla "$work"/lib/libkrafla.so)
if [ "$arch" = macos ]; then files=("$work"/bin/krafla "$work"/lib/libkrafla.dylib); fi
if [ "$arch" = windows ]; then files=("$work"/bin/krafla.exe "$work"/bin/krafla.dll); fi
for file in "${files[@]}"; do
  [ -e "$file" ] || { [ -n "$runtime" ] && continue; }
  "$python" - "$file" "${target#*gnu.}" <<'PYTHON'
import re, struct, subprocess, sys
file = sys.argv[1]
if file.endswith((".exe", ".dll")):
    headers = subprocess.run(["objdump", "-p", file], capture_output=True, text=True, check=True).stdout
    others = [n for n in re.findall(r"DLL Name: (.*)", headers) if not re.match(r"(?i)(kernel32|advapi32|api-ms-win-crt-.*)\.dll", n)]
    sys.exit(f"portable: {file} needs {others}" if others else 0)
if "macos" in sys.argv[2]:  # Mach-O: the commands that load libraries, from mach-o/loader.h
    data, at, others = open(file, "rb").read(), 32, []
    for _ in range(struct.unpack_from("<I", data, 16)[0]):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0xC:  # LC_LOAD_DYLIB
            name = data[at + struct.unpack_from("<I", data, at + 8)[0]:at + size].split(b"\0")[0].decode()
            others += [] if re.match(r"/usr/lib/lib(System\.B|resolv\.9)\.dylib$|@rpath/libkrafla\.", name) else [name]
        at += size
    sys.exit(f"portable: {file} needs {others}" if others else 0)
dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
others = [n for n in needed if not re.match(r"(libc|libm|libdl|libpthread|librt|ld-linux.*|libkrafla)\.so", n)]
if "android" in sys.argv[2]:
    sys.exit(f"portable: {file} needs {others}" if others else 0)
newest = tuple(map(int, sys.argv[2].split(".")))
text = subprocess.run(["readelf", "-V", file], capture_output=True, text=True, check=True).stdout
versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", text)}
if others or max(versions) > newest:
    sys.exit(f"portable: {file} needs {others} and glibc {max(versions)}")
PYTHON
done
if [ -n "$runtime" ]; then
  say "${files[1]##*/}: $(stat -Lc %s "${files[1]}") bytes"
elif [ "$arch" = "$(uname -m)" ]; then
  "$work/bin/krafla" check tests/models -d cpu --quiet
fi

if [ -n "$wheel" ]; then
  # In the same build: only the way things are installed differs.
  export CMAKE_ARGS="${options[*]}"
  "$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-index -w "$work/wheel" -C "build-dir=$build" \
    -C install.strip=false .
  made=$("$python" -m wheel tags --remove --python-tag py3 --abi-tag none --platform-tag "manylinux_2_28_$arch" \
    "$work"/wheel/krafla-*.whl | tail -1)
  mkdir -p build/wheels
  mv "$work/wheel/$made" build/wheels/
  say "made build/wheels/$made, $(stat -c %s "build/wheels/$made") bytes"
  if [ "$arch" = "$(uname -m)" ]; then
    "$python" -m venv "$work/clean"
    "$work/clean/bin/pip" install --quiet --no-index --no-deps "build/wheels/$made"
    "$work/clean/bin/krafla" check tests/models -d cpu --quiet
  fi
fi
