// SPDX-License-Identifier: Apache-2.0
// Weights of four bits are codes: what their bits stand for (a signed number, a level of a table, a float of four
// bits), less a zero point, as a float, is one of sixteen numbers, which a permutation of a register of them finds,
// whatever the program makes them of.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu_fallback/native/lane_graph.h"

namespace krafla::cpu::native {
namespace {

constexpr int kCodes = 16;
constexpr std::size_t kMostTables = 4;

std::size_t At(int id) { return static_cast<std::size_t>(id); }

bool IsWord(ElementType type) {
  return type == ElementType::kS32 || type == ElementType::kU32 || type == ElementType::kF32;
}

// What a node is for each code of four bits.
struct Tabulated {
  int base = -1;  // the node whose lower four bits are the code; -1: it is no function of a code
  int ops = 0;    // how many operations it takes
  std::array<uint32_t, kCodes> values{};
};

std::optional<uint32_t> Applied(LaneOp op, ElementType type, ElementType from, uint32_t a, uint32_t b) {
  if (type == ElementType::kF32) {
    const float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    float out = 0;
    switch (static_cast<int>(op)) {
      case static_cast<int>(LaneOp::kAdd): out = x + y; break;
      case static_cast<int>(LaneOp::kSub): out = x - y; break;
      case static_cast<int>(LaneOp::kMul): out = x * y; break;
      case static_cast<int>(LaneOp::kBitcast): out = x; break;
      case static_cast<int>(LaneOp::kIntToFloat):
        out = from == ElementType::kS32 ? static_cast<float>(static_cast<int32_t>(a)) : static_cast<float>(a);
        break;
      default: return std::nullopt;
    }
    // A NaN's bits are the processor's own.
    if (std::isnan(out)) return std::nullopt;
    return std::bit_cast<uint32_t>(out);
  }
  const bool is_signed = type == ElementType::kS32;
  switch (static_cast<int>(op)) {
    case static_cast<int>(LaneOp::kBitcast): return a;
    case static_cast<int>(LaneOp::kAdd): return a + b;
    case static_cast<int>(LaneOp::kSub): return a - b;
    case static_cast<int>(LaneOp::kMul): return a * b;
    case static_cast<int>(LaneOp::kAnd): return a & b;
    case static_cast<int>(LaneOp::kOr): return a | b;
    case static_cast<int>(LaneOp::kXor): return a ^ b;
    case static_cast<int>(LaneOp::kNot): return ~a;
    case static_cast<int>(LaneOp::kShl): return b < 32 ? a << b : 0;
    case static_cast<int>(LaneOp::kShr): return b < 32 ? a >> b : 0;
    case static_cast<int>(LaneOp::kSar):
      return static_cast<uint32_t>(static_cast<int32_t>(a) >> std::min<uint32_t>(b, 31));
    case static_cast<int>(LaneOp::kMin):
      return is_signed ? static_cast<uint32_t>(std::min(static_cast<int32_t>(a), static_cast<int32_t>(b)))
                       : std::min(a, b);
    case static_cast<int>(LaneOp::kMax):
      return is_signed ? static_cast<uint32_t>(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b)))
                       : std::max(a, b);
    default: return std::nullopt;
  }
}

// Comparisons, which are ones and zeros here.
std::optional<uint32_t> Compared(LaneOp op, ElementType type, uint32_t a, uint32_t b) {
  const auto ordered = [&](auto x, auto y) -> std::optional<uint32_t> {
    if (op == LaneOp::kEq) return x == y;
    if (op == LaneOp::kNe) return x != y;
    if (op == LaneOp::kLt) return x < y;
    if (op == LaneOp::kLe) return x <= y;
    return std::nullopt;
  };
  if (type == ElementType::kF32) return ordered(std::bit_cast<float>(a), std::bit_cast<float>(b));
  if (type == ElementType::kS32) return ordered(static_cast<int32_t>(a), static_cast<int32_t>(b));
  if (type == ElementType::kU32) return ordered(a, b);
  return std::nullopt;
}

class Tabulator {
 public:
  explicit Tabulator(LaneGraph& graph) : graph_(graph), known_(graph.nodes.size()) {}

