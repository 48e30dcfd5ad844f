// SPDX-License-Identifier: Apache-2.0
// Module, Computation, Instruction: the graph. A Module owns its computations, a Computation its instructions.
// Pointers to instructions stay valid until the instruction is removed. A Module is not thread-safe; several threads
// may read one that nobody writes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/opcode.h"
#include "krafla/shape.h"
#include "krafla/status.h"

namespace krafla {

class Computation;
class Module;

struct SourceLocation {
  int line = 0;  // 1-based; 0: unknown
  int column = 0;
};

// What the text says of an instruction beside its meaning. Kept through a round trip, ignored by passes.
struct InstructionMetadata {
  std::string sharding;             // as written, braces included; empty for none
  std::string metadata;             // as written between the braces of metadata={...}
  std::string frontend_attributes;  // likewise
  std::string backend_config;       // as written, quotes or braces included
  std::string statistics;
  friend bool operator==(const InstructionMetadata&, const InstructionMetadata&) = default;
};

class Instruction {
 public:
  Opcode opcode() const { return opcode_; }
  const Shape& shape() const { return shape_; }
  void set_shape(Shape shape) { shape_ = std::move(shape); }
  const std::string& name() const { return name_; }
  // Stable within its computation, never reused.
  int id() const { return id_; }
  Computation* parent() const { return parent_; }
  SourceLocation location() const { return location_; }
  void set_location(SourceLocation location) { location_ = location; }

  std::span<Instruction* const> operands() const { return operands_; }
  Instruction* operand(std::size_t i) const { return operands_[i]; }
  std::size_t operand_count() const { return operands_.size(); }
  // The places of `operand` among the operands.
  std::vector<std::size_t> PlacesOf(const Instruction* operand) const;
  // Each user once, in the order in which they came to use it (of many, where one left the last took its place).
  std::span<Instruction* const> users() const { return users_; }
  void ReplaceOperand(std::size_t i, Instruction* with);
  // Replaces every use of this, the computation's root included, by `with`.
  void ReplaceAllUsesWith(Instruction* with);

  std::span<Computation* const> called() const { return called_; }
  Computation* called(std::size_t i) const { return called_[i]; }
  void set_called(std::vector<Computation*> called) { called_ = std::move(called); }

  const Attributes& attributes() const { return attributes_; }
  void set_attributes(Attributes attributes) { attributes_ = std::move(attributes); }
  // T must be the struct that ops.def names for the opcode. Elementwise transcendental ops hold NoAttributes or
  // ResultAccuracyAttributes; use std::get_if there.
  template <typename T>
  const T& attr() const {
    const T* out = std::get_if<T>(&attributes_);
    KRAFLA_CHECK(out != nullptr);
    return *out;
  }

  const std::vector<Instruction*>& control_predecessors() const { return control_predecessors_; }
  void AddControlPredecessor(Instruction* before) { control_predecessors_.push_back(before); }

  const InstructionMetadata& metadata() const;
  void set_metadata(InstructionMetadata metadata);

  bool IsRoot() const;
  bool IsConstant() const { return opcode_ == Opcode::kConstant; }
  const Literal& literal() const { return *attr<ConstantAttributes>().literal; }

 private:
  friend class Computation;
  friend class Module;
  Instruction() = default;
  bool HasOperand(const Instruction* operand) const;
  void AddUser(Instruction* user);
  void RemoveUser(Instruction* user);
  void SetOperand(std::size_t i, Instruction* with);
  void IndexOperands();

  Opcode opcode_ = Opcode::kTuple;
  int id_ = 0;
  Shape shape_;
  std::string name_;
  Computation* parent_ = nullptr;
  std::vector<Instruction*> operands_, users_, control_predecessors_;
  // The position of each operand and each user, for instructions with many of them; null where there are few.
  std::unique_ptr<std::unordered_map<const Instruction*, std::vector<uint32_t>>> operand_places_;
  std::unique_ptr<std::unordered_map<const Instruction*, std::size_t>> user_places_;
  std::vector<Computation*> called_;
  Attributes attributes_;
  SourceLocation location_;
  std::unique_ptr<InstructionMetadata> metadata_;
};

class Computation {
 public:
  const std::string& name() const { return name_; }
  Module* parent() const { return parent_; }
  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  const std::string& execution_thread() const { return execution_thread_; }
  void set_execution_thread(std::string thread) { execution_thread_ = std::move(thread); }

  // In parameter order. Null where a number is missing (before verification only).
  std::span<Instruction* const> parameters() const { return parameters_; }

  // In the order of creation, or of the text. Operands come first after SortTopologically.
  const std::vector<std::unique_ptr<Instruction>>& instructions() const { return instructions_; }

