# SPDX-License-Identifier: Apache-2.0
# Android's NDK, r29 or later (its C++ library has <stop_token>), which ANDROID_NDK_HOME names. Preset android, and
# scripts/portable.sh android, which builds the libraries that krafla links below KRAFLA_PORTABLE.
if(NOT DEFINED ENV{ANDROID_NDK_HOME} OR NOT EXISTS "$ENV{ANDROID_NDK_HOME}/build/cmake/android.toolchain.cmake")
  message(FATAL_ERROR "ANDROID_NDK_HOME has to name the folder of Android's NDK, r29 or later; it is '$ENV{ANDROID_NDK_HOME}'.")
endif()
set(ANDROID_ABI arm64-v8a CACHE STRING "arm64-v8a or x86_64")
# Android 10: the first whose devices must have Vulkan 1.1.
set(ANDROID_PLATFORM android-29 CACHE STRING "The oldest version of Android's interface")
# Within libkrafla.so: nobody else has to bring it.
set(ANDROID_STL c++_static CACHE STRING "")
include("$ENV{ANDROID_NDK_HOME}/build/cmake/android.toolchain.cmake")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES KRAFLA_PORTABLE)
if(NOT KRAFLA_PORTABLE)
  get_filename_component(KRAFLA_PORTABLE "${CMAKE_CURRENT_LIST_DIR}/../../.cache/portable-android" ABSOLUTE)
endif()
list(APPEND CMAKE_FIND_ROOT_PATH ${KRAFLA_PORTABLE})
foreach(language C CXX)
  string(APPEND CMAKE_${language}_FLAGS_INIT " -isystem ${KRAFLA_PORTABLE}/include -ffunction-sections -fdata-sections")
endforeach()
# Pages of 16 KiB, which Android 15 has.
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -Wl,--gc-sections -Wl,-z,max-page-size=16384")
