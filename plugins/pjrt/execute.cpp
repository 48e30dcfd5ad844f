// SPDX-License-Identifier: Apache-2.0
// Runs. The caller gets buffers at once; a lane fills them, or says through their events why not.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <unordered_set>

#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/event.h"
#include "plugins/pjrt/program.h"
#include "plugins/pjrt/strided_copy.h"

namespace krafla::pjrt {
namespace {

// Handing a run to another thread costs about as much as such a run.
constexpr int64_t kShortRunNs = 200'000;

struct Argument {
  std::shared_ptr<Array> array;
  bool donated = false;
  std::optional<Shape> ordered;  // of a buffer in another layout than the parameter's
};

Result<Literal> Reordered(const DeviceBuffer& value, const Shape& from, const Shape& to) {
  KRAFLA_ASSIGN(const Shape memory, InMemory(to));
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(memory));
  KRAFLA_ASSIGN(const HostView view, value.View());
  CopyStrided(out.bytes().data(), StridesInMemory(to), view.bytes.data(), StridesInMemory(from), to.dims(),
              static_cast<std::size_t>(StorageBytes(to.element_type())));
  return out;
}

// One run, on its way.
class Run {
 public:
  explicit Run(std::shared_ptr<Program> program) : program_(std::move(program)) {}

  // One list a device.
  std::vector<std::vector<Argument>> arguments;
  std::vector<std::vector<std::shared_ptr<Array>>> results;
  const std::shared_ptr<Completion> done = std::make_shared<Completion>();

  // With the turn of the lanes.
  void Work(Lane& lane) {
    try {
      outcome_ = program_->is_group() ? OnAll() : OnOne(lane);
    } catch (const std::bad_alloc&) {
      outcome_ = ResourceExhausted("The host has no memory left to run '{}'.", program_->name());
    }
    arguments.clear();
    results.clear();
  }
  // Without it.
  void Tell(Lane& lane) {
    if (outcome_ && waits_.empty()) {
      done->Finish();
    } else if (outcome_) {
      lane.FinishAfter(std::move(waits_), done);
    } else {
      done->Finish(std::move(outcome_).error().WithContext(Format("while running '{}'", program_->name())));
    }
  }

 private:
  Result<std::vector<DeviceArgument>> Take(std::vector<Argument>& from, Lane& lane) {
    std::vector<DeviceArgument> out;
    out.reserve(from.size());
    for (Argument& a : from) {
      // What makes it ran before on this lane, or the run waited for it: without a value it has failed, or will at
      // once.
      if (a.array->value() == nullptr) {
        a.array->ready()->Wait();
        if (const Status* error = a.array->ready()->error()) return Failure(*error);
      }
      if (const Shape& wanted = program_->parameters()[out.size()]; wanted.IsToken()) {
        KRAFLA_ASSIGN(Literal token, Literal::Create(wanted));
        out.push_back({std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(token))), false});
        continue;
      }
      if (a.ordered) {
        // Lies otherwise than the program takes it: a copy in the other order.
        KRAFLA_ASSIGN(Literal copy, Reordered(*a.array->value(), *a.ordered, program_->parameters()[out.size()]));
        out.push_back({std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(copy))), false});
        continue;
      }
      KRAFLA_ASSIGN(std::shared_ptr<DeviceBuffer> value, a.array->OnDevice(lane));
      // Others who hold the array may still read it: the run gets no leave to overwrite it then.
      const bool donated = a.donated && a.array.use_count() == 1;
      if (donated) a.array->Take();
      out.push_back({std::move(value), donated});
    }
    return out;
  }
  Result<> Fill(std::vector<std::shared_ptr<Array>>& to, DeviceBuffers from) {
    if (to.size() != from.size()) return Internal("{} results came from a program of {}.", from.size(), to.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (auto wait = from[i]->Waiter()) waits_.push_back(std::move(wait));
      to[i]->Set(std::move(from[i]), true);
    }
    return {};
  }
  Result<> OnOne(Lane& lane) {
    KRAFLA_ASSIGN(std::vector<DeviceArgument> own, Take(arguments[0], lane));
    const auto begin = std::chrono::steady_clock::now();
    KRAFLA_ASSIGN(DeviceBuffers out, program_->Run(lane, std::move(own)));
    const auto ns = std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    program_->set_last_run_ns(ns);
    return Fill(results[0], std::move(out));
  }
  Result<> OnAll() {
    std::vector<std::vector<DeviceArgument>> own;
    for (std::size_t d = 0; d < arguments.size(); ++d) {
      KRAFLA_ASSIGN(own.emplace_back(), Take(arguments[d], *program_->devices()[d]->lane));
    }
    KRAFLA_ASSIGN(auto out, program_->RunGroup(std::move(own)));
    for (std::size_t d = 0; d < out.size(); ++d) KRAFLA_TRY(Fill(results[d], std::move(out[d])));
    return {};
  }

  const std::shared_ptr<Program> program_;
  Result<> outcome_;
  Lane::Waits waits_;
};

