// SPDX-License-Identifier: Apache-2.0
// The steps of a block program of one tile of a few elements as lane nodes of a routine.
#include <algorithm>
#include <array>
#include <optional>

#include "base/checked_math.h"
#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/routine_block.h"

namespace krafla::cpu {

using native::LaneBuilder;
using native::LaneOp;

class BlockRoutine {
 public:
  using Step = BlockProgram::Step;
  using Kind = Step::Kind;
  using Access = BlockProgram::Access;
  using Value = LaneBuilder::Value;

  BlockRoutine(const BlockProgram& program, RoutineBlock& block, std::span<const plan::Slice> buffers,
               RoutinePart& part, std::vector<RoutineStore>& stores)
      : program_(program),
        block_(block),
        builder_(block.builder()),
        buffers_(buffers),
        part_(part),
        rows_(part.rows),
        columns_(part.columns),
        n_(part.lanes()),
        stores_(stores),
        values_(program.slots_.size()) {}

  bool Add() {
    for (const std::vector<Step>* steps : {&program_.launch_steps_, &program_.tile_steps_})
      for (const Step& s : *steps)
        if (!Add(s)) return false;
    for (int slot : program_.results_) {
      const std::optional<Value>& value = values_[static_cast<std::size_t>(slot)];
      if (!value) return false;
      part_.results.push_back(*value);
    }
    return true;
  }

 private:
  int LanesOf(const Step& s) const { return s.is_uniform ? 1 : n_; }
  std::optional<Value> ValueOf(int slot, int lanes) {
    const std::optional<Value>& value = values_[static_cast<std::size_t>(slot)];
    if (!value) return std::nullopt;
    return block_.Spread(*value, lanes);
  }
  void Define(int slot, Value value) { values_[static_cast<std::size_t>(slot)] = value; }

  bool Add(const Step& s) {
    builder_.UseLanes(LanesOf(s));
    switch (s.kind) {
      case Kind::kConstant: {
        const ElementType type = native::UnsignedOfWidth(s.width);
        Define(s.out, {builder_.Constant(type, s.bits)});
        return true;
      }
      case Kind::kSpread:
        if (!values_[static_cast<std::size_t>(s.in[0])]) return false;
        Define(s.out, *values_[static_cast<std::size_t>(s.in[0])]);
        return true;
      case Kind::kOp: return AddOp(s);
      case Kind::kRamp: return AddRamp(s);
      case Kind::kMulAdd:
      case Kind::kDivide:
      case Kind::kModulus: return AddIndexOp(s);
      case Kind::kLoad: return AddLoad(s);
      case Kind::kStore: return AddStore(s);
      case Kind::kParam: {
        if (s.bits >= part_.params.size() || !part_.params[s.bits]) return false;
        Define(s.out, *part_.params[s.bits]);
        return true;
      }
      case Kind::kUniformDivide:
      case Kind::kUniformModulus:
      case Kind::kNative:
      case Kind::kLoadLine:
      case Kind::kStoreLine:
      case Kind::kNothing: return false;
    }
    return false;
  }

  bool AddOp(const Step& s) {
    if (s.key < 0) return false;
    const int lanes = LanesOf(s);
    std::array<Value, 3> values;
    std::size_t count = 0;
    for (int in : s.in) {
      if (in < 0) break;
      const std::optional<Value> value = ValueOf(in, lanes);
      if (!value) return false;
      values[count++] = *value;
    }
    builder_.UseLanes(lanes);
    const std::optional<Value> result = builder_.Apply(program_.keys_[static_cast<std::size_t>(s.key)], s.bits,
                                                       std::span<const Value>(values.data(), count));
    if (result) Define(s.out, *result);
    return result.has_value();
  }

