// SPDX-License-Identifier: Apache-2.0
// Which functions a driver's shared library calls where another library of the process has some of the same names.
#pragma once

#include <string>
#include <vector>

namespace krafla::vk {

// Mesa's drivers call LLVM by its C names (LLVMBuildMul). Where a library that was opened with RTLD_GLOBAL before has
// those too, of another version (TensorFlow's libtensorflow_framework), the dynamic linker gives the driver that one's,
// and the process dies in the first compilation. Opened once with RTLD_DEEPBIND, before the Vulkan loader does it, a
// library looks for its names among its own dependencies first, and the loader gets the same copy.
//
// Does nothing where no LLVM is in the global scope. The opened libraries stay for the life of the process, as the
// loader would keep them for the life of an instance.
void BindDriversToTheirOwnLlvm();

// The libraries that the driver manifests name, as the Vulkan loader finds those: VK_DRIVER_FILES or VK_ICD_FILENAMES,
// else the folders of the system and of the user. Unreadable manifests are left out; the loader reports them.
std::vector<std::string> DriverLibraries();

}  // namespace krafla::vk
