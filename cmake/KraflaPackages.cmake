# SPDX-License-Identifier: Apache-2.0
# What an installation has beside the programs: the licence, notices and an SBOM (SPDX 2.3) of what krafla is built with,
# a pkg-config file; and packages of it: `cpack --config build/release/CPackConfig.cmake -G DEB` (or TGZ), in build/packages.
set(about ${PROJECT_BINARY_DIR}/about)
set(dependencies ${PROJECT_SOURCE_DIR}/cmake/dependencies.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${dependencies})

# What was found below, found again here, where its version can be seen.
find_package(hwy QUIET)
find_package(nlohmann_json QUIET)
find_package(CLI11 QUIET)
find_package(dnnl CONFIG QUIET)
get_target_property(krafla_cpu_libraries krafla_cpu LINK_LIBRARIES)

# The version of a dependency, as what found it says; NOASSERTION where nothing does.
function(krafla_version_of name out)
  set(version NOASSERTION)
  if(name STREQUAL "Highway" AND hwy_VERSION)
    set(version ${hwy_VERSION})
  elseif(name STREQUAL "nlohmann-json" AND nlohmann_json_VERSION)
    set(version ${nlohmann_json_VERSION})
  elseif(name STREQUAL "CLI11" AND CLI11_VERSION)
    set(version ${CLI11_VERSION})
  elseif(name STREQUAL "oneDNN" AND dnnl_VERSION)
    set(version ${dnnl_VERSION})
  endif()
  set(${out} ${version} PARENT_SCOPE)
endfunction()

# Whether this build has the dependency.
function(krafla_has name out)
  set(has ON)
  if(name MATCHES "^(volk|VulkanMemoryAllocator|Vulkan-Headers|Vulkan-Loader)$" AND NOT KRAFLA_VULKAN)
    set(has OFF)
  elseif(name MATCHES "^(zlib|CLI11)$" AND KRAFLA_RUNTIME_ONLY)
    set(has OFF)
  elseif(name STREQUAL "AsmJit" AND NOT krafla_cpu_libraries MATCHES "asmjit")
    set(has OFF)
  elseif(name STREQUAL "oneDNN" AND NOT krafla_cpu_libraries MATCHES "dnnl")
    set(has OFF)
  elseif(name STREQUAL "libc++" AND NOT KRAFLA_PORTABLE)
    set(has OFF)
  endif()
  set(${out} ${has} PARENT_SCOPE)
endfunction()

set(notices "krafla ${PROJECT_VERSION}\nCopyright of its contributors, Apache-2.0: the file LICENSE.\n\nIt is built with:\n\n")
set(packages "")
set(relations "")
file(STRINGS ${dependencies} lines REGEX "^[^#]")
foreach(line IN LISTS lines)
  string(REPLACE " | " ";" fields "${line}")
  list(GET fields 0 name)
  list(GET fields 1 licence)
  list(GET fields 2 place)
  list(GET fields 3 how)
  krafla_has(${name} has)
  if(NOT has)
    continue()
  endif()
  if(KRAFLA_PORTABLE AND how STREQUAL "linked")
    set(how compiled)  # static
  endif()
  krafla_version_of(${name} version)
  string(APPEND notices "${name}: ${licence}, ${place} (${how})\n")
  string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${name}")
  string(APPEND packages ",\n    {\"SPDXID\": \"${id}\", \"name\": \"${name}\", \"versionInfo\": \"${version}\", "
    "\"licenseConcluded\": \"${licence}\", \"licenseDeclared\": \"${licence}\", \"copyrightText\": \"NOASSERTION\", "
    "\"downloadLocation\": \"${place}\", \"filesAnalyzed\": false}")
  set(kind DEPENDS_ON)
  if(how STREQUAL "linked")
    set(kind DYNAMIC_LINK)
  elseif(how STREQUAL "compiled")
    set(kind STATIC_LINK)
  endif()
  string(APPEND relations ",\n    {\"spdxElementId\": \"SPDXRef-krafla\", \"relationshipType\": \"${kind}\", "
    "\"relatedSpdxElement\": \"${id}\"}")
