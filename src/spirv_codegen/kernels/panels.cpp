// SPDX-License-Identifier: Apache-2.0
// Products whose b is read, or was packed, in panels: no shared memory.
#include <algorithm>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/matrix.h"
#include "spirv_codegen/kernels/wide_sum.h"

namespace krafla::spirv {

namespace {

Value Sum(Builder& b, Value x, Value y) { return IsFloatKind(x.kind) ? b.FAdd(x, y) : b.Add(x, y); }

constexpr int64_t kMostTurnDepth = 16;        // of the loop along the depth
constexpr int64_t kMostProductsOfTurn = 511;  // products of an invocation with blocks of its own, as one turn

// The lanes of `x` by the four values of `y`.
Value FourProducts(Builder& b, Value x, std::span<const Value> y) {
  auto product = [&](int i) {
    const Value at = b.Extract(x, i), other = y[static_cast<std::size_t>(i)];
    return IsFloatKind(other.kind) ? b.FMul(b.Splat(at, other.width), other) : b.Mul(b.Splat(at, other.width), other);
  };
  const Value first = MultiplyAdd(b, product(0), b.Extract(x, 1), y[1]);
  const Value second = MultiplyAdd(b, product(2), b.Extract(x, 3), y[3]);
  return Sum(b, first, second);
}

class PanelProduct {
 public:
  PanelProduct(KernelWriter& w, const TileProblem& p, const TileOperands& operands, const PanelOptions& options)
      : w_(w), b_(w.b), p_(p), operands_(operands), options_(options) {}

  Result<EmittedDispatch> Emit() {
    const int64_t panels = p_.batch * panels_ * row_blocks_,
                  per_group = options_.lanes_over_blocks ? options_.lanes : 1;
    KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(panels, per_group), w_.profile));
    const Value group = GroupNumber(b_, grid);
    const Value panel = per_group == 1 ? group : b_.Add(b_.Mul(group, U(per_group)), b_.LocalIndex());
    ForItem(b_, grid.exact && panels % per_group == 0, panel, panels, [&] { EmitGroup(panel); });
    return EmittedDispatch{0, grid.size, {}};
  }

 private:
  Value U(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }

  // `group`: a panel by a block of rows, of a workgroup or an invocation.
  void EmitGroup(Value group) {
    // Row blocks go fastest: they share a panel, which stays in the cache.
    row_ = b_.Mul(b_.UMod(group, U(row_blocks_)), U(options_.tile_rows));
    const Value panel_number = b_.UDiv(group, U(row_blocks_));  // over batches too
    const Value batch = b_.UDiv(panel_number, U(panels_));
    const Value lane = lanes_ > 1 ? b_.LocalIndex() : U(0);
    for (std::size_t c = 0; c < blocks_; ++c) {
      const Value first =
          b_.Add(b_.Mul(b_.UMod(panel_number, U(panels_)), U(panel_)), U(static_cast<int64_t>(c) * lanes_ * width_));
      columns_.push_back(b_.Add(first, b_.Mul(lane, U(width_))));
    }
    a_ = operands_.make_a(batch);
    if (options_.packed_binding < 0) direct_ = operands_.make_b(batch);
    a_->PrepareRows(row_, options_.tile_rows);
    if (direct_) {
      for (Value c : columns_) direct_->PrepareColumns(c, width_);
    }
    panel_base_ = b_.Add(b_.Mul(panel_number, U(p_.segments * padded_ * lanes_)), lane);
    const Values acc = SumUp(batch);
    for (std::size_t c = 0; c < blocks_; ++c) {
      const auto part = std::span(acc).subspan(c * tile_, tile_);
      FinishRows(b_, p_, operands_, batch, row_, columns_[c], Values(part.begin(), part.end()), options_.tile_rows);
    }
  }

