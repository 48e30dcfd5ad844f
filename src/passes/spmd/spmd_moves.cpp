// SPDX-License-Identifier: Apache-2.0
// Slices, pads and concatenations of each other along a dimension that is cut, as a rotation or a border is: each
// device sends others the rows that these have of its block, and keeps the rest (XLA knows rotations and pads of some
// forms: xla/service/spmd/spmd_partitioner.cc, HandleConcatenate and HandlePad).
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/index.h"
#include "ir/builder.h"
#include "passes/spmd/spmd_rules.h"

namespace krafla::spmd {
namespace {

using Splits = std::vector<Split>;

constexpr int kDeepest = 32;  // operations of each other
constexpr std::size_t kMostPieces = 64, kMostEdges = 1 << 14, kMostMessages = 8;

// A call on the way to an instruction of a called computation.
struct Frame {
  const Instruction* call;
  const Frame* outer;
};

// Rows [to, to + count) of the result: those of an array from `from` on, or a value.
struct Piece {
  const Instruction* source = nullptr;
  const Instruction* value = nullptr;
  int64_t from = 0, to = 0, count = 0;
};

// Rows of a piece that one block has and another needs: from and to within these blocks.
struct Edge {
  int64_t source_block, block;
  int64_t from, to, count;
};

// What devices send each other at a time, each to one other at most: rows of one array.
struct Message {
  const Instruction* source = nullptr;
  const Instruction* value = nullptr;  // of edges that nobody sends
  bool is_sent = false;
  std::vector<Edge> edges;
};

class RowMoves {
 public:
  RowMoves(const Instruction& instruction, const ValueOf& value_of, const Region* region, Emitter& emitter)
      : i_(instruction),
        value_of_(value_of),
        region_(region),
        emitter_(emitter),
        devices_(instruction.parent()->parent()->num_partitions),
        result_(instruction.shape().dims()) {}

  Result<std::optional<Value>> Make() {
    if (!FindDimension() || !AddPieces(i_, nullptr, 0, i_.shape().dims()[dim_], 0) || !FindCut()) return std::nullopt;
    FindMessages();
    if (!IsWorthIt()) return std::nullopt;
    std::map<const Instruction*, Instruction*> blocks;
    for (const Piece& p : pieces_) {
      if (p.source == nullptr || blocks.contains(p.source)) continue;
      KRAFLA_ASSIGN(const Value value, emitter_.Reshard(*value_of_(p.source), dims_));
      blocks[p.source] = value.local;
    }
    Value made;
    KRAFLA_ASSIGN(made.local, PutTogether(blocks));
    made.dims = dims_;
    made.region = region_;
    return made;
  }

  // Of an array that devices have in blocks already.
  Result<std::optional<Instruction*>> Rebalance(const RowBlocks& rows) {
    dim_ = rows.dim;
    dims_.assign(rows.dims.begin(), rows.dims.end());
    result_ = rows.sizes;
    block_ = rows.block;
    given_ = rows.local;
    pieces_.push_back({given_, nullptr, rows.first, rows.at, rows.count});
    FindMessages();
    if (messages_.empty() || !IsWorthIt()) return std::nullopt;
    return PutTogether({{given_, rows.local}});
  }

 private:
  Result<Instruction*> PutTogether(const std::map<const Instruction*, Instruction*>& blocks) {
    Instruction* out = nullptr;
    for (const Message& m : messages_) {
      Instruction* rows = nullptr;
      if (m.value != nullptr) {
        KRAFLA_ASSIGN(Instruction * fill, Fill(*m.value));
        KRAFLA_ASSIGN(rows, AddBroadcastScalar(emitter_.out(), fill, Sized(block_)));
      } else {
        KRAFLA_ASSIGN(rows, Moved(m, blocks.at(m.source)));
      }
      if (out != nullptr) {
        KRAFLA_ASSIGN(Instruction * mask, Mask(m));
        KRAFLA_ASSIGN(rows, emitter_.Infer(Opcode::kSelect, {mask, rows, out}));
      }
      out = rows;
    }
    return out;
  }

