// SPDX-License-Identifier: Apache-2.0
#include "api/group/cuts_by_bytes.h"

#include "api/op_sharding.h"
#include "api/read_program.h"
#include "hlo_io/hlo_text/lexer.h"
#include "ir/verifier.h"

namespace krafla {
namespace {

Result<CustomCuts::Call> CallOf(const Instruction& call, std::span<const Sharding> operands, int64_t devices) {
  CustomCuts::Call out;
  out.config = hlo_text::ConfigBytes(call.metadata().backend_config);
  for (std::size_t o = 0; o < operands.size(); ++o) {
    const Shape& shape = call.operand(o)->shape();
    KRAFLA_ASSIGN(out.operand_shapes.emplace_back(), SerializeShape(shape));
    KRAFLA_ASSIGN(out.operand_shardings.emplace_back(),
                  SerializeOpSharding(ShardingToText(operands[o], shape.rank(), devices)));
  }
  KRAFLA_ASSIGN(out.result_shape, SerializeShape(call.shape()));
  return out;
}

// One sharding a leaf.
Result<std::vector<Sharding>> Read(std::string_view bytes, std::size_t leaves, int64_t devices) {
  KRAFLA_ASSIGN(const std::string text, ParseOpSharding(bytes));
  KRAFLA_ASSIGN(std::vector<Sharding> out, ParseShardings(text, devices));
  if (out.size() == 1 && leaves != 1) out.assign(leaves, Sharding(out[0]));
  if (out.size() != leaves) return InvalidArgument("There are {} shardings for {} arrays.", out.size(), leaves);
  return out;
}

std::string TextOfAll(const Instruction& call, std::span<const Sharding> shardings, int64_t devices) {
  const std::vector<const Shape*> leaves = TupleLeaves(call.shape());
  std::string out;
  for (std::size_t n = 0; n < leaves.size(); ++n)
    out += (n > 0 ? ", " : "") + ShardingToText(shardings[n], leaves[n]->rank(), devices);
  return call.shape().IsTuple() ? "{" + out + "}" : out;
}

std::string_view TargetOf(const Instruction& call) { return call.attr<CustomCallAttributes>().target; }

}  // namespace

Result<std::vector<Sharding>> CutsByBytes::ResultShardings(const Instruction& call, std::span<const Sharding> operands,
                                                           int64_t devices) const {
  KRAFLA_ASSIGN(const CustomCuts::Call asked, CallOf(call, operands, devices));
  KRAFLA_ASSIGN(const std::optional<std::string> told, cuts_->ResultSharding(TargetOf(call), asked));
  const std::size_t leaves = LeafCount(call.shape());
  if (!told) return std::vector<Sharding>(leaves);
  return Read(*told, leaves, devices);
}

Result<CustomPartitioner::Cut> CutsByBytes::Partition(const Instruction& call, std::span<const Sharding> operands,
                                                      std::span<const Sharding> results, int64_t devices) const {
  KRAFLA_ASSIGN(CustomCuts::Call asked, CallOf(call, operands, devices));
  KRAFLA_ASSIGN(asked.wish, SerializeOpSharding(TextOfAll(call, results, devices)));
  KRAFLA_ASSIGN(const CustomCuts::Cut told, cuts_->Partition(TargetOf(call), asked));
  Cut out;
  for (const std::string& bytes : told.operand_shardings) {
    KRAFLA_ASSIGN(std::vector<Sharding> one, Read(bytes, 1, devices));
    out.operands.push_back(std::move(one[0]));
  }
  KRAFLA_ASSIGN(out.results, Read(told.result_sharding, results.size(), devices));
  KRAFLA_ASSIGN(out.program, ReadProgram(told.program, "the custom call's program"));
  out.program->num_partitions = devices;
  KRAFLA_TRY(Verify(*out.program));
  return out;
}

}  // namespace krafla
