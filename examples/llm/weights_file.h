// SPDX-License-Identifier: Apache-2.0
// A safetensors file, mapped: arrays where the system has them from the disk.
#pragma once

#include <krafla/session.h>

#include <map>
#include <memory>
#include <string>

namespace llm {

// Its arrays as buffers, by name. A CPU reads them where the file is mapped; other devices get a copy.
krafla::Result<std::map<std::string, krafla::Buffer>> LoadWeights(const krafla::LocalClient& client,
                                                                  const std::string& path);

}  // namespace llm