  // The only dimension in which the operation does something; none: nothing for us.
  static std::optional<std::size_t> DimensionOf(const Instruction& i) {
    if (i.opcode() == Opcode::kConcatenate) return At(i.attr<DimensionsAttributes>().dimensions[0]);
    if (i.opcode() != Opcode::kSlice && i.opcode() != Opcode::kPad) return std::nullopt;
    std::optional<std::size_t> out;
    for (std::size_t d = 0; d < i.shape().dims().size(); ++d) {
      bool plain = true, stepped = false;
      if (i.opcode() == Opcode::kSlice) {
        const auto& s = i.attr<SliceAttributes>();
        stepped = s.strides[d] != 1;
        plain = s.starts[d] == 0 && s.limits[d] == i.operand(0)->shape().dims()[d] && !stepped;
      } else {
        const auto& p = i.attr<PadAttributes>();
        stepped = p.interior[d] != 0 || p.low[d] < 0 || p.high[d] < 0;
        plain = p.low[d] == 0 && p.high[d] == 0 && !stepped;
      }
      if (stepped || (!plain && out)) return std::nullopt;
      if (!plain) out = d;
    }
    return out;
  }
  bool FindDimension() {
    const std::optional<std::size_t> d = DimensionOf(i_);
    dim_ = d.value_or(0);
    return d.has_value();
  }

  struct Deeper {
    explicit Deeper(int& counter) : depth(++counter) {}
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth;
  };

  // Rows [from, from + count) of `i`, which are to be rows `to` and so on of the result. False where it is too many, or
  // where they are of an array that only a called computation has.
  bool AddPieces(const Instruction& i, const Frame* frame, int64_t from, int64_t count, int64_t to) {
    if (count == 0) return true;
    if (pieces_.size() >= kMostPieces) return false;
    const Deeper deeper(depth_);
    if (i.opcode() == Opcode::kParameter && frame != nullptr)
      return AddPieces(OperandOf(*frame, i), frame->outer, from, count, to);
    if (i.opcode() == Opcode::kCall && i.shape().IsArray()) {
      const std::size_t before = pieces_.size();
      const Frame inner{&i, frame};
      if (depth_ < kDeepest && AddPieces(*i.called(0)->root(), &inner, from, count, to)) return true;
      pieces_.resize(before);
    }
    const bool goes_on = i.shape().IsArray() && depth_ < kDeepest;
    if (!goes_on || DimensionOf(i) != dim_) {
      if (frame == nullptr) pieces_.push_back({&i, nullptr, from, to, count});
      return frame == nullptr;
    }
    if (i.opcode() == Opcode::kSlice)
      return AddPieces(*i.operand(0), frame, from + i.attr<SliceAttributes>().starts[dim_], count, to);
    int64_t begin = 0;
    const auto add = [&](const Instruction* operand, int64_t size) {
      const int64_t first = std::max(begin, from), last = std::min(begin + size, from + count);
      const int64_t start = std::exchange(begin, begin + size);
      if (first >= last) return true;
      const int64_t target = to + first - from;
      if (operand != nullptr) return AddPieces(*operand, frame, first - start, last - first, target);
      // JAX's pad converts it.
      const Instruction* value = i.operand(1);
      if (frame != nullptr && value->opcode() == Opcode::kConvert) value = value->operand(0);
      for (const Frame* f = frame; f != nullptr && value->opcode() == Opcode::kParameter; f = f->outer)
        value = &OperandOf(*f, *value);
      pieces_.push_back({nullptr, value, 0, target, last - first});
      return value->IsConstant() || value_of_(value) != nullptr;
    };
    if (i.opcode() == Opcode::kPad) {
      const auto& p = i.attr<PadAttributes>();
      return add(nullptr, p.low[dim_]) && add(i.operand(0), i.operand(0)->shape().dims()[dim_]) &&
             add(nullptr, p.high[dim_]);
    }
    return std::ranges::all_of(i.operands(), [&](const Instruction* o) { return add(o, o->shape().dims()[dim_]); });
  }
  static const Instruction& OperandOf(const Frame& frame, const Instruction& parameter) {
    return *frame.call->operand(static_cast<std::size_t>(parameter.attr<ParameterAttributes>().number));
  }
  // The value of a pad.
  Result<Instruction*> Fill(const Instruction& value) {
    const Value* known = value_of_(&value);
    Instruction* out = nullptr;
    if (known == nullptr) {
      out = AddConstant(emitter_.out(), Literal(value.literal()));
    } else {
      KRAFLA_ASSIGN(const Value whole, emitter_.Whole(*known));
      out = whole.local;
    }
    return AddConvert(emitter_.out(), out, i_.shape().element_type());
  }

  // All arrays are cut as one of them is, and so is the result.
  bool FindCut() {
    for (const Piece& p : pieces_) {
      if (p.source == nullptr) continue;
      const Value* v = value_of_(p.source);
      if (v == nullptr || !v->IsArray() || v->region != region_ || !v->unreduced.empty() ||
          v->local->shape().IsDynamic())
        return false;
      if (v->dims[dim_].whole()) continue;
      if (dims_.empty()) dims_ = v->dims;
      if (!(v->dims[dim_] == dims_[dim_])) return false;
    }
    if (dims_.empty() || !Covers(dims_, region_, devices_)) return false;
    const auto may_be_cut = [&](const Instruction* array) {
      return MayBeCutInto(array->shape().dims()[dim_], dims_[dim_]);
    };
    for (const Piece& p : pieces_)
      if (p.source != nullptr && !may_be_cut(p.source)) return false;
    block_ = BlockSize(i_.shape().dims()[dim_], dims_[dim_]);
    return block_ > 0 && may_be_cut(&i_);
  }

