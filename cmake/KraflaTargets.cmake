# SPDX-License-Identifier: Apache-2.0
# One static library per room of the house, all with the same flags and the same precompiled header.
find_program(CCACHE ccache)
if(CCACHE)
  # Without the sloppiness ccache would refuse every file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
# -O3 costs a third more build time here and gains nothing outside the CPU kernels, which ask for it themselves.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
if(KRAFLA_SANITIZE)
  # The checks cost more than what -O2 gains, and a batch compiles in half of the time; -g1 names functions and lines.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
endif()
# Half of a small file's time goes into headers and templates that all files of a room share, so they are compiled
# in batches (docs/decisions/0010-batches.md). -DCMAKE_UNITY_BUILD=OFF compiles each alone.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
if(CMAKE_BUILD_TYPE STREQUAL "MinSizeRel")
  # What loads compiled models, for apps (docs/ahead-of-time.md). Tables that unwind from anywhere are for debuggers;
  # exceptions need those of calls alone.
  set(CMAKE_CXX_FLAGS_MINSIZEREL "-Oz -DNDEBUG")
  add_compile_options(-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables)
  add_link_options(LINKER:--gc-sections)
  # A sixth less once the linker sees all functions, where the compiler has that.
  include(CheckIPOSupported)
  check_ipo_supported(RESULT KRAFLA_LINK_TIME_OPTIMISATION LANGUAGES CXX)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # CMake's choice is -flto=thin, which copies functions into the files that call them.
    set(CMAKE_CXX_COMPILE_OPTIONS_IPO -flto)
    set(CMAKE_CXX_LINK_OPTIONS_IPO -flto)
  endif()
  set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ${KRAFLA_LINK_TIME_OPTIMISATION})
endif()
if(APPLE AND NOT CMAKE_HOST_APPLE)
  # CMake asks the host for its version of macOS, and elsewhere takes it for one that had no @rpath.
  foreach(language C CXX)
    set(CMAKE_SHARED_LIBRARY_RUNTIME_${language}_FLAG "-Wl,-rpath,")
  endforeach()
endif()
find_package(Threads REQUIRED)
include(GNUInstallDirs)

