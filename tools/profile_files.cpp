// SPDX-License-Identifier: Apache-2.0
#include "profile_files.h"

#include <map>
#include <nlohmann/json.hpp>

#include "profile_page.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

Json StepJson(const ProfiledStep& step, const Roof& roof) {
  Json out = {{"kernel", step.kernel}, {"family", step.family},
              {"place", step.place},   {"times", step.times},
              {"ms", step.ms},         {"flops", step.flops},
              {"bytes", step.bytes},   {"variant", step.variant},
              {"reason", step.reason}, {"instruction", step.instruction},
              {"opcode", step.opcode}, {"op_name", step.op_name},
              {"source", step.source}};
  if (step.grid[0] != 0) out["grid"] = step.grid, out["local_size"] = step.local_size;
  const auto times = static_cast<double>(step.times);
  if (roof.flops_per_s > 0) out["roof"] = roof.ShareOf(step.flops * times, step.bytes * times, step.ms);
  return out;
}

}  // namespace

std::vector<Json> JsonLines(const ProfileDocument& document) {
  const RunProfile& profile = document.profile;
  std::vector<Json> out;
  Json& run = out.emplace_back(Json{{"module", document.module},
                                    {"device", document.device},
                                    {"runs", profile.runs},
                                    {"run_ms", profile.run_ms},
                                    {"profiled_ms", profile.profiled_ms}});
  if (document.roof.flops_per_s > 0) {
    run["roof_flops_per_s"] = document.roof.flops_per_s;
    run["roof_bytes_per_s"] = document.roof.bytes_per_s;
  }
  for (const ProfiledStep& step : profile.steps) out.push_back(StepJson(step, document.roof));
  return out;
}

Result<> WriteTrace(const ProfileDocument& document, const std::string& path) {
  Json events = Json::array();
  std::map<std::string, int> lanes;
  const auto lane_of = [&](const std::string& place) {
    auto [at, is_new] = lanes.try_emplace(place, static_cast<int>(lanes.size()) + 1);
    if (is_new)
      events.push_back(
          {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", at->second}, {"args", {{"name", place}}}});
    return at->second;
  };
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", document.module}}}});
  double now = 0;  // microseconds
  for (const ProfiledStep& step : document.profile.steps) {
    Json arguments = StepJson(step, document.roof);
    events.push_back({{"name", step.kernel},
                      {"cat", step.family},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", lane_of(step.place)},
                      {"ts", now},
                      {"dur", step.ms * 1e3},
                      {"args", std::move(arguments)}});
    now += step.ms * 1e3;
  }
  return WriteFile(path, Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}.dump());
}

Result<> WriteHtml(const ProfileDocument& document, const std::string& path) {
  Json data = Json::array();
  for (Json& line : JsonLines(document)) data.push_back(std::move(line));
  std::string text = data.dump();
  // Text that came with the module must not end the script that holds it.
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.replace(at, 2, "<\\/");
  std::string page(kProfilePage);
  page.replace(page.find(kProfileDataMark), kProfileDataMark.size(), text);
  return WriteFile(path, page);
}

}  // namespace krafla::cli
