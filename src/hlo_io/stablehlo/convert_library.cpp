// SPDX-License-Identifier: Apache-2.0
// Transforms, factorisations, random numbers, custom calls, transfers.
#include <algorithm>
#include <optional>

#include "hlo_io/hlo_text/lexer.h"
#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/words.h"
#include "ir/custom_call.h"

namespace krafla::stablehlo {
namespace {

// JAX's approximate top k: arrays, their initial values, and a comparator. Exact here, as XLA has it where no hardware
// helps: a sort of which the first are kept (xla/hlo/builder/lib/approx_topk.cc, ApproxTopKFallback).
Result<> ApproxTopK(Converter& c, const Op& op, Body& body) {
  KRAFLA_ASSIGN(std::vector<Instruction*> arrays, c.Operands(op, body));
  const std::size_t count = op.results.size();
  AttributeRef parameters = op.FindDiscardable("mhlo.backend_config");
  AttributeRef comparator = op.Find("called_computations");
  if (arrays.size() != 2 * count || count == 0 || parameters == nullptr || comparator == nullptr ||
      comparator->elements.size() != 1)
    return InvalidArgument("ApproxTopK takes arrays, as many initial values, a comparator and its parameters.");
  int64_t dimension = -1;
  for (const auto& [key, value] : parameters->entries)
    if (key == "reduction_dim") dimension = value->integer;
  arrays.resize(count);
  const Shape shape = arrays[0]->shape();
  if (dimension < 0 || dimension >= shape.rank())
    return InvalidArgument("ApproxTopK reduces dimension {} of {}.", dimension, shape.ToString(false));
  KRAFLA_ASSIGN(Computation * less, c.Function(comparator->elements[0]->text));
  Computation& computation = *body.computation;
  KRAFLA_ASSIGN(Instruction * sorted,
                AddInferred(computation, Opcode::kSort, arrays, SortAttributes{dimension, true}, {less}));
  for (std::size_t i = 0; i < count; ++i) {
    Instruction* value = sorted;
    if (count > 1) { KRAFLA_ASSIGN(value, AddGetTupleElement(computation, sorted, static_cast<int64_t>(i))); }
    KRAFLA_ASSIGN(Shape result, c.ShapeOfValue(op.results[i]));
    if (result.rank() != shape.rank())
      return InvalidArgument("ApproxTopK of {} cannot give {}.", shape.ToString(false), result.ToString(false));
    SliceAttributes kept{Dims(result.dims().size(), 0), result.dims(), Dims(result.dims().size(), 1)};
    KRAFLA_ASSIGN(Instruction * slice, AddInferred(computation, Opcode::kSlice, {value}, std::move(kept), {}, &result));
    body.values[op.results[i]] = slice;
  }
  return {};
}

// The layout that JAX's with_layout_constraint asks for is the instruction's: of interest where a result's is left to
// us.
Result<> ConstrainLayout(const Op& op, Instruction& call) {
  AttributeRef layouts = op.Find("result_layouts");
  if (layouts == nullptr || layouts->elements.size() != 1 || !call.shape().IsArray()) return {};
  KRAFLA_ASSIGN(Dims order, IntegersOf(*layouts->elements[0]));
  Shape shape = call.shape();
  KRAFLA_TRY(shape.SetLayout(Layout{std::move(order), {}}));
  call.set_shape(std::move(shape));
  return {};
}

// What a custom call of StableHLO becomes.
enum class Reading {
  kCall,            // a custom call
  kOperand,         // on one device its operand: shardings and the like
  kNothing,         // an order of operations, which is the runtime's choice
  kTopK,            // ApproxTopK
  kRaggedAllToAll,  // an operation of HLO
  kLapack,          // ConvertLapack
};

Reading ReadingOf(CustomCallTarget target, const Op& op) {
  switch (target) {
    case CustomCallTarget::kApproxTopK: return Reading::kTopK;
    case CustomCallTarget::kRaggedAllToAll: return Reading::kRaggedAllToAll;
#define KRAFLA_LAPACK_FACTOR(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      return Reading::kLapack;
    case CustomCallTarget::kControlDependency: return op.results.empty() ? Reading::kNothing : Reading::kCall;
    case CustomCallTarget::kSharding:
    case CustomCallTarget::kFullToShardShape:
    case CustomCallTarget::kShardToFullShape:
    case CustomCallTarget::kDevicePlacement:
    case CustomCallTarget::kInspectSharding:
#define KRAFLA_SDY_ANNOTATION(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      return Reading::kOperand;
    // Layouts and memories are looked at later, by those who choose them.
    case CustomCallTarget::kLayoutConstraint:
    case CustomCallTarget::kMoveToHost:
    case CustomCallTarget::kMoveToDevice:
    case CustomCallTarget::kDceSink:
    case CustomCallTarget::kSdyShardingGroup:
#define KRAFLA_SDY_OTHER(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_COMPUTATION(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
    case CustomCallTarget::kUnknown: return Reading::kCall;
  }
  KRAFLA_UNREACHABLE();
}

Result<> CustomCall(Converter& c, const Op& op, Body& body) {
  CustomCallAttributes a;
  KRAFLA_ASSIGN(a.target, StringAttribute(op, "call_target_name"));
  if (a.target == "shape_assertion") return c.CheckShapes(op, body);
  KRAFLA_ASSIGN(const bool is_dynamic, ConvertDynamicCall(c, op, body));
  if (is_dynamic) return {};
  KRAFLA_ASSIGN(const bool is_mhlo, ConvertMhloCall(c, op, body, a.target));
  if (is_mhlo) return {};
  const CustomCallTarget target = CustomCallTargetOf(a.target);
  const Reading reading = ReadingOf(target, op);
  if (reading == Reading::kNothing) return {};
  if (reading == Reading::kTopK) return ApproxTopK(c, op, body);
  if (reading == Reading::kRaggedAllToAll) return RaggedAllToAll(c, op, body);
  if (reading == Reading::kLapack) return ConvertLapack(c, op, body, a.target);
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  if (reading == Reading::kOperand && operands.size() == 1 && op.results.size() == 1 &&
      c.module().num_partitions == 1) {
    KRAFLA_ASSIGN(Shape want, c.ShapeOfValue(op.results[0]));
    if (Shape::Compatible(want, operands[0]->shape())) return c.Bind(op, body, operands[0]);
  }
  // Of a call whose sizes are operands, which are not among its own.
  KRAFLA_ASSIGN(const std::optional<ShapeOperands> sized, ShapeOperandsOf(c, op, body));
  const auto is_shape = [&](std::size_t operand) {
    return sized && std::ranges::contains(sized->taken, static_cast<int64_t>(operand));
  };
  KRAFLA_ASSIGN(a.has_side_effect, BoolAttribute(op, "has_side_effect"));
  KRAFLA_ASSIGN(int64_t version, WordAttribute(op, "api_version", kApiVersionWords));
  std::string config;
  if (AttributeRef given = op.Find("backend_config"); given != nullptr) {
    if (given->kind == Attribute::Kind::kDictionary) config = PrintAttribute(*given);
    else if (!given->text.empty()) config = "\"" + hlo_text::Escape(given->text) + "\"";
  }
  // A dictionary of parameters travels as an attribute of its own, with the version of the call set back.
  if (AttributeRef parameters = op.FindDiscardable("mhlo.backend_config"); parameters != nullptr) {
    config = PrintAttribute(*parameters);
    version = 4;
  }
  if (version > 1) a.api_version = kApiVersionWords[version];
  if (AttributeRef layouts = op.Find("operand_layouts"); layouts != nullptr && !layouts->elements.empty()) {
    if (layouts->elements.size() != operands.size())
      return InvalidArgument("A custom call has {} layouts for {} operands.", layouts->elements.size(),
                             operands.size());
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (is_shape(i)) continue;
      Shape shape = operands[i]->shape();
      if (shape.IsArray()) {
        KRAFLA_ASSIGN(Dims order, IntegersOf(*layouts->elements[i]));
        KRAFLA_TRY(shape.SetLayout(Layout{std::move(order), {}}));
      }
      shapes.push_back(std::move(shape));
    }
    a.operand_layouts = std::move(shapes);
  }
  std::vector<Instruction*> own;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!is_shape(i)) own.push_back(operands[i]);
  KRAFLA_TRY(c.Emit(op, body, Opcode::kCustomCall, std::move(own), std::move(a), {}, false,
                    sized ? &sized->results : nullptr));
  if (target == CustomCallTarget::kLayoutConstraint)
    KRAFLA_TRY(ConstrainLayout(op, *body.computation->instructions().back()));
  std::string sharding;
  if (AttributeRef given = op.FindDiscardable("mhlo.sharding"); given != nullptr) sharding = given->text;
  if (config.empty() && sharding.empty()) return {};
  Instruction* call = body.computation->instructions().back().get();
  while (call->opcode() == Opcode::kGetTupleElement) call = call->operand(0);
  InstructionMetadata metadata = call->metadata();
  metadata.backend_config = std::move(config);
  metadata.sharding = std::move(sharding);
  call->set_metadata(std::move(metadata));
  return {};
}

