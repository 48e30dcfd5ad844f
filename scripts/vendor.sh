#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Asks the shader compilers of GPU vendors about krafla's kernels, on a machine without a GPU (docs/vendors.md).
#
#   scripts/vendor.sh setup [native|intel|arm]   Mesa's shims, into .cache/vendor; without a word: all of them
#   scripts/vendor.sh check ...                  compile kernels for many chips and judge them: [--chip A,B] [--grid]
#                                                [--worst FIGURE] [--json F] [--dump FOLDER] [--disable FEATURE]
#                                                [--baseline | --write-baseline] [MODULE|FOLDER...]
#   scripts/vendor.sh record [CHIP...]           networks as if on those chips, watched by the validation layer
#   scripts/vendor.sh krafla CHIP ARGUMENT...    the command krafla as if on that chip; nothing executes
#   scripts/vendor.sh chips                      what there is, and whether its driver comes up here
#   scripts/vendor.sh profile [CHIP...]          capture tests/profiles/captured
#
# Nothing is installed: packages are unpacked below .cache/vendor. Mesa's Vulkan drivers themselves are those of the
# system (scripts/setup.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
  setup) ;;
  check|record|krafla|chips|profile) exec python3 bench/vendor "$@" ;;
  -h|--help|'') sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
  *) echo "vendor.sh: unknown command '$1' (try --help)" >&2; exit 2 ;;
esac

