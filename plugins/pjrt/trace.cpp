// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/trace.h"

#include <atomic>
#include <protozero/pbf_writer.hpp>

namespace krafla::pjrt {
namespace {

struct Recorder {
  std::mutex mutex;
  std::shared_ptr<Trace> trace;
  std::atomic<bool> is_recording = false;  // what runs look at when nobody traces
};
Recorder& TheRecorder() {
  // Never destroyed: runs may end after the process's statics.
  static auto& recorder = *new Recorder();
  return recorder;
}

// Statistics of events, by the names that XLA's tools look for (tsl/profiler's xplane_schema).
enum Statistic : int64_t {
  kProgram = 1,
  kInstruction,
  kOpName,
  kSource,
  kFamily,
  kVariant,
  kFlops,
  kBytes,
  kNote,
  kDropped
};
constexpr std::pair<Statistic, std::string_view> kStatistics[] = {
    {kProgram, "hlo_module"},  {kInstruction, "hlo_op"},     {kOpName, "tf_op"}, {kSource, "source"},
    {kFamily, "hlo_category"}, {kVariant, "variant"},        {kFlops, "flops"},  {kBytes, "bytes_accessed"},
    {kNote, "note"},           {kDropped, "dropped_events"},
};

void AddText(protozero::pbf_writer& to, uint32_t field, Statistic what, const std::string& text) {
  if (text.empty()) return;
  protozero::pbf_writer stat(to, field);
  stat.add_int64(1, what);
  stat.add_string(5, text);
}
void AddCount(protozero::pbf_writer& to, uint32_t field, Statistic what, double count) {
  if (count <= 0) return;
  protozero::pbf_writer stat(to, field);
  stat.add_int64(1, what);
  stat.add_uint64(3, static_cast<uint64_t>(count));
}

int64_t Nanoseconds(Trace::Clock::duration d) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
}

}  // namespace

std::shared_ptr<Trace> Trace::Recording() {
  Recorder& recorder = TheRecorder();
  if (!recorder.is_recording.load(std::memory_order_relaxed)) return nullptr;
  std::lock_guard lock(recorder.mutex);
  return recorder.trace;
}

bool Trace::Start(const std::shared_ptr<Trace>& trace) {
  Recorder& recorder = TheRecorder();
  std::lock_guard lock(recorder.mutex);
  if (recorder.trace != nullptr) return recorder.trace == trace;
  recorder.trace = trace;
  recorder.is_recording = true;
  return true;
}

void Trace::Stop(const std::shared_ptr<Trace>& trace) {
  Recorder& recorder = TheRecorder();
  std::lock_guard lock(recorder.mutex);
  if (recorder.trace != trace) return;
  recorder.trace = nullptr;
  recorder.is_recording = false;
}

void Trace::Add(const DeviceDescription& device, Description description, bool is_run, Clock::time_point begin,
                int64_t ns) {
  std::lock_guard lock(mutex_);
  Plane& plane = planes_[device.description];
  if (events_ == kMostEvents) {
    ++plane.dropped;
    return;
  }
  ++events_;
  const auto [at, is_new] =
      plane.number_of.emplace(Format("{}\n{}\n{}\n{}\n{}", description.program, description.name,
                                     description.instruction, description.op_name, description.note),
                              plane.descriptions.size());
  if (is_new) plane.descriptions.push_back(std::move(description));
  (is_run ? plane.runs : plane.steps).push_back({at->second, Nanoseconds(begin - start_), ns});
}

void Trace::AddRun(const DeviceDescription& device, const std::string& program, Clock::time_point begin,
                   Clock::time_point end, std::string_view note) {
  Add(device, {.name = program, .program = program, .note = std::string(note)}, true, begin, Nanoseconds(end - begin));
}

void Trace::AddStep(const DeviceDescription& device, const std::string& program, const ProfiledStep& step,
                    Clock::time_point begin, double ms) {
  Description what{.name = step.kernel,
                   .program = program,
                   .instruction = step.instruction,
                   .op_name = step.op_name,
                   .source = step.source,
                   .family = step.family,
                   .variant = step.variant,
                   .flops = step.flops,
                   .bytes = step.bytes};
  Add(device, std::move(what), false, begin, static_cast<int64_t>(ms * 1e6));
}

std::string Trace::SerializePlane(int64_t id, const std::string& name, const Plane& plane, int64_t start_ns) {
  std::string out;
  protozero::pbf_writer writer(out);
  writer.add_int64(1, id);
  // Planes of this prefix are devices of makers that the tools do not know.
  writer.add_string(2, "/device:CUSTOM:krafla " + name);
  const auto add_line = [&](int64_t line_id, std::string_view line_name, const std::vector<Event>& events) {
    if (events.empty()) return;
    protozero::pbf_writer line(writer, 3);
    line.add_int64(1, line_id);
    line.add_string(2, line_name.data(), line_name.size());
    line.add_int64(3, start_ns);
    for (const Event& e : events) {
      protozero::pbf_writer event(line, 4);
      event.add_int64(1, static_cast<int64_t>(e.description) + 1);
      event.add_int64(2, e.begin_ns * 1000);
      event.add_int64(3, e.ns * 1000);
      // What tells equal kernels apart; the rest is said once, with the name.
      const Description& what = plane.descriptions[e.description];
      AddText(event, 4, kProgram, what.program);
      AddText(event, 4, kInstruction, what.instruction);
    }
  };
  add_line(1, "XLA Modules", plane.runs);
  add_line(2, "XLA Ops", plane.steps);
  for (std::size_t d = 0; d < plane.descriptions.size(); ++d) {
    const Description& what = plane.descriptions[d];
    protozero::pbf_writer entry(writer, 4);
    entry.add_int64(1, static_cast<int64_t>(d) + 1);
    protozero::pbf_writer metadata(entry, 2);
    metadata.add_int64(1, static_cast<int64_t>(d) + 1);
    metadata.add_string(2, what.name);
    AddText(metadata, 5, kOpName, what.op_name);
    AddText(metadata, 5, kSource, what.source);
    AddText(metadata, 5, kFamily, what.family);
    AddText(metadata, 5, kVariant, what.variant);
    AddText(metadata, 5, kNote, what.note);
    AddCount(metadata, 5, kFlops, what.flops);
    AddCount(metadata, 5, kBytes, what.bytes);
  }
  for (const auto& [statistic, statistic_name] : kStatistics) {
    protozero::pbf_writer entry(writer, 5);
    entry.add_int64(1, statistic);
    protozero::pbf_writer metadata(entry, 2);
    metadata.add_int64(1, statistic);
    metadata.add_string(2, statistic_name.data(), statistic_name.size());
  }
  AddCount(writer, 6, kDropped, static_cast<double>(plane.dropped));
  return out;
}

std::string Trace::Serialize() const {
  std::lock_guard lock(mutex_);
  std::string out;
  protozero::pbf_writer space(out);
  int64_t id = 0;
  for (const auto& [name, plane] : planes_) space.add_message(1, SerializePlane(++id, name, plane, start_ns_));
  return out;
}

}  // namespace krafla::pjrt