  // The sums over all segments, [block][row].
  Values SumUp(Value batch) {
    const ChainedSums sums(b_, kind_, width_, tile_ * blocks_, p_.segments * p_.depth, options_.chained);
    const int64_t turn = TurnDepth(), whole = p_.depth / turn * turn;
    auto tail = [&](Values acc) {
      int64_t k = whole;
      for (; k + 4 <= p_.depth; k += 4) acc = Step(U(k), 4, acc);
      for (; k < p_.depth; ++k) acc = Step(U(k), 1, acc);
      return acc;
    };
    auto turns = [&](Value k, Values acc) {
      for (int64_t i = 0; i < turn; i += 4) acc = Step(b_.Add(k, U(i)), 4, acc);
      return acc;
    };
    const auto step = static_cast<uint32_t>(turn);
    // Each lane asks whether its rows are there, for every step: AMD's compiler ran out of registers for the answers.
    const bool is_long = Sums() * p_.depth > kMostProductsOfTurn;
    const Unroll unroll = options_.lanes_over_blocks && is_long ? Unroll::kNever : Unroll::kIfItPays;
    const Value segments = operands_.segment_count ? operands_.segment_count(batch) : U(p_.segments);
    Values state = sums.Start();
    if (p_.segments > 1 && p_.depth <= ChainedSums::kChain) {
      // A chain is several segments.
      const auto together = static_cast<uint32_t>(ChainedSums::kChain / p_.depth);
      state = sums.Add(U(0), segments, 1, together, state, [&](Value segment, const Values& before) {
        Enter(segment);
        return tail(b_.For(U(0), U(whole), U(turn), before, turns));
      });
    } else {
      state = b_.For(U(0), segments, U(1), state, [&](Value segment, const Values& before) {
        Enter(segment);
        const Values most = sums.Add(U(0), U(whole), step, ChainedSums::kChain / step, before, turns, unroll);
        return whole < p_.depth ? sums.Absorb(most, tail) : most;
      });
    }
    return sums.Finish(state);
  }

  int64_t Sums() const { return static_cast<int64_t>(tile_ * blocks_) * width_; }  // of an invocation

  // How deep a turn of the loop is: a multiple of 4.
  int64_t TurnDepth() const {
    const int64_t wanted = std::clamp<int64_t>(options_.turn_products / Sums(), 4, kMostTurnDepth);
    return std::max<int64_t>(std::min(wanted, p_.depth) / 4 * 4, 4);
  }

  void Enter(Value segment) {
    a_->Enter(segment);
    if (direct_) direct_->Enter(segment);
    packed_base_ = b_.Add(panel_base_, b_.Mul(segment, U(padded_ * lanes_)));
  }

  // The sums with `count` products more each, from depth k on.
  Values Step(Value k, int count, const Values& acc) {
    const auto depth = static_cast<std::size_t>(count);
    Values av(tile_), bv(depth * blocks_);
    for (std::size_t c = 0; c < blocks_; ++c) LoadB(k, count, c, std::span(bv).subspan(c * depth, depth));
    a_->Load(row_, options_.tile_rows, k, count, av);
    Values out = acc;
    if (count == 4 && options_.chained) {
      // Four products are added up before the sum takes them: it loses half as much.
      for (std::size_t c = 0; c < blocks_; ++c) {
        const auto line = std::span<const Value>(bv).subspan(c * 4, 4);
        for (std::size_t i = 0; i < tile_; ++i)
          out[c * tile_ + i] = Sum(b_, out[c * tile_ + i], FourProducts(b_, av[i], line));
      }
      return out;
    }
    for (std::size_t kk = 0; kk < depth; ++kk) {
      for (std::size_t c = 0; c < blocks_; ++c) {
        for (std::size_t i = 0; i < tile_; ++i) {
          const Value x = b_.Extract(av[i], static_cast<int>(kk));
          out[c * tile_ + i] = MultiplyAdd(b_, out[c * tile_ + i], x, bv[c * depth + kk]);
        }
      }
    }
    return out;
  }

