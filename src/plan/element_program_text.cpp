// SPDX-License-Identifier: Apache-2.0
// ElementProgram::ToString, for tests and for people.
#include <algorithm>
#include <bit>

#include "plan/element_program.h"

namespace krafla::plan {
namespace {

// Writes index expressions as text. Expressions share their parts, and to write these out wherever they occur could
// take exponentially many lines: what is nested deeper than two divisions gets a name, `#7`, and a line of its own
// below the program.
class IndexWriter {
 public:
  explicit IndexWriter(const IndexSpace& space)
      : space_(space), depth_(space.expr_count(), -1), named_(space.expr_count(), false) {}

  std::string operator()(IndexId id) {
    const IndexExpr& e = space_.expr(id);
    std::string out;
    for (const IndexTerm& t : e.terms) {
      const IndexAtom& a = space_.atom(t.atom);
      if (!out.empty()) out += " + ";
      if (t.coefficient != 1) out += Format("{}*", t.coefficient);
      switch (a.kind) {
        case IndexAtom::Kind::kIter: out += Format("i{}", a.iter); break;
        case IndexAtom::Kind::kFloorDiv: out += Format("({})/{}", Dividend(a.expr), a.divisor); break;
        case IndexAtom::Kind::kMod: out += Format("({})%{}", Dividend(a.expr), a.divisor); break;
        case IndexAtom::Kind::kValue: out += Format("%{}", a.node); break;
      }
    }
    if (e.constant != 0 || out.empty()) out += Format("{}{}", out.empty() ? "" : " + ", e.constant);
    return out;
  }

  // A line for each expression that was named.
  std::string Names() {
    std::string out;
    for (std::size_t n = 0; n < names_.size(); ++n) {
      const std::string text = (*this)(names_[n]);
      out += Format("  #{} = {}\n", names_[n], text);
    }
    return out;
  }

 private:
  std::string Dividend(IndexId id) {
    if (Depth(id) < 2) return (*this)(id);
    if (!named_[static_cast<std::size_t>(id)]) names_.push_back(id);
    named_[static_cast<std::size_t>(id)] = true;
    return Format("#{}", id);
  }
  // How deep divisions are nested, counted up to two.
  int Depth(IndexId id) {
    if (depth_[static_cast<std::size_t>(id)] >= 0) return depth_[static_cast<std::size_t>(id)];
    int depth = 0;
    for (const IndexTerm& t : space_.expr(id).terms) {
      const IndexAtom& a = space_.atom(t.atom);
      if (a.kind == IndexAtom::Kind::kFloorDiv || a.kind == IndexAtom::Kind::kMod)
        depth = std::max(depth, std::min(2, 1 + Depth(a.expr)));
    }
    return depth_[static_cast<std::size_t>(id)] = depth;
  }

  const IndexSpace& space_;
  std::vector<int> depth_;
  std::vector<bool> named_;
  std::vector<IndexId> names_;
};

std::string ConstantText(const Node& n) {
  if (n.type == ElementType::kF32) return Format("{}", std::bit_cast<float>(static_cast<uint32_t>(n.bits)));
  if (n.type == ElementType::kF64) return Format("{}", std::bit_cast<double>(n.bits));
  if (n.type == ElementType::kS32) return Format("{}", static_cast<int32_t>(n.bits));
  if (n.type == ElementType::kS64) return Format("{}", static_cast<int64_t>(n.bits));
  return Format("{}", n.bits);
}

constexpr std::string_view kDirections[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};

}  // namespace

std::string IndexText(const IndexSpace& space, IndexId id) {
  IndexWriter text(space);
  return text(id);
}

std::string ElementProgram::ToString() const {
  IndexWriter index_text(space);
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
      case NodeOp::kIndex: out += "index " + index_text(n.index); break;
      case NodeOp::kParam: out += Format("param {}", n.bits); break;
      case NodeOp::kLoad:
        out += Format("load {} b{}[{}]", ElementTypeName(n.storage), n.buffer, index_text(n.index));
        break;
      case NodeOp::kHlo: out += Format("{} {}", OpcodeName(n.opcode), operands); break;
      case NodeOp::kCompare:
        out += Format("compare {} {}{}", kDirections[static_cast<int>(n.direction)], operands,
                      n.total_order ? " total" : "");
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
    out += Format("  store {} b{}[{}] = %{}", ElementTypeName(s.storage), s.buffer, index_text(s.index), s.node);
    if (s.mask != kNoNode) out += Format(" if %{}", s.mask);
    out += "\n";
  }
  if (!results.empty()) {
    out += "  results";
    for (NodeId r : results) out += Format(" %{}", r);
    out += "\n";
  }
  return out + index_text.Names();
}

}  // namespace krafla::plan