add_library(krafla_flags INTERFACE)
target_include_directories(krafla_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(krafla_flags INTERFACE
  -Wall -Wextra -Wshadow -Werror -Werror=switch-enum
  # Formulas keep their bits on every machine: docs/decisions/0003-same-bits.md.
  -ffp-contract=off -fno-math-errno
  -fvisibility=hidden -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 14 reports these wrongly inside std::vector, std::format and std::expected.
  target_compile_options(krafla_flags INTERFACE -fpch-preprocess
    # Its garbage collector starts at 128 MiB, which every file reaches: a twelfth of the build's time.
    --param=ggc-min-heapsize=524288
    -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-array-bounds
    -Wno-free-nonheap-object -Wno-dangling-reference
    # Within a batch it takes every file for a header.
    -Wno-subobject-linkage)
endif()
target_compile_definitions(krafla_flags INTERFACE _GLIBCXX_ASSERTIONS)
if(NOT WIN32)
  target_link_options(krafla_flags INTERFACE -Wl,-z,relro,-z,now)
endif()
if(KRAFLA_SANITIZE)
  target_compile_options(krafla_flags INTERFACE -fsanitize=${KRAFLA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  target_link_options(krafla_flags INTERFACE -fsanitize=${KRAFLA_SANITIZE})
endif()

# krafla_batches(RESULT LEAST MOST OFTEN file...): for each of the files, in their order, the name of its batch, which is
# that of the batch's first file. Of LEAST to MOST neighbours; a file whose name hashes to a multiple of OFTEN begins the
# next one, so that a new file changes the batch it is in, where counting would move all that follow.
function(krafla_batches result least most often)
  set(names)
  set(size ${most})
  foreach(file IN LISTS ARGN)
    get_filename_component(name ${file} NAME)
    string(MD5 hash ${name})
    string(SUBSTRING ${hash} 0 4 hash)
    math(EXPR hash "0x${hash} % ${often}")
    if(size GREATER_EQUAL most OR (size GREATER_EQUAL least AND hash EQUAL 0))
      file(RELATIVE_PATH batch ${CMAKE_CURRENT_SOURCE_DIR} ${file})
      string(MAKE_C_IDENTIFIER ${batch} batch)
      set(size 0)
    endif()
    list(APPEND names ${batch})
    math(EXPR size "${size} + 1")
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()
# The unity builds of a room's target, of some 25 files each: once the folder's CMakeLists.txt is read, as that may add
# files, and say of some that they are compiled alone.
function(krafla_batch_room target)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL krafla_batch_room_now ${target})")
endfunction()
function(krafla_batch_room_now target)
  get_target_property(given ${target} SOURCES)
  list(FILTER given INCLUDE REGEX "\\.cpp$")
  set(together)
  foreach(source IN LISTS given)
    get_filename_component(source ${source} ABSOLUTE)
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(included ${source} HEADER_FILE_ONLY)
    if(NOT alone AND NOT included)
      list(APPEND together ${source})
    endif()
  endforeach()
  krafla_batches(batches 20 40 6 ${together})
  foreach(source batch IN ZIP_LISTS together batches)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# krafla_room(NAME DEPENDS lib...): a static library krafla_NAME from every .cpp below this folder.
function(krafla_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    add_library(krafla_${name} INTERFACE)
    target_link_libraries(krafla_${name} INTERFACE krafla_flags ${ARG_DEPENDS})
    return()
  endif()
  add_library(krafla_${name} STATIC ${sources})
  krafla_batch_room(krafla_${name})
  target_link_libraries(krafla_${name} PUBLIC krafla_flags ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE_DEPENDS})
  # Rooms that have no implicit conversion which may lose a value, so that they stay so. Clang's option asks for more.
  if(name MATCHES "^(base|numerics|device|ir|hlo_io|transport|collectives|vk_runtime|api)$" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(krafla_${name} PRIVATE -Wconversion)
  endif()
  if(NOT name STREQUAL "base" AND NOT KRAFLA_SANITIZE)
    # Rooms that see the IR share its headers too, parsed once.
    if(name MATCHES "^(device|ir|builder|hlo_io|onnx|recorded|evaluator|passes|plan|spirv_codegen|vk_runtime|api)$")
      # They run once a program, or wait for a driver: -O1 saves more time in every build than it costs in any run.
      target_compile_options(krafla_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
      target_precompile_headers(krafla_${name} REUSE_FROM krafla_ir_headers_once)
    elseif(name MATCHES "^(cpu|collectives)$")
      target_precompile_headers(krafla_${name} REUSE_FROM krafla_ir_headers)
    else()
      target_precompile_headers(krafla_${name} REUSE_FROM krafla_base)
    endif()
  endif()
endfunction()

# The owners of the precompiled headers of the rooms above the IR: of those that work in every run, and of those that
# work once a program.
if(NOT KRAFLA_SANITIZE)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/ir_headers.cpp CONTENT "// nothing but the precompiled header\n")
  foreach(owner krafla_ir_headers krafla_ir_headers_once)
    add_library(${owner} STATIC ${PROJECT_BINARY_DIR}/ir_headers.cpp)
    target_link_libraries(${owner} PRIVATE krafla_flags)
    target_precompile_headers(${owner} PRIVATE
      <algorithm> <array> <bit> <cmath> <cstdint> <cstring> <expected> <format> <functional> <limits> <map> <memory>
      <optional> <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>
      ${PROJECT_SOURCE_DIR}/src/ir/module.h ${PROJECT_SOURCE_DIR}/include/krafla/literal.h)
  endforeach()
  target_compile_options(krafla_ir_headers_once PRIVATE $<$<CONFIG:Release>:-O1>)
endif()

# krafla_take_engine(TARGET ENGINE): the program or plugin TARGET is the static library ENGINE with all that it needs: in
# libkrafla.so, which is linked, or within itself.
function(krafla_take_engine target engine)
  if(NOT KRAFLA_ONE_LIBRARY)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_link_libraries(${target} PRIVATE ${engine})
    else()  # nothing in the plugin names what it exports
      target_link_libraries(${target} PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,${engine}>)
    endif()
    return()
  endif()
  # The plugin names nothing of the library: whoever opens it looks there.
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  # With the flags of a sanitizer, whose runtime has to be the first library that a program loads.
  target_link_libraries(${target} PRIVATE krafla_flags libkrafla)
  get_target_property(type ${target} TYPE)
  set(beside "$ORIGIN")
  if(APPLE)
    set(beside "@loader_path")
  endif()
  if(type STREQUAL "EXECUTABLE")
    file(RELATIVE_PATH libraries /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${beside}/${libraries}")
  else()
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "${beside}")
  endif()
endfunction()
