# SPDX-License-Identifier: Apache-2.0
# Included before project(): takes the newest C++23 compiler that is here where nobody named one. The system's own is
# often too old: Debian 12's g++ is version 12, and pip knows nothing of CMake's presets.
set(named ON)
if(NOT CMAKE_CXX_COMPILER AND NOT CMAKE_C_COMPILER AND NOT CMAKE_TOOLCHAIN_FILE)
  if(NOT DEFINED ENV{CXX} AND NOT DEFINED ENV{CC})
    set(named OFF)
  elseif(SKBUILD AND "$ENV{CXX}" MATCHES "^(g[+][+]|c[+][+])$")
    # pip's back end names the compiler that Python itself was built with, where its user names none.
    set(named OFF)
  endif()
endif()
if(NOT named)
  foreach(version RANGE 19 14)
    find_program(KRAFLA_GXX g++-${version})
    find_program(KRAFLA_GCC gcc-${version})
    if(KRAFLA_GXX AND KRAFLA_GCC)
      set(CMAKE_CXX_COMPILER ${KRAFLA_GXX})
      set(CMAKE_C_COMPILER ${KRAFLA_GCC})
      break()
    endif()
    unset(KRAFLA_GXX CACHE)
    unset(KRAFLA_GCC CACHE)
  endforeach()
endif()

# After project(): one sentence in place of a page of errors about headers that are not there.
macro(krafla_require_cxx23)
  include(CheckCXXSourceCompiles)
  # LLVM's library before 20 keeps <stop_token> behind a flag.
  check_cxx_source_compiles("
    #include <version>
    #if !defined(_LIBCPP_VERSION) || _LIBCPP_VERSION >= 200000
    #error
    #endif
    int main() {}" KRAFLA_OLD_LIBCXX)
  if(KRAFLA_OLD_LIBCXX)
    string(APPEND CMAKE_CXX_FLAGS " -fexperimental-library")
  endif()
  set(CMAKE_REQUIRED_FLAGS "${CMAKE_CXX23_STANDARD_COMPILE_OPTION}")
  check_cxx_source_compiles("
    #include <expected>
    #include <format>
    #include <stop_token>
    int main() {
      return std::expected<int, int>(0).value() + static_cast<int>(std::format(\"{}\", 1).size()) - 1 +
             std::stop_token().stop_requested();
    }" KRAFLA_CXX23_LIBRARY)
  unset(CMAKE_REQUIRED_FLAGS)
  if(NOT KRAFLA_CXX23_LIBRARY)
    message(FATAL_ERROR
      "krafla needs C++23 with <format>, <expected> and <stop_token>, which ${CMAKE_CXX_COMPILER} "
      "(${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}) does not have. Install g++-14 (scripts/setup.sh does), or "
      "name another compiler by CC and CXX.")
  endif()
endmacro()

# All that is missing in one message, rather than one package at a time.
macro(krafla_require_packages)
  set(missing "")
  set(wanted hwy/highway.h:libhwy-dev protozero/pbf_reader.hpp:libprotozero-dev CLI/CLI.hpp:libcli11-dev
    nlohmann/json.hpp:nlohmann-json3-dev zlib.h:zlib1g-dev xxhash.h:libxxhash-dev)
  if(KRAFLA_VULKAN)
    list(APPEND wanted vulkan/vulkan.h:libvulkan-dev volk.h:libvulkan-volk-dev vk_mem_alloc.h:libvulkan-memory-allocator-dev)
  endif()
  foreach(pair IN LISTS wanted)
    string(REPLACE ":" ";" pair ${pair})
    list(GET pair 0 header)
    list(GET pair 1 package)
    find_path(KRAFLA_WHERE ${header} PATH_SUFFIXES volk vma NO_CACHE)
    if(NOT KRAFLA_WHERE)
      string(APPEND missing " ${package} (${header})")
    endif()
    unset(KRAFLA_WHERE)
  endforeach()
  if(KRAFLA_VULKAN AND NOT KRAFLA_GLSLANG)
    string(APPEND missing " glslang-tools (glslangValidator)")
  endif()
  if(missing)
    message(FATAL_ERROR "krafla's build needs what is not here:${missing}. scripts/setup.sh installs them on Debian and Ubuntu.")
  endif()
endmacro()
