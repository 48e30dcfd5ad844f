# SPDX-License-Identifier: Apache-2.0
# Installs the library into an empty folder, builds the consumer against that folder alone and runs it.
#   cmake -DBUILD=.. -DWORK=.. -DCONSUMER=.. -DCXX=.. -DGENERATOR=.. -P install_test.cmake
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component library)
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --component sdk)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_CXX_COMPILER=${CXX}
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