parts=("${@:2}")
[ ${#parts[@]} -gt 0 ] || parts=(native intel arm)
cache=$PWD/.cache/vendor
key=/usr/share/keyrings/debian-archive-keyring.gpg
triplet=x86_64-linux-gnu
mkdir -p "$cache"/{lib,bin,debs}

say() { printf 'vendor setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
for command in apt-get dpkg python3 g++; do
  command -v $command >/dev/null || die "'$command' is missing. The shims are taken from Debian's packages."
done
[ "$(dpkg --print-architecture)" = amd64 ] || die "The shims are set up on amd64 only."

# The archive's address, as this machine's own sources name it.
archive=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
  awk '/^URIs:/ {print $2} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) print $i}' |
  awk '/\/debian\/?$/ && !seen++' | head -n 1 || true)
[ -n "$archive" ] || die "No Debian archive is among this machine's apt sources."

# apt with folders of its own, so that suites which the machine does not use can be read: private_apt ARCH ARGUMENT...
private_apt() {
  local arch=$1 dir=$cache/apt/$1
  shift
  apt-get -q -o Dpkg::Use-Pty=0 -o APT::Architecture="$arch" -o APT::Architectures::="$arch" -o Dir::State="$dir/state" \
    -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" -o Dir::Etc::sourcelist="$dir/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null \
    -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
}
# sources ARCH SUITE...: names the suites and reads their lists, once.
sources() {
  local arch=$1 dir=$cache/apt/$1 suite
  shift
  [ ! -e "$dir/read" ] || return 0
  mkdir -p "$dir"/state/lists/partial "$dir"/cache/archives/partial
  : > "$dir/status"
  for suite in "$@"; do
    if [[ $suite = source:* ]]; then echo "deb-src [signed-by=$key] $archive ${suite#source:} main"
    else echo "deb [arch=$arch signed-by=$key] $archive $suite main"; fi
  done > "$dir/sources.list"
  say "reading the package lists of $* ($arch)"
  private_apt "$arch" update -o APT::Update::Error-Mode=any >"$dir/update.log" 2>&1 || {
    grep -E '^(E|Err|W)' "$dir/update.log" >&2 || true
    die "The suites '$*' cannot be read from $archive."
  }
  touch "$dir/read"
}
# unpack FOLDER PACKAGE[/SUITE]...: native packages, unpacked.
unpack() {
  local into=$1 package
  shift
  mkdir -p "$into"
  for package in "$@"; do
    rm -rf "$cache/debs/one" && mkdir "$cache/debs/one"
    (cd "$cache/debs/one" && private_apt amd64 download "$package" >/dev/null) ||
      die "The package '$package' cannot be had."
    dpkg -x "$cache"/debs/one/*.deb "$into"
  done
}

# AMD, NVIDIA, Adreno, Apple. The shim for NVIDIA is that of sid: the one of Mesa 26.1 ends with Ampere, that of 26.2
# knows Ada, Hopper and Blackwell and works with the older driver too.
native() {
  local shim
  [ -e "$cache/lib/libamdgpu_noop_drm_shim.so" ] && [ -e "$cache/lib/libnouveau_noop_drm_shim.so" ] && return
  sources amd64 trixie trixie-backports sid source:trixie
  say "unpacking mesa-drm-shim"
  unpack "$cache/shims" mesa-drm-shim/trixie-backports
  unpack "$cache/shims-sid" mesa-drm-shim/sid
  for shim in amdgpu freedreno asahi; do
    cp "$cache/shims/usr/lib/$triplet/lib${shim}_noop_drm_shim.so" "$cache/lib/"
  done
  cp "$cache/shims-sid/usr/lib/$triplet/libnouveau_noop_drm_shim.so" "$cache/lib/"
}

# Intel's shim is not packaged: it is built from the source of trixie's Mesa, which later drivers work with.
intel() {
  local tools=$cache/tools source build=$cache/mesa-build
  [ ! -e "$cache/lib/libintel_noop_drm_shim.so" ] || return 0
  sources amd64 trixie trixie-backports sid source:trixie
  if [ ! -e "$tools/ready" ]; then
    say "unpacking what builds Intel's shim"
    unpack "$tools" meson/trixie python3-mako/trixie python3-markupsafe/trixie python3-yaml/trixie \
      python3-packaging/trixie bison/trixie flex/trixie m4/trixie ninja-build/trixie pkgconf-bin/trixie libpkgconf3/trixie libdrm-dev/trixie \
      libdrm2/trixie libpciaccess-dev/trixie libpciaccess0/trixie zlib1g-dev/trixie zlib1g/trixie libexpat1-dev/trixie \
      libexpat1/trixie
    sed -i "s|^prefix=.*|prefix=$tools/usr|" "$tools"/usr/lib/$triplet/pkgconfig/*.pc
    touch "$tools/ready"
  fi
  if ! compgen -G "$cache/mesa/mesa_*.orig.tar.xz" >/dev/null; then
    say "fetching Mesa's source"
    mkdir -p "$cache/mesa"
    (cd "$cache/mesa" && private_apt amd64 source --download-only mesa/trixie >/dev/null) ||
      die "The source package 'mesa' of trixie cannot be had."
  fi
  if [ ! -e "$cache/mesa/unpacked" ]; then
    tar -C "$cache/mesa" -xf "$cache"/mesa/mesa_*.orig.tar.xz
    touch "$cache/mesa/unpacked"
  fi
  source=$(dirname "$cache"/mesa/mesa-*/meson.build)
  say "building Intel's shim (minutes)"
  # The tools find each other and their data where they were unpacked.
  (
    export PATH=$tools/usr/bin:$PATH PYTHONPATH=$tools/usr/lib/python3/dist-packages
    export LD_LIBRARY_PATH=$tools/usr/lib/$triplet BISON_PKGDATADIR=$tools/usr/share/bison M4=$tools/usr/bin/m4
    export PKG_CONFIG=$tools/usr/bin/pkgconf
    export PKG_CONFIG_LIBDIR=$tools/usr/lib/$triplet/pkgconfig:$tools/usr/share/pkgconfig
    [ -e "$build/build.ninja" ] || nice meson setup "$build" "$source" -Dbuildtype=release -Dtools=drm-shim,intel \
      -Dvulkan-drivers= -Dgallium-drivers= -Dopengl=false -Dgles1=disabled -Dgles2=disabled -Degl=disabled -Dgbm=disabled \
      -Dglx=disabled -Dplatforms= -Dllvm=disabled -Dvalgrind=disabled -Dlibunwind=disabled -Dbuild-tests=false \
      -Dzstd=disabled -Dglvnd=disabled
    nice ninja -C "$build" src/intel/tools/libintel_noop_drm_shim.so
  ) >"$cache/intel.log" 2>&1 || {
    tail -n 20 "$cache/intel.log" >&2
    die "Intel's shim could not be built ($cache/intel.log)."
  }
  cp "$build/src/intel/tools/libintel_noop_drm_shim.so" "$cache/lib/"
  rm -rf "$build" "$cache/mesa" "$tools"
}

# Mali: arm64's driver and shim under qemu's user emulation, and the program that compiles kernels, for arm64.
arm() {
  local root=$cache/arm64/root deb
  if [ ! -e "$root/ready" ]; then
    sources arm64 trixie trixie-backports
    say "fetching the arm64 driver (about 90 MB)"
    private_apt arm64 -y --no-install-recommends -d install mesa-vulkan-drivers/trixie-backports \
      mesa-drm-shim/trixie-backports libvulkan1 libvulkan-dev libstdc++-14-dev libc6-dev >"$cache/arm64.log" 2>&1 ||
      { tail -n 5 "$cache/arm64.log" >&2; die "The arm64 packages cannot be had."; }
    mkdir -p "$root"
    for deb in "$cache"/apt/arm64/cache/archives/*.deb; do dpkg -x "$deb" "$root"; done
    [ -e "$root/lib" ] || ln -s usr/lib "$root/lib"
    dpkg-deb -f "$cache"/apt/arm64/cache/archives/mesa-vulkan-drivers_*.deb Version > "$root/ready"
    rm -rf "$cache"/apt/arm64/cache/archives "$root"/usr/lib/aarch64-linux-gnu/libLLVM*  # which only lavapipe needs
  fi
  if [ ! -e "$cache/arm64/usr/bin/qemu-aarch64" ] || [ ! -e "$cache/arm64/usr/bin/ld.lld-19" ]; then
    sources amd64 trixie trixie-backports sid source:trixie
    say "unpacking qemu-user and a linker"
    unpack "$cache/arm64" qemu-user/trixie lld-19/trixie
    find "$cache/arm64/usr/bin" -name 'qemu-*' ! -name qemu-aarch64 -delete
  fi
}

for part in "${parts[@]}"; do
  case $part in
    native|intel|arm) $part ;;
    *) die "Unknown part '$part': native, intel or arm." ;;
  esac
done
rm -rf "$cache/debs"
exec python3 bench/vendor chips
