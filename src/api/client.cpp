// SPDX-License-Identifier: Apache-2.0
#include "api/client.h"

#include <algorithm>

#include "api/back_ends.h"
#include "api/packed_executable.h"
#include "base/guards.h"
#include "base/thread_pool.h"
#include "base/validation.h"
#include "base/without_exceptions.h"
#include "cpu_fallback/native/native_code.h"
#include "ir/memory_order.h"
#include "ir/packed_elements.h"

namespace krafla {

namespace {

// INVALID_ARGUMENT unless there is one span a shape, of its bytes and at an address that its elements may have.
template <typename Byte>
Result<> CheckSpans(std::string_view what, std::span<const std::span<Byte>> given, const std::vector<Shape>& shapes) {
  if (given.size() != shapes.size())
    return InvalidArgument("The program has {} {}s, memory for {} was given.", shapes.size(), what, given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(shapes[i].byte_size());
    if (given[i].size() != bytes)
      return InvalidArgument("The {} {} is {}, which takes {} bytes; {} were given.", what, i,
                             shapes[i].ToString(false), bytes, given[i].size());
    if (bytes == 0) continue;
    if (given[i].data() == nullptr) return InvalidArgument("The {} {} has a null pointer.", what, i);
    const auto alignment = static_cast<std::uintptr_t>(std::min(StorageBytes(shapes[i].element_type()), 8));
    if (reinterpret_cast<std::uintptr_t>(given[i].data()) % alignment != 0)
      return InvalidArgument("The {} {} is {}, whose address must be a multiple of {}.", what, i,
                             shapes[i].ToString(false), alignment);
  }
  return {};
}

}  // namespace

Result<std::unique_lock<std::recursive_timed_mutex>> Executable::TakeTurn(const RunLimit& limit) {
  std::unique_lock lock(running_, std::try_to_lock);
  while (!lock.owns_lock()) {
    KRAFLA_TRY(limit.Check());
    const auto long_after = RunLimit::Clock::now() + std::chrono::hours(1);
    // For a time, not until one: of libstdc++'s two the thread sanitizer knows this one.
    (void)lock.try_lock_for(limit.NextLook(long_after) - RunLimit::Clock::now());
  }
  return lock;
}

Result<> Executable::RunInPlace(std::span<const std::span<const std::byte>> arguments,
                                std::span<const std::span<std::byte>> results, const RunLimit& limit) {
  return WithoutExceptions([&]() -> Result<> {
    if (interface_.IsDynamic())
      return Unimplemented(
          "The program has dynamic dimensions, and only buffers say how large results are: run it on buffers.");
    KRAFLA_TRY(CheckSpans("argument", arguments, this->arguments()));
    KRAFLA_TRY(CheckSpans("result", results, this->results()));
    KRAFLA_TRY(limit.Check());
    return TryRunInPlace(arguments, results, limit);
  });
}

Result<RunProfile> Executable::ProfileOn(std::span<const Literal* const> arguments, int runs) {
  KRAFLA_ASSIGN(const auto turn, TakeTurn(kUnlimited));
  KRAFLA_TRY(SetArguments(arguments));
  return Profile(runs);
}

Result<> Executable::TryRunInPlace(std::span<const std::span<const std::byte>> arguments,
                                   std::span<const std::span<std::byte>> results, const RunLimit& limit) {
  std::vector<Literal> literals;
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    const Shape& shape = this->arguments()[a];
    KRAFLA_ASSIGN(Literal literal, shape.IsArray() ? Literal::FromBytes(shape, arguments[a]) : Literal::Create(shape));
    literals.push_back(std::move(literal));
  }
  KRAFLA_ASSIGN(std::vector<Literal> made, RunShared(ToShared(std::move(literals)), limit));
  for (std::size_t r = 0; r < results.size(); ++r)
    if (!results[r].empty()) std::ranges::copy(made[r].bytes(), results[r].begin());
  return {};
}

Result<DeviceBuffers> Executable::RunOnBuffersWithin(std::vector<DeviceArgument> arguments, const RunLimit& limit) {
  KRAFLA_ASSIGN(const auto turn, TakeTurn(limit));
  KRAFLA_TRY(limit.Check());
  const Limited limited(*this, limit);
  return RunOnBuffers(std::move(arguments));
}

Result<std::shared_ptr<DeviceBuffer>> Client::ViewOnDevice(const Shape& shape, HostView view) {
  if (PacksElements() && IsPackable(shape)) return CopyToDevice(shape, view.bytes);
  return PlaceView(shape, std::move(view));
}

