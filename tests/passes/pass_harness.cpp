// SPDX-License-Identifier: Apache-2.0
#include "pass_harness.h"

#include <format>
#include <set>

#include "passes/rewrite.h"

namespace krafla {

namespace {

std::string List(const Dims& dims) {
  std::string out;
  for (int64_t d : dims) out += Format("{}{}", out.empty() ? "" : ",", d);
  return "{" + out + "}";
}

std::string ValueText(const Literal& literal) {
  if (literal.shape().element_count() > 8 || !literal.shape().IsArray()) return "...";
  ElementType type = literal.shape().element_type();
  std::string out;
  for (int64_t n = 0; n < literal.shape().element_count(); ++n) {
    auto at = static_cast<std::size_t>(n);
    if (n > 0) out += ",";
    if (type == ElementType::kF32) {
      out += Format("{}", literal.data<float>()[at]);
    } else if (type == ElementType::kF64) {
      out += Format("{}", literal.data<double>()[at]);
    } else if (type == ElementType::kS32) {
      out += Format("{}", literal.data<int32_t>()[at]);
    } else if (type == ElementType::kU32) {
      out += Format("{}", literal.data<uint32_t>()[at]);
    } else if (type == ElementType::kPred) {
      out += literal.data<uint8_t>()[at] ? "true" : "false";
    } else {
      for (std::size_t b = 0; b < static_cast<std::size_t>(StorageBytes(type)); ++b)
        out += Format("{:02x}", static_cast<unsigned>(
                                    literal.bytes()[(at + 1) * static_cast<std::size_t>(StorageBytes(type)) - 1 - b]));
    }
  }
  return out;
}

}  // namespace

std::string AttributeText(const Instruction& i) {
  const Attributes& a = i.attributes();
  if (const auto* d = std::get_if<DimensionsAttributes>(&a)) return List(d->dimensions);
  if (const auto* t = std::get_if<IotaAttributes>(&a)) return Format("{{{}}}", t->dimension);
  if (const auto* t = std::get_if<TupleIndexAttributes>(&a)) return Format("{{{}}}", t->index);
  if (const auto* s = std::get_if<SliceAttributes>(&a)) {
    std::string out;
    for (std::size_t n = 0; n < s->starts.size(); ++n)
      out += Format("{}{}:{}:{}", n ? "," : "", s->starts[n], s->limits[n], s->strides[n]);
    return "{" + out + "}";
  }
  if (const auto* d = std::get_if<DotAttributes>(&a))
    return List(d->lhs_batch) + List(d->lhs_contracting) + List(d->rhs_batch) + List(d->rhs_contracting);
  if (const auto* c = std::get_if<CompareAttributes>(&a)) {
    constexpr std::string_view kNames[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
    return Format("{{{}}}", kNames[static_cast<int>(c->direction)]);
  }
  if (const auto* s = std::get_if<ScanAttributes>(&a))
    return Format("{{{}{}}}", s->dimension, s->is_reverse ? ",reverse" : "");
  if (const auto* w = std::get_if<WhileAttributes>(&a))
    return w->known_trip_count ? Format("{{{}}}", *w->known_trip_count) : "{}";
  return "";
}

std::string Expression(const Instruction& i) {
  if (i.opcode() == Opcode::kParameter) return Format("p{}", i.attr<ParameterAttributes>().number);
  if (i.opcode() == Opcode::kConstant) return Format("{}({})", i.shape().ToString(false), ValueText(i.literal()));
  std::string operands;
  for (const Instruction* operand : i.operands())
    operands += Format("{}{}", operands.empty() ? "" : ", ", Expression(*operand));
  if (i.opcode() == Opcode::kTuple) return "(" + operands + ")";
  return Format("{}{} {}({})", OpcodeName(i.opcode()), AttributeText(i), i.shape().ToString(false), operands);
}

std::unique_ptr<Module> RunOn(std::string_view text, const std::vector<std::string>& passes) {
  auto module = ParseHloText(text);
  if (!module) {
    ADD_FAILURE() << module.error().ToString();
    return nullptr;
  }
  if (auto verified = Verify(**module); !verified) {
    ADD_FAILURE() << verified.error().ToString();
    return nullptr;
  }
  auto verify = [](const PassInfo& pass, Module& m, bool, double) -> Result<> {
    auto verified = Verify(m);
    if (!verified) return Failure(std::move(verified).error().WithContext(Format("after {}", pass.name)));
    return {};
  };
  auto ran = passes.empty() ? RunPipeline(**module, {}, verify) : RunPasses(**module, passes, {}, verify);
  if (!ran) {
    ADD_FAILURE() << ran.error().ToString() << "\nin\n" << text;
    return nullptr;
  }
  return std::move(*module);
}

std::string Entry(std::string_view body) { return Format("HloModule m\n\nENTRY main {{\n{}\n}}\n", body); }

std::string After(const std::vector<std::string>& passes, std::string_view body) {
  auto module = RunOn(Entry(body), passes);
  return module ? Expression(*module->entry()->root()) : "";
}

std::vector<const Instruction*> Find(const Module& module, Opcode opcode) {
  std::vector<const Instruction*> out;
  for (const Computation* c : ReachableComputations(module))
    for (const auto& i : c->instructions())
      if (i->opcode() == opcode) out.push_back(i.get());
  return out;
}

}  // namespace krafla
