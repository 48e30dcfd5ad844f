# SPDX-License-Identifier: Apache-2.0
# Shaders in GLSL (shaders/README.md) become words in headers when krafla is built.
find_program(KRAFLA_GLSLANG NAMES glslangValidator glslang)
# All of them, for programs that read sources without compiling them.
add_custom_target(krafla_shaders)

# krafla_shader(TARGET FILE.comp NAME [MODELS ADDRESSES DESCRIPTORS] [DEFINES NAME[=VALUE]...]): for each addressing model
# that shaders/buffers.glsl knows (both, unless said) the header NAME_MODEL.h with the array kNAME_MODEL, for TARGET.
function(krafla_shader target source name)
  cmake_parse_arguments(ARG "" "" "MODELS;DEFINES" ${ARGN})
  if(NOT ARG_MODELS)
    set(ARG_MODELS ADDRESSES DESCRIPTORS)
  endif()
  list(TRANSFORM ARG_DEFINES PREPEND -D)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/shaders)
  set(headers "")
  foreach(model IN LISTS ARG_MODELS)
    set(header ${folder}/${name}_${model}.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
      COMMAND ${KRAFLA_GLSLANG} -V --quiet --target-env vulkan1.1 -S comp -I${PROJECT_SOURCE_DIR}/shaders -D${model} ${ARG_DEFINES}
        --vn k${name}_${model} -o ${header} ${source}
      DEPENDS ${source} ${PROJECT_SOURCE_DIR}/shaders/buffers.glsl VERBATIM)
    target_sources(${target} PRIVATE ${header})
    list(APPEND headers ${header})
  endforeach()
  add_custom_target(${target}_${name}_words DEPENDS ${headers})
  add_dependencies(krafla_shaders ${target}_${name}_words)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()