Result<bool> ConvertTransfer(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  Computation& computation = *body.computation;
  if (n == "outfeed" || n == "send") {
    KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
    if (operands.empty()) return InvalidArgument("'{}' has no token.", n);
    Instruction* token = operands.back();
    operands.pop_back();
    Instruction* data = operands.size() == 1 ? operands[0] : nullptr;
    if (data == nullptr) { KRAFLA_ASSIGN(data, AddTuple(computation, std::move(operands))); }
    if (n == "outfeed") {
      KRAFLA_ASSIGN(std::string config, StringAttribute(op, "outfeed_config"));
      KRAFLA_TRY(c.Emit(op, body, Opcode::kOutfeed, {data, token}, InfeedAttributes{std::move(config), data->shape()}));
      return true;
    }
    ChannelAttributes a;
    KRAFLA_ASSIGN(a.channel_id, IntAttribute(op, "channel_id"));
    KRAFLA_ASSIGN(a.is_host_transfer, BoolAttribute(op, "is_host_transfer"));
    KRAFLA_ASSIGN(Instruction * send, AddInferred(computation, Opcode::kSend, {data, token}, a));
    KRAFLA_TRY(c.Emit(op, body, Opcode::kSendDone, {send}, a));
    return true;
  }
  if (n == "infeed" || n == "recv") {
    KRAFLA_ASSIGN(Instruction * token, c.Operand(op, body, 0));
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i + 1 < op.results.size(); ++i) {
      KRAFLA_ASSIGN(Shape shape, c.ShapeOfValue(op.results[i]));
      shapes.push_back(std::move(shape));
    }
    if (op.results.empty()) return InvalidArgument("'{}' gives no token.", n);
    const bool one = shapes.size() == 1;
    Shape data;
    if (one) {
      data = shapes[0];
    } else {
      KRAFLA_ASSIGN(data, Shape::MakeTuple(std::move(shapes)));
    }
    Instruction* made = nullptr;
    if (n == "infeed") {
      KRAFLA_ASSIGN(std::string config, StringAttribute(op, "infeed_config"));
      KRAFLA_ASSIGN(Shape declared, Shape::MakeTuple({data, Shape::MakeToken()}));
      KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kInfeed, {token},
                                      InfeedAttributes{std::move(config), std::nullopt}, {}, &declared));
    } else {
      ChannelAttributes a;
      KRAFLA_ASSIGN(a.channel_id, IntAttribute(op, "channel_id"));
      KRAFLA_ASSIGN(a.is_host_transfer, BoolAttribute(op, "is_host_transfer"));
      KRAFLA_ASSIGN(Shape declared, Shape::MakeTuple({data, Shape::MakeScalar(ElementType::kU32), Shape::MakeToken()}));
      KRAFLA_ASSIGN(Instruction * recv, AddInferred(computation, Opcode::kRecv, {token}, a, {}, &declared));
      KRAFLA_ASSIGN(made, AddInferred(computation, Opcode::kRecvDone, {recv}, a));
    }
    KRAFLA_ASSIGN(Instruction * values, AddGetTupleElement(computation, made, 0));
    KRAFLA_ASSIGN(Instruction * after, AddGetTupleElement(computation, made, 1));
    for (std::size_t i = 0; i + 1 < op.results.size(); ++i) {
      Instruction* value = values;
      if (!one) { KRAFLA_ASSIGN(value, AddGetTupleElement(computation, values, static_cast<int64_t>(i))); }
      body.values[op.results[i]] = value;
    }
    body.values[op.results.back()] = after;
    return true;
  }
  return false;
}

}  // namespace

