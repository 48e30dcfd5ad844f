// SPDX-License-Identifier: Apache-2.0
// Of krafla/krafla.h: sessions and submissions.
#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>

#include "api/c/handles.h"

namespace krafla::capi {

Result<RunOptions> ToRunOptions(const krafla_run_options* given) {
  RunOptions out;
  if (given == nullptr) return out;
  KRAFLA_ASSIGN(const krafla_run_options options, Taken(given, "krafla_run_options"));
  if (options.timeout_us < 0)
    return InvalidArgument("krafla_run_options.timeout_us is {}; it is a number of microseconds, or 0 for none.",
                           options.timeout_us);
  // A longer time than the clock can count is none.
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1'000'000;
  if (options.timeout_us > 0 && options.timeout_us < kLongest)
    out.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(options.timeout_us);
  if (options.cancel != nullptr) out.stop = options.cancel->stop.get_token();
  return out;
}

namespace {

// The caller's ranges as spans: kept here, so that a run in the steady state allocates nothing.
template <typename Bytes>
class Ranges {
 public:
  template <typename Range>
  Ranges(const Range* given, std::size_t count) {
    if (count > kHere) more_.resize(count);
    data_ = count > kHere ? more_.data() : here_;
    for (std::size_t i = 0; i < count; ++i)
      data_[i] = Bytes(static_cast<typename Bytes::pointer>(given[i].data), given[i].size);
    count_ = count;
  }
  Span<Bytes> span() const { return {data_, count_}; }

 private:
  static constexpr std::size_t kHere = 64;
  Bytes here_[kHere];
  std::vector<Bytes> more_;
  Bytes* data_ = nullptr;
  std::size_t count_ = 0;
};

// "a,b"; NULL and "" have none.
std::set<std::string> NamesOf(const char* list) {
  std::set<std::string> out;
  for (std::string_view rest = list != nullptr ? list : ""; !rest.empty();) {
    const std::size_t comma = rest.find(',');
    out.emplace(rest.substr(0, comma));
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return out;
}

Result<SessionOptions> ToSessionOptions(const krafla_session_options* given) {
  KRAFLA_ASSIGN(const krafla_session_options options,
                Taken(given, "krafla_session_options", offsetof(krafla_session_options, input_sizes)));
  if (options.reserved != 0) return InvalidArgument("krafla_session_options.reserved is not 0.");
  SessionOptions out;
  out.build.strict = options.strict != 0;
  out.build.enabled = NamesOf(options.enabled);
  out.build.disabled = NamesOf(options.disabled);
  out.concurrent_runs = options.concurrent_runs;
  out.for_profile = options.for_profile != 0;
  if (options.input_sizes == nullptr && options.input_sizes_count > 0)
    return InvalidArgument("krafla_session_options.input_sizes is NULL, and its count {}.", options.input_sizes_count);
  for (std::size_t i = 0; i < options.input_sizes_count; ++i) {
    const krafla_input_sizes& one = options.input_sizes[i];
    if (one.name == nullptr || (one.sizes == nullptr && one.rank > 0) || one.rank > Shape::kMaxRank)
      return InvalidArgument("krafla_session_options.input_sizes[{}] has no name, no sizes or more than {} of them.", i,
                             Shape::kMaxRank);
    if (!out.input_sizes.try_emplace(one.name, one.sizes, one.sizes + one.rank).second)
      return InvalidArgument("krafla_session_options.input_sizes has two entries for '{}'.", one.name);
  }
  if (options.progress != nullptr)
    out.progress = [call = options.progress, user = options.progress_user](int done, int total) {
      call(done, total, user);
    };
  return out;
}

Result<> InfoOf(std::span<const TensorInfo> infos, std::string_view what, std::size_t i, krafla_tensor_info* info) {
  if (i >= infos.size())
    return OutOfRange("The program has {} {}s; there is none with the number {}.", infos.size(), what, i);
  return FillInfo(infos[i].name, infos[i].shape, info);
}

}  // namespace
}  // namespace krafla::capi

using namespace krafla;        // NOLINT: C has no namespaces
using namespace krafla::capi;  // NOLINT

krafla_status* krafla_session_load_file(const krafla_client* client, const char* path,
                                        const krafla_session_options* options, krafla_session** session) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    KRAFLA_NOT_NULL(path);
    KRAFLA_NOT_NULL(session);
    KRAFLA_ASSIGN(const SessionOptions taken, ToSessionOptions(options));
    KRAFLA_ASSIGN(Session made, Session::LoadFile(client->client, path, taken));
    *session = new krafla_session{std::move(made)};
    return {};
  });
}
krafla_status* krafla_session_load_bytes(const krafla_client* client, const void* bytes, size_t size,
                                         const krafla_session_options* options, krafla_session** session) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(client);
    if (size > 0) KRAFLA_NOT_NULL(bytes);
    KRAFLA_NOT_NULL(session);
    KRAFLA_ASSIGN(const SessionOptions taken, ToSessionOptions(options));
    KRAFLA_ASSIGN(Session made, Session::LoadBytes(client->client, {static_cast<const char*>(bytes), size}, taken));
    *session = new krafla_session{std::move(made)};
    return {};
  });
}
void krafla_session_free(krafla_session* session) { delete session; }

