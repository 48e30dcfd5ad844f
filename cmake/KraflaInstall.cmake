# SPDX-License-Identifier: Apache-2.0
# One shared library with the public headers: the target krafla::krafla, here and after `cmake --install`.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(libkrafla SHARED ${PROJECT_SOURCE_DIR}/cmake/library.cpp)
add_library(krafla::krafla ALIAS libkrafla)
set_target_properties(libkrafla PROPERTIES OUTPUT_NAME krafla EXPORT_NAME krafla)
if(WIN32)
  set_target_properties(libkrafla PROPERTIES PREFIX "" IMPORT_PREFIX "" IMPORT_SUFFIX ".lib")  # krafla.dll and krafla.lib
endif()
# A Python wheel cannot hold the links that a version brings.
if(NOT SKBUILD)
  set_target_properties(libkrafla PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
endif()
target_compile_features(libkrafla PUBLIC cxx_std_23)
if(KRAFLA_SANITIZE)
  # The sanitizer's runtime has to be the first that a program loads, so the program needs it itself.
  target_link_options(libkrafla INTERFACE -fsanitize=${KRAFLA_SANITIZE})
endif()
target_include_directories(libkrafla PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# The rooms that define what the public headers declare go in whole; the others as far as those need them.
set(whole krafla_base krafla_ir krafla_builder krafla_onnx krafla_api)
if(KRAFLA_RUNTIME_ONLY)
  list(REMOVE_ITEM whole krafla_builder krafla_onnx)
endif()
set(private_names "")
if(KRAFLA_ONE_LIBRARY)
  # The command and the plugin have their engine here.
  list(APPEND whole krafla_command)
  string(APPEND private_names "KraflaCommand; ")
  if(KRAFLA_PJRT)
    list(APPEND whole krafla_plugin)
    string(APPEND private_names "GetPjrtApi; krafla_set_python_callback; ")
  endif()
endif()
target_link_libraries(libkrafla PRIVATE ${whole})
foreach(room IN LISTS whole)
  list(APPEND archives $<TARGET_FILE:${room}>)
endforeach()
target_link_options(libkrafla PRIVATE LINKER:--whole-archive ${archives} LINKER:--no-whole-archive)
include(${CMAKE_CURRENT_LIST_DIR}/KraflaExports.cmake)
set_target_properties(libkrafla PROPERTIES LINK_DEPENDS "${archives};${map}")

install(TARGETS libkrafla EXPORT kraflaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT sdk
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT sdk)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/krafla ${PROJECT_BINARY_DIR}/generated/include/krafla
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(EXPORT kraflaTargets NAMESPACE krafla:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/krafla COMPONENT sdk)
file(WRITE ${PROJECT_BINARY_DIR}/kraflaConfig.cmake "include(\${CMAKE_CURRENT_LIST_DIR}/kraflaTargets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kraflaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kraflaConfig.cmake ${PROJECT_BINARY_DIR}/kraflaConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/krafla COMPONENT sdk)
if(TARGET krafla)
  install(TARGETS krafla RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
endif()
# `krafla demo` from a wheel: python/krafla says where its network is.
if(SKBUILD)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/digits/model/ DESTINATION share/digits COMPONENT tool)
endif()
