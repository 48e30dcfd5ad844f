// SPDX-License-Identifier: Apache-2.0
// Runs emitted programs: through spirv-val for every profile of tests/profiles, and on the Vulkan devices that are
// here (lavapipe, and SwiftShader where it has been fetched), in its addressing models by turns.
#pragma once

#include <string>
#include <vector>

#include "interpreter.h"
#include "spirv_codegen/emit.h"

namespace krafla::spirv::testing {

std::vector<DeviceProfile> Profiles();

// Empty, or what spirv-val has to say.
std::string Validate(const std::vector<uint32_t>& words, const DeviceProfile& profile);
std::string Disassemble(const std::vector<uint32_t>& words);

class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual const DeviceProfile& profile() const = 0;
  virtual std::string name() const = 0;
  // Emits for this device, runs, and reads the buffers back. `seconds`: the time of one warm run.
  virtual Result<> Run(const plan::KernelPlan& plan, std::vector<Bytes>& memory, const EmitOptions& options = {},
                       double* seconds = nullptr) = 0;
};
// Each device in one of the addressing models that it has, and in the next one at the test's next call: drivers compile
// for most of these tests' time, and the models differ in how a kernel finds its buffers alone. Which one a test begins
// with depends on its name, so that it fails alone as it does among others.
std::vector<TestDevice*> Devices();

}  // namespace krafla::spirv::testing
