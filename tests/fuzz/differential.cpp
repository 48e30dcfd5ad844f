// SPDX-License-Identifier: Apache-2.0
#include "differential.h"

#include <sys/resource.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>

#include "api/group/device_group.h"
#include "evaluator/evaluator.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "hlo_io/read_module.h"
#include "hlo_io/write_stablehlo.h"
#include "ir/mini_float.h"
#include "ir/verifier.h"
#include "random_graph.h"

namespace krafla::fuzz {
namespace {

Result<Literal> Assemble(const Shape& shape, const std::vector<Literal>& leaves, std::size_t& next) {
  if (!shape.IsTuple()) {
    if (next >= leaves.size()) return InvalidArgument("There are {} arguments, too few.", leaves.size());
    return leaves[next++];
  }
  std::vector<Literal> elements;
  for (const Shape& element : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Literal made, Assemble(element, leaves, next));
    elements.push_back(std::move(made));
  }
  return Literal::MakeTuple(std::move(elements));
}

void Leaves(const Literal& value, std::vector<Literal>& out) {
  if (!value.shape().IsTuple()) return out.push_back(value);
  for (const Literal& element : value.elements()) Leaves(element, out);
}

template <typename T, typename Bits>
bool AnyDenormal(std::span<const std::byte> bytes, Bits exponent, Bits mantissa) {
  for (std::size_t i = 0; i + sizeof(Bits) <= bytes.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i, sizeof bits);
    if ((bits & exponent) == 0 && (bits & mantissa) != 0) return true;
  }
  return false;
}

// Of the types whose denormals are denormals of what is computed with.
bool HasDenormal(const Literal& value) {
  if (value.shape().IsTuple()) {
    for (const Literal& element : value.elements())
      if (HasDenormal(element)) return true;
    return false;
  }
  ElementType type = RealPart(value.shape().element_type());
  if (type == ElementType::kF32) return AnyDenormal<float, uint32_t>(value.bytes(), 0x7f800000u, 0x007fffffu);
  if (type == ElementType::kBF16)
    return AnyDenormal<uint16_t, uint16_t>(value.bytes(), uint16_t{0x7f80}, uint16_t{0x007f});
  if (type == ElementType::kF16)
    return AnyDenormal<uint16_t, uint16_t>(value.bytes(), uint16_t{0x7c00}, uint16_t{0x03ff});
  if (type == ElementType::kF64)
    return AnyDenormal<double, uint64_t>(value.bytes(), 0x7ff0000000000000u, 0x000fffffffffffffu);
  return false;
}

// Whether the bits of a value of a float type are a NaN.
bool IsNan(ElementType type, uint64_t bits) {
  if (type == ElementType::kF64) return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
  if (type == ElementType::kF32) return (bits & 0x7fffffffu) > 0x7f800000u;
  const MiniFloat* format = FindMiniFloat(type);
  if (format == nullptr || !format->has_nan()) return false;
  if (format->has_inf()) return (bits & format->magnitude_mask()) > format->exponent_mask();
  return bits == format->nan() ||
         (format->specials == FloatSpecials::kNanAllOnes && (bits & format->magnitude_mask()) == format->nan());
}

// Empty, or the first difference: bit for bit, but for what kind of NaN a NaN is.
std::string Difference(const Literal& expected, const Literal& got) {
  if (!Shape::Compatible(expected.shape(), got.shape()))
    return Format("shape {} instead of {}", got.shape().ToString(false), expected.shape().ToString(false));
  ElementType type = expected.shape().element_type();
  auto size = static_cast<std::size_t>(StorageBytes(RealPart(type)));
  int64_t wrong = 0;
  std::string first;
  for (std::size_t i = 0; size > 0 && i + size <= expected.bytes().size(); i += size) {
    uint64_t e = 0, g = 0;
    std::memcpy(&e, expected.bytes().data() + i, size);
    std::memcpy(&g, got.bytes().data() + i, size);
    ElementType part = RealPart(type);
    if (e == g || (IsFloat(part) && IsNan(part, e) && IsNan(part, g))) continue;
    if (wrong++ == 0) {
      auto text = [&](uint64_t bits) {
        Literal one = *Literal::Create(Shape::MakeScalar(part));
        std::memcpy(one.bytes().data(), &bits, size);
        return PrintLiteral(one);
      };
      first = Format("element {}: {} (0x{:x}) instead of {} (0x{:x})", i / size, text(g), g, text(e), e);
    }
  }
  return wrong == 0 ? ""
                    : Format("{} of {} differ, first {}", wrong,
                             expected.bytes().size() / std::max<std::size_t>(size, 1), first);
}

}  // namespace

Result<ReferenceRun> RunReference(const Module& module, const std::vector<Literal>& arguments) {
  ReferenceRun out;
  std::size_t next = 0;
  for (const Instruction* parameter : module.entry()->parameters()) {
    KRAFLA_ASSIGN(Literal value, Assemble(parameter->shape(), arguments, next));
    out.values.emplace(parameter, std::move(value));
  }
  for (const auto& instruction : module.entry()->instructions()) {
    if (instruction->opcode() == Opcode::kParameter) continue;
    std::vector<const Literal*> operands;
    for (const Instruction* operand : instruction->operands()) operands.push_back(&out.values.at(operand));
    KRAFLA_ASSIGN(Literal value, EvaluateInstruction(*instruction, operands));
    out.denormal |= HasDenormal(value);
    out.values.emplace(instruction.get(), std::move(value));
  }
  Leaves(out.values.at(module.entry()->root()), out.results);
  return out;
}