// A run that waits for arrays which come from elsewhere: posted by the last of them.
struct Postponed {
  std::atomic<std::size_t> missing = 0;
  MoveOnlyFunction<void()> post;
  void Count() {
    if (missing.fetch_sub(1) == 1) post();
  }
};

// What the caller gave for one device. INVALID_ARGUMENT before anything is donated.
Result<> Check(const Program& program, const PJRT_Device& device, PJRT_Buffer* const* list, std::size_t count,
               const std::vector<bool>& donated) {
  const std::vector<Shape>& parameters = program.parameters();
  if (count != parameters.size())
    return InvalidArgument("'{}' takes {} arguments, {} were given.", program.name(), parameters.size(), count);
  std::unordered_set<const PJRT_Buffer*> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const PJRT_Buffer* b = list[i];
    if (b == nullptr) return InvalidArgument("Argument {} of '{}' is not a buffer.", i, program.name());
    if (b->deleted())
      return InvalidArgument("Argument {} of '{}' is a buffer that has been deleted or donated.", i, program.name());
    if (b->device()->client != device.client || (b->device() != &device && b->device()->lane != device.lane))
      return InvalidArgument("Argument {} of '{}' is on device {}, the program runs on device {}.", i, program.name(),
                             b->device()->description.id, device.description.id);
    const Shape& given = b->shape();
    const Shape& wanted = parameters[i];
    // Callers give an empty array for the first token, later what a run gave: a token says only what came before.
    if (wanted.IsToken() && (given.IsToken() || (given.IsArray() && given.element_count() == 0))) continue;
    if (given.element_type() != wanted.element_type() || given.rank() != wanted.rank() ||
        (!Shape::SameDims(given, wanted) && !wanted.IsDynamic()))
      return InvalidArgument("Argument {} of '{}' is {}, the program takes {}.", i, program.name(),
                             given.ToString(false), wanted.ToString(false));
    if (program.donates_any() && !seen.insert(b).second) {
      // Donated here or before.
      for (std::size_t j = 0; j <= i; ++j)
        if (list[j] == b && donated[j])
          return InvalidArgument("Argument {} of '{}' is a buffer that the same call donates as argument {}.", i,
                                 program.name(), j);
    }
  }
  return {};
}

// The end of a run whose error is raised by the call: what the call had given out goes with it.
Result<> WaitForEnd(const Completion& done, std::size_t results, PJRT_LoadedExecutable_Execute_Args& args) {
  done.Wait();
  const Status* error = done.error();
  if (error == nullptr) return {};
  for (std::size_t d = 0; d < args.num_devices; ++d) {
    for (std::size_t i = 0; i < results; ++i) delete std::exchange(args.output_lists[d][i], nullptr);
    if (args.device_complete_events != nullptr) delete std::exchange(args.device_complete_events[d], nullptr);
  }
  return Failure(*error);
}

// The devices of this run. INVALID_ARGUMENT where the caller names others, or gives arguments for others.
Result<std::vector<PJRT_Device*>> DevicesOfRun(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  std::vector<PJRT_Device*> devices = program.devices();
  if (args.execute_device != nullptr) {
    if (program.is_group())
      return InvalidArgument("'{}' runs on {} devices at once, not on one alone.", program.name(), devices.size());
    if (!program.options().portable && args.execute_device != devices[0])
      return InvalidArgument("'{}' was compiled for device {}, not for device {}.", program.name(),
                             devices[0]->description.id, args.execute_device->description.id);
    devices[0] = args.execute_device;
  }
  if (args.num_devices != devices.size())
    return InvalidArgument("'{}' runs on {} devices here, arguments were given for {}.", program.name(), devices.size(),
                           args.num_devices);
  return devices;
}

// Which arguments the program donates and the caller does not keep.
std::vector<bool> DonatedArguments(const Program& program, const PJRT_LoadedExecutable_Execute_Args& args) {
  std::vector<bool> donated(program.parameters().size());
  if (!program.donates_any()) return donated;
  for (std::size_t i = 0; i < donated.size(); ++i) donated[i] = program.donates(i);
  if (args.options == nullptr || !KRAFLA_PJRT_HAS(*args.options, num_non_donatable_input_indices)) return donated;
  for (std::size_t i = 0; i < args.options->num_non_donatable_input_indices; ++i) {
    const int64_t index = args.options->non_donatable_input_indices[i];
    if (index >= 0 && index < std::ssize(donated)) donated[static_cast<std::size_t>(index)] = false;
  }
  return donated;
}

// What a run has to wait for.
struct Readiness {
  bool all_there = true;                               // every argument has its value
  std::vector<std::shared_ptr<Completion>> elsewhere;  // of arguments that no lane of the run makes before it
};