  void FindMessages() {
    const int64_t count = dims_[dim_].count;
    // By array and distance, and by how many there have been between two blocks.
    std::map<std::tuple<std::size_t, int64_t, int64_t>, Message> sent;
    std::map<std::tuple<std::size_t, int64_t, int64_t>, int64_t> between;
    std::vector<const Instruction*> arrays;
    for (const Piece& p : pieces_) {
      if (p.source == nullptr) {
        Message fill{nullptr, p.value, false, {}};
        for (int64_t b = p.to / block_; b * block_ < p.to + p.count; ++b) {
          const int64_t first = std::max(p.to, b * block_), last = std::min(p.to + p.count, (b + 1) * block_);
          fill.edges.push_back({b, b, 0, first - b * block_, last - first});
        }
        messages_.push_back(std::move(fill));
        continue;
      }
      auto known = std::ranges::find(arrays, p.source);
      if (known == arrays.end()) known = arrays.insert(known, p.source);
      const auto number = static_cast<std::size_t>(known - arrays.begin());
      const int64_t size = p.source->shape().dims()[dim_],
                    own = p.source == given_ ? size : BlockSize(size, dims_[dim_]);
      for (int64_t row = 0; row < p.count;) {
        const int64_t source = (p.from + row) / own, target = (p.to + row) / block_;
        const int64_t end = std::min({p.count, (source + 1) * own - p.from, (target + 1) * block_ - p.to});
        const int64_t n = between[{number, source, target}]++;
        Message& m = sent[{number, (target - source + count) % count, n}];
        m.source = p.source;
        m.is_sent = source != target;
        m.edges.push_back({source, target, p.from + row - source * own, p.to + row - target * block_, end - row});
        ++edges_;
        row = end;
        if (edges_ > kMostEdges) return;
      }
    }
    for (auto& [key, m] : sent) messages_.push_back(std::move(m));
    // What most devices keep comes first, and needs no selection.
    std::ranges::stable_sort(messages_, [](const Message& a, const Message& b) { return RowsOf(a) > RowsOf(b); });
  }
  static int64_t RowsOf(const Message& m) {
    int64_t out = 0;
    for (const Edge& e : m.edges) out += e.count;
    return out;
  }
  static int64_t LongestOf(const Message& m) {
    int64_t out = 0;
    for (const Edge& e : m.edges) out = std::max(out, e.count);
    return out;
  }

  // Fewer rows than half a block, which is about what it takes to move the cut to another dimension and back; where
  // there is none, fewer than all.
  bool IsWorthIt() const {
    if (edges_ > kMostEdges) return false;
    int64_t rows = 0;
    std::size_t sent = 0;
    for (const Message& m : messages_)
      if (m.is_sent) rows += LongestOf(m), ++sent;
    Splits moved = dims_;
    std::vector<bool> free(dims_.size(), true);
    free[dim_] = false;
    const bool moves = MoveAway(moved, dim_, result_, free);
    return sent <= kMostMessages && 2 * rows <= (moves ? block_ : (dims_[dim_].count - 1) * block_);
  }

  Dims Sized(int64_t rows) const {
    Dims out = result_;
    for (std::size_t d = 0; d < out.size(); ++d) out[d] = d == dim_ ? rows : BlockSize(out[d], dims_[d]);
    return out;
  }

  // A number of each block, the same for all where they are; -1: of no block.
  struct Numbers {
    std::vector<int64_t> of;
    explicit Numbers(int64_t count) : of(static_cast<std::size_t>(count), -1) {}
    std::optional<int64_t> Same() const {
      std::optional<int64_t> out;
      for (const int64_t n : of) {
        if (n < 0) continue;
        if (out && *out != n) return std::nullopt;
        out = n;
      }
      return out.value_or(0);
    }
    bool AreAll() const { return std::ranges::find(of, -1) == of.end(); }
  };

