#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what krafla needs to build, run and be tested. Safe to run again: does nothing when all is there.
#
#   scripts/setup.sh          what the build and the demo need (with lavapipe, Mesa's CPU Vulkan driver)
#   scripts/setup.sh --test   that, and SwiftShader as a second Vulkan driver, validation layers, clang and its
#                             tools, doxygen, Python's venv, Rust, OpenMPI and Gloo, what the example in
#                             examples/llm reads texts with
#   --yes                     asks nothing: otherwise, on a terminal, it asks before packages that are there are
#                             replaced or removed, as on Debian 12
#
# Debian 13+, Ubuntu 25.10+: the distribution's own packages (on Debian 13, Mesa from its backports).
# Debian 12: the same packages from trixie, pinned low so that nothing else moves.
# docs/decisions/0002-debian-13-packages.md says why.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=build ask=yes
[ -t 0 ] && [ -t 2 ] || ask=no
for argument; do
  case "$argument" in
    --test) mode=test ;;
    --yes) ask=no ;;
    -h|--help) sed -n '3,/^[^#]/{s/^# \{0,1\}//p}' "$0"; exit 0 ;;
    *) echo "setup.sh: unknown argument '$argument' (try --help)" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*" >&2; }

build_packages=(
  g++-14 cmake ninja-build ccache pkgconf git
  libvulkan-dev libvulkan-volk-dev spirv-headers spirv-tools glslang-tools
  libvulkan-memory-allocator-dev libhwy-dev libdnnl-dev libasmjit-dev libprotozero-dev
  libcli11-dev nlohmann-json3-dev zlib1g-dev libxxhash-dev libgtest-dev libbenchmark-dev
)
mesa_packages=(mesa-vulkan-drivers mesa-libgallium)
test_packages=(
  vulkan-tools vulkan-validationlayers clang-19 libclang-rt-19-dev clang-format-19 clang-tidy-19 doxygen
  python3 python3-venv binutils xz-utils abigail-tools rustc
  libpcre2-dev libsentencepiece-dev  # examples/llm
  libopenmpi-dev openmpi-bin libgloo-dev
)
swiftshader_dir=.cache/swiftshader

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed$'; }

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "this is not a Debian or Ubuntu system. Install the counterparts of:"
  printf '  %s\n' "${build_packages[@]}" "${mesa_packages[@]}" >&2
  exit 1
fi

wanted=("${build_packages[@]}")
[ $mode = test ] && wanted+=("${test_packages[@]}")
missing=()
for p in "${wanted[@]}"; do installed "$p" || missing+=("$p"); done
mesa_missing=()
for p in "${mesa_packages[@]}"; do installed "$p" || mesa_missing+=("$p"); done

# shellcheck disable=SC1091
. /etc/os-release
id=${ID:-unknown} version=${VERSION_ID:-0}
# Debian 12 calls itself 13 once base-files has come along with an earlier run of this script.
[ ! -e /etc/apt/sources.list.d/krafla-trixie.sources ] || version=12

# A Mesa older than 25.1 has no cooperative matrices on lavapipe.
mesa_version() { dpkg-query -W -f='${Version}' mesa-vulkan-drivers 2>/dev/null || echo 0; }
if [ "$id" = debian ] && dpkg --compare-versions "$(mesa_version)" lt 25.1; then
  mesa_missing=("${mesa_packages[@]}")
fi
# Debian 12's own headers, volk and SPIR-V tools are too old even when they are installed.
if [ "$id" = debian ] && [ "$version" = 12 ]; then
  for p in libvulkan-dev spirv-headers spirv-tools glslang-tools libvulkan-memory-allocator-dev libhwy-dev libdnnl-dev libasmjit-dev; do
    if installed "$p" && ! dpkg-query -W -f='${Version}' "$p" | grep -qE '~bpo13|^(1\.4|1\.6|2025|3\.|15|16|1\.[2-9]|0\.0~git2023)'; then missing+=("$p"); fi
  done
fi