Result<bool> ConvertLibrary(Converter& c, const Op& op, Body& body) {
  const std::string& n = op.name;
  if (n == "custom_call") {
    KRAFLA_TRY(CustomCall(c, op, body));
    return true;
  }
  KRAFLA_ASSIGN(bool transfer, ConvertTransfer(c, op, body));
  if (transfer) return true;
  std::optional<Opcode> opcode;
  Attributes attributes;
  if (n == "fft") {
    FftAttributes a;
    KRAFLA_ASSIGN(int64_t type, WordAttribute(op, "fft_type", kFftWords));
    a.type = static_cast<FftType>(type);
    KRAFLA_ASSIGN(a.length, DimsAttribute(op, "fft_length"));
    opcode = Opcode::kFft;
    attributes = std::move(a);
  } else if (n == "cholesky") {
    KRAFLA_ASSIGN(bool lower, BoolAttribute(op, "lower"));
    opcode = Opcode::kCholesky;
    attributes = CholeskyAttributes{lower};
  } else if (n == "triangular_solve") {
    TriangularSolveAttributes a;
    KRAFLA_ASSIGN(a.left_side, BoolAttribute(op, "left_side"));
    KRAFLA_ASSIGN(a.lower, BoolAttribute(op, "lower"));
    KRAFLA_ASSIGN(a.unit_diagonal, BoolAttribute(op, "unit_diagonal"));
    KRAFLA_ASSIGN(int64_t transpose, WordAttribute(op, "transpose_a", kTransposeWords));
    if (transpose == 0) return InvalidArgument("'{}' has no transpose.", n);
    a.transpose_a = static_cast<TriangularTranspose>(transpose - 1);
    opcode = Opcode::kTriangularSolve;
    attributes = a;
  } else if (n == "rng_bit_generator") {
    KRAFLA_ASSIGN(int64_t algorithm, WordAttribute(op, "rng_algorithm", kRngAlgorithmWords));
    opcode = Opcode::kRngBitGenerator;
    attributes = RngBitGeneratorAttributes{static_cast<RngAlgorithm>(algorithm)};
  } else if (n == "rng") {
    KRAFLA_ASSIGN(int64_t distribution, WordAttribute(op, "rng_distribution", kRngDistributionWords));
    KRAFLA_ASSIGN(Instruction * a, c.Operand(op, body, 0));
    KRAFLA_ASSIGN(Instruction * b, c.Operand(op, body, 1));  // the third operand is the shape, which the type has too
    KRAFLA_TRY(c.Emit(op, body, Opcode::kRng, {a, b}, RngAttributes{static_cast<RngDistribution>(distribution - 1)}));
    return true;
  } else if (n == "batch_norm_grad" || n == "batch_norm_inference" || n == "batch_norm_training") {
    AttributeRef epsilon = op.Find("epsilon");
    if (epsilon == nullptr || epsilon->kind != Attribute::Kind::kFloat)
      return InvalidArgument("'{}' has no epsilon.", n);
    KRAFLA_ASSIGN(int64_t feature, IntAttribute(op, "feature_index"));
    opcode = n == "batch_norm_grad"        ? Opcode::kBatchNormGrad
             : n == "batch_norm_inference" ? Opcode::kBatchNormInference
                                           : Opcode::kBatchNormTraining;
    attributes = BatchNormAttributes{static_cast<float>(epsilon->number), feature};
  }
  if (!opcode) return false;
  KRAFLA_ASSIGN(std::vector<Instruction*> operands, c.Operands(op, body));
  KRAFLA_TRY(c.Emit(op, body, *opcode, std::move(operands), std::move(attributes)));
  return true;
}

}  // namespace krafla::stablehlo