  // Adds an instruction. An empty or taken name is made unique within the computation ("add.3").
  // Parameters register under their number, which must be in a sane range (checked by the reader).
  Instruction* Add(Opcode opcode, Shape shape, std::vector<Instruction*> operands, Attributes attributes = {},
                   std::vector<Computation*> called = {}, std::string_view name = {});
  // An instruction like `other` (same opcode, shape, attributes, called, metadata) on other operands.
  Instruction* AddClone(const Instruction& other, std::vector<Instruction*> operands);
  // For what takes the place of an instruction of this computation: each gets the other's name.
  static void SwapNames(Instruction* a, Instruction* b) { std::swap(a->name_, b->name_); }
  // For two-phase readers: gives operands to an instruction that was added with none.
  void SetOperands(Instruction* instruction, std::vector<Instruction*> operands);

  // `instruction` must have no users and not be the root.
  void Remove(Instruction* instruction);
  // Removes many at once, in linear time; each must have no user outside the set.
  void RemoveAll(std::span<Instruction* const> dead);

  // Operands and control predecessors before users, otherwise keeping the order. Error: a cycle (named).
  Result<> SortTopologically();

  // Drops the numbering of parameters to follow `parameters` (used by passes that remove unused ones).
  void set_parameters(std::vector<Instruction*> parameters) { parameters_ = std::move(parameters); }

 private:
  friend class Module;
  Computation() = default;

  std::string name_;
  std::string execution_thread_;
  Module* parent_ = nullptr;
  Instruction* root_ = nullptr;
  int next_id_ = 0;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::vector<Instruction*> parameters_;
  std::unordered_map<std::string, int> names_;  // name -> next suffix
};

// An output of the entry computation that shares its buffer with a parameter.
struct InputOutputAlias {
  Dims output_index;
  int64_t parameter = 0;
  Dims parameter_index;
  bool must_alias = false;
  friend bool operator==(const InputOutputAlias&, const InputOutputAlias&) = default;
};
struct BufferDonor {
  int64_t parameter = 0;
  Dims parameter_index;
  friend bool operator==(const BufferDonor&, const BufferDonor&) = default;
};

// A program as the passes left it, ready to be planned for these targets ("cpu", "vulkan").
struct OptimisedModule {
  std::vector<std::string> targets;
  std::shared_ptr<const Module> module;
};

class Module {
 public:
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  Computation* entry() const { return entry_; }
  void set_entry(Computation* entry) { entry_ = entry; }
  const std::vector<std::unique_ptr<Computation>>& computations() const { return computations_; }

  // A taken name is made unique.
  Computation* AddComputation(std::string_view name);
  // Nothing may call the computations any more.
  void Remove(Computation* computation) { RemoveAll({&computation, 1}); }
  void RemoveAll(std::span<Computation* const> computations);
  // Takes the computations of another module, and gives the one that was its entry.
  Computation* Take(std::unique_ptr<Module> other);
  // A deep copy, names and ids kept.
  std::unique_ptr<Module> Clone() const;
  // Instructions with this opcode in all computations, also in those that nothing calls. What looks for one opcode need
  // not walk a module without any.
  int64_t CountOf(Opcode opcode) const { return counts_[static_cast<std::size_t>(opcode)]; }

  int64_t replica_count = 1;
  int64_t num_partitions = 1;
  std::vector<InputOutputAlias> input_output_aliases;
  std::vector<BufferDonor> buffer_donors;
  bool is_scheduled = false;
  bool has_is_scheduled = false;             // whether the text said so
  std::optional<Shape> entry_layout_result;  // entry_computation_layout, when given
  std::vector<Shape> entry_layout_parameters;
  // Of a module that was read from a compiled model: what is run in its place. Its entry then has the parameters and
  // the result of the program that was compiled and, between them, one call that nobody can make.
  std::vector<OptimisedModule> optimised;
  // Other attributes of the header, as written: "frontend_attributes={...}".
  std::vector<std::pair<std::string, std::string>> other_attributes;

 private:
  std::string name_;
  Computation* entry_ = nullptr;
  std::vector<std::unique_ptr<Computation>> computations_;
  std::unordered_map<std::string, int> names_;
  std::vector<int64_t> counts_ = std::vector<int64_t>(AllOps().size(), 0);  // by opcode

  friend class Computation;
};

// Whether `a` and `b` are the same graph: computations, instructions in order, shapes with layouts, attributes,
// metadata. Names of instructions and computations are compared too.
bool SameModule(const Module& a, const Module& b);

// "instruction 'add.3' (line 12)"
std::string Describe(const Instruction& instruction);

}  // namespace krafla