Differential::Differential(const std::vector<std::string>& selectors, double budget_factor)
    : budget_factor_(budget_factor) {
  for (const std::string& selector : selectors) {
    Backend backend;
    backend.name = selector;
    std::string device = selector;
    if (std::size_t bang = selector.find('!'); bang != std::string::npos) {
      device = selector.substr(0, bang);
      for (std::size_t at = bang; at != std::string::npos; at = selector.find(',', at + 1))
        backend.options.disabled.insert(selector.substr(at + 1, selector.find(',', at + 1) - at - 1));
    }
    auto client = Client::Create(device);
    if (!client) {
      absent.push_back(selector + ": " + client.error().message());
      continue;
    }
    backend.client = *client;
    backends_.push_back(std::move(backend));
  }
}

namespace {

bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kUnimplemented || status.code() == StatusCode::kResourceExhausted;
}

double ProcessorSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The most memory that this process had at once, which never falls.
int64_t PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

// Empty, or which form does not say what the module says.
std::string WrongForm(const Module& module) {
  const std::string text = PrintModule(module);
  auto from_text = ParseHloText(text, "printed");
  if (!from_text) return "from its own text: " + from_text.error().ToString();
  if (PrintModule(**from_text) != text) return "from its own text it prints as\n" + PrintModule(**from_text);
  auto bytes = SerializeHloProto(module);
  if (!bytes) return IsRefusal(bytes.error()) ? "" : "to a proto: " + bytes.error().ToString();
  auto from_proto = ParseHloProto(std::as_bytes(std::span(*bytes)), "serialised");
  if (!from_proto) return "from its own proto: " + from_proto.error().ToString();
  if (auto verified = Verify(**from_proto); !verified) return "from its own proto: " + verified.error().ToString();
  auto again = SerializeHloProto(**from_proto);
  if (!again || *again != *bytes) return "its proto, read and written again, has other bytes";
  return "";
}

}  // namespace

Result<Differential::Results> Differential::Run(Backend& backend, const Module& module,
                                                const std::vector<Literal>& arguments, std::string& costly) {
  const int64_t devices = module.replica_count * module.num_partitions;
  int64_t instructions = 0, constants = 0;
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions()) {
      ++instructions;
      if (i->opcode() == Opcode::kConstant) constants += i->shape().byte_size();
    }
  const double begin = ProcessorSeconds();
  const int64_t bytes = PeakBytes();
  // `compiled`: the instructions that the passes leave, as of calls that they copy. `compile`: once more, whose time
  // counts where it is less, as processes side by side take each other's caches.
  auto check_cost = [&](int64_t compiled, auto&& compile) {
    // A driver's compiler is not ours to bound.
    if (!backend.client->device().runs_on_host_threads) return;
    const CompileBudget budget;
    const auto n = static_cast<double>(instructions);
    double seconds = ProcessorSeconds() - begin;
    const int64_t grown = PeakBytes() - bytes;
    const double allowed = budget_factor_ * (budget.seconds + n * budget.seconds_per_instruction +
                                             static_cast<double>(compiled) * budget.seconds_per_compiled_instruction);
    for (int again = 0; again < 2 && seconds > allowed; ++again) {
      const double start = ProcessorSeconds();
      compile();
      seconds = std::min(seconds, ProcessorSeconds() - start);
    }
    if (compiled > budget.compiled_instructions + instructions * budget.compiled_per_instruction)
      costly = Format("{} instructions became {}", instructions, compiled);
    else if (seconds > allowed)
      costly = Format("compiling {} instructions, which became {}, took {} s of processor time", instructions, compiled,
                      seconds);
    else if (static_cast<double>(grown) >
             budget_factor_ *
                 static_cast<double>(budget.bytes + instructions * budget.bytes_per_instruction + 64 * constants))
      costly = Format("compiling {} instructions took {} bytes", instructions, grown);
  };
  Results out;
  if (devices == 1) {
    auto compile = [&] { return backend.client->Compile(module.Clone(), backend.options); };
    KRAFLA_ASSIGN(auto executable, compile());
    check_cost(executable->report().instructions, compile);
    std::vector<const Literal*> pointers;
    for (const Literal& a : arguments) pointers.push_back(&a);
    KRAFLA_ASSIGN(auto results, executable->Run(pointers));
    out.devices.push_back(std::move(results));
    return out;
  }
  DeviceGroup group(backend.client);
  auto compile = [&] { return group.Compile(module.Clone(), backend.options); };
  KRAFLA_ASSIGN(auto executable, compile());
  check_cost(executable->report().instructions, compile);
  for (int64_t d = 0; d < devices; ++d) {
    std::vector<Literal> own = d == 0 ? arguments : MakeArguments(module, static_cast<uint64_t>(d) + 1000);
    std::vector<const Literal*> pointers;
    for (const Literal& a : own) pointers.push_back(&a);
    KRAFLA_TRY(executable->SetArguments(d, pointers));
  }
  KRAFLA_TRY(executable->Execute());
  for (int64_t d = 0; d < devices; ++d) {
    KRAFLA_ASSIGN(auto results, executable->Results(d));
    out.devices.push_back(std::move(results));
  }
  return out;
}