if [ ${#missing[@]} -eq 0 ] && [ ${#mesa_missing[@]} -eq 0 ]; then
  say "every package is here"
else
  if [ "$(id -u)" != 0 ] && ! sudo -n true 2>/dev/null; then
    say "no root here. Ask for these packages:"
    printf '  %s\n' "${missing[@]}" "${mesa_missing[@]}" >&2
    exit 1
  fi
  sudo=(); [ "$(id -u)" = 0 ] || sudo=(sudo)
  apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@"; }

  # The archive's address, as this machine's own sources name it.
  archive() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
      awk '/^URIs:/ {print $2} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /:\/\//) print $i}' |
      awk '/\/debian\/?$/ && !seen++'
  }
  add_source() { # name, suites
    local uri; uri=$(archive || true)
    [ -n "$uri" ] || { say "no Debian archive among this machine's apt sources"; exit 1; }
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' \
      "$uri" "$2" | "${sudo[@]}" tee "/etc/apt/sources.list.d/krafla-$1.sources" >/dev/null
  }

  target=() mesa_suite=
  if [ "$id" = debian ] && [ "$version" = 12 ]; then
    say "Debian 12: taking the packages from Debian 13 (pinned; libc6 and libstdc++ come along)"
    add_source trixie "trixie trixie-backports"
    printf 'Package: *\nPin: release n=trixie*\nPin-Priority: 50\n' |
      "${sudo[@]}" tee /etc/apt/preferences.d/krafla-trixie >/dev/null
    target=(-t trixie) mesa_suite=/trixie-backports
  elif [ "$id" = debian ]; then
    if [ "$version" = 13 ]; then
      add_source backports "trixie-backports"
      mesa_suite=/trixie-backports
    fi
  fi

  say "refreshing package lists"
  apt update
  keep=()
  if [ "$id" = debian ] && [ "$version" = 12 ]; then
    # These depend on the libraries that move; named here, apt moves them along instead of removing them.
    for p in gdb linux-perf valgrind; do installed "$p" && keep+=("$p"); done
  fi
  # Says which of the packages that are here would be replaced or removed, and asks on a terminal.
  agree() {
    local plan replaced removed answer
    plan=$(apt install --simulate "$@" 2>/dev/null) || return 0  # the installation itself says what is wrong
    replaced=$(awk '$1 == "Inst" && $3 ~ /^\[/ {gsub(/[][]/, "", $3); gsub(/\(/, "", $4); print $2 " " $3 " -> " $4}' <<<"$plan")
    removed=$(awk '$1 == "Remv" {print $2}' <<<"$plan" | tr '\n' ' ')
    [ -n "$replaced$removed" ] || return 0
    [ -z "$replaced" ] || { say "this replaces packages that are installed:"; sed 's/^/  /' <<<"$replaced" >&2; }
    [ -z "$removed" ] || say "this removes: $removed"
    [ $ask = yes ] || return 0
    read -r -p 'setup: go on? [y/N] ' answer || answer=n
    case "$answer" in [yY]|[yY][eE][sS]) ask=no ;; *)
      "${sudo[@]}" rm -f /etc/apt/sources.list.d/krafla-{trixie,backports}.sources /etc/apt/preferences.d/krafla-trixie
      say "nothing was installed. docs/ci.md has a container file, which changes nothing here."
      exit 1 ;;
    esac
  }
  if [ ${#missing[@]} -gt 0 ]; then
    agree --no-install-recommends "${target[@]}" "${missing[@]}" "${keep[@]}"
    say "installing: ${missing[*]}"
    apt install --no-install-recommends "${target[@]}" "${missing[@]}" "${keep[@]}"
  fi
  if [ ${#mesa_missing[@]} -gt 0 ]; then
    agree --no-install-recommends "${target[@]}" "${mesa_missing[@]/%/$mesa_suite}"
    say "installing Mesa's Vulkan drivers"
    apt install --no-install-recommends "${target[@]}" "${mesa_missing[@]/%/$mesa_suite}"
  fi
fi

if [ $mode = test ] && [ "$(dpkg --print-architecture)" = amd64 ] && [ ! -e $swiftshader_dir/vk_swiftshader_icd.json ]; then
  say "unpacking SwiftShader from chromium-common into $swiftshader_dir"
  mkdir -p $swiftshader_dir
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  chmod 755 "$work"
  if (cd "$work" && apt-get -q download chromium-common) && dpkg -x "$work"/chromium-common_*.deb "$work/x"; then
    cp "$work"/x/usr/lib/chromium/libvk_swiftshader.so "$work"/x/usr/lib/chromium/vk_swiftshader_icd.json $swiftshader_dir/
  else
    say "SwiftShader could not be had; the tests will run on the other drivers and say so"
  fi
fi
say "done"