  // Rows k .. k + count - 1 of block c of b.
  void LoadB(Value k, int count, std::size_t c, std::span<Value> out) {
    if (direct_) {
      direct_->Load(k, count, columns_[c], width_, out);
      return;
    }
    const Value line = b_.Add(packed_base_, b_.Mul(k, U(lanes_)));
    for (int i = 0; i < count; ++i) {
      const Value words = w_.buffers.LoadWords(options_.packed_binding, b_.Add(line, U(int64_t{i} * lanes_)), 4);
      out[static_cast<std::size_t>(i)] = b_.Bitcast(words, kind_);
    }
  }

  KernelWriter& w_;
  Builder& b_;
  const TileProblem& p_;
  const TileOperands& operands_;
  const PanelOptions& options_;
  const Kind kind_ = ComputeKind(p_.accumulate);
  const std::size_t tile_ = static_cast<std::size_t>(options_.tile_rows);
  const std::size_t blocks_ = static_cast<std::size_t>(options_.column_blocks);
  const int width_ = options_.column_vectors ? 4 : 1;
  const int64_t lanes_ = options_.lanes_over_blocks ? 1 : int64_t{options_.lanes};  // along the columns
  const int64_t panel_ = lanes_ * width_ * options_.column_blocks;
  const int64_t panels_ = CeilDiv(p_.columns, panel_), row_blocks_ = CeilDiv(p_.rows, options_.tile_rows);
  const int64_t padded_ = RoundUp(p_.depth, 4);
  // Of the group that is emitted.
  std::unique_ptr<MatrixSource> a_, direct_;
  Value row_, panel_base_, packed_base_;
  Values columns_;
};

}  // namespace

int64_t PackedWords(const TileProblem& p, uint32_t lanes) {
  const int64_t panel = int64_t{lanes} * 4;
  return p.batch * CeilDiv(p.columns, panel) * p.segments * RoundUp(p.depth, 4) * panel;
}

Result<EmittedDispatch> EmitPack(KernelWriter& w, const TileProblem& p, const TileOperands& operands, uint32_t lanes,
                                 int packed_binding, uint32_t local) {
  Builder& b = w.b;
  auto u = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  const int64_t panel = int64_t{lanes} * 4;
  const int64_t panels = CeilDiv(p.columns, panel), quads = CeilDiv(p.depth, 4);
  const int64_t items = p.batch * panels * p.segments * quads * lanes;  // a block of 4 x 4 each
  KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), w.profile));
  const Value item = b.Add(b.Mul(GroupNumber(b, grid), b.U32(local)), b.LocalIndex());
  auto body = [&] {
    const Value lane = b.UMod(item, b.U32(lanes));
    const Value line = b.UDiv(item, b.U32(lanes));  // (batch, panel, segment, quad)
    const Value quad = b.UMod(line, u(quads));
    Value rest = b.UDiv(line, u(quads));
    const Value segment = b.UMod(rest, u(p.segments));
    rest = b.UDiv(rest, u(p.segments));
    const Value column = b.Add(b.Mul(b.UMod(rest, u(panels)), u(panel)), b.Mul(lane, b.U32(4)));
    const auto source = operands.make_b(b.UDiv(rest, u(panels)));
    source->PrepareColumns(column, 4);
    source->Enter(segment);
    Value rows[4];
    source->Load(b.Mul(quad, b.U32(4)), 4, column, 4, rows);
    for (int i = 0; i < 4; ++i) {
      const Value at = b.Add(b.Mul(b.Add(b.Mul(line, b.U32(4)), u(i)), b.U32(lanes)), lane);
      w.buffers.StoreWords(packed_binding, at, b.Bitcast(rows[i], Kind::kU32));
    }
  };
  ForItem(b, grid.exact && items % local == 0, item, items, body);
  return EmittedDispatch{0, grid.size, {}};
}

Result<EmittedDispatch> EmitPanels(KernelWriter& w, const TileProblem& p, const TileOperands& operands,
                                   const PanelOptions& options) {
  return PanelProduct(w, p, operands, options).Emit();
}

}  // namespace krafla::spirv
