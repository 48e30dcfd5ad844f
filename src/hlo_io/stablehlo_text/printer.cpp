// SPDX-License-Identifier: Apache-2.0
// Operations, regions, functions.
#include "hlo_io/stablehlo_text/printer.h"

#include <algorithm>

#include "hlo_io/stablehlo_text/stablehlo_text.h"
#include "ir/opcode.h"

namespace krafla::stablehlo {
namespace {

// Whether the short form says all: one type for the operands and the result.
bool IsShort(const Op& op, const Tree& tree) {
  if (op.results.size() != 1 || op.operands.empty() || !op.attributes.empty() || !op.regions.empty()) return false;
  const auto type = [&](ValueId value) { return tree.values[static_cast<std::size_t>(value)]; };
  for (ValueId operand : op.operands)
    if (type(operand) != type(op.results[0])) return false;
  for (const OpInfo& info : AllOps())
    if (info.stablehlo_name == op.name)
      return IsElementwise(info.opcode) && info.opcode != Opcode::kSelect && info.opcode != Opcode::kConvert &&
             info.opcode != Opcode::kBitcastConvert;
  return false;
}

// "stablehlo.add"; in functions the return is that of the dialect func, which has call too.
std::string FullName(const Op& op, bool in_function) {
  if (op.name.find('.') != std::string::npos) return op.name;
  const bool of_func = op.name == "call" || (op.name == "return" && in_function);
  return (of_func ? "func." : "stablehlo.") + op.name;
}

}  // namespace

void TextPrinter::Location(const std::string& name) {
  if (!name.empty()) out_ += " loc(" + QuoteMlir(name) + ")";
}

// "%3 = " or "%3:2 = ".
void TextPrinter::ResultNames(const Op& op) {
  if (op.results.empty()) return;
  const std::string name = Format("%{}", next_++);
  for (std::size_t n = 0; n < op.results.size(); ++n)
    names_[op.results[n]] = op.results.size() == 1 ? name : Format("{}#{}", name, n);
  out_ += name;
  if (op.results.size() > 1) out_ += Format(":{}", op.results.size());
  out_ += " = ";
}

void TextPrinter::Operands(const Op& op) {
  for (std::size_t n = 0; n < op.operands.size(); ++n) out_ += (n > 0 ? ", " : "") + names_[op.operands[n]];
}

void TextPrinter::Types(const std::vector<ValueId>& values) {
  out_ += '(';
  for (std::size_t n = 0; n < values.size(); ++n) out_ += (n > 0 ? ", " : "") + PrintType(TypeOf(values[n]));
  out_ += ')';
}

void TextPrinter::Body(const Region& region, int depth, bool in_function) {
  for (const Op& op : region.ops) Operation(op, depth, in_function);
}

void TextPrinter::Operation(const Op& op, int depth, bool in_function) {
  Indent(depth);
  ResultNames(op);
  const std::string more = op.discardable.empty() ? "" : " {" + PrintDictionaryEntries(op.discardable) + "}";
  const std::string name = FullName(op, in_function);
  if (op.name == "constant") {
    out_ += name + more + " " + PrintMlirAttribute(*op.Find("value"), "value", /*inherent=*/true);
  } else if (IsShort(op, tree_)) {
    out_ += name + " ";
    Operands(op);
    out_ += more + " : " + PrintType(TypeOf(op.results[0]));
  } else {
    out_ += QuoteMlir(name) + "(";
    Operands(op);
    out_ += ")";
    std::string properties;
    for (const auto& [key, value] : StructuredAttributes(op))
      properties += (properties.empty() ? "" : ", ") + key + (value == "unit" ? "" : " = " + value);
    if (!properties.empty()) out_ += " <{" + properties + "}>";
    for (std::size_t n = 0; n < op.regions.size(); ++n) {
      out_ += n == 0 ? " ({\n" : ", {\n";
      const Region& region = op.regions[n];
      if (!region.arguments.empty()) {
        Indent(depth);
        out_ += "^bb0(";
        for (std::size_t a = 0; a < region.arguments.size(); ++a) {
          Name(region.arguments[a]);
          out_ += Format("{}{}: {}", a > 0 ? ", " : "", names_[region.arguments[a]],
                         PrintType(TypeOf(region.arguments[a])));
        }
        out_ += "):\n";
      }
      Body(region, depth + 1, /*in_function=*/false);
      Indent(depth);
      out_ += "}";
    }
    if (!op.regions.empty()) out_ += ")";
    out_ += more + " : ";
    Types(op.operands);
    out_ += " -> ";
    Types(op.results);
  }
  Location(op.op_name);
  out_ += "\n";
}

void TextPrinter::Function(const Op& op) {
  next_ = 0;
  const Region& region = op.regions[0];
  const std::string& visibility = op.Find("sym_visibility")->text;
  const auto border = [&](std::string_view key, std::size_t n) {
    AttributeRef all = op.Find(key);
    if (all == nullptr || n >= all->elements.size() || all->elements[n]->entries.empty()) return std::string();
    return " {" + PrintDictionaryEntries(all->elements[n]->entries) + "}";
  };
  out_ += "  func.func " + visibility + (visibility.empty() ? "" : " ") + PrintSymbol(op.Find("sym_name")->text) + "(";
  for (std::size_t n = 0; n < region.arguments.size(); ++n) {
    const ValueId argument = region.arguments[n];
    names_[argument] = Format("%arg{}", n);
    out_ += Format("{}%arg{}: {}{}", n > 0 ? ", " : "", n, PrintType(TypeOf(argument)), border("arg_attrs", n));
    if (auto name = tree_.names.find(argument); name != tree_.names.end()) Location(name->second);
  }
  out_ += ") -> (";
  const std::vector<TypeRef>& results = op.Find("function_type")->type->results;
  for (std::size_t n = 0; n < results.size(); ++n)
    out_ += (n > 0 ? ", " : "") + PrintType(*results[n]) + border("res_attrs", n);
  out_ += ") {\n";
  Body(region, 2, /*in_function=*/true);
  out_ += "  }\n";
}

std::string TextPrinter::Print() {
  const Op& module = tree_.module;
  out_ = "module";
  if (AttributeRef name = module.Find("sym_name"); name != nullptr && !name->text.empty())
    out_ += " " + PrintSymbol(name->text);
  if (!module.discardable.empty()) out_ += " attributes {" + PrintDictionaryEntries(module.discardable) + "}";
  out_ += " {\n";
  for (const Op& op : module.regions[0].ops) Function(op);
  out_ += "}\n";
  return std::move(out_);
}

std::string PrintText(const Tree& tree) { return TextPrinter(tree).Print(); }

}  // namespace krafla::stablehlo