  // The rows of a message where the result has them; anything elsewhere.
  Result<Instruction*> Moved(const Message& m, Instruction* block) {
    const int64_t own = block->shape().dims()[dim_], longest = LongestOf(m), count = dims_[dim_].count;
    Numbers from(count), to(count);
    for (const Edge& e : m.edges) {
      const int64_t start = std::min(e.from, own - longest);
      from.of[At(e.source_block)] = start;
      // Of the rows that come the first may be more than are asked for.
      to.of[At(e.block)] = e.to - (e.from - start) + longest;
    }
    KRAFLA_ASSIGN(Instruction * rows, Rows(block, from, longest));
    if (m.is_sent) {
      std::vector<std::pair<int64_t, int64_t>> ends;
      for (const Edge& e : m.edges) ends.emplace_back(e.source_block, e.block);
      Splits others = dims_;
      others[dim_] = Split();
      KRAFLA_ASSIGN(rows, emitter_.Send(rows, dims_[dim_], others, region_, ends));
    }
    // In front and behind as many as it takes to begin anywhere.
    if (const std::optional<int64_t> start = to.Same())
      return emitter_.Pad(rows, dim_, *start - longest, block_ - *start);
    KRAFLA_ASSIGN(rows, emitter_.Pad(rows, dim_, block_ + longest, block_ + longest));
    for (int64_t& n : to.of) n = n < 0 ? 0 : block_ + 2 * longest - n;
    return Rows(rows, to, block_);
  }

  // `count` rows of an array, from another place on in each block.
  Result<Instruction*> Rows(Instruction* array, const Numbers& from, int64_t count) {
    if (const std::optional<int64_t> start = from.Same()) {
      const Dims& dims = array->shape().dims();
      SliceAttributes slice{Dims(dims.size(), 0), dims, Dims(dims.size(), 1)};
      slice.starts[dim_] = *start;
      slice.limits[dim_] = *start + count;
      return emitter_.Infer(Opcode::kSlice, {array}, std::move(slice));
    }
    KRAFLA_ASSIGN(Instruction * start, emitter_.NumberOf(dims_[dim_], from.of));
    return emitter_.RowsFrom(array, dim_, start, count);
  }

  // Where the rows of a message are those of the result.
  Result<Instruction*> Mask(const Message& m) {
    const int64_t count = dims_[dim_].count;
    Numbers first(count), end(count);
    for (const Edge& e : m.edges) first.of[At(e.block)] = e.to, end.of[At(e.block)] = e.to + e.count;
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{block_}));
    Instruction* row = emitter_.out().Add(Opcode::kIota, std::move(shape), {}, IotaAttributes{0});
    KRAFLA_ASSIGN(Instruction * not_before, Compared(row, first, ComparisonDirection::kGe));
    KRAFLA_ASSIGN(Instruction * before_end, Compared(row, end, ComparisonDirection::kLt));
    KRAFLA_ASSIGN(Instruction * mask, emitter_.Infer(Opcode::kAnd, {not_before, before_end}));
    return AddBroadcast(emitter_.out(), mask, Sized(block_), Dims{static_cast<int64_t>(dim_)});
  }
  // Of blocks without a number no row is before the end.
  Result<Instruction*> Compared(Instruction* row, const Numbers& numbers, ComparisonDirection direction) {
    Instruction* one = nullptr;
    if (const std::optional<int64_t> same = numbers.Same(); same && numbers.AreAll()) {
      one = AddScalarConstant(emitter_.out(), ElementType::kS32, static_cast<double>(*same));
    } else {
      KRAFLA_ASSIGN(one, emitter_.NumberOf(dims_[dim_], numbers.of));
    }
    KRAFLA_ASSIGN(one, AddBroadcastScalar(emitter_.out(), one, row->shape().dims()));
    return emitter_.Infer(Opcode::kCompare, {row, one}, CompareAttributes{direction});
  }

  const Instruction& i_;
  const ValueOf& value_of_;
  const Region* region_;
  Emitter& emitter_;
  const int64_t devices_;
  Dims result_;                         // its sizes
  const Instruction* given_ = nullptr;  // the blocks of the only array, where these are not as it would be cut
  std::size_t dim_ = 0;
  int depth_ = 0;  // of operations of each other
  std::vector<Piece> pieces_;
  Splits dims_;  // of the arrays and of the result
  int64_t block_ = 0;
  std::size_t edges_ = 0;
  std::vector<Message> messages_;
};

}  // namespace

Result<std::optional<Value>> MoveRows(const Instruction& instruction, const ValueOf& value_of, const Region* region,
                                      Emitter& emitter) {
  const Opcode op = instruction.opcode();
  if ((op != Opcode::kSlice && op != Opcode::kPad && op != Opcode::kConcatenate) || instruction.shape().IsDynamic())
    return std::nullopt;
  return RowMoves(instruction, value_of, region, emitter).Make();
}

Result<std::optional<Instruction*>> Rebalance(const Instruction& instruction, const RowBlocks& rows,
                                              const Region* region, Emitter& emitter) {
  const ValueOf nothing;
  return RowMoves(instruction, nothing, region, emitter).Rebalance(rows);
}

}  // namespace krafla::spmd
