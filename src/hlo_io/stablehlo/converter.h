// SPDX-License-Identifier: Apache-2.0
// The conversion in pieces: functions, regions and control flow (converter.cpp), and families of operations in
// convert_*.cpp, each of which says whether it knows an operation.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "hlo_io/stablehlo/op_tree.h"
#include "hlo_io/stablehlo/to_module.h"
#include "ir/builder.h"
#include "ir/module.h"
#include "ir/sdy_sharding.h"

namespace krafla::stablehlo {

// A computation being filled.
struct Body {
  Computation* computation = nullptr;
  std::unordered_map<ValueId, Instruction*> values;
};

class Converter {
 public:
  Converter(const Tree& tree, const Conversion& conversion) : tree_(tree), conversion_(conversion) {}
  Result<std::unique_ptr<Module>> Convert();
  Result<std::vector<ProgramInput>> EntryInputs();  // refine.cpp

  // What the families use.
  Result<Shape> ShapeOf(TypeRef type) const;
  Result<Shape> ShapeOfValue(ValueId value) const { return ShapeOf(TypeOfValue(value)); }
  TypeRef TypeOfValue(ValueId value) const {
    const auto i = static_cast<std::size_t>(value);
    return i < tree_.values.size() ? tree_.values[i] : &numbers_[i - tree_.values.size()];
  }
  Result<Instruction*> Operand(const Op& op, const Body& body, std::size_t i) const;
  Result<std::vector<Instruction*>> Operands(const Op& op, const Body& body, std::size_t from = 0) const;
  // Adds the instruction that is the operation: its results (the elements of a tuple where there are several, or where
  // `tuple`) become the operation's. Where its types leave sizes open, the shape is `known`, else it follows from the
  // operands.
  Result<> Emit(const Op& op, Body& body, Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                std::vector<Computation*> called = {}, bool tuple = false, const Shape* known = nullptr);
  // The operation's only result is `value`.
  Result<> Bind(const Op& op, Body& body, Instruction* value);
  // A computation of a region whose values are its parameters; constants from around it are copied in.
  Result<Computation*> RegionComputation(const Op& op, const Body& outer, std::size_t region);
  // Whether a type leaves a size open, which then follows from operands.
  static bool IsOpen(TypeRef type);
  // INVALID_ARGUMENT unless the value that `what` makes is of the type, sizes aside that it leaves open.
  Result<> CheckFits(std::string_view what, TypeRef type, const Shape& shape) const;
  // Whether the program is read for sizes that the caller gave (refine.cpp): all sizes are known then, calls are read
  // where they stand, and sizes are constants.
  bool refines() const { return !conversion_.shapes.empty(); }
  // shape_assertion: INVALID_ARGUMENT, with its message, where it does not hold. JAX writes them into exported
  // programs.
  Result<> CheckShapes(const Op& op, const Body& body) const;
  // The integers that an operand is, in row-major order, where they follow from constants and static shapes
  // (fold_integers.cpp).
  std::optional<Dims> ConstantDims(const Instruction* instruction) const;
  // The sizes that an operand is: UNIMPLEMENTED where they are data.
  Result<Dims> SizesOperand(const Op& op, const Body& body, std::size_t i) const;
  Module& module() { return *module_; }
  bool checks() const { return conversion_.checks != nullptr; }
  // A comparison of the entry: INVALID_ARGUMENT elsewhere.
  Result<> AddCheck(const Body& body, CheckRule rule, Instruction* actual, Instruction* expected);
  // interpreter.probe: a value under a name, which a comparison may ask for. Null where the entry has none.
  void KeepProbe(const Body& body, std::string name, Instruction* value);
  Instruction* Probed(const std::string& name) const;
  const SdyMeshes& meshes() const { return meshes_; }
  // The computation of a function of the program.
  Result<Computation*> Function(const std::string& name);

