// SPDX-License-Identifier: Apache-2.0
// What stands behind XlaBuilder: a module under construction and the errors so far.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/module.h"
#include "krafla/xla_builder.h"

namespace krafla {

struct XlaBuilder::Impl {
  explicit Impl(std::string_view n) : name(n) { Reset(); }

  // Forgets everything made so far, so that handles of it are known for old.
  void Reset();
  Result<Instruction*> Find(XlaOp op) const;  // `op` must be of this builder
  int64_t HandleOf(Instruction* instruction);

  // Adds an instruction that follows from its operands, with what is set for all (metadata, sharding, ...).
  Result<Instruction*> Add(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes = {},
                           std::vector<Computation*> called = {}, const Shape* declared = nullptr,
                           std::string_view instruction_name = {});
  // The computation and what it calls as part of this module; the same one for the same XlaComputation.
  Result<Computation*> Import(const ComputationOrError& computation);

  void NoteError(Status error) { errors.push_back(std::move(error)); }

  std::string name;
  std::unique_ptr<Module> module;
  Computation* computation = nullptr;
  std::vector<Instruction*> ops;  // by handle - first_handle
  int64_t first_handle = 0;
  std::unordered_map<const Instruction*, int64_t> handles;
  std::map<const Module*, Computation*> imported;
  std::vector<std::shared_ptr<const Module>> kept;  // so that no other gets the address of one imported
  std::vector<Status> errors;

  OpMetadata metadata;
  std::optional<OpMetadata> one_shot_metadata;
  FrontendAttributes frontend_attributes;
  std::optional<std::string> sharding;
  int64_t replica_count = 1, num_partitions = 1;
  std::vector<InputOutputAlias> aliases;
  std::vector<BufferDonor> donors;
};

namespace xla_builder {

using Impl = XlaBuilder::Impl;
using Instructions = std::span<Instruction* const>;
// Makes the instructions of one call from its operands; the last is the call's result.
using Body = std::function<Result<Instruction*>(Impl&, Instructions)>;

// Runs a call: finds the builder (`builder`, or where it is null that of the operands), checks that the operands are
// valid ops of it, and turns an error of `body` into one that names the call and its operands. An operand of a call
// that failed makes this call fail without an error of its own.
XlaOp Run(const char* call, XlaBuilder* builder, Span<XlaOp> operands, const Body& body);

// A call that is one instruction.
XlaOp RunOp(const char* call, XlaBuilder* builder, Span<XlaOp> operands, Opcode opcode, Attributes attributes = {});

std::vector<XlaOp> Join(Span<XlaOp> a, Span<XlaOp> b);
Dims ToDims(Span<int64_t> values);
std::vector<Instruction*> ToVector(Instructions instructions);

Result<const Shape*> ArrayShape(const Instruction& instruction, const char* what);
Result<> CheckDimension(const char* what, int64_t dimension, int64_t rank);

// Broadcasting (https://openxla.org/xla/broadcasting).
Result<Shape> InferBroadcast(const Shape& lhs, const Shape& rhs, std::span<const int64_t> broadcast_dimensions);
// `operand`, a scalar or of the rank of `shape` with sizes of 1 where they differ, at the size of `shape`.
Result<Instruction*> BroadcastTo(Impl& b, Instruction* operand, const Shape& shape);
// Both at their common size.
Result<std::pair<Instruction*, Instruction*>> BroadcastPair(Impl& b, Instruction* lhs, Instruction* rhs,
                                                            std::span<const int64_t> broadcast_dimensions);
XlaOp UnaryOp(const char* call, Opcode opcode, XlaOp operand);
XlaOp UnaryOp(const char* call, Opcode opcode, XlaOp operand, const std::optional<ResultAccuracy>& accuracy);
XlaOp BinaryOp(const char* call, Opcode opcode, XlaOp lhs, XlaOp rhs, Span<int64_t> broadcast_dimensions);

// The window of a convolution, a reduction or a scatter.
struct WindowSpec {
  Span<int64_t> sizes, strides, base_dilations, window_dilations;  // empty: all 1 (not sizes)
  Span<std::pair<int64_t, int64_t>> padding;                       // empty: none
};
Result<Window> MakeWindow(const WindowSpec& spec);
// What Padding means for inputs of these sizes.
Result<std::vector<std::pair<int64_t, int64_t>>> MakePadding(std::span<const int64_t> input,
                                                             std::span<const int64_t> window,
                                                             std::span<const int64_t> strides, Padding padding);

std::string MetadataText(const OpMetadata& metadata);
Result<std::string> FrontendAttributesText(const FrontendAttributes& attributes);

}  // namespace xla_builder
}  // namespace krafla
