// SPDX-License-Identifier: Apache-2.0
// The conversion from a Module in pieces: functions and values (from_module.cpp), and families of instructions in
// from_*.cpp, each of which says whether it knows an opcode.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hlo_io/stablehlo/from_module.h"
#include "ir/module.h"
#include "krafla/literal.h"

namespace krafla::stablehlo {

// The values that an instruction is: the leaves of its shape, depth first. Of an instruction that begins something,
// those that its end will give.
using Leaves = std::vector<ValueId>;
using AttributeList = std::vector<std::pair<std::string, AttributeRef>>;

// A computation being written out in a region.
struct Scope {
  Region* region = nullptr;
  std::unordered_map<const Instruction*, Leaves> values;
};

class TreeBuilder {
 public:
  TreeBuilder(const Module& module, Dialects dialects)
      : module_(module), dialects_(dialects), tree_(std::make_unique<Tree>()) {}
  Result<std::unique_ptr<Tree>> Build();

  // What the families use.
  const Module& module() const { return module_; }
  Dialects dialects() const { return dialects_; }
  Result<TypeRef> TypeOf(const Shape& shape);
  Result<ValueId> NewValue(const Shape& shape);
  TypeRef TypeOfValue(ValueId value) const { return tree_->values[static_cast<std::size_t>(value)]; }
  const Leaves& LeavesOf(const Scope& scope, const Instruction* i) const { return scope.values.at(i); }
  // Of all operands, one after the other.
  Leaves OperandLeaves(const Instruction& i, const Scope& scope, std::size_t from = 0) const;

  // An operation that is the instruction: it has its results (the leaves of `result`, where that is not the
  // instruction's own shape), metadata and what the program's writer says.
  Result<> Emit(const Instruction& i, Scope& scope, std::string_view name, Leaves operands,
                AttributeList attributes = {}, std::vector<Region> regions = {}, const Shape* result = nullptr);
  // Gives the operation that is the instruction its metadata.
  Result<> Describe(const Instruction& i, Op& op);
  // One that leads to it, with one result.
  Result<ValueId> Add(Scope& scope, std::string_view name, Leaves operands, const Shape& shape,
                      AttributeList attributes = {}, std::vector<Region> regions = {});
  Result<ValueId> AddDense(Scope& scope, const Literal& literal);
  Result<ValueId> AddReshaped(Scope& scope, ValueId value, const Shape& shape);
  Result<ValueId> AddTransposed(Scope& scope, ValueId value, const Shape& shape, const Dims& permutation);
  // The program's values for the instruction.
  void Bind(const Instruction& i, Scope& scope, Leaves leaves) { scope.values[&i] = std::move(leaves); }

  // A region with an argument for each leaf of the parameters, and the computation in it.
  Result<Region> RegionOf(const Computation& computation);
  // Of all that the instruction calls.
  Result<std::vector<Region>> RegionsOf(const Instruction& i);
  // One without arguments: the parameters are values from around it.
  Result<Region> RegionOn(const Computation& computation, std::span<const Leaves> arguments);
  // The computation's instructions at this place; gives its root's leaves.
  Result<Leaves> WriteOut(const Computation& computation, std::span<const Leaves> arguments, Region& region);
  // The symbol of a function that is the computation.
  Result<std::string> FunctionOf(const Computation& computation);
  // A function that is the computation, which may go away; its name begins with `name`.
  Result<std::string> AddFunction(const Computation& computation, const std::string& name);

  // Attributes.
  AttributeRef Keep(Attribute attribute) { return tree_->Keep(std::move(attribute)); }
  AttributeRef Typed(Attribute attribute, Type type);
  AttributeRef Integer(int64_t value, ElementType type = ElementType::kS64);
  AttributeRef Real(double value, ElementType type = ElementType::kF32);
  AttributeRef Flag(bool value) { return Keep(Attribute::Flag(value)); }
  AttributeRef Text(std::string_view text) { return Keep(Attribute::Text(text)); }
  AttributeRef Word(std::string_view word) { return Keep(Attribute::Word(word)); }
  AttributeRef List(const Dims& dims, ElementType type = ElementType::kS64);
  AttributeRef Flags(const std::vector<bool>& flags);
  // [rows, columns] of integers in row-major order.
  AttributeRef Table(int64_t rows, int64_t columns, const Dims& numbers);
  AttributeRef Array(std::vector<AttributeRef> elements);
  AttributeRef Dictionary(AttributeList entries);
  AttributeRef TypeAttribute(Type type);
  // What frontend_attributes say, as a dictionary of strings; null where they say nothing.
  AttributeRef FrontendDictionary(std::string_view frontend_attributes);
  // The dictionary that the text is, as MLIR prints one; null where it is none.
  AttributeRef DictionaryIn(std::string_view text);

 private:
  Result<Op> Function(const Computation& computation, std::string_view symbol, bool is_entry);
  Result<> EntryAttributes(Op& func);
  // Of an argument or a result: its sharding, and how it lies where that is said.
  AttributeList BorderAttributes(const Shape& shape, bool laid_out, const std::string& sharding);
  void ModuleAttributes();
  Result<> Convert(const Instruction& i, Scope& scope);

  const Module& module_;
  const Dialects dialects_;
  std::unique_ptr<Tree> tree_;
  std::unordered_map<std::string, TypeRef> types_;
  std::unordered_map<const Computation*, std::string> functions_;
  std::unordered_set<std::string> symbols_;
  std::vector<Op> function_ops_;
  int depth_ = 0;
  std::size_t operations_ = 0;
};

// A window, a list for each of its sides as StableHLO writes them; padding: low and high in turn.
struct WindowLists {
  explicit WindowLists(const Window& window) {
    for (const WindowDim& w : window) {
      sizes.push_back(w.size);
      strides.push_back(w.stride);
      padding.push_back(w.padding_low);
      padding.push_back(w.padding_high);
      base_dilations.push_back(w.base_dilation);
      window_dilations.push_back(w.window_dilation);
      reversal.push_back(w.reversal);
    }
  }
  Dims sizes, strides, padding, base_dilations, window_dilations;
  std::vector<bool> reversal;
};

// How an opcode is written.
struct OpcodeWriter {
  Opcode opcode;
  Result<> (*write)(TreeBuilder& b, const Instruction& i, Scope& scope);
};
// By the row of the instruction's opcode; false where there is none.
Result<bool> WriteByRow(std::span<const OpcodeWriter> rows, TreeBuilder& b, const Instruction& i, Scope& scope);

// Families: true where the opcode was one of theirs.
Result<bool> WriteElementwise(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteDataMovement(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteContraction(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteReduction(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteStructure(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteCollective(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteLibrary(TreeBuilder& b, const Instruction& i, Scope& scope);
Result<bool> WriteCustomCall(TreeBuilder& b, const Instruction& i, Scope& scope);

// The instruction as an operation of CHLO; without CHLO a composite of that name, which stands for operations of
// StableHLO.
Result<> WriteChlo(TreeBuilder& b, const Instruction& i, Scope& scope, std::string_view name,
                   AttributeList attributes = {});
// The first or last k of the last dimension, as a sort of which the first are kept.
Result<> WriteTopKAsSort(TreeBuilder& b, const Instruction& i, Scope& scope);

// What families share. The precisions of `count` operands, as an attribute.
AttributeRef PrecisionsAttribute(TreeBuilder& b, const std::vector<Precision>& precision, std::size_t count);

}  // namespace krafla::stablehlo
