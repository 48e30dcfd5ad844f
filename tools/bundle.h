// SPDX-License-Identifier: Apache-2.0
// krafla doctor --bundle: one file with all that a report of a failure needs.
#pragma once

#include <string>

#include "command.h"

namespace krafla::cli {

struct BundleOptions {
  DeviceOptions device;
  std::string file, module;
  bool with_arguments = false;
  uint64_t seed = 0;

  // Adds the options to `krafla doctor`.
  void AddTo(CLI::App& doctor);
  // Whether options are given that mean something for a bundle alone, and none is asked for.
  bool AreIdle() const;
};
int WriteBundle(const BundleOptions& options);

}  // namespace krafla::cli