// Takes what the caller gave into the run: from here on, donated arguments are the run's.
Result<Readiness> TakeArguments(Run& run, const Program& program, const PJRT_LoadedExecutable_Execute_Args& args,
                                const std::vector<PJRT_Device*>& devices, const std::vector<bool>& donated) {
  Readiness out;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<Argument>& own = run.arguments.emplace_back();
    own.reserve(args.num_args);
    for (std::size_t i = 0; i < args.num_args; ++i) {
      PJRT_Buffer& buffer = *args.argument_lists[d][i];
      Argument a;
      const Shape& wanted = program.parameters()[i];
      if (wanted.IsArray() && buffer.shape().layout() != wanted.layout()) a.ordered = buffer.shape();
      if (donated[i]) {
        KRAFLA_ASSIGN(auto given, buffer.Donate());
        a.array = std::move(given.first);
        a.donated = given.second;
      } else {
        KRAFLA_ASSIGN(a.array, buffer.array());
      }
      if (!a.array->ready()->done() && a.array->value() == nullptr) {
        out.all_there = false;
        if (a.array->maker() != devices[d]->lane) out.elsewhere.push_back(a.array->ready());
      }
      own.push_back(std::move(a));
    }
  }
  return out;
}

// Gives the caller buffers that the run will fill, and events of its end. `posted_now`: the run goes to its lanes
// before any run that reads its results, so that these need not wait for it.
void GiveResults(Run& run, const Program& program, PJRT_LoadedExecutable_Execute_Args& args,
                 const std::vector<PJRT_Device*>& devices, bool posted_now) {
  for (std::size_t d = 0; d < devices.size(); ++d) {
    std::vector<std::shared_ptr<Array>>& results = run.results.emplace_back();
    for (std::size_t i = 0; i < program.results().size(); ++i) {
      std::unique_ptr<PJRT_Buffer> buffer = NewBuffer(
          devices[d]->memories[static_cast<std::size_t>(program.result_memories()[i])], program.results()[i], run.done);
      results.push_back(*buffer->array());
      if (posted_now) results.back()->set_maker(devices[d]->lane);
      args.output_lists[d][i] = buffer.release();
    }
    if (args.device_complete_events != nullptr) args.device_complete_events[d] = NewEvent(run.done);
  }
}

// Runs a short program at once where its lane is free; gives whether it has.
bool RunHere(Run& run, Lane& lane) {
  {
    const Lane::Turn turn = lane.TryEnter();
    if (!turn) return false;
    run.Work(lane);
  }
  run.Tell(lane);
  return true;
}

// Hands the run to its lanes, at once or when the last array that comes from elsewhere is there.
void PostRun(const std::shared_ptr<Run>& run, const std::shared_ptr<Program>& program, Lane& lane,
             const std::vector<std::shared_ptr<Completion>>& elsewhere) {
  auto post = [run, program, &lane](Lane::WhenFull when_full) {
    Lane::Job job{[run, &lane] { run->Work(lane); }, [run, &lane] { run->Tell(lane); }};
    if (program->is_group()) Lane::PostToAll(program->lanes(), std::move(job), when_full);
    else lane.Post(std::move(job), when_full);
  };
  if (elsewhere.empty()) return post(Lane::WhenFull::kWait);
  auto postponed = std::make_shared<Postponed>();
  postponed->missing = elsewhere.size();
  postponed->post = [post] { post(Lane::WhenFull::kPostAnyway); };
  for (const std::shared_ptr<Completion>& one : elsewhere)
    one->Then([postponed](const Status*) { postponed->Count(); });
}

}  // namespace

Result<> LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args& args) {
  const std::shared_ptr<Program>& program = args.executable->program;
  if (args.executable->deleted) return FailedPrecondition("'{}' has been deleted.", program->name());
  KRAFLA_ASSIGN(const std::vector<PJRT_Device*> devices, DevicesOfRun(*program, args));
  if (devices.empty()) return {};  // other processes run it
  const std::vector<bool> donated = DonatedArguments(*program, args);
  for (std::size_t d = 0; d < devices.size(); ++d)
    KRAFLA_TRY(
        Check(*program, *devices[d], args.num_args == 0 ? nullptr : args.argument_lists[d], args.num_args, donated));

  auto run = std::make_shared<Run>(program);
  KRAFLA_ASSIGN(const Readiness ready, TakeArguments(*run, *program, args, devices, donated));
  GiveResults(*run, *program, args, devices, ready.elsewhere.empty());

  Lane& lane = *devices[0]->lane;
  // A callback that runs a program of its own kind is on a lane's thread; waiting there could be for itself.
  const bool wait = program->calls_user_function() &&
                    std::ranges::none_of(program->lanes(), [](const Lane* l) { return l->IsOwnThread(); });
  const bool at_once = ready.all_there && !program->is_group() && program->last_run_ns() < kShortRunNs;
  if (!at_once || !RunHere(*run, lane)) PostRun(run, program, lane, ready.elsewhere);
  return wait ? WaitForEnd(*run->done, program->results().size(), args) : Result<>();
}

}  // namespace krafla::pjrt