Result<std::shared_ptr<DeviceBuffer>> Client::CopyToDevice(const Shape& shape, std::span<const std::byte> bytes) {
  if (!PacksElements() || !IsPackable(shape)) return PlaceCopy(shape, bytes);
  return WithoutExceptions([&]() -> Result<std::shared_ptr<DeviceBuffer>> {
    if (static_cast<int64_t>(bytes.size()) != shape.byte_size())
      return InvalidArgument("{} takes {} bytes, {} were given.", shape.ToString(false), shape.byte_size(),
                             bytes.size());
    KRAFLA_ASSIGN(Literal packed, Literal::CreateUninitialized(PackedShape(shape)));
    PackElements(shape.element_type(), bytes, packed.bytes());
    KRAFLA_ASSIGN(auto placed, Place(std::make_shared<const Literal>(std::move(packed))));
    return std::make_shared<PackedBuffer>(shape, std::move(placed));
  });
}

Result<std::shared_ptr<DeviceBuffer>> Client::ToDevice(std::shared_ptr<const Literal> literal) {
  if (PacksElements() && IsPackable(literal->shape())) return CopyToDevice(literal->shape(), literal->bytes());
  return Place(std::move(literal));
}

Result<std::shared_ptr<DeviceBuffer>> Client::PlaceView(const Shape& shape, HostView view) {
  return std::make_shared<HostBuffer>(shape, std::move(view));
}

Result<RunProfile> Executable::Profile(int) {
  return Unimplemented("Steps of programs on {} cannot be measured.", device_description_);
}

Result<std::vector<Literal>> Executable::Run(std::span<const Literal* const> arguments, const RunLimit& limit) {
  KRAFLA_ASSIGN(const auto turn, TakeTurn(limit));
  const Limited limited(*this, limit);
  KRAFLA_TRY(SetArguments(arguments));
  KRAFLA_TRY(Execute());
  return Results();
}

Result<std::vector<Literal>> Executable::RunShared(std::vector<std::shared_ptr<const Literal>> arguments,
                                                   const RunLimit& limit) {
  KRAFLA_ASSIGN(const auto turn, TakeTurn(limit));
  const Limited limited(*this, limit);
  KRAFLA_TRY(ShareArguments(std::move(arguments)));
  KRAFLA_TRY(Execute());
  return TakeResults();
}

Result<DeviceBuffers> Executable::RunOnBuffers(std::vector<DeviceArgument> arguments) {
  std::lock_guard lock(running_);
  std::vector<std::shared_ptr<const Literal>> literals;
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    if (arguments[a].buffer == nullptr) return InvalidArgument("Argument {} is missing.", a);
    auto literal = arguments[a].buffer->ToLiteral();
    if (!literal) return Failure(std::move(literal).error().WithContext(Format("in argument {}", a)));
    literals.push_back(std::move(*literal));
  }
  KRAFLA_ASSIGN(std::vector<Literal> results, RunShared(std::move(literals), *limit_));
  for (DeviceArgument& a : arguments)
    if (a.donated) a.buffer->Release();
  DeviceBuffers out;
  for (Literal& r : results) out.push_back(std::make_shared<HostBuffer>(std::make_shared<const Literal>(std::move(r))));
  return out;
}

Result<DeviceBuffers> Executable::RunObserved(std::vector<DeviceArgument> arguments, const StepObserver& observer) {
  std::lock_guard lock(running_);
  SetStepObserver(&observer);
  auto run = RunOnBuffers(std::move(arguments));
  SetStepObserver(nullptr);
  return run;
}

Result<std::shared_ptr<DeviceBuffer>> Client::PlaceCopy(const Shape& shape, std::span<const std::byte> bytes) {
  KRAFLA_ASSIGN(Literal literal, Literal::FromBytes(shape, bytes));
  return Place(std::make_shared<const Literal>(std::move(literal)));
}

Result<std::shared_ptr<DeviceBuffer>> Client::Place(std::shared_ptr<const Literal> literal) {
  return std::make_shared<HostBuffer>(std::move(literal));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): those who override it keep them.
Result<> Executable::ShareArguments(std::vector<std::shared_ptr<const Literal>> arguments) {
  std::vector<const Literal*> pointers;
  for (const auto& a : arguments) pointers.push_back(a.get());
  return SetArguments(pointers);
}

std::vector<std::shared_ptr<const Literal>> ToShared(std::vector<Literal> literals) {
  std::vector<std::shared_ptr<const Literal>> out;
  for (Literal& l : literals) out.push_back(std::make_shared<const Literal>(std::move(l)));
  return out;
}

Result<> Executable::SetArgumentBytes(std::span<const std::span<const std::byte>> given) {
  const std::vector<Shape>& shapes = arguments();
  if (given.size() != shapes.size())
    return InvalidArgument("The module takes {} arguments, {} were given.", shapes.size(), given.size());
  std::vector<Literal> literals;
  for (std::size_t a = 0; a < given.size(); ++a) {
    Result<Literal> made = shapes[a].IsArray() ? ReadInLayout(given[a], shapes[a]) : Literal::Create(shapes[a]);
    if (!made) return Failure(std::move(made).error().WithContext(Format("in argument {}", a)));
    literals.push_back(std::move(*made));
  }
  return ShareArguments(ToShared(std::move(literals)));
}