endforeach()
# Equal sources give equal files: the time is SOURCE_DATE_EPOCH's where that is set.
string(TIMESTAMP now "%Y-%m-%dT%H:%M:%SZ" UTC)
if(NOT DEFINED ENV{SOURCE_DATE_EPOCH} AND EXISTS ${about}/created)
  file(READ ${about}/created now)
endif()
file(WRITE ${about}/created "${now}")
file(CONFIGURE OUTPUT ${about}/NOTICES CONTENT "${notices}" @ONLY)
file(CONFIGURE OUTPUT ${about}/krafla.spdx.json @ONLY CONTENT "{
  \"spdxVersion\": \"SPDX-2.3\", \"dataLicense\": \"CC0-1.0\", \"SPDXID\": \"SPDXRef-DOCUMENT\",
  \"name\": \"krafla-${PROJECT_VERSION}\", \"documentNamespace\": \"urn:krafla:${PROJECT_VERSION}:${now}\",
  \"creationInfo\": {\"created\": \"${now}\", \"creators\": [\"Tool: cmake-${CMAKE_VERSION}\"]},
  \"packages\": [
    {\"SPDXID\": \"SPDXRef-krafla\", \"name\": \"krafla\", \"versionInfo\": \"${PROJECT_VERSION}\", \"licenseConcluded\": \"Apache-2.0\", \"licenseDeclared\": \"Apache-2.0\", \"copyrightText\": \"NOASSERTION\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false}${packages}],
  \"relationships\": [
    {\"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-krafla\"}${relations}]
}
")
# The file lies in lib/pkgconfig, or in a folder of the architecture's: the prefix is where that leads back to.
string(REGEX REPLACE "[^/]+" ".." back "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(CONFIGURE OUTPUT ${about}/krafla.pc @ONLY CONTENT "prefix=\${pcfiledir}/${back}
libdir=\${prefix}/${CMAKE_INSTALL_LIBDIR}
includedir=\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}

Name: krafla
Description: HLO and StableHLO programs on Vulkan devices and CPUs
Version: ${PROJECT_VERSION}
Libs: -L\${libdir} -lkrafla
Cflags: -I\${includedir}
")
install(FILES ${about}/krafla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT sdk)
foreach(component library sdk tool)
  set(folder ${CMAKE_INSTALL_DATADIR}/doc/krafla)
  if(component STREQUAL "library")
    set(folder ${CMAKE_INSTALL_DATADIR}/doc/libkrafla${PROJECT_VERSION_MAJOR})
  elseif(component STREQUAL "sdk")
    set(folder ${CMAKE_INSTALL_DATADIR}/doc/libkrafla-dev)
  endif()
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${about}/NOTICES ${about}/krafla.spdx.json DESTINATION ${folder}
    COMPONENT ${component})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/README.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/krafla COMPONENT tool)

# Packages are made of what is built, and building all of it, tests included, is somebody else's step.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(CPACK_PACKAGE_NAME krafla)
if(KRAFLA_PACKAGE_SYSTEM)
  set(CPACK_SYSTEM_NAME ${KRAFLA_PACKAGE_SYSTEM})
endif()
set(CPACK_PACKAGE_VENDOR krafla)
set(CPACK_PACKAGE_CONTACT "the krafla contributors <krafla@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "HLO and StableHLO programs on Vulkan devices and CPUs")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/../packages)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_COMPONENTS_ALL library sdk tool)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_ARCHIVE_COMPONENT_INSTALL OFF)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TOOL_PACKAGE_NAME krafla)
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS "mesa-vulkan-drivers | vulkan-icd, libvulkan1")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libkrafla${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS libvulkan1)
set(CPACK_DEBIAN_SDK_PACKAGE_NAME libkrafla-dev)
set(CPACK_DEBIAN_SDK_PACKAGE_SECTION libdevel)
include(CPack)
cpack_add_component(library DISPLAY_NAME "The library libkrafla")
cpack_add_component(tool DISPLAY_NAME "The command krafla" DEPENDS library)
cpack_add_component(sdk DISPLAY_NAME "What programs with libkrafla are built with" DEPENDS library)