// Empty, or which form of StableHLO does not say what the module says: read again, it gives other results. Those of
// functions that are an opcode here and a formula in StableHLO may differ, and are not compared.
std::string Differential::WrongStablehlo(const Module& module, const std::vector<Literal>& arguments,
                                         std::span<const Literal> expected) {
  const std::pair<const char*, Result<std::string> (*)(const Module&)> forms[] = {
      {"text.mlir", &WriteStablehloText}, {"bytes.mlirbc", &WriteStablehloBytecode}};
  for (const auto& [name, write] : forms) {
    auto bytes = write(module);
    if (!bytes && IsRefusal(bytes.error())) continue;
    if (!bytes) return Format("to {}: {}", name, bytes.error().ToString());
    auto again = ReadModule(*bytes, name);
    if (!again) return Format("from its own {}: {}", name, again.error().ToString());
    if (auto verified = Verify(**again); !verified)
      return Format("from its own {}: {}", name, verified.error().ToString());
    ++stablehlo_forms;
    if (module.CountOf(Opcode::kCosh) + module.CountOf(Opcode::kSinh) > 0) continue;
    auto got = RunReference(**again, arguments);
    if (!got) return Format("from its own {}: {}", name, got.error().ToString());
    if (got->results.size() != expected.size()) return Format("from its own {}: other results", name);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (std::string difference = Difference(expected[i], got->results[i]); !difference.empty())
        return Format("from its own {}: result {}: {}", name, i, difference);
  }
  return "";
}

Outcome Differential::Check(const Module& module, const std::vector<Literal>& arguments) {
  if (std::string wrong = WrongForm(module); !wrong.empty()) return {Verdict::kError, "reader", wrong};
  Outcome worst;
  auto note = [&](Verdict verdict, const std::string& backend, std::string what) {
    if (verdict > worst.verdict) worst = {verdict, backend, std::move(what)};
  };
  // What the others are held against: the evaluator, or the first back end that runs a program of several devices.
  std::optional<Results> expected;
  std::optional<Status> refused;
  std::string by;
  bool denormal = false;
  if (auto devices = VerifyDevices(module); !devices) {
    // What names devices that are not there is refused before anything runs.
    refused = devices.error();
    by = "verifier";
  } else if (module.replica_count * module.num_partitions == 1) {
    auto reference = RunReference(module, arguments);
    by = "evaluator";
    if (reference) {
      denormal = reference->denormal;
      if (std::string wrong = WrongStablehlo(module, arguments, reference->results); !wrong.empty())
        return {Verdict::kError, "StableHLO", wrong};
      expected.emplace().devices.push_back(std::move(reference->results));
    } else {
      refused = reference.error();
    }
  }
  for (Backend& backend : backends_) {
    std::string costly;
    auto results = Run(backend, module, arguments, costly);
    if (!costly.empty()) note(Verdict::kCostly, backend.name, costly);
    if (!results) {
      if (expected) {
        note(IsRefusal(results.error()) ? Verdict::kRefused : Verdict::kError, backend.name,
             results.error().ToString());
      } else if (!refused) {
        refused = results.error();
        by = backend.name;
      } else if (refused->code() != results.error().code()) {
        note(Verdict::kError, backend.name,
             Format("{}, where {} says: {}", results.error().ToString(), by, refused->ToString()));
      }
      continue;
    }
    if (refused) {
      // A call that nobody has may be dead code by the time that somebody would look for it.
      const bool may_run = IsRefusal(*refused) || refused->code() == StatusCode::kNotFound;
      note(may_run ? Verdict::kRefused : Verdict::kError, by,
           Format("{}, and {} runs it", refused->ToString(), backend.name));
      continue;
    }
    if (!expected) {
      for (const auto& device : results->devices)
        for (const Literal& r : device) denormal |= HasDenormal(r);
      expected = std::move(*results);
      by = backend.name;
      continue;
    }
    for (std::size_t d = 0; d < expected->devices.size(); ++d) {
      const auto& want = expected->devices[d];
      const auto& got = results->devices[d];
      if (want.size() != got.size()) {
        note(Verdict::kDisagree, backend.name, Format("{} results instead of {}", got.size(), want.size()));
        break;
      }
      for (std::size_t i = 0; i < got.size(); ++i) {
        std::string difference = Difference(want[i], got[i]);
        if (difference.empty()) continue;
        note(denormal ? Verdict::kDenormal : Verdict::kDisagree, backend.name,
             Format("result {} of device {}, against {}: {}", i, d, by, difference));
        break;
      }
    }
  }
  if (refused) note(Verdict::kRefused, by, refused->ToString());
  return worst;
}

}  // namespace krafla::fuzz
