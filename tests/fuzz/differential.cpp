// SPDX-License-Identifier: Apache-2.0
#include "differential.h"

#include <cmath>
#include <cstring>

#include "cpu_fallback/evaluator/evaluator.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

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
  if (type == ElementType::kBF16) return AnyDenormal<uint16_t, uint16_t>(value.bytes(), uint16_t{0x7f80}, uint16_t{0x007f});
  if (type == ElementType::kF16) return AnyDenormal<uint16_t, uint16_t>(value.bytes(), uint16_t{0x7c00}, uint16_t{0x03ff});
  if (type == ElementType::kF64)
    return AnyDenormal<double, uint64_t>(value.bytes(), 0x7ff0000000000000u, 0x000fffffffffffffu);
  return false;
}

// Whether the bits of a value of a float type are a NaN: more than infinity, or the type's own pattern.
bool IsNan(ElementType type, uint64_t bits) {
  switch (StorageBytes(type)) {
    case 8: return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    case 4: return (bits & 0x7fffffffu) > 0x7f800000u;
    case 2: return (bits & 0x7fffu) > (type == ElementType::kBF16 ? 0x7f80u : 0x7c00u);
    default:
      if (type == ElementType::kF8E5M2) return (bits & 0x7fu) > 0x7cu;
      if (type == ElementType::kF8E4M3FN) return (bits & 0x7fu) == 0x7fu;
      return false;
  }
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
  return wrong == 0 ? "" : Format("{} of {} differ, first {}", wrong, expected.bytes().size() / std::max<std::size_t>(size, 1), first);
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

Differential::Differential(const std::vector<std::string>& selectors) {
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

Outcome Differential::Check(const Module& module, const std::vector<Literal>& arguments) {
  auto reference = RunReference(module, arguments);
  if (!reference) {
    bool refused = reference.error().code() == StatusCode::kUnimplemented || reference.error().code() == StatusCode::kResourceExhausted;
    return {refused ? Verdict::kRefused : Verdict::kError, "evaluator", reference.error().ToString()};
  }
  Outcome worst;
  auto note = [&](Verdict verdict, const Backend& backend, std::string what) {
    if (verdict > worst.verdict) worst = {verdict, backend.name, std::move(what)};
  };
  std::vector<const Literal*> pointers;
  for (const Literal& a : arguments) pointers.push_back(&a);
  for (Backend& backend : backends_) {
    auto executable = backend.client->Compile(module.Clone(), backend.options);
    auto results = executable ? (*executable)->Run(pointers) : Failure(executable.error());
    if (!results) {
      bool refused = results.error().code() == StatusCode::kUnimplemented || results.error().code() == StatusCode::kResourceExhausted;
      note(refused ? Verdict::kRefused : Verdict::kError, backend, results.error().ToString());
      continue;
    }
    if (results->size() != reference->results.size()) {
      note(Verdict::kDisagree, backend, Format("{} results instead of {}", results->size(), reference->results.size()));
      continue;
    }
    for (std::size_t i = 0; i < results->size(); ++i) {
      std::string difference = Difference(reference->results[i], (*results)[i]);
      if (difference.empty()) continue;
      note(reference->denormal ? Verdict::kDenormal : Verdict::kDisagree, backend, Format("result {}: {}", i, difference));
      break;
    }
  }
  return worst;
}

}  // namespace krafla::fuzz