  // The part of an address that the tile's place tells.
  int64_t ConstantOf(const BlockProgram::Address& address) const {
    int64_t sum = address.constant;
    for (const BlockProgram::Term& term : address.terms)
      if (term.kind == BlockProgram::Term::Kind::kIter && !part_.origin.empty())
        sum += term.factor * part_.origin[static_cast<std::size_t>(term.number)];
    return sum;
  }
  // use(an s32 of one lane, its factor) for the other terms of an address. False: some term cannot be had.
  template <class Use>
  bool ForTerms(const BlockProgram::Address& address, Use use) {
    for (const BlockProgram::Term& term : address.terms) {
      if (term.kind == BlockProgram::Term::Kind::kIter) continue;
      if (term.kind == BlockProgram::Term::Kind::kDivision) return false;
      const std::optional<Value> value = ValueOf(term.number, 1);
      if (!value) return false;
      builder_.UseLanes(1);
      use(builder_.As(*value, ElementType::kS32).node, term.factor);
    }
    return true;
  }
  // The s32 of an address.
  std::optional<int> Index(const BlockProgram::Address& address) {
    const ElementType t = ElementType::kS32;
    int sum = builder_.Constant(t, static_cast<uint64_t>(ConstantOf(address)));
    const bool is_known = ForTerms(address, [&](int x, int64_t factor) {
      const int scaled =
          factor == 1 ? x : builder_.Add(LaneOp::kMul, t, x, builder_.Constant(t, static_cast<uint64_t>(factor)));
      sum = builder_.Add(LaneOp::kAdd, t, scaled, sum);
    });
    return is_known ? std::optional(sum) : std::nullopt;
  }
  bool AddRamp(const Step& s) {
    const std::optional<int> start = Index(AddressOf(s.address));
    if (!start) return false;
    const int lanes = LanesOf(s);
    const ElementType t = ElementType::kS32;
    const auto step = [&](int64_t r, int64_t c) {
      return (part_.row + r) * s.row_stride + (part_.column + c) * s.column_stride;
    };
    const int64_t first = step(0, 0);
    builder_.UseLanes(1);
    const int begin =
        first == 0 ? *start : builder_.Add(LaneOp::kAdd, t, *start, builder_.Constant(t, static_cast<uint64_t>(first)));
    Value value = block_.Spread({begin}, lanes);
    if (lanes > 1) {
      builder_.UseLanes(lanes);
      native::LaneSequence further{};
      for (int64_t i = 0; i < lanes; ++i)
        further[static_cast<std::size_t>(i)] = static_cast<int32_t>(step(i / columns_, i % columns_) - first);
      const int steps = builder_.Add({LaneOp::kSequence, t, -1, -1, -1, builder_.SequenceNumber(further)});
      value = {builder_.Add(LaneOp::kAdd, t, steps, value.node)};
    }
    Define(s.out, value);
    return true;
  }

  bool AddIndexOp(const Step& s) {
    const ElementType t = ElementType::kS32;
    const int lanes = LanesOf(s);
    const std::optional<Value> a = ValueOf(s.in[0], lanes);
    const std::optional<Value> c = s.in[1] >= 0 ? ValueOf(s.in[1], lanes) : std::nullopt;
    if (!a || (s.in[1] >= 0 && !c)) return false;
    builder_.UseLanes(lanes);
    const int x = builder_.As(*a, t).node;
    int result = -1;
    if (s.kind == Kind::kMulAdd) {
      result = s.bits == 1 ? x : builder_.Add(LaneOp::kMul, t, x, builder_.Constant(t, s.bits));
      if (c) result = builder_.Add(LaneOp::kAdd, t, result, builder_.As(*c, t).node);
    } else {
      if (s.bits == 0 || s.bits > INT32_MAX) return false;
      const int quotient =
          builder_.Bitcast(builder_.QuotientBelow2To31(builder_.Bitcast(x, ElementType::kU32), s.bits), t);
      result =
          s.kind == Kind::kDivide
              ? quotient
              : builder_.Add(LaneOp::kSub, t, x, builder_.Add(LaneOp::kMul, t, quotient, builder_.Constant(t, s.bits)));
    }
    Define(s.out, {result});
    return true;
  }

  const BlockProgram::Address& AddressOf(int number) const {
    return program_.addresses_[static_cast<std::size_t>(number)];
  }
  const Access& AccessOf(const Step& s) const { return program_.accesses_[static_cast<std::size_t>(s.access)]; }
  // The place of element 0; nothing: routines have no such places.
  std::optional<RoutineAccess> PlaceOf(const Access& a) {
    if (a.offsets >= 0) return std::nullopt;
    const BlockProgram::Address& address = AddressOf(a.address);
    const int64_t first = ConstantOf(address) + part_.row * a.row_stride + part_.column * a.column_stride;
    RoutineAccess out{
        .buffer = buffers_[static_cast<std::size_t>(a.buffer)], .offset = first * a.width, .width = a.width};
    const bool is_known = ForTerms(address, [&](int node, int64_t factor) {
      if (const native::LaneNode& n = builder_.node(node); n.op == LaneOp::kConstant) {
        out.offset += static_cast<int32_t>(static_cast<uint32_t>(n.bits)) * factor * a.width;
      } else {
        out.terms.push_back({node, factor * a.width});
      }
    });
    return is_known ? std::optional(std::move(out)) : std::nullopt;
  }
  bool IsDense(const Access& a) const {
    return (columns_ == 1 || a.column_stride == 1) && (rows_ == 1 || a.row_stride == columns_);
  }
  // The access' mask in so many lanes, -1: it has none. False: it cannot be had.
  bool FindMask(const Access& a, int lanes, int& mask) {
    mask = -1;
    if (a.mask < 0) return true;
    const std::optional<Value> value = ValueOf(a.mask, lanes);
    if (!value) return false;
    builder_.UseLanes(lanes);
    mask = builder_.As(*value, ElementType::kPred).node;
    if (const native::LaneNode& n = builder_.node(mask); n.op == LaneOp::kConstant && n.bits == 1) mask = -1;
    return true;
  }

