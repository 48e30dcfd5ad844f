// SPDX-License-Identifier: Apache-2.0
#include "kernel_list.h"

namespace krafla::cli {

void KernelList::Add(const spirv::EmittedKernel& kernel, std::string_view file, std::string_view name,
                     std::string_view family, const std::vector<spirv::EmittedDispatch>& dispatches, std::size_t n) {
  nlohmann::ordered_json grids = nlohmann::ordered_json::array();
  for (const spirv::EmittedDispatch& dispatch : dispatches)
    if (dispatch.kernel == static_cast<int>(n)) grids.push_back(dispatch.grid);
  list_["kernels"].push_back({{"file", file},
                              {"name", name},
                              {"family", family},
                              {"variant", kernel.variant},
                              {"reason", kernel.reason},
                              {"local_size", kernel.local_size},
                              {"subgroup_size", kernel.subgroup_size},
                              {"full_subgroups", kernel.full_subgroups},
                              {"cooperative_matrix", kernel.uses_cooperative_matrix},
                              {"buffer_device_address", kernel.uses_buffer_device_address},
                              {"buffers", kernel.buffers.size()},
                              {"push_words", kernel.push_words},
                              {"grids", std::move(grids)}});
}

void KernelList::AddOnCpu(std::string_view name, std::string_view reason) {
  list_["on_cpu"].push_back({{"name", name}, {"reason", reason}});
}

}  // namespace krafla::cli