 private:
  // What the module holds: functions_ and meshes_. Gives the meshes as text, too.
  Result<std::string> ReadSymbols();
  Result<const Op*> EntryFunction() const;
  Result<Computation*> ConvertFunction(const Op& func, bool is_entry = false);
  // refine.cpp
  Result<Shape> EntryShape(const Op& func, std::size_t argument);
  std::string EntryName(const Op& func, std::size_t argument) const;
  Result<> CheckGivenShapes(const Op& func) const;
  Result<> InlineCall(const Op& op, Body& body, const std::string& callee);
  Result<Instruction*> EntryRoot(Computation& computation, std::vector<Instruction*> results) const;
  Result<> EntryAttributes(const Op& func);
  // entry_layouts.cpp
  Result<> EntryLayouts(const Op& func);
  Result<> CheckResults(const Op& func, std::span<Instruction* const> results) const;
  // Converts all but the terminator, and gives the terminator's operands.
  Result<std::vector<Instruction*>> ConvertOps(const std::vector<Op>& ops, Body& body);
  Result<> ConvertOp(const Op& op, Body& body);
  Result<bool> ConvertStructure(const Op& op, Body& body);
  // convert_quantized.cpp: true where the operation was converted, as one that computes with quantised arrays.
  Result<bool> ConvertQuantized(const Op& op, Body& body);
  ValueId AddNumbers(TypeRef quantized);

  Result<> While(const Op& op, Body& body);
  Result<> Conditional(const Op& op, Body& body);
  Result<> AsyncStart(const Op& op, Body& body);
  Result<> AsyncDone(const Op& op, Body& body);
  Result<> CallOp(const Op& op, Body& body, const std::string& callee, bool composite);
  // sharding.cpp
  Result<bool> Shardy(const Op& op, Body& body);  // operations of the dialect sdy
  Result<> ManualComputation(const Op& op, Body& body);
  Result<> NamedComputation(const Op& op, Body& body);
  Result<> InlinedComputation(const Op& op, Body& body, std::span<Instruction* const> operands);
  Result<> ShardingConstraint(const Op& op, Body& body, std::string_view key);
  Result<> ShardyReduction(const Op& op, Body& body);
  Result<> ShardingGroup(const Op& op, Body& body);
  // What an argument or a result says of its sharding, as HLO text; empty where it says nothing.
  Result<std::string> ShardingIn(AttributeRef dictionary) const;
  Result<> ParameterShardings(const Op& func, Computation& entry) const;
  // The values that the entry returns, marked with the shardings that the function declares.
  Result<Instruction*> ShardedRoot(const Op& func, Computation& entry, std::vector<Instruction*> results) const;
  // Values from outside that the regions use, in the order of their first use.
  std::vector<ValueId> Captures(const Op& op) const;
  // A computation of one tuple parameter: the first elements are the region's arguments, the next `captures`.
  struct TupleBody {
    Body body;
    std::vector<Instruction*> elements;
  };
  Result<TupleBody> BeginTupleBody(const Region& region, std::string_view name, const Shape& shape, const Body& outer,
                                   std::span<const ValueId> captures);
  Instruction* CopyConstant(const Instruction& constant, Body& into) const;
  static Result<std::optional<Shape>> ShapeOfElements(TypeRef type, std::span<Instruction* const> operands);
  // A size as a constant, where sizes are known and it follows from them (fold_integers.cpp); else the value itself.
  Result<Instruction*> Folded(Instruction& value, Body& body) const;
  // A copy of a value that is a constant, or that follows from given sizes; null for any other.
  Result<Instruction*> CopyOfKnown(const Instruction& value, Body& into) const;

