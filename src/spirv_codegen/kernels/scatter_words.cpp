// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/scatter_words.h"

#include <bit>
#include <numeric>

#include "ir/dims.h"
#include "spirv_codegen/element_words.h"
#include "spirv_codegen/kernels/move_block.h"

namespace krafla::spirv {
namespace {

constexpr int kWordBytes = 8;
// Words of an invocation that are written out; of longer rows they are turns of a loop.
constexpr int64_t kMostWordsAtOnce = 8;
// Updates in a turn of the loop over them, times their words for an invocation.
constexpr int64_t kWordsATurn = 4;
// Words for an invocation from which on workgroups share the operand.
constexpr int64_t kLeastShared = 4;
// Words that an invocation takes in a dispatch, at the most.
constexpr int64_t kMostWords = int64_t{1} << 20;

int64_t OfDim(const Dims& d, int64_t i) { return d[static_cast<std::size_t>(i)]; }

// The rows that windows consist of, whose elements lie side by side in the operand and in the updates.
struct ScatterRows {
  int64_t length = 1;      // elements
  int64_t of_operand = 0;  // of which all rows of the operand begin at a multiple
  int64_t of_updates = 0;

  explicit ScatterRows(const ScatterGeometry& g) {
    std::vector<bool> in_row(g.window_of_operand.size());
    for (std::size_t d = in_row.size(); d-- > 0;) {
      const int64_t w = g.window_of_operand[d];
      if (w < 0 || g.operand_strides[d] != length || OfDim(g.update_strides, w) != length) break;
      in_row[d] = true;
      length *= OfDim(g.s.updates_dims, w);
    }
    for (std::size_t d = 0; d < in_row.size(); ++d) {
      const int64_t w = g.window_of_operand[d];
      const bool starts = Contains(g.s.attributes.scatter_dims_to_operand_dims, static_cast<int64_t>(d)) &&
                          g.Room(static_cast<int64_t>(d)) > 0;
      const bool in_batch = Contains(g.s.attributes.input_batching_dims, static_cast<int64_t>(d));
      if (starts || in_batch || (w >= 0 && !in_row[d])) of_operand = std::gcd(of_operand, g.operand_strides[d]);
      if (w >= 0 && !in_row[d]) of_updates = std::gcd(of_updates, OfDim(g.update_strides, w));
    }
    for (int64_t d : g.batch) of_updates = std::gcd(of_updates, OfDim(g.update_strides, d));
  }
};

class WordScatter {
 public:
  explicit WordScatter(const ScatterProblem& p) : p_(p) {
    aligned_ = rows_.of_operand % per_word_ == 0 && rows_.of_updates % per_word_ == 0 && rows_.length % per_word_ == 0;
    most_words_ = aligned_ ? rows_.length / per_word_ : (rows_.length + per_word_ - 2) / per_word_ + 1;
    least_words_ = CeilDiv(rows_.length, per_word_);
    lanes_ = std::bit_floor(WorkgroupSize(p.target.profile, p.tuning().in_order_local));
    slots_ = CeilDiv(most_words_, lanes_);
    if (slots_ >= kLeastShared)
      shares_ = std::bit_floor(static_cast<uint64_t>(std::max(p.tuning().in_order_shares, slots_ / kMostWordsAtOnce)));
  }

  Result<EmittedProgram> Emit(std::string reason) {
    const int64_t words = slots_ * row_count_;  // of an update, for an invocation
    const Stretches stretches{p_.batch, std::clamp<int64_t>(kMostWords / words, 1, int64_t{1} << 16)};
    KernelWriter w(p_.plan, p_.target, {}, stretches.push_words());
    ScatterWindows windows(w, p_.geometry);
    w_ = &w, b_ = &w.b, windows_ = &windows;
    words_.emplace(w.b, w.buffers, element_bytes_, kWordBytes);
    KRAFLA_ASSIGN(Grid grid, FoldGrid(shares_, p_.target.profile));
    if (shares_ > 1) own_ = b_->And(GroupNumber(*b_, grid), U(shares_ - 1));
    const Value first = stretches.First(w), end = stretches.End(*b_, first, U(p_.batch));
    const int64_t at_once = std::clamp<int64_t>(kWordsATurn / words, 1, p_.batch);
    b_->For(first, end, U(at_once), [&](Value n) {
      Update(n, {});
      for (int64_t i = 1; i < at_once; ++i) {
        const Value next = b_->Add(n, U(i));
        Update(b_->Min(next, U(p_.batch - 1)), b_->Compare(Cmp::kULt, next, end));
      }
    });
    EmittedProgram out;
    out.kernels.push_back(w.Finish({static_cast<uint32_t>(lanes_), 1, 1}, "scatter.words", std::move(reason)));
    stretches.AddDispatches(out, 0, grid);
    return out;
  }

