// SPDX-License-Identifier: Apache-2.0
// Programs that leave sizes open, read for the sizes that the caller gives: the entry's arguments have those, every
// other size follows (Converter::Emit infers it from operands). Functions are read where they are called, since each
// call has sizes of its own; sizes are constants, so that the operations that take them as operands know them.
#include <cstring>

#include "hlo_io/stablehlo/converter.h"

namespace krafla::stablehlo {
namespace {

// Of all calls together: calls within calls could make a short program endless.
constexpr std::size_t kMaxInlined = 1'000'000;

std::string TypeText(TypeRef type) {
  std::string out = Format("{}[", ElementTypeName(type->element));
  for (std::size_t d = 0; d < type->dims.size(); ++d)
    out += Format("{}{}", d > 0 ? "," : "", type->dims[d] == kDynamicDim ? "?" : std::to_string(type->dims[d]));
  return out + "]";
}

std::string SizesText(std::span<const int64_t> sizes) {
  std::string out;
  for (std::size_t d = 0; d < sizes.size(); ++d) out += Format("{}{}", d > 0 ? "," : "", sizes[d]);
  return out;
}

// "0", or "0 (x)"
std::string Numbered(std::size_t argument, const std::string& name) {
  return name.empty() ? std::to_string(argument) : Format("{} ({})", argument, name);
}

std::size_t CountOps(const Region& region) {
  std::size_t out = region.ops.size();
  for (const Op& op : region.ops)
    for (const Region& inner : op.regions) out += CountOps(inner);
  return out;
}

// The integers as elements of the shape's type, which wrap.
Result<Literal> IntegersAs(const Shape& shape, const Dims& values) {
  KRAFLA_ASSIGN(Literal out, Literal::Create(shape));
  const auto width = static_cast<std::size_t>(StorageBytes(shape.element_type()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<uint64_t>(values[i]);
    std::memcpy(out.bytes().data() + i * width, &bits, width);  // little endian
  }
  return out;
}

}  // namespace

// What JAX exports calls a function with the entry's arguments, which have names there.
std::string Converter::EntryName(const Op& func, std::size_t argument) const {
  const Region& region = func.regions[0];
  const ValueId value = region.arguments[argument];
  if (auto own = tree_.names.find(value); own != tree_.names.end()) return own->second;
  for (const Op& op : region.ops) {
    if (op.name != "call") continue;
    AttributeRef callee = op.Find("callee");
    const auto function = callee != nullptr ? functions_.find(callee->text) : functions_.end();
    if (function == functions_.end() || function->second->regions.size() != 1) continue;
    const std::vector<ValueId>& inner = function->second->regions[0].arguments;
    for (std::size_t i = 0; i < op.operands.size() && i < inner.size(); ++i)
      if (op.operands[i] == value)
        if (auto named = tree_.names.find(inner[i]); named != tree_.names.end()) return named->second;
  }
  return {};
}

Result<std::vector<ProgramInput>> Converter::EntryInputs() {
  KRAFLA_TRY(ReadSymbols());
  KRAFLA_ASSIGN(const Op* func, EntryFunction());
  if (func->regions.size() != 1) return InvalidArgument("A function has one region, not {}.", func->regions.size());
  std::vector<ProgramInput> out;
  for (std::size_t a = 0; a < func->regions[0].arguments.size(); ++a) {
    const TypeRef type = TypeOfValue(func->regions[0].arguments[a]);
    if (type->kind != Type::Kind::kTensor) continue;  // a token
    ProgramInput& input = out.emplace_back();
    input.name = EntryName(*func, a);
    input.type = type->element;
    input.has_rank = !type->unranked;
    for (std::size_t d = 0; d < type->dims.size(); ++d) {
      const bool has_bound = d < type->bounds.size() && type->bounds[d] != kDynamicDim;
      const int64_t size = type->dims[d] == kDynamicDim && has_bound ? type->bounds[d] : type->dims[d];
      input.dimensions.push_back({size == kDynamicDim ? -1 : size, ""});
    }
  }
  return out;
}

Result<> Converter::CheckGivenShapes(const Op& func) const {
  const std::size_t count = func.regions[0].arguments.size();
  for (const auto& [name, sizes] : conversion_.shapes) {
    bool found = false;
    std::string known;
    for (std::size_t a = 0; a < count; ++a) {
      found = found || name == std::to_string(a) || name == EntryName(func, a);
      known += Format("{}{} {}", a > 0 ? ", " : "", Numbered(a, EntryName(func, a)),
                      TypeText(TypeOfValue(func.regions[0].arguments[a])));
    }
    if (!found)
      return InvalidArgument("A shape is given for '{}', which is not an argument; the arguments are: {}.", name,
                             known.empty() ? "none" : known);
  }
  return {};
}

Result<Shape> Converter::EntryShape(const Op& func, std::size_t argument) {
  const ValueId value = func.regions[0].arguments[argument];
  const TypeRef type = TypeOfValue(value);
  const std::string name = EntryName(func, argument);
  auto given = conversion_.shapes.find(std::to_string(argument));
  if (given == conversion_.shapes.end() && !name.empty()) given = conversion_.shapes.find(name);
  if (given == conversion_.shapes.end()) {
    if (!IsOpen(type)) return ShapeOf(type);
    std::string open;
    for (std::size_t d = 0; d < type->dims.size(); ++d)
      if (type->dims[d] == kDynamicDim && (d >= type->bounds.size() || type->bounds[d] == kDynamicDim))
        open += Format("{}{}", open.empty() ? "" : ", ", d);
    return Unimplemented(
        "Argument {} is {}: the size of dimension {} is not known before the program runs. Give all sizes of the "
        "argument, as in --shape '{}={}'.",
        Numbered(argument, name), TypeText(type), open, name.empty() ? std::to_string(argument) : name, [&] {
          Dims example = type->dims;
          for (int64_t& size : example) size = size == kDynamicDim ? 1 : size;
          return SizesText({example.data(), example.size()});
        }());
  }
  if (type->kind != Type::Kind::kTensor || type->unranked)
    return InvalidArgument("Argument {} is not an array of known rank; no shape can be given for it.",
                           Numbered(argument, name));
  const std::vector<int64_t>& sizes = given->second;
  bool fits = sizes.size() == type->dims.size();
  for (std::size_t d = 0; fits && d < sizes.size(); ++d) {
    const int64_t bound = d < type->bounds.size() ? type->bounds[d] : kDynamicDim;
    fits = type->dims[d] == kDynamicDim ? bound == kDynamicDim || sizes[d] <= bound : type->dims[d] == sizes[d];
  }
  if (!fits)
    return InvalidArgument("Argument {} is {}, for which the sizes {} are given.", Numbered(argument, name),
                           TypeText(type), SizesText(sizes));
  return Shape::MakeArray(type->element, Dims(sizes.begin(), sizes.end()));
}

Result<Instruction*> Converter::CopyOfKnown(const Instruction& value, Body& into) const {
  if (value.IsConstant()) return CopyConstant(value, into);
  if (!refines()) return nullptr;
  const std::optional<Dims> known = ConstantDims(&value);
  if (!known || known->ssize() != value.shape().element_count()) return nullptr;
  KRAFLA_ASSIGN(Literal literal, IntegersAs(value.shape(), *known));
  return AddConstant(*into.computation, std::move(literal));
}

// Each is a constant as soon as it is made, so that the next one need not look further than its operands.
Result<Instruction*> Converter::Folded(Instruction& value, Body& body) const {
  if (!refines() || value.IsConstant() || value.operand_count() == 0) return &value;
  for (const Instruction* o : value.operands())
    if (!o->IsConstant()) return &value;
  KRAFLA_ASSIGN(Instruction * constant, CopyOfKnown(value, body));
  return constant != nullptr ? constant : &value;
}

Result<> Converter::InlineCall(const Op& op, Body& body, const std::string& callee) {
  auto found = functions_.find(callee);
  if (found == functions_.end())
    return InvalidArgument("The function '{}' is called but not defined.", callee.substr(0, 60));
  if (open_[callee])
    return InvalidArgument("The function '{}' leads back to itself; StableHLO has no recursion.", callee.substr(0, 60));
  if (found->second->regions.size() != 1)
    return InvalidArgument("A function has one region, not {}.", found->second->regions.size());
  const Region& region = found->second->regions[0];
  inlined_ += CountOps(region) + 1;
  if (inlined_ > kMaxInlined)
    return Unimplemented("The calls of a program for given sizes hold more than {} operations.", kMaxInlined);
  if (++depth_ > kMaxRegionDepth)
    return InvalidArgument("Functions call each other deeper than the limit of {}.", kMaxRegionDepth);
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, Operands(op, body));
  if (operands.size() != region.arguments.size())
    return InvalidArgument("'{}' takes {} arguments, {} are given.", callee, region.arguments.size(), operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    KRAFLA_TRY(CheckFits("an argument of a call", TypeOfValue(region.arguments[i]), operands[i]->shape()));
    body.values[region.arguments[i]] = operands[i];
  }
  open_[callee] = true;
  auto results = ConvertOps(region.ops, body);
  open_[callee] = false;
  if (!results) return Failure(std::move(results).error().WithContext(Format("in function '{}'", callee)));
  KRAFLA_TRY(CheckResults(*found->second, *results));
  if (results->size() != op.results.size())
    return InvalidArgument("'{}' gives {} values, where {} are taken.", callee, results->size(), op.results.size());
  for (std::size_t i = 0; i < results->size(); ++i) {
    KRAFLA_TRY(CheckFits("a result of a call", TypeOfValue(op.results[i]), (*results)[i]->shape()));
    body.values[op.results[i]] = (*results)[i];
  }
  --depth_;
  return {};
}

Result<> Converter::CheckShapes(const Op& op, const Body& body) const {
  KRAFLA_ASSIGN(const Instruction* condition, Operand(op, body, 0));
  const std::optional<Dims> holds = ConstantDims(condition);
  if (!holds || holds->size() != 1)
    return Unimplemented("A condition on shapes does not follow from the sizes of the arguments.");
  if ((*holds)[0] != 0) return {};
  AttributeRef given = op.FindAnywhere("error_message");
  std::string message = given != nullptr ? given->text : "";
  // "{0}" stands for the operand behind the condition.
  for (std::size_t i = 1; i < op.operands.size(); ++i) {
    KRAFLA_ASSIGN(const Instruction* operand, Operand(op, body, i));
    const std::optional<Dims> value = ConstantDims(operand);
    const std::string place = Format("{{{}}}", i - 1);
    const std::string text = value && value->size() == 1 ? std::to_string((*value)[0]) : "?";
    for (std::size_t at = 0; (at = message.find(place, at)) != std::string::npos; at += text.size())
      message.replace(at, place.size(), text);
  }
  while (message.ends_with('.')) message.pop_back();
  return InvalidArgument("The sizes of the arguments do not meet a condition of the program: {}.",
                         message.empty() ? "it gives no reason" : message);
}

}  // namespace krafla::stablehlo