  bool AddLoad(const Step& s) {
    const Access& a = AccessOf(s);
    const ElementType type = native::LaneTypeOf(a.storage);
    std::optional<RoutineAccess> place = PlaceOf(a);
    if (!place || type == ElementType::kInvalid) return false;
    const int lanes = LanesOf(s);
    std::optional<Value> value;
    if (lanes == 1 || IsDense(a)) {
      place->lanes = lanes;
      if (!FindMask(a, lanes, place->mask)) return false;
      value = block_.Load(*place, type);
    } else if (a.mask < 0 && a.row_stride == 0 && a.column_stride == 0) {
      value = block_.Load(*place, type);
      if (value) value = block_.Spread(*value, lanes);
    } else if (a.mask < 0 && type != ElementType::kPred) {
      value = LoadApart(*place, a, type);
    }
    if (!value) return false;
    if (a.convert != nullptr) {
      builder_.UseLanes(lanes);
      value = builder_.Widen(builder_.Seen(*value), a.storage);
      if (!value) return false;
    }
    Define(s.out, *value);
    return true;
  }
  std::optional<Value> LoadApart(const RoutineAccess& first, const Access& a, ElementType type) {
    std::vector<int64_t> places;
    for (int64_t r = 0; r < rows_; ++r)
      for (int64_t c = 0; c < columns_; ++c) places.push_back(r * a.row_stride + c * a.column_stride);
    return block_.LoadApart(first, places, type);
  }

  bool AddStore(const Step& s) {
    const Access& a = AccessOf(s);
    const int lanes = LanesOf(s);
    std::optional<RoutineAccess> place = PlaceOf(a);
    if (!place || native::LaneTypeOf(a.storage) == ElementType::kInvalid) return false;
    const bool is_apart = lanes > 1 && !IsDense(a);
    if (!is_apart) place->lanes = lanes;
    std::optional<Value> value = ValueOf(s.in[0], lanes);
    if (!FindMask(a, lanes, place->mask) || !value) return false;
    builder_.UseLanes(lanes);
    if (a.convert != nullptr) {
      if (IsFloat(a.storage) && StorageBytes(a.storage) < 4) value = builder_.As(*value, ElementType::kF32);
      const std::optional<int> narrow = builder_.Narrow(*value, a.storage, a.rounds);
      if (!narrow) return false;
      value = Value{*narrow};
    }
    const ElementType type = builder_.TypeOf(value->node);
    if (type != ElementType::kPred && StorageBytes(type) != a.width) return false;
    if (!RoutineBlock::CanStore(*place)) return false;
    if (is_apart) return StoreApart(*place, a, *value);
    stores_.push_back({*place, *value});
    return true;
  }
  // As a column of an array: lane by lane.
  bool StoreApart(const RoutineAccess& first, const Access& a, Value value) {
    if (a.mask >= 0 || builder_.TypeOf(value.node) == ElementType::kPred) return false;
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < columns_; ++c) {
        RoutineAccess place = first;
        place.offset += (r * a.row_stride + c * a.column_stride) * a.width;
        if (!RoutineBlock::CanStore(place)) return false;
        stores_.push_back({place, block_.LanesOf(value, static_cast<int>(r * columns_ + c), 1)});
      }
    }
    return true;
  }

  const BlockProgram& program_;
  RoutineBlock& block_;
  LaneBuilder& builder_;
  std::span<const plan::Slice> buffers_;
  RoutinePart& part_;
  int64_t rows_, columns_;
  int n_;
  std::vector<RoutineStore>& stores_;
  std::vector<std::optional<Value>> values_;  // by slot
};

// What does not vary in the tile the parts share.
std::vector<RoutinePart> BlockProgram::RoutineParts(int64_t rows, int64_t columns, bool of_one_row,
                                                    int64_t most_lanes) const {
  int widest = 4;
  for (const Slot& s : slots_) widest = std::max(widest, s.width);
  const int64_t lanes = std::min(RoutineLanesOf(widest), most_lanes);
  const int64_t most_columns = std::min(columns, lanes);
  const int64_t most_rows = of_one_row || columns >= lanes ? 1 : std::min(rows, std::max<int64_t>(lanes / columns, 1));
  std::vector<RoutinePart> out;
  for (int64_t row = 0; row < rows; row += most_rows)
    for (int64_t column = 0; column < columns; column += most_columns)
      out.push_back({.row = row,
                     .column = column,
                     .rows = std::min(most_rows, rows - row),
                     .columns = std::min(most_columns, columns - column)});
  return out;
}

bool BlockProgram::AddTo(RoutineBlock& block, std::span<const plan::Slice> buffers, RoutinePart& part,
                         std::vector<RoutineStore>& stores) const {
  return BlockRoutine(*this, block, buffers, part, stores).Add();
}

}  // namespace krafla::cpu
