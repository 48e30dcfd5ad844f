// SPDX-License-Identifier: Apache-2.0
#include "explain.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/explain.h"
#include "prepare.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;
using Kernel = Explanation::Kernel;

template <typename... Args>
void Print(std::format_string<Args...> format, Args&&... args) {
  const std::string text = std::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string Joined(const std::vector<std::string>& words, std::string_view between = ", ") {
  std::string out;
  for (const std::string& word : words) out += Format("{}{}", out.empty() ? "" : between, word);
  return out;
}

void PrintKernel(const Kernel& kernel) {
  Print("{} ({}{}) on {}{}\n", kernel.name, kernel.family, kernel.variant.empty() ? "" : ", " + kernel.variant,
        kernel.place == "host" ? "the host, by the evaluator" : "the " + kernel.place,
        kernel.launches > 1 ? Format(", {} launches", kernel.launches) : "");
  if (!kernel.reason.empty()) Print("    {}\n", kernel.reason);
  if (!kernel.variant_reason.empty()) Print("    variant: {}\n", kernel.variant_reason);
  if (!kernel.instructions.empty()) Print("    computes {}\n", Joined(kernel.instructions));
  for (const Explanation::Apart& apart : kernel.apart)
    Print("    not with {}, of which it reads {}: {}\n", apart.kernel, apart.value, apart.why);
  if (!kernel.rows.empty()) Print("    {}\n", kernel.rows);
  if (!kernel.op_name.empty() || !kernel.source.empty()) Print("    from {} {}\n", kernel.op_name, kernel.source);
}

void PrintSummary(const Explanation& e) {
  Print("{} on {}: {} of {} instructions run there\n", e.module, e.device, e.device_instructions, e.instructions);
  Print("a run: {} launches, {} copies, {} waits of the host", e.launches, e.copies, e.waits);
  if (e.uncounted_loops > 0) Print(", and one for each turn of {} loops", e.uncounted_loops);
  Print("\narena: {} bytes, at most {} of them alive, at step {}\n", e.arena_bytes, e.peak_live_bytes, e.peak_step);
}

std::vector<const Explanation::Value*> PeakValues(const Explanation& e) {
  std::vector<const Explanation::Value*> out;
  for (const Explanation::Value& v : e.values)
    if (v.place == "arena" && v.first <= e.peak_step && e.peak_step <= v.last) out.push_back(&v);
  std::ranges::stable_sort(out, std::greater<>(), &Explanation::Value::bytes);
  return out;
}

void PrintArena(const Explanation& e) {
  constexpr int kBar = 40;
  Print("{:>6} {:>14}  {:<{}}  {}\n", "step", "live bytes", "", kBar, "kernel");
  for (const Explanation::Step& step : e.steps) {
    const auto length = e.peak_live_bytes > 0 ? static_cast<std::size_t>(kBar * static_cast<double>(step.live_bytes) /
                                                                         static_cast<double>(e.peak_live_bytes))
                                              : 0;
    Print("{:>6} {:>14}  {:<{}}  {}\n", step.number, step.live_bytes, std::string(length, '#'), kBar,
          step.kernel.empty() ? "(copies or control flow)" : step.kernel);
  }
  Print("\nalive at step {}, where it is most:\n", e.peak_step);
  for (const Explanation::Value* v : PeakValues(e))
    Print("{:>14}  {} {}, at {}, steps {} to {}\n", v->bytes, v->name, v->shape, v->offset, v->first, v->last);
}

void PrintValue(const Explanation::Value& v) {
  Print("buffer of {}: {}, {} bytes, {}", v.name, v.shape, v.bytes, v.place);
  if (v.place == "arena") Print(" at {}, alive from step {} to {}", v.offset, v.first, v.last);
  if (!v.shares.empty()) Print("; in place of, or overwritten by, {}", Joined(v.shares));
  Print("\n");
}

void PrintStory(const Explanation& e) {
  for (const std::string& line : e.story.history) Print("{}\n", line);
  const auto is_about = [&](const std::string& name) { return std::ranges::contains(e.story.became, name); };
  if (e.story.became.empty()) {
    Print("Nothing of the optimised module has its name or its origin.\n");
    return;
  }
  if (e.story.became.size() > 1 || e.story.became[0] != e.story.name)
    Print("the same origin have {}\n", Joined(e.story.became));
  bool anywhere = false;
  for (const Kernel& kernel : e.kernels) {
    const bool computes = std::ranges::any_of(kernel.instructions, is_about) || is_about(kernel.name);
    if (!computes) continue;
    anywhere = true;
    Print("\n");
    PrintKernel(kernel);
    for (const Kernel& reader : e.kernels)
      for (const Explanation::Apart& apart : reader.apart)
        if (apart.kernel == kernel.name) Print("    read by {}, apart: {}\n", reader.name, apart.why);
  }
  if (!anywhere) Print("No kernel computes it: it names another value, or is an argument or a constant.\n");
  Print("\n");
  for (const Explanation::Value& v : e.values)
    if (is_about(v.name) || is_about(v.name.substr(0, v.name.rfind('.')))) PrintValue(v);
}

void PrintJson(const Explanation& e) {
  const auto print = [](const Json& line) {
    std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  };
  Json peak = Json::array();
  for (const Explanation::Value* v : PeakValues(e)) peak.push_back(v->name);
  print({{"module", e.module},
         {"device", e.device},
         {"instructions", e.instructions},
         {"device_instructions", e.device_instructions},
         {"launches", e.launches},
         {"copies", e.copies},
         {"waits", e.waits},
         {"uncounted_loops", e.uncounted_loops},
         {"arena_bytes", e.arena_bytes},
         {"peak_live_bytes", e.peak_live_bytes},
         {"peak_step", e.peak_step},
         {"peak_values", peak}});
  if (!e.story.name.empty())
    print({{"instruction", e.story.name}, {"history", e.story.history}, {"became", e.story.became}});
  for (const Kernel& k : e.kernels) {
    Json apart = Json::array();
    for (const Explanation::Apart& a : k.apart)
      apart.push_back({{"value", a.value}, {"kernel", a.kernel}, {"why", a.why}});
    print({{"kernel", k.name},
           {"family", k.family},
           {"computation", k.computation},
           {"instructions", k.instructions},
           {"place", k.place},
           {"reason", k.reason},
           {"rows", k.rows},
           {"variant", k.variant},
           {"variant_reason", k.variant_reason},
           {"launches", k.launches},
           {"flops", k.flops},
           {"bytes", k.bytes},
           {"reads", k.reads},
           {"makes", k.makes},
           {"apart", apart},
           {"op_name", k.op_name},
           {"source", k.source}});
  }
  for (const Explanation::Value& v : e.values)
    print({{"value", v.name},
           {"shape", v.shape},
           {"place", v.place},
           {"offset", v.offset},
           {"bytes", v.bytes},
           {"first", v.first},
           {"last", v.last},
           {"shares", v.shares}});
  for (const Explanation::Step& s : e.steps)
    print({{"step", s.number}, {"step_kernel", s.kernel}, {"live_bytes", s.live_bytes}});
}

}  // namespace

