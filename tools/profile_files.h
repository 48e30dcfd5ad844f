// SPDX-License-Identifier: Apache-2.0
// A profile for other programs: JSON lines, a trace, a page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "api/run_profile.h"
#include "roof.h"

namespace krafla::cli {

struct ProfileDocument {
  std::string module, device;
  const RunProfile& profile;
  Roof roof;
};

// A line for the run, then one for each step in the order of the program.
std::vector<nlohmann::ordered_json> JsonLines(const ProfileDocument& document);

// A run as trace events, which Perfetto and chrome://tracing show: a lane for each place that runs steps, each step as
// long as it takes all its times, one after the other.
Result<> WriteTrace(const ProfileDocument& document, const std::string& path);

// One page without anything from outside: the table, the run as a bar, and the roofline.
Result<> WriteHtml(const ProfileDocument& document, const std::string& path);

}  // namespace krafla::cli
