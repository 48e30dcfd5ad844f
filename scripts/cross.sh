#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds krafla for another machine and checks what was built on this one: recorded networks on the CPU and on lavapipe,
# and the example in C against the library.
#
#   scripts/cross.sh aarch64 [--check-only]   Linux on arm64, under qemu
#   scripts/cross.sh windows [--check-only]   Windows on x86-64, under wine
#   scripts/cross.sh x86-64                   build/release under qemu, as processors without AVX-512 and VNNI (Haswell)
#                                             and without AVX (Nehalem) would run it; on the CPU alone
#
# The archive is what scripts/portable.sh builds; with --check-only it is the last one. Nothing of this machine changes:
# emulators and drivers, Debian 13's, are unpacked below .cache/cross where this machine has none (0.8 GB for arm64, 0.7
# GB for wine). Needs an x86-64 Debian or Ubuntu with apt-get, dpkg-deb, cmake and ninja. The last lines say what was
# checked, and build/checked-TARGET when. Exit: 0 all passed, 1 something failed, 2 wrong usage.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-}
case "$target" in
  aarch64|windows|x86-64) shift ;;
  -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "cross.sh: aarch64, windows or x86-64 is expected, not '$target' (try --help)" >&2; exit 2 ;;
esac
cross=$PWD/.cache/cross
say() { printf 'cross: %s\n' "$*" >&2; }

# unpack install|download ARCH FOLDER PACKAGE..: the packages, with all that they need or alone, below .cache/cross/FOLDER,
# by an apt with a state of its own, which believes that nothing is installed.
unpack() {
  local how=$1 arch=$2 folder=$cross/$3; shift 3
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
  if [ "$how" = install ]; then how='--download-only install'; fi
  # shellcheck disable=SC2086  # two words
  (cd "$apt/archives" && apt-get "${options[@]}" $how "$@") >>"$apt/log" 2>&1 || { tail -5 "$apt/log" >&2; exit 1; }
  local package
  for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
  rm -f "$apt"/archives/*.deb
  local merged
  for merged in lib bin sbin; do [ -e "$folder/$merged" ] || ln -s "usr/$merged" "$folder/$merged"; done
  printf '%s' "$list" >"$folder/packages"
}

mkdir -p "$cross" build
failed=0 checked=''
check() { # WHAT COMMAND..: its last line says how many cases passed
  local what=$1 line; shift
  line=$("$@" | tail -1) || true
  say "$what: $line"
  checked+="$what: $line; "
  case "$line" in
    [1-9]*' passed, 0 failed, 0 skipped') ;;
    *) failed=1 ;;
  esac
}
case "$target" in
  x86-64)
    [ -x build/release/krafla ] || { say "there is no build/release/krafla: scripts/test.sh builds it"; exit 1; }
    emulator=$(command -v qemu-x86_64 || true)
    if [ -z "$emulator" ]; then
      unpack install amd64 qemu qemu-user
      emulator=$cross/qemu/usr/bin/qemu-x86_64
    fi
    for processor in Haswell Nehalem; do
      check "tests/models as $processor" "$emulator" -cpu "$processor" build/release/krafla check tests/models -d cpu --quiet
      if [ -n "${KRAFLA_CORPUS:-}" ]; then
        check "operations as $processor" "$emulator" -cpu "$processor" build/release/krafla check "$KRAFLA_CORPUS/ops" -d cpu --quiet
      fi
    done 2> >(grep -v "TCG doesn't support" >&2)
    printf '%s %s\n' "$(date -u +%FT%TZ)" "$checked" >"build/checked-$target"
    exit $failed
    ;;
  aarch64)
    unpack install arm64 arm64 libc6 libvulkan1 mesa-vulkan-drivers
    emulator=$(command -v qemu-aarch64 || true)
    if [ -z "$emulator" ]; then
      unpack install amd64 qemu qemu-user
      emulator=$cross/qemu/usr/bin/qemu-aarch64
    fi
    run() { "$emulator" -L "$cross/arm64" -E LD_LIBRARY_PATH="${libraries:-}" "$@"; }
    # Mesa's manifest names the driver by where Debian would have put it; qemu looks below its own folder first.
    export VK_DRIVER_FILES=$cross/arm64/usr/share/vulkan/icd.d/lvp_icd.json
    pattern='krafla-*-linux-aarch64.tar.gz' program=bin/krafla library=lib/libkrafla.so compiler=.cache/portable-aarch64/bin/cc
    # Under an emulator the driver's compiler takes minutes for a large network.
    on_vulkan=(tests/models/mlp-tiny tests/models/lenet-tiny tests/models/bert-tiny)
    ;;
  windows)
    wine=$(command -v wine || command -v wine64 || true)
    if [ -z "$wine" ]; then
      unpack download amd64 wine wine64 libwine libz-mingw-w64 libunwind8
      # Where they look for each other when they are not where Debian puts them.
      ln -sfn . "$cross/wine/usr/share/wine/wine"
      ln -sfn wineserver64 "$cross/wine/usr/lib/wine/wineserver"
      zlib=$cross/wine/usr/x86_64-w64-mingw32/lib/zlib1.dll
      cp "$zlib" "$cross/wine/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/"
      wine=$cross/wine/usr/lib/wine/wine64
      export LD_LIBRARY_PATH=$cross/wine/usr/lib/x86_64-linux-gnu
    fi
    export WINEPREFIX=$cross/wineprefix WINEDEBUG=-all
    run() { "$wine" "$@" | tr -d '\r'; }
    "$wine" cmd /c exit >/dev/null 2>&1 || true  # makes the prefix
    if [ -n "${zlib:-}" ]; then cp "$zlib" "$WINEPREFIX/drive_c/windows/system32/"; fi
    pattern='krafla-*-windows-x86_64.tar.gz' program=bin/krafla.exe library=bin/krafla.dll compiler=.cache/portable-windows/bin/cc
    on_vulkan=(tests/models)
    ;;
esac

if [ "${1:-}" != --check-only ]; then scripts/portable.sh "$target" --no-wheel; fi
archive=$(find build/packages -name "$pattern" -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -1 | cut -d' ' -f2-)
[ -n "$archive" ] || { say "there is no archive build/packages/$pattern: run scripts/cross.sh $target"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar xf "$archive" -C "$work" --strip-components=1

check 'tests/models on the CPU' run "$work/$program" check tests/models -d cpu --quiet
if [ -n "$(run "$work/$program" devices -q 2>/dev/null | grep vulkan || true)" ]; then
  for models in "${on_vulkan[@]}"; do
    check "$models on Vulkan" run "$work/$program" check "$models" -d vulkan --quiet
  done
else
  say "not run on Vulkan: $target finds no device here"
fi
# The C interface of the library, by a program that is linked with it. Its own check is its exit code.
frames=$work/${library%/*}/frames
if [ "$target" = windows ]; then frames=$frames.exe; fi
"$compiler" -std=c99 -O1 -I"$work/include" examples/c/frames.c -o "$frames" -L"$work/lib" -lkrafla
libraries=$work/lib
if run "$frames" examples/digits/model/module.hlo 20 >"$work/frames" 2>&1; then
  say "the example in C: $(tail -1 "$work/frames")"
else
  say "the example in C failed: $(tail -3 "$work/frames")"
  failed=1
fi
printf '%s %s\n' "$(date -u +%FT%TZ)" "$checked" >"build/checked-$target"
exit $failed