void ExplainCommand::AddTo(CLI::App& app, int& code) {
  CLI::App* cmd = app.add_subcommand("explain", "say why a program is as it is: kernels, places, memory");
  cmd->add_option("module", module, "a module in any form, or a model folder; - for standard input")->required();
  AddShapeOption(*cmd, shapes);
  cmd->add_option("--op", instruction, "tell what became of this instruction: passes, kernel, neighbours, buffers");
  cmd->add_flag("--arena", arena, "print what of the arena is alive at each step");
  AddDeviceCounts(*cmd, replicas, partitions);
  device.AddTo(*cmd, {.runs = false});
  cmd->callback([this, &code] { code = Run(); });
}

int ExplainCommand::Run() const {
  auto options = device.ToCompileOptions();
  if (!options) return Fail(options.error()), kUsage;
  auto read = LoadSubject(module, shapes, replicas, partitions);
  if (!read) return Fail(read.error());
  const auto client = OpenDevice(device.selector);
  if (!client) return FailDevice(client.error());
  options->for_group = true;  // a program of several devices is explained as each of them has it
  const auto explained = Explain(std::move(*read), (*client)->device(), {*options, instruction});
  if (!explained) return Fail(InFile(module, explained.error()));
  if (device.strict && explained->device_instructions < explained->instructions)
    return Fail(Unimplemented("{} of {} instructions do not run on {}, and --strict is given.",
                              explained->instructions - explained->device_instructions, explained->instructions,
                              explained->device)
                    .error());
  if (device.json) {
    PrintJson(*explained);
    return kRight;
  }
  PrintSummary(*explained);
  Print("\n");
  if (!instruction.empty()) {
    PrintStory(*explained);
  } else if (!arena) {
    for (const Kernel& kernel : explained->kernels) PrintKernel(kernel);
  }
  if (arena) PrintArena(*explained);
  return kRight;
}

}  // namespace krafla::cli