 private:
  Value U(int64_t v) { return b_->U32(static_cast<uint32_t>(v)); }
  Value WordOf(Value element) { return b_->Shr(element, U(std::countr_zero(static_cast<uint64_t>(per_word_)))); }

  void Update(Value n, Value is_one) {
    const ScatterWindows::Update update = windows_->Locate(n, {});
    b_->If(is_one ? b_->LAnd(update.inside, is_one) : update.inside, [&] {
      b_->For(b_->U32(0), U(row_count_), b_->U32(1), [&](Value row) {
        const ScatterWindows::Place place = windows_->WindowPlace(b_->Mul(row, U(rows_.length)), /*alone=*/true);
        Row({b_->Add(update.operand, place.operand), b_->Add(update.update, place.update)});
      });
    });
  }

  // Where a row begins.
  struct Begin {
    Value operand, update;
  };
  void Row(const Begin& at) {
    const Value begin = WordOf(at.operand), last = WordOf(b_->Add(at.operand, U(rows_.length - 1)));
    const Value count = b_->Add(b_->Sub(last, begin), b_->U32(1));
    const auto take = [&] {
      // The first of the row's words that this invocation owns.
      const Value offset = b_->And(b_->Sub(b_->LocalIndex(), begin), U(lanes_ - 1));
      if (slots_ <= kMostWordsAtOnce) {
        for (int64_t k = 0; k < slots_; ++k)
          Word(at, begin, b_->Add(offset, U(k * lanes_)), count, lanes_ * (k + 1) <= least_words_);
        return;
      }
      const int64_t whole = least_words_ / (lanes_ * kMostWordsAtOnce) * kMostWordsAtOnce;
      b_->For(b_->U32(0), U(whole * lanes_), U(kMostWordsAtOnce * lanes_), [&](Value turn) {
        const Value here = b_->Add(offset, turn);
        for (int64_t k = 0; k < kMostWordsAtOnce; ++k) Word(at, begin, b_->Add(here, U(k * lanes_)), count, true);
      });
      b_->For(b_->Add(offset, U(whole * lanes_)), count, U(lanes_),
              [&](Value word) { Word(at, begin, word, count, true); });
    };
    if (shares_ == 1) return take();
    b_->If(b_->LOr(IsOwn(begin), IsOwn(last)), take);
  }

  // Neighbouring words are of one share, so that a row is of two at the most.
  Value IsOwn(Value word) {
    const auto block = std::bit_ceil(static_cast<uint64_t>(most_words_));
    return b_->Compare(Cmp::kEq, b_->And(b_->Shr(word, U(std::countr_zero(block))), U(shares_ - 1)), own_);
  }

  // Word `number` of a row's `count`, whose first one is word `begin` of the operand; `is_one`: there is this one.
  void Word(const Begin& at, Value begin, Value number, Value count, bool is_one) {
    const Value word = b_->Add(begin, number);
    Value condition = is_one ? b_->m.Bool(true) : b_->Compare(Cmp::kULt, number, count);
    if (shares_ > 1) condition = b_->LAnd(condition, IsOwn(word));
    b_->If(condition, [&] {
      // The row's element with which the word begins, or would.
      const Value element = aligned_ ? b_->Mul(number, U(per_word_)) : b_->Sub(b_->Mul(word, U(per_word_)), at.operand);
      Values old, fresh;
      for (std::size_t k = 0; k < p_.s.types.size(); ++k) {
        old.push_back(replaces_ && aligned_ ? Value{} : Read(p_.s.outputs[k], word));
        fresh.push_back(Elements(p_.s.updates[k], b_->Add(at.update, element)));
      }
      Values made = Combined(old, fresh);
      for (std::size_t k = 0; k < made.size(); ++k) {
        if (!aligned_) {
          const Value ends = words_->FirstElements(b_->Sub(U(rows_.length), element), 1)[0];
          const Value before = words_->FirstElements(b_->Neg(element), 1)[0];
          made[k] = words_->Choose(b_->And(ends, b_->Not(before)), made[k], old[k]);
        }
        w_->buffers.StoreWords(p_.s.outputs[k], word, b_->BitcastTo(made[k], Kind::kU32, 2));
      }
    });
  }