  const Tree& tree_;
  const Conversion& conversion_;
  std::unique_ptr<Module> module_;
  const Computation* entry_ = nullptr;
  std::vector<Instruction*> compared_;  // actual, expected, actual ...
  std::unordered_map<std::string, Instruction*> probes_;
  SdyMeshes meshes_;
  std::unordered_map<std::string, const Op*> functions_;
  std::unordered_map<std::string, Computation*> converted_;
  std::unordered_map<std::string, bool> open_;  // functions being converted: no recursion
  std::deque<Type> numbers_;                    // of values behind the tree's
  int depth_ = 0;
  std::size_t inlined_ = 0;  // operations of calls that were read where they stand
};

// Families: true where the operation was one of theirs.
Result<bool> ConvertElementwise(Converter& c, const Op& op, Body& body);
Result<bool> ConvertDataMovement(Converter& c, const Op& op, Body& body);
Result<bool> ConvertContraction(Converter& c, const Op& op, Body& body);
Result<bool> ConvertReduction(Converter& c, const Op& op, Body& body);
Result<bool> ConvertIndexing(Converter& c, const Op& op, Body& body);
Result<bool> ConvertDynamic(Converter& c, const Op& op, Body& body);
Result<bool> ConvertCollective(Converter& c, const Op& op, Body& body);
Result<bool> ConvertRooted(Converter& c, const Op& op, Body& body);  // of ConvertCollective
Result<bool> ConvertLibrary(Converter& c, const Op& op, Body& body);
// A factorisation of JAX's for the CPU (convert_lapack.cpp).
Result<> ConvertLapack(Converter& c, const Op& op, Body& body, std::string_view target);
// A custom call with sizes among its operands: those of StableHLO's dynamic operations that have no name of their own.
Result<bool> ConvertDynamicCall(Converter& c, const Op& op, Body& body);
Result<bool> ConvertChlo(Converter& c, const Op& op, Body& body);
// A composite that is named as a function of CHLO which is an opcode here: that opcode, not what it is made of.
Result<bool> ConvertChloComposite(Converter& c, const Op& op, Body& body);
Result<bool> ConvertCheck(Converter& c, const Op& op, Body& body);

// What families share. The results' shape of a custom call whose sizes are operands (indices_of_shape_operands: one a
// result), and which operands those are; none where it has no such.
struct ShapeOperands {
  Shape results;
  Dims taken;
};
Result<std::optional<ShapeOperands>> ShapeOperandsOf(Converter& c, const Op& op, const Body& body);
// The first k along the last dimension, or as many as there are.
Result<> TopK(Converter& c, const Op& op, Body& body, Instruction* operand, int64_t k, bool largest = true);
// A custom call with the name of an operation of MHLO: true where that is known.
Result<bool> ConvertMhloCall(Converter& c, const Op& op, Body& body, std::string_view target);
// The window of sizes, strides and dilations of as many dimensions.
Result<Window> MakeWindow(const Op& op, const Dims& sizes, const Dims& strides, const Dims& base, const Dims& window,
                          std::span<const std::pair<int64_t, int64_t>> padding);
// StableHLO lets a dimension of one element repeat; HLO wants it gone first.
Result<Instruction*> BroadcastInDim(Body& body, Instruction* operand, const Dims& dimensions, const Shape& result);
// The groups and the mode of an operation between devices.
Result<CollectiveAttributes> CollectiveOf(const Converter& c, const Op& op);
// StableHLO has no operation of that name: a custom call with the groups in its configuration (JAX's
// lax.ragged_all_to_all; xla/hlo/translate/mhlo_to_hlo, ExportOp of CustomCallOp).
Result<> RaggedAllToAll(Converter& c, const Op& op, Body& body);
// The precisions of a dot's or convolution's operands; none where all are the default.
Result<std::vector<Precision>> PrecisionsOf(const Op& op);

// Attributes by name, checked. Missing or of another kind: INVALID_ARGUMENT.
Result<Dims> DimsAttribute(const Op& op, std::string_view key);
Result<int64_t> IntAttribute(const Op& op, std::string_view key);
Result<bool> BoolAttribute(const Op& op, std::string_view key);
Result<std::string> StringAttribute(const Op& op, std::string_view key);
// A word of `words`: its position.
Result<int64_t> WordAttribute(const Op& op, std::string_view key, std::span<const std::string_view> words);
// An [n,2] array of integers.
Result<std::vector<std::pair<int64_t, int64_t>>> PairsAttribute(const Op& op, std::string_view key);
// The values of a dense or array attribute of integers or booleans, whatever its shape.
Result<Dims> IntegersOf(const Attribute& attribute);
// A dense attribute as a literal.
Result<Literal> LiteralOf(const Attribute& attribute, const Shape& shape);
// As MLIR prints it: `{a = 1 : i64, b = "x"}`.
std::string PrintAttribute(const Attribute& attribute);

}  // namespace krafla::stablehlo
