// SPDX-License-Identifier: Apache-2.0
// ElementProgram::ToString, for tests and for people.
#include <bit>

#include "plan/element_program.h"

namespace krafla::plan {
namespace {

std::string IndexText(const IndexSpace& space, IndexId id) {
  const IndexExpr& e = space.expr(id);
  std::string out;
  for (const IndexTerm& t : e.terms) {
    const IndexAtom& a = space.atom(t.atom);
    if (!out.empty()) out += " + ";
    if (t.coefficient != 1) out += Format("{}*", t.coefficient);
    switch (a.kind) {
      case IndexAtom::Kind::kIter: out += Format("i{}", a.iter); break;
      case IndexAtom::Kind::kFloorDiv: out += Format("({})/{}", IndexText(space, a.expr), a.divisor); break;
      case IndexAtom::Kind::kMod: out += Format("({})%{}", IndexText(space, a.expr), a.divisor); break;
      case IndexAtom::Kind::kValue: out += Format("%{}", a.node); break;
    }
  }
  if (e.constant != 0 || out.empty()) out += Format("{}{}", out.empty() ? "" : " + ", e.constant);
  return out;
}

std::string ConstantText(const Node& n) {
  if (n.type == ElementType::kF32) return Format("{}", std::bit_cast<float>(static_cast<uint32_t>(n.bits)));
  if (n.type == ElementType::kF64) return Format("{}", std::bit_cast<double>(n.bits));
  if (n.type == ElementType::kS32) return Format("{}", static_cast<int32_t>(n.bits));
  if (n.type == ElementType::kS64) return Format("{}", static_cast<int64_t>(n.bits));
  return Format("{}", n.bits);
}

constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};

}  // namespace

std::string ElementProgram::ToString() const {
  std::string out = "over [";
  for (std::size_t i = 0; i < space.dims().size(); ++i) out += Format("{}{}", i ? "," : "", space.dims()[i]);
  out += "]\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& n = nodes[i];
    std::string operands;
    for (NodeId o : n.operands)
      if (o != kNoNode) operands += Format("{}%{}", operands.empty() ? "" : ", ", o);
    out += Format("  %{} = {} ", i, ElementTypeName(n.type));
    switch (n.op) {
      case NodeOp::kConstant: out += "constant " + ConstantText(n); break;
      case NodeOp::kIndex: out += "index " + IndexText(space, n.index); break;
      case NodeOp::kParam: out += Format("param {}", n.bits); break;
      case NodeOp::kLoad: out += Format("load {} b{}[{}]", ElementTypeName(n.storage), n.buffer, IndexText(space, n.index)); break;
      case NodeOp::kHlo: out += Format("{} {}", OpcodeName(n.opcode), operands); break;
      case NodeOp::kCompare:
        out += Format("compare {} {}{}", kDirections[static_cast<int>(n.direction)], operands, n.total_order ? " total" : "");
        break;
      case NodeOp::kConvert: out += "convert " + operands; break;
      case NodeOp::kBitcast: out += "bitcast " + operands; break;
      case NodeOp::kRound: out += Format("round {} {}", ElementTypeName(n.storage), operands); break;
      case NodeOp::kWrap: out += Format("wrap {} {}", ElementTypeName(n.storage), operands); break;
      case NodeOp::kEncode: out += Format("encode {} {}", ElementTypeName(n.storage), operands); break;
      case NodeOp::kDecode: out += Format("decode {} {}", ElementTypeName(n.storage), operands); break;
      case NodeOp::kReducePrecision:
        out += Format("reduce-precision e{}m{} {}", n.bits >> 32, n.bits & 0xffffffff, operands);
        break;
    }
    if (n.mask != kNoNode) out += Format(" if %{}", n.mask);
    out += "\n";
  }
  for (const Store& s : stores) {
    out += Format("  store {} b{}[{}] = %{}", ElementTypeName(s.storage), s.buffer, IndexText(space, s.index), s.node);
    if (s.mask != kNoNode) out += Format(" if %{}", s.mask);
    out += "\n";
  }
  if (!results.empty()) {
    out += "  results";
    for (NodeId r : results) out += Format(" %{}", r);
    out += "\n";
  }
  return out;
}

}  // namespace krafla::plan
