# SPDX-License-Identifier: Apache-2.0
# clang with its own C++ library, linked in, and the C library of a system and a version that KRAFLA_PORTABLE_TARGET
# names (x86_64-linux-gnu.2.28). scripts/portable.sh makes the compilers and the libraries below KRAFLA_PORTABLE.
set(CMAKE_SYSTEM_NAME Linux)
if(KRAFLA_PORTABLE_TARGET MATCHES "windows")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(KRAFLA_PORTABLE_TARGET MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
  # There is no SDK of Apple's: zig has the headers of macOS's C library, and what to link with.
  set(CMAKE_OSX_SYSROOT "")
  # Names and places of libraries are right when they are linked: there is no tool here that changes them afterwards.
  set(CMAKE_INSTALL_NAME_TOOL ${KRAFLA_PORTABLE}/bin/install_name_tool)
  set(CMAKE_OSX_DEPLOYMENT_TARGET 13.3)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
endif()
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${KRAFLA_PORTABLE_TARGET}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KRAFLA_PORTABLE KRAFLA_PORTABLE_TARGET)
set(CMAKE_C_COMPILER ${KRAFLA_PORTABLE}/bin/cc)
set(CMAKE_CXX_COMPILER ${KRAFLA_PORTABLE}/bin/c++)
set(CMAKE_AR ${KRAFLA_PORTABLE}/bin/ar)
set(CMAKE_RANLIB ${KRAFLA_PORTABLE}/bin/ranlib)
# Those for link-time optimisation.
set(CMAKE_CXX_COMPILER_AR ${CMAKE_AR})
set(CMAKE_CXX_COMPILER_RANLIB ${CMAKE_RANLIB})
set(CMAKE_FIND_ROOT_PATH ${KRAFLA_PORTABLE})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# What nobody calls is left out: most of Highway's sorts, for one.
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_INIT "-isystem ${KRAFLA_PORTABLE}/include -ffunction-sections -fdata-sections")
endforeach()
# Stripped as they are linked: the machine's own strip may not know the target.
set(unneeded -Wl,--gc-sections)
if(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
  set(unneeded -Wl,-dead_strip)
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s ${unneeded}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s ${unneeded}")
