// SPDX-License-Identifier: Apache-2.0
// XlaBuilder: makes a computation call by call, with the calls, names and argument orders of XLA's builder
// (https://openxla.org/xla/operation_semantics).
//
//   XlaBuilder b("axpy");
//   XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {4}), "x");
//   XlaOp y = Parameter(&b, 1, ShapeUtil::MakeShape(F32, {4}), "y");
//   Add(Mul(ConstantR0<float>(&b, 2), x), y);
//   Result<XlaComputation> axpy = b.Build();
//
// A wrong call aborts nothing: it gives an op that is not valid(), further calls on that op do nothing, and Build
// returns the first error with the call that made it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "krafla/export.h"
#include "krafla/literal.h"
#include "krafla/span.h"
#include "krafla/xla_computation.h"
#include "krafla/xla_data.h"

KRAFLA_EXPORT_BEGIN
namespace krafla {

class XlaBuilder;

// A value of a computation under construction. It must not be used after its builder is gone.
class XlaOp {
 public:
  XlaOp() = default;

  // Whether a call made it and nothing was wrong with that call.
  bool valid() const { return handle_ >= 0; }
  bool IsUninitialized() const { return builder_ == nullptr; }
  // Null for an op that no call made.
  XlaBuilder* builder() const { return builder_; }
  bool IsIdenticalTo(XlaOp other) const { return handle_ == other.handle_ && builder_ == other.builder_; }

 private:
  friend class XlaBuilder;
  XlaOp(int64_t handle, XlaBuilder* builder) : handle_(handle), builder_(builder) {}

  int64_t handle_ = -1;
  XlaBuilder* builder_ = nullptr;
};
static_assert(std::is_trivially_copyable_v<XlaOp>);

// Calls take what may have failed as it comes, `Parameter(&b, 0, ShapeUtil::MakeShape(F32, {4}), "x")`; its error is
// then the call's. A Shape or an XlaComputation converts.
using ShapeOrError = Result<Shape>;
using ComputationOrError = Result<XlaComputation>;

class XlaBuilder {
 public:
  explicit XlaBuilder(std::string_view computation_name);
  ~XlaBuilder();
  XlaBuilder(const XlaBuilder&) = delete;
  XlaBuilder& operator=(const XlaBuilder&) = delete;

  const std::string& name() const;
  // A builder for a computation that this one will call.
  std::unique_ptr<XlaBuilder> CreateSubBuilder(std::string_view computation_name);

  // Ends the computation with `root`, or with the last op made, as its result. The builder is empty then.
  // Errors: the first error of any call; no ops; parameters that are not numbered 0, 1, 2, ...
  Result<XlaComputation> Build();
  Result<XlaComputation> Build(XlaOp root);

  Result<Shape> GetShape(XlaOp op) const;
  Result<ProgramShape> GetProgramShape() const;  // with the last op as the result
  Result<ProgramShape> GetProgramShape(XlaOp root) const;
  // Whether the value depends on nothing that is known only when the computation runs.
  Result<bool> IsConstant(XlaOp op) const;

  // The errors of the calls since the last Build, in order: each wrong call once, what follows from it not at all.
  const std::vector<Status>& errors() const;
  std::optional<Status> first_error() const;
  // Adds an error, as a function made of several calls may want to. Gives an op that is not valid().
  XlaOp ReportError(Status error);
  XlaOp ReportErrorOrReturn(Result<XlaOp> op);

  // For every instruction from here on.
  void SetOpMetadata(OpMetadata metadata);
  void ClearOpMetadata();
  // For the next call only.
  void SetOneShotOpMetadata(OpMetadata metadata);
  void SetFrontendAttributes(FrontendAttributes attributes);
  void ClearFrontendAttributes();
  // As HLO text writes it: "{replicated}", "{devices=[2,1]<=[2]}".
  void SetSharding(std::string sharding);
  void ClearSharding();
  // Of one instruction, instead of what holds for all.
  Result<> SetInstructionFrontendAttribute(XlaOp op, std::string attribute, std::string value);

  // How many devices the program is for; both are 1 otherwise. Groups left empty in collectives mean all of them.
  void SetDeviceCounts(int64_t replica_count, int64_t num_partitions);

  // The result's array at `output_index` shares its memory with the parameter's at `param_index`.
  void SetUpAlias(const ShapeIndex& output_index, int64_t param_number, const ShapeIndex& param_index,
                  bool must_alias = false);
  // The program may overwrite that parameter.
  void AddBufferDonor(int64_t param_number, const ShapeIndex& param_index);

  struct Impl;  // inside the library
  Impl& impl() { return *impl_; }
  // An op for what the library made at `handle`; negative: not valid.
  XlaOp MakeOp(int64_t handle) { return XlaOp(handle, this); }
  static int64_t HandleOf(XlaOp op) { return op.handle_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Gives instructions a sharding, attributes or metadata as long as it lives; what was set before comes back.
class XlaScopedShardingAssignment {
 public:
  XlaScopedShardingAssignment(XlaBuilder* builder, std::optional<std::string> sharding);
  ~XlaScopedShardingAssignment();
  XlaScopedShardingAssignment(const XlaScopedShardingAssignment&) = delete;
  XlaScopedShardingAssignment& operator=(const XlaScopedShardingAssignment&) = delete;

 private:
  XlaBuilder* builder_;
  std::optional<std::string> saved_;
};
class XlaScopedFrontendAttributesAssignment {
 public:
  XlaScopedFrontendAttributesAssignment(XlaBuilder* builder, FrontendAttributes attributes);
  ~XlaScopedFrontendAttributesAssignment();
  XlaScopedFrontendAttributesAssignment(const XlaScopedFrontendAttributesAssignment&) = delete;
  XlaScopedFrontendAttributesAssignment& operator=(const XlaScopedFrontendAttributesAssignment&) = delete;

 private:
  XlaBuilder* builder_;
  FrontendAttributes saved_;
};
class XlaScopedOpMetadataAssignment {
 public:
  XlaScopedOpMetadataAssignment(XlaBuilder* builder, OpMetadata metadata);
  ~XlaScopedOpMetadataAssignment();
  XlaScopedOpMetadataAssignment(const XlaScopedOpMetadataAssignment&) = delete;
  XlaScopedOpMetadataAssignment& operator=(const XlaScopedOpMetadataAssignment&) = delete;

 private:
  XlaBuilder* builder_;
  OpMetadata saved_;
};

}  // namespace krafla
KRAFLA_EXPORT_END

#include "krafla/xla_ops.h"  // IWYU pragma: export