size_t krafla_session_input_count(const krafla_session* session) {
  return session == nullptr ? 0 : session->session.inputs().size();
}
size_t krafla_session_output_count(const krafla_session* session) {
  return session == nullptr ? 0 : session->session.outputs().size();
}
krafla_status* krafla_session_input(const krafla_session* session, size_t i, krafla_tensor_info* info) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    return InfoOf(session->session.inputs(), "input", i, info);
  });
}
krafla_status* krafla_session_output(const krafla_session* session, size_t i, krafla_tensor_info* info) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    return InfoOf(session->session.outputs(), "output", i, info);
  });
}
krafla_status* krafla_session_find_input(const krafla_session* session, const char* name, size_t* i) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_NOT_NULL(name);
    KRAFLA_NOT_NULL(i);
    KRAFLA_ASSIGN(*i, session->session.FindInput(name));
    return {};
  });
}
krafla_status* krafla_session_find_output(const krafla_session* session, const char* name, size_t* i) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_NOT_NULL(name);
    KRAFLA_NOT_NULL(i);
    KRAFLA_ASSIGN(*i, session->session.FindOutput(name));
    return {};
  });
}
const char* krafla_session_placement(const krafla_session* session) {
  return session == nullptr ? "" : session->session.report().placement.c_str();
}

krafla_status* krafla_session_run(krafla_session* session, const krafla_input* inputs, size_t input_count,
                                  const krafla_output* outputs, size_t output_count,
                                  const krafla_run_options* options) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    if (input_count > 0) KRAFLA_NOT_NULL(inputs);
    if (output_count > 0) KRAFLA_NOT_NULL(outputs);
    KRAFLA_ASSIGN(const RunOptions taken, ToRunOptions(options));
    const Ranges<InputBytes> from(inputs, input_count);
    const Ranges<OutputBytes> to(outputs, output_count);
    return session->session.Run(from.span(), to.span(), taken);
  });
}

krafla_status* krafla_session_run_buffers(krafla_session* session, const krafla_buffer_input* inputs,
                                          size_t input_count, krafla_buffer** outputs, size_t output_count,
                                          const krafla_run_options* options) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    if (input_count > 0) KRAFLA_NOT_NULL(inputs);
    if (output_count > 0) KRAFLA_NOT_NULL(outputs);
    if (output_count != session->session.outputs().size())
      return InvalidArgument("The program gives {} outputs, there is room for {}.", session->session.outputs().size(),
                             output_count);
    KRAFLA_ASSIGN(const RunOptions taken, ToRunOptions(options));
    std::vector<BufferInput> arguments;
    for (std::size_t i = 0; i < input_count; ++i) {
      if (inputs[i].buffer == nullptr) return InvalidArgument("The buffer of input {} is a null pointer.", i);
      if (inputs[i].reserved != 0) return InvalidArgument("krafla_buffer_input.reserved of input {} is not 0.", i);
      arguments.push_back({inputs[i].buffer->buffer, inputs[i].donated != 0});
    }
    KRAFLA_ASSIGN(std::vector<Buffer> results, session->session.Run(arguments, taken));
    std::vector<std::unique_ptr<krafla_buffer>> made;
    for (Buffer& result : results) made.push_back(std::unique_ptr<krafla_buffer>(new krafla_buffer{std::move(result)}));
    for (std::size_t i = 0; i < made.size(); ++i) outputs[i] = made[i].release();
    return {};
  });
}