Result<> Executable::CopyResultBytes(std::span<const std::span<std::byte>> wanted) {
  const std::vector<Shape>& shapes = results();
  if (wanted.size() != shapes.size())
    return InvalidArgument("The module has {} results; {} places for results were given.", shapes.size(),
                           wanted.size());
  KRAFLA_ASSIGN(std::vector<Literal> literals, Results());
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    if (!shapes[r].IsArray()) continue;
    Result<> copied = WriteInLayout(literals[r], shapes[r].layout(), wanted[r]);
    if (!copied) return Failure(std::move(copied).error().WithContext(Format("in result {}", r)));
  }
  return {};
}

std::string Executable::PlacementLine() const {
  std::string out = Format("{}/{} instructions on {}; {} kernels", report_.device_instructions, report_.instructions,
                           device_description_, report_.kernels);
  if (report_.pipelines_compiled + report_.pipelines_cached > 0)
    out += Format(", {} compiled, {} from cache", report_.pipelines_compiled, report_.pipelines_cached);
  if (report_.tuned_kernels > 0) out += Format(", {} tuned", report_.tuned_kernels);
  if (report_.fast_functions) out += "; fast functions, not XLA's bits";
  if (report_.rounding_kernels > 0)
    out += Format("; {} kernels round to 8 bits what they multiply with quantised weights", report_.rounding_kernels);
  if (!report_.tuning_ignored.empty()) out += "; stored tuning is not used: " + report_.tuning_ignored;
  if (report_.exchange_instructions > 0 && report_.device_instructions < report_.instructions)
    out += Format("; {} between devices, {}", report_.exchange_instructions, report_.exchange_path);
  if (!report_.fallbacks.empty()) {
    out += Format("; on the CPU: ");
    std::size_t shown = 0;
    for (const CompileReport::Fallback& f : report_.fallbacks) {
      if (shown++ == 4) {
        out += Format(" and {} more", report_.fallbacks.size() - 4);
        break;
      }
      out += Format("{}{} ({})", shown == 1 ? "" : ", ", f.instruction, f.reason);
    }
  }
  return out;
}

namespace {

// What the environment says that is read where it is too late for an error.
Result<> CheckEnvironment() {
  KRAFLA_TRY(ThreadPool::ThreadsAskedFor());
  KRAFLA_TRY(cpu::native::NativeCodeAskedFor());
  KRAFLA_TRY(GuardsAskedFor());
  return {};
}

}  // namespace

Result<std::vector<DeviceDescription>> ListDevices(std::string* why) {
  KRAFLA_TRY(CheckEnvironment());
  std::vector<DeviceDescription> out;
  std::string missing;
  for (const BackEnd& b : BackEnds()) {
    if (!b.absent.empty()) {
      if (missing.empty()) missing = b.absent;
      continue;
    }
    Result<std::vector<DeviceDescription>> devices = b.list();
    if (devices) out.insert(out.end(), devices->begin(), devices->end());
    else if (devices.error().code() == StatusCode::kInvalidArgument) return devices;
    else missing = devices.error().message();
  }
  if (why != nullptr && !missing.empty()) *why = std::move(missing);
  return out;
}

Result<std::shared_ptr<Client>> Client::Create(std::string_view selector, const ClientOptions& options) {
  KRAFLA_TRY(CheckEnvironment());
  if (!selector.empty()) {
    KRAFLA_ASSIGN(const BackEnd chosen, BackEndOf(selector));
    if (!chosen.absent.empty()) {
      const std::vector<BackEnd> all = BackEnds();
      const auto there = std::ranges::find_if(all, [](const BackEnd& b) { return b.absent.empty(); });
      return NotFound("There is no device '{}'. {} Choose the device {}.", selector, chosen.absent, there->name);
    }
    return chosen.create(selector, options, {});
  }
  std::string passed_over;
  for (const BackEnd& b : BackEnds()) {
    if (!b.absent.empty()) {
      if (!passed_over.empty()) continue;
      KRAFLA_ASSIGN(const Validation validation, ValidationAskedFor());
      if (validation != Validation::kNone)
        return NotFound("{} There is no device that KRAFLA_VALIDATE could be meant for.", b.absent);
      passed_over = b.absent;
      continue;
    }
    Result<std::shared_ptr<Client>> client = b.create(b.name, options, passed_over);
    // What is not there at all is no failure; anything else is not to be passed over.
    if (client || client.error().code() != StatusCode::kNotFound) return client;
    passed_over = client.error().message();
  }
  return NotFound("There is no device; of the last kind it was said: \"{}\".", passed_over);
}

}  // namespace krafla
