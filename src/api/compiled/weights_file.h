// SPDX-License-Identifier: Apache-2.0
// Weights of a compiled model in a file of their own beside it: safetensors, which other programs read too, whose
// arrays lie as those of a section of weights do (api/compiled/weights.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/compiled/weights.h"
#include "base/file.h"
#include "krafla/status.h"

namespace krafla::compiled {

// What a compiled model says of the file.
struct WeightsFile {
  std::string name;              // in the folder that the model lies in
  uint64_t header_bytes = 0;     // what comes before the weights, a multiple of kWeightsAlignment
  uint64_t weight_bytes = 0;     // all others
  uint64_t header_checksum = 0;  // XXH3 of the header, which has one of the weights: another file is recognised
};

// The header of a file with these weights.
std::string WriteWeightsHeader(const WeightTable& weights);
WeightsFile DescribeWeightsFile(std::string_view name, std::string_view header, const WeightTable& weights);

// The name may be a file's of a folder; it is no path.
bool IsFileName(std::string_view name);

// The file, mapped. NOT_FOUND or PERMISSION_DENIED where it cannot be opened, FAILED_PRECONDITION for another file than
// the model was written with. `model` is for messages. The bytes of the weights are not looked at.
Result<std::shared_ptr<const MappedFile>> OpenWeightsFile(const WeightsFile& file, const std::string& folder,
                                                          std::string_view model);

}  // namespace krafla::compiled