krafla_status* krafla_session_warm(krafla_session* session, const krafla_run_options* options) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_ASSIGN(const RunOptions taken, ToRunOptions(options));
    return session->session.Warm(taken);
  });
}

krafla_status* krafla_session_profile(krafla_session* session, int32_t runs, krafla_text** json) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    KRAFLA_NOT_NULL(json);
    KRAFLA_ASSIGN(const SessionProfile profile, session->session.Profile(runs));
    nlohmann::ordered_json document = {{"run_ms", profile.run_ms}, {"steps", nlohmann::ordered_json::array()}};
    for (const SessionProfile::Step& s : profile.steps)
      document["steps"].push_back({{"kernel", s.kernel},
                                   {"family", s.family},
                                   {"op_name", s.op_name},
                                   {"source", s.source},
                                   {"place", s.place},
                                   {"times", s.times},
                                   {"ms", s.ms},
                                   {"flops", s.flops},
                                   {"bytes", s.bytes}});
    // Names may be any bytes.
    *json = new krafla_text{document.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
    return {};
  });
}

krafla_status* krafla_session_submit(krafla_session* session, const krafla_input* inputs, size_t input_count,
                                     const krafla_output* outputs, size_t output_count,
                                     const krafla_run_options* options, krafla_done done, void* user,
                                     krafla_submission** submission) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(session);
    if (input_count > 0) KRAFLA_NOT_NULL(inputs);
    if (output_count > 0) KRAFLA_NOT_NULL(outputs);
    KRAFLA_ASSIGN(const RunOptions taken, ToRunOptions(options));
    std::function<void(const Result<>&)> told;
    if (done != nullptr)
      told = [done, user](const Result<>& result) {
        const std::unique_ptr<krafla_status, void (*)(krafla_status*)> status(result ? nullptr : ToC(result.error()),
                                                                              krafla_status_free);
        done(status.get(), user);
      };
    const Ranges<InputBytes> from(inputs, input_count);
    const Ranges<OutputBytes> to(outputs, output_count);
    // Before the run begins, as nothing may fail after.
    auto handle = std::make_unique<krafla_submission>();
    KRAFLA_ASSIGN(handle->submission, session->session.Submit(from.span(), to.span(), taken, std::move(told)));
    if (submission != nullptr) *submission = handle.release();
    return {};
  });
}
int32_t krafla_submission_is_done(const krafla_submission* submission) {
  return submission == nullptr || submission->submission->IsDone() ? 1 : 0;
}
krafla_status* krafla_submission_wait(krafla_submission* submission, int64_t timeout_us) {
  return Guarded([&]() -> Result<> {
    KRAFLA_NOT_NULL(submission);
    if (timeout_us < 0) return submission->submission->Wait();
    constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1'000'000;
    const std::chrono::microseconds time(std::min(timeout_us, kLongest));
    if (std::optional<Result<>> outcome = submission->submission->WaitFor(time)) return std::move(*outcome);
    return DeadlineExceeded("The run is not done after {} us; it goes on.", timeout_us);
  });
}
void krafla_submission_cancel(krafla_submission* submission) {
  if (submission != nullptr) submission->submission->Cancel();
}
void krafla_submission_free(krafla_submission* submission) { delete submission; }