  void Run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) Find(static_cast<int>(i));
    // The last ones of each chain: those that something else reads.
    std::vector<bool> is_read(graph_.nodes.size(), false);
    for (const LaneStore& s : graph_.stores) {
      is_read[At(s.node)] = true;
      for (const int part : s.parts)
        if (part >= 0) is_read[At(part)] = true;
    }
    for (const LaneFold& f : graph_.folds) is_read[At(f.node)] = true;
    const std::vector<bool> used = graph_.Used();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!used[i] || known_[i].base >= 0) continue;
      const LaneNode& n = graph_.nodes[i];
      for (const int o : {n.a, n.b, n.c})
        if (o >= 0) is_read[At(o)] = true;
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_read[i] && used[i] && known_[i].base >= 0 && known_[i].ops >= 2 && IsWord(graph_.nodes[i].type)) LookUp(i);
  }

  std::optional<CodedPlaces> PlacesOf(int node) {
    for (int i = 0; i <= node; ++i) Find(i);
    const Tabulated& found = known_[At(node)];
    if (found.base < 0 || std::ranges::any_of(found.values, [](uint32_t place) { return place >= kCodes; }))
      return std::nullopt;
    return CodedPlaces{found.base, found.values};
  }

 private:
  const LaneNode& Node(int id) const { return graph_.nodes[At(id)]; }
  std::optional<uint32_t> ConstantOf(int id) const {
    if (id < 0 || Node(id).op != LaneOp::kConstant) return std::nullopt;
    return static_cast<uint32_t>(Node(id).bits);
  }

  // Operations that take four bits out of a word.
  bool FindCode(int id) {
    const LaneNode& n = Node(id);
    if (!IsWord(n.type) || n.type == ElementType::kF32 || n.a < 0) return false;
    const std::optional<uint32_t> constant = ConstantOf(n.b);
    if (!constant) return false;
    Tabulated out{.base = n.a, .ops = 1, .values = {}};
    // The upper four bits of a byte: their number is the node itself.
    const LaneNode& from = Node(n.a);
    const int width = from.op == LaneOp::kExtend ? BitWidth(Node(from.a).type) : 32;
    const bool is_rest = n.op == LaneOp::kShr && *constant < 32 && static_cast<int>(*constant) >= width - 4 &&
                         (from.op != LaneOp::kExtend || IsUnsigned(Node(from.a).type));
    if (is_rest) out.base = id, out.ops = 0;
    const bool takes_four = (n.op == LaneOp::kAnd && *constant < kCodes) || (n.op == LaneOp::kShl && *constant >= 28);
    if (!is_rest && !takes_four) return false;
    for (uint32_t code = 0; code < kCodes; ++code) {
      if (is_rest) out.values[code] = code;
      else if (n.op == LaneOp::kAnd) out.values[code] = code & *constant;
      else out.values[code] = *constant < 32 ? code << *constant : 0;
    }
    known_[At(id)] = out;
    return true;
  }

  void Find(int id) {
    const LaneNode n = Node(id);
    if (n.op == LaneOp::kConstant || n.a < 0) return;
    Tabulated out;
    bool is_function = true;
    for (const int o : {n.a, n.b, n.c}) {
      if (o < 0 || ConstantOf(o)) continue;
      const Tabulated& operand = known_[At(o)];
      is_function = is_function && operand.base >= 0 && (out.base < 0 || out.base == operand.base);
      out.base = operand.base;
      out.ops += operand.ops;
    }
    if (!is_function || out.base < 0) {
      FindCode(id);
      return;
    }
    ++out.ops;
    for (uint32_t code = 0; code < kCodes; ++code) {
      const auto value = [&](int o) { return o < 0 ? 0 : ConstantOf(o) ? *ConstantOf(o) : known_[At(o)].values[code]; };
      std::optional<uint32_t> made;
      if (n.op == LaneOp::kSelect) made = value(n.a) != 0 ? value(n.b) : value(n.c);
      else if (n.type == ElementType::kPred) made = Compared(n.op, Node(n.a).type, value(n.a), value(n.b));
      else if (IsWord(n.type) && IsWord(Node(n.a).type))
        made = Applied(n.op, n.type, Node(n.a).type, value(n.a), value(n.b));
      if (!made || (n.op == LaneOp::kSelect && !IsWord(n.type))) return;
      out.values[code] = *made;
    }
    known_[At(id)] = out;
  }

  void LookUp(std::size_t id) {
    const LaneTable table{.entries = known_[id].values};
    const auto known = std::ranges::find(graph_.tables, table);
    const auto number = static_cast<std::size_t>(known - graph_.tables.begin());
    if (number == kMostTables) return;
    if (known == graph_.tables.end()) graph_.tables.push_back(table);
    const LaneNode was = graph_.nodes[id];
    graph_.nodes[id] = {LaneOp::kLookup, was.type, known_[id].base, -1, -1, number, was.lanes};
  }

  LaneGraph& graph_;
  std::vector<Tabulated> known_;
};

}  // namespace

std::optional<CodedPlaces> PlacesOfCodes(LaneGraph& graph, int node) {
  return graph.regions.empty() ? Tabulator(graph).PlacesOf(node) : std::nullopt;
}

void TabulateCodes(LaneGraph& graph) {
  if (!graph.regions.empty()) return;
  // Vectors of sixteen lanes, as a table has entries.
  const std::vector<bool> used = graph.Used();
  int widest = 1;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (used[i]) widest = std::max(widest, StorageBytes(graph.nodes[i].type));
  for (const LaneStore& s : graph.stores) widest = std::max(widest, graph.streams[At(s.stream)].width);
  if (widest == 4) Tabulator(graph).Run();
}

}  // namespace krafla::cpu::native
