// SPDX-License-Identifier: Apache-2.0
// Transforms, factorisations, normalisations, random numbers, transfers.
#include "hlo_io/stablehlo/tree_builder.h"
#include "hlo_io/stablehlo/words.h"

namespace krafla::stablehlo {
namespace {

// StableHLO takes the shape of random numbers as an operand.
Result<> WriteRng(TreeBuilder& b, const Instruction& i, Scope& scope) {
  KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(ElementType::kS64, Dims{i.shape().rank()}));
  KRAFLA_ASSIGN(Literal sizes, Literal::Create(shape));
  for (std::size_t d = 0; d < i.shape().dims().size(); ++d) sizes.data<int64_t>()[d] = i.shape().dims()[d];
  KRAFLA_ASSIGN(ValueId dims, b.AddDense(scope, sizes));
  Leaves operands = b.OperandLeaves(i, scope);
  operands.push_back(dims);
  const auto distribution = static_cast<std::size_t>(i.attr<RngAttributes>().distribution);
  return b.Emit(i, scope, "rng", std::move(operands),
                {{"rng_distribution", b.Word(kRngDistributionWords[distribution + 1])}});
}

AttributeList ChannelAttributesOf(TreeBuilder& b, const Instruction& i) {
  const auto& a = i.attr<ChannelAttributes>();
  // ChannelHandle's types: from device to device, to the host, from the host (xla_data.proto).
  const int64_t type = !a.is_host_transfer ? 1 : i.opcode() == Opcode::kSend ? 2 : 3;
  return {{"channel_id", b.Integer(a.channel_id.value_or(0))},
          {"channel_type", b.Integer(type)},
          {"is_host_transfer", b.Flag(a.is_host_transfer)}};
}

Result<> WriteTransfer(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const Shape token = Shape::MakeToken();
  Leaves operands = b.OperandLeaves(i, scope);
  if (i.opcode() == Opcode::kSend)
    return b.Emit(i, scope, "send", std::move(operands), ChannelAttributesOf(b, i), {}, &token);
  if (i.opcode() == Opcode::kRecv) {
    KRAFLA_ASSIGN(const Shape given, Shape::MakeTuple({i.shape().tuple_elements()[0], token}));
    return b.Emit(i, scope, "recv", std::move(operands), ChannelAttributesOf(b, i), {}, &given);
  }
  const auto& a = i.attr<InfeedAttributes>();
  if (i.opcode() == Opcode::kOutfeed)
    return b.Emit(i, scope, "outfeed", std::move(operands), {{"outfeed_config", b.Text(a.config)}});
  return b.Emit(i, scope, "infeed", std::move(operands),
                {{"infeed_config", b.Text(a.config)}, {"layout", b.Array({})}});
}

Result<> WriteFft(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<FftAttributes>();
  return b.Emit(i, scope, "fft", b.OperandLeaves(i, scope),
                {{"fft_length", b.List(a.length)}, {"fft_type", b.Word(kFftWords[static_cast<std::size_t>(a.type)])}});
}

Result<> WriteCholesky(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return b.Emit(i, scope, "cholesky", b.OperandLeaves(i, scope),
                {{"lower", b.Flag(i.attr<CholeskyAttributes>().lower)}});
}

Result<> WriteTriangularSolve(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<TriangularSolveAttributes>();
  return b.Emit(i, scope, "triangular_solve", b.OperandLeaves(i, scope),
                {{"left_side", b.Flag(a.left_side)},
                 {"lower", b.Flag(a.lower)},
                 {"transpose_a", b.Word(kTransposeWords[static_cast<std::size_t>(a.transpose_a) + 1])},
                 {"unit_diagonal", b.Flag(a.unit_diagonal)}});
}

Result<> WriteBitGenerator(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto algorithm = static_cast<std::size_t>(i.attr<RngBitGeneratorAttributes>().algorithm);
  return b.Emit(i, scope, "rng_bit_generator", b.OperandLeaves(i, scope),
                {{"rng_algorithm", b.Word(kRngAlgorithmWords[algorithm])}});
}

Result<> WriteBatchNorm(TreeBuilder& b, const Instruction& i, Scope& scope) {
  const auto& a = i.attr<BatchNormAttributes>();
  return b.Emit(i, scope, GetOpInfo(i.opcode()).stablehlo_name, b.OperandLeaves(i, scope),
                {{"epsilon", b.Real(a.epsilon)}, {"feature_index", b.Integer(a.feature_index)}});
}

constexpr OpcodeWriter kLibraryRows[] = {{Opcode::kBatchNormGrad, WriteBatchNorm},
                                         {Opcode::kBatchNormInference, WriteBatchNorm},
                                         {Opcode::kBatchNormTraining, WriteBatchNorm},
                                         {Opcode::kCholesky, WriteCholesky},
                                         {Opcode::kFft, WriteFft},
                                         {Opcode::kInfeed, WriteTransfer},
                                         {Opcode::kOutfeed, WriteTransfer},
                                         {Opcode::kRecv, WriteTransfer},
                                         {Opcode::kRng, WriteRng},
                                         {Opcode::kRngBitGenerator, WriteBitGenerator},
                                         {Opcode::kSend, WriteTransfer},
                                         {Opcode::kTriangularSolve, WriteTriangularSolve}};

}  // namespace

Result<bool> WriteLibrary(TreeBuilder& b, const Instruction& i, Scope& scope) {
  return WriteByRow(kLibraryRows, b, i, scope);
}

}  // namespace krafla::stablehlo