  Value Read(int buffer, Value word) { return b_->BitcastTo(w_->buffers.LoadWords(buffer, word, 2), Kind::kU64, 1); }

  // The word of elements from this one on, of which those that there are not have any bits.
  Value Elements(int buffer, Value first) {
    if (aligned_) return Read(buffer, WordOf(first));
    InlineVector<int64_t, kWordBytes> offsets;
    for (int64_t i = 0; i < per_word_; ++i) offsets.push_back(i);
    const std::vector<ElementWords::Place> places = words_->Read({buffer, first, 1, 0, offsets, false});
    return words_->Pack(places, per_word_)[0];
  }

  // What the combiner makes of the elements of words, four at a time.
  Values Combined(const Values& old, const Values& fresh) {
    if (replaces_) return fresh;
    const std::size_t n = p_.s.types.size();
    std::vector<Values> parts(n);  // of each operand
    for (int group = 0; group < per_word_ / 4; ++group) {
      Values params(2 * n);
      for (std::size_t k = 0; k < n; ++k) {
        params[k] = FromStorage(*b_, p_.s.types[k], words_->Four(std::span(&old[k], 1), group));
        params[n + k] = FromStorage(*b_, p_.s.types[k], words_->Four(std::span(&fresh[k], 1), group));
      }
      const int width = params[0].width;
      const Values made = RunScalarProgram(*b_, w_->buffers, p_.s.combiner.combiner, params, /*seen=*/true);
      for (std::size_t k = 0; k < n; ++k) parts[k].push_back(ToStorage(*b_, p_.s.types[k], b_->Splat(made[k], width)));
    }
    Values out;
    for (const Values& of : parts) out.push_back(words_->PackFours(of)[0]);
    return out;
  }

  // Whether the updates take the place of what there was.
  bool Replaces() const {
    const plan::ElementProgram& combiner = p_.s.combiner.combiner;
    for (std::size_t k = 0; k < combiner.results.size(); ++k) {
      const plan::Node& node = combiner.nodes[static_cast<std::size_t>(combiner.results[k])];
      if (node.op != plan::NodeOp::kParam || node.bits != p_.s.types.size() + k) return false;
    }
    return true;
  }

  const ScatterProblem& p_;
  const ScatterRows rows_{p_.geometry};
  const int element_bytes_ = StorageBytes(p_.s.types[0]);
  const int64_t per_word_ = kWordBytes / element_bytes_, row_count_ = p_.window / rows_.length;
  bool aligned_ = false;  // rows begin and end with words
  int64_t most_words_ = 1, least_words_ = 1, lanes_ = 1, slots_ = 1, shares_ = 1;
  const bool replaces_ = Replaces();
  KernelWriter* w_ = nullptr;
  Builder* b_ = nullptr;
  ScatterWindows* windows_ = nullptr;
  std::optional<ElementWords> words_;
  Value own_;
};

}  // namespace

Refusal RefusesScatterWords(const ScatterProblem& p) {
  if (!p.tuning().words) return "slow on this device";
  const int bytes = StorageBytes(p.s.types[0]);
  // An element of 4 bytes is a word of a lane. Scatters of 20,000 rows of 96 and 99 would take 1.8 to 2.7 times as
  // long.
  if (bytes >= 4) return "no elements of one or two bytes";
  if (WordBytes(p.target, bytes) != kWordBytes) return "no words of 8 bytes";
  for (ElementType type : p.s.types)
    if (StorageBytes(type) != bytes) return "elements of several sizes";
  if (p.s.multiplies_complex) return "complex numbers";
  if (ScatterRows(p.geometry).length * bytes < kWordBytes) return "short rows";
  return std::nullopt;
}

Result<EmittedProgram> EmitScatterWords(const ScatterProblem& p, std::string reason) {
  return WordScatter(p).Emit(std::move(reason));
}

}  // namespace krafla::spirv
