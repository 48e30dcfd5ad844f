// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/byte_table.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/interruption.h"
#include "cpu_fallback/executor/iteration.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexId;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

constexpr int64_t kElementsOfPart = 4096;
constexpr double kTimeOfEntry = 0.4;  // nanoseconds

const Node& NodeAt(const ElementProgram& p, NodeId id) { return p.nodes[static_cast<std::size_t>(id)]; }

// The load of a byte that a node is, as an integer.
const Node* ByteOf(const ElementProgram& program, NodeId id) {
  const Node* n = &NodeAt(program, id);
  while (n->op == NodeOp::kConvert && IsIntegral(n->type) && StorageBytes(n->type) >= 4)
    n = &NodeAt(program, n->operands[0]);
  const bool is_byte = n->op == NodeOp::kLoad && n->storage == ElementType::kU8 && n->mask == kNoNode;
  return is_byte && IsIntegral(n->type) ? n : nullptr;
}

}  // namespace

std::optional<ByteTable> ByteTable::Make(const ElementProgram& given, int64_t least) {
  if (given.stores.size() != 1 || !given.results.empty()) return std::nullopt;
  ElementProgram program = given;
  for (DimSplit split = FindSplit(program); split.dim >= 0; split = FindSplit(program))
    program = SplitDim(program, split.dim, split.inner);
  const plan::Store& store = program.stores[0];
  const Node& load = NodeAt(program, store.node);
  const int width = StorageBytes(store.storage);
  if (width > 2 || load.op != NodeOp::kLoad || load.mask != kNoNode || store.mask != kNoNode ||
      load.storage != store.storage || load.buffer == store.buffer)
    return std::nullopt;
  ByteTable out;
  const std::size_t rank = program.space.dims().size();
  std::vector<Level> levels(rank);
  const Node* byte = nullptr;
  for (const IndexTerm& t : program.space.expr(load.index).terms) {
    const IndexAtom& a = program.space.atom(t.atom);
    if (a.kind == IndexAtom::Kind::kIter) {
      levels[static_cast<std::size_t>(a.iter)].table = t.coefficient;
      continue;
    }
    if (a.kind != IndexAtom::Kind::kValue || byte != nullptr) return std::nullopt;
    byte = ByteOf(program, a.node);
    if (byte == nullptr || byte->buffer == store.buffer) return std::nullopt;
    out.factor_ = t.coefficient;
  }
  if (byte == nullptr) return std::nullopt;
  const std::optional<Dims> index = AffineCoefficients(program.space, byte->index),
                            to = AffineCoefficients(program.space, store.index);
  if (!index || !to) return std::nullopt;
  int64_t bytes = width;
  for (std::size_t d = 0; d < rank; ++d) {
    levels[d].extent = program.space.dims()[d], levels[d].index = (*index)[d], levels[d].to = (*to)[d];
    bytes *= levels[d].extent;
  }
  // A line has one table.
  const auto line = std::ranges::max_element(levels, {}, [](const Level& l) { return l.table == 0 ? l.extent : 0; });
  if (bytes < least || line == levels.end() || line->table != 0) return std::nullopt;
  out.line_ = *line;
  levels.erase(line);
  out.outer_ = std::move(levels);
  const auto offset = [&](IndexId id) { return program.space.expr(id).constant; };
  out.offset_ = {1, offset(byte->index), offset(load.index), offset(store.index)};
  out.index_buffer_ = byte->buffer, out.table_buffer_ = load.buffer, out.to_buffer_ = store.buffer;
  out.width_ = width;
  return out;
}

int64_t ByteTable::PartsOfLine() const { return CeilDiv(line_.extent, kElementsOfPart); }

template <class T>
void ByteTable::RunItems(int64_t begin, int64_t end, std::span<std::byte* const> buffers) const {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(buffers[static_cast<std::size_t>(index_buffer_)]);
  const auto* const entries = reinterpret_cast<const T*>(buffers[static_cast<std::size_t>(table_buffer_)]);
  auto* const results = reinterpret_cast<T*>(buffers[static_cast<std::size_t>(to_buffer_)]);
  const int64_t parts = PartsOfLine(), index_step = line_.index, to_step = line_.to, factor = factor_;
  for (int64_t item = begin; item < end && !IsInterrupted(); ++item) {
    Level at = offset_;
    int64_t rest = item / parts;
    for (std::size_t l = outer_.size(); l-- > 0; rest /= outer_[l].extent) {
      const int64_t i = rest % outer_[l].extent;
      at.index += i * outer_[l].index, at.table += i * outer_[l].table, at.to += i * outer_[l].to;
    }
    const int64_t first = item % parts * kElementsOfPart, count = std::min(kElementsOfPart, line_.extent - first);
    const uint8_t* const index = bytes + at.index + first * index_step;
    const T* const table = entries + at.table;
    T* const to = results + at.to + first * to_step;
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = table[index[i * index_step] * factor];
  }
}

void ByteTable::Run(std::span<std::byte* const> buffers, ThreadPool& pool) const {
  int64_t items = PartsOfLine();
  for (const Level& l : outer_) items *= l.extent;
  const double nanoseconds = 5 + kTimeOfEntry * static_cast<double>(std::min(kElementsOfPart, line_.extent));
  pool.ParallelItems(items, nanoseconds, [&](int64_t begin, int64_t end, int) {
    if (width_ == 1) RunItems<uint8_t>(begin, end, buffers);
    else RunItems<uint16_t>(begin, end, buffers);
  });
}

}  // namespace krafla::cpu
