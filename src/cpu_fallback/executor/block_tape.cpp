// SPDX-License-Identifier: Apache-2.0
// A block program of one tile as instructions of a tape. What its steps find out in every run is known here once: where
// constants, dense loads and dense stores lie, and which steps write straight into a buffer. Steps that it has no
// instruction for run as they do elsewhere, on a frame of the same form.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/tape.h"
#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

namespace {

// Loads from places that are computed are copied where they are no longer than this.
constexpr int64_t kCopiedBytes = 2048;

const TapeOp* CallBlock(const TapeOp* op, TapeRun&) {
  op->what.block({op->out, {op->in[0], op->in[1], op->in[2]}, op->n, op->bits});
  return op + 1;
}
const TapeOp* CallConvert(const TapeOp* op, TapeRun&) {
  op->what.convert(op->in[0], op->out, op->n);
  return op + 1;
}
// out, an s64: the value of in[0], an s32 or, with n 8, an s64, times bits, plus that of in[1] if there is one.
template <class T, bool kAdds>
const TapeOp* ScaleIndex(const TapeOp* op, TapeRun& run) {
  T value;
  std::memcpy(&value, op->in[0], sizeof(value));
  int64_t sum = static_cast<int64_t>(value) * static_cast<int64_t>(op->bits);
  if constexpr (kAdds) {
    int64_t more;
    std::memcpy(&more, op->in[1], sizeof(more));
    sum += more;
  }
  std::memcpy(op->out, &sum, sizeof(sum));
  return GoTo(op + 1, run);
}
// n bytes (kBytes of them where that is not 0) at in[0], moved by the T at in[1] times bits.
template <class T>
int64_t Distance(const TapeOp* op) {
  T value;
  std::memcpy(&value, op->in[1], sizeof(value));
  return static_cast<int64_t>(value) * static_cast<int64_t>(op->bits);
}
template <class T, int kBytes>
const TapeOp* CopyFromIndex(const TapeOp* op, TapeRun& run) {
  std::memmove(op->out, op->in[0] + Distance<T>(op), kBytes > 0 ? kBytes : static_cast<std::size_t>(op->n));
  return GoTo(op + 1, run);
}
template <class T, int kBytes>
const TapeOp* CopyToIndex(const TapeOp* op, TapeRun& run) {
  std::memmove(op->out + Distance<T>(op), op->in[0], kBytes > 0 ? kBytes : static_cast<std::size_t>(op->n));
  return GoTo(op + 1, run);
}
template <class T>
TapeOp::Fn FromIndex(int64_t bytes) {
  switch (bytes) {
    case 1: return &CopyFromIndex<T, 1>;
    case 4: return &CopyFromIndex<T, 4>;
    case 8: return &CopyFromIndex<T, 8>;
    default: return &CopyFromIndex<T, 0>;
  }
}
template <class T>
TapeOp::Fn ToIndex(int64_t bytes) {
  switch (bytes) {
    case 1: return &CopyToIndex<T, 1>;
    case 4: return &CopyToIndex<T, 4>;
    case 8: return &CopyToIndex<T, 8>;
    default: return &CopyToIndex<T, 0>;
  }
}

}  // namespace

class BlockTape {
 public:
  using Step = BlockProgram::Step;
  using Kind = Step::Kind;
  using Access = BlockProgram::Access;

  BlockTape(const BlockProgram& program, TapeBuilder& tape, std::span<const plan::Slice> buffers, int64_t rows,
            int64_t columns)
      : program_(program),
        tape_(tape),
        buffers_(buffers),
        rows_(rows),
        columns_(columns),
        n_(rows * columns),
        values_(program.slots_.size()) {}

  void Append() {
    frame_ = tape_.Reserve(program_.kept_bytes_);
    tape_.NeedRegisters(program_.frame_bytes_ - program_.kept_bytes_);
    tape_.Address(frame_, {TapePlace::kRegisters, 0});
    for (std::size_t i = 0; i < program_.slots_.size(); ++i) {
      const BlockProgram::Slot& slot = program_.slots_[i];
      if (slot.offset < 0) continue;
      values_[i].place = HomeOf(static_cast<int>(i));
    }
    for (std::size_t b = 0; b < program_.buffer_count_; ++b)
      tape_.Address(PointerAt(program_.slots_.size() + b), {buffers_[b].allocation, buffers_[b].offset});
    for (const Step& s : program_.launch_steps_) steps_.push_back(&s);
    for (const Step& s : program_.tile_steps_) steps_.push_back(&s);
    is_stored_.assign(steps_.size(), false);
    for (std::size_t i = 0; i < steps_.size(); ++i) Add(i);
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (values_[i].place) tape_.Address(PointerAt(i), *values_[i].place);
  }

 private:
  // Where a value is during the steps after the one that makes it.
  struct Value {
    std::optional<TapePlace> place;     // nothing: where the frame's pointer says
    std::optional<plan::Slice> memory;  // of a buffer, where it is or may be part of one
    bool is_constant = false;
  };
  struct Target {
    TapePlace place;
    plan::Slice slice;
  };

  const BlockProgram::Slot& SlotOf(int slot) const { return program_.slots_[static_cast<std::size_t>(slot)]; }
  Value& ValueOf(int slot) { return values_[static_cast<std::size_t>(slot)]; }
  const Access& AccessOf(const Step& s) const { return program_.accesses_[static_cast<std::size_t>(s.access)]; }
  const BlockProgram::Address& AddressOf(int number) const {
    return program_.addresses_[static_cast<std::size_t>(number)];
  }
  int64_t PointerAt(std::size_t slot) const { return frame_ + 8 * (1 + static_cast<int64_t>(slot)); }
  TapePlace HomeOf(int slot) const {
    const BlockProgram::Slot& s = SlotOf(slot);
    return s.is_kept ? TapePlace{TapePlace::kFrame, frame_ + s.offset} : TapePlace{TapePlace::kRegisters, s.offset};
  }
  TapePlace Staging() const { return {TapePlace::kRegisters, program_.staging_offset_}; }

  // The terms of an address that are no iterators: those are 0 in the only tile.
  std::vector<BlockProgram::Term> TermsOf(const BlockProgram::Address& a) const {
    std::vector<BlockProgram::Term> out;
    for (const BlockProgram::Term& t : a.terms)
      if (t.kind != BlockProgram::Term::Kind::kIter) out.push_back(t);
    return out;
  }
  int64_t CountOf(const Step& s) const { return s.is_uniform ? 1 : n_; }
  bool IsDense(const Access& a, const Step& s) const {
    if (s.is_uniform) return true;
    return (columns_ == 1 || a.column_stride == 1) && (rows_ == 1 || a.row_stride == columns_);
  }
  // A plain dense access at a place that is known.
  std::optional<Target> FixedTarget(const Step& s) const {
    const Access& a = AccessOf(s);
    const BlockProgram::Address& address = AddressOf(a.address);
    if (a.mask >= 0 || a.offsets >= 0 || !IsDense(a, s) || !TermsOf(address).empty()) return std::nullopt;
    const plan::Slice& buffer = buffers_[static_cast<std::size_t>(a.buffer)];
    const int64_t offset = buffer.offset + address.constant * a.width;
    return Target{{buffer.allocation, offset}, {buffer.allocation, offset, CountOf(s) * a.width}};
  }
  // What an access may touch at most.
  plan::Slice Reach(const Step& s) const {
    if (const std::optional<Target> fixed = FixedTarget(s)) return fixed->slice;
    return buffers_[static_cast<std::size_t>(AccessOf(s).buffer)];
  }

  bool IsPlaced(const Step& s) {
    return std::ranges::all_of(s.in, [&](int slot) { return slot < 0 || ValueOf(slot).place.has_value(); });
  }
  void Operands(int op, const Step& s) {
    for (int i = 0; i < 3; ++i)
      if (s.in[static_cast<std::size_t>(i)] >= 0) tape_.In(op, i, *ValueOf(s.in[static_cast<std::size_t>(i)]).place);
  }
  void AddAsElsewhere(const Step& s) {
    const int op = tape_.Add({.run = &BlockProgram::RunStepOfTape,
                              .n = rows_,
                              .bits = static_cast<uint64_t>(columns_),
                              .what = {.object = &s}});
    tape_.Out(op, {TapePlace::kFrame, frame_});
    tape_.op(op).in[0] = reinterpret_cast<const std::byte*>(&program_);
  }

  // A store of `slot` as it is, made by step `at`, where nothing after that step reads what it overwrites.
  std::optional<Target> DirectTarget(std::size_t at, int slot) {
    for (std::size_t i = at + 1; i < steps_.size(); ++i) {
      const Step& store = *steps_[i];
      if (store.kind != Kind::kStore || store.in[0] != slot || AccessOf(store).convert != nullptr) continue;
      if (store.is_uniform != SlotOf(slot).is_uniform && n_ != 1) continue;
      const std::optional<Target> target = FixedTarget(store);
      if (!target || ReadsPartOf(*steps_[at], target->slice) || MayTouchAfter(at, i, target->slice)) continue;
      is_stored_[i] = true;
      return target;
    }
    return std::nullopt;
  }
  // Whether a step reads what it would overwrite, other than element for element.
  bool ReadsPartOf(const Step& s, const plan::Slice& slice) {
    return std::ranges::any_of(s.in, [&](int slot) {
      if (slot < 0 || !ValueOf(slot).memory) return false;
      return !(*ValueOf(slot).memory == slice) && tape_.MayOverlap(*ValueOf(slot).memory, slice);
    });
  }
  bool MayTouchAfter(std::size_t at, std::size_t store, const plan::Slice& slice) {
    const auto holds = [&](int slot) {
      return slot >= 0 && ValueOf(slot).memory && tape_.MayOverlap(*ValueOf(slot).memory, slice);
    };
    for (std::size_t i = at + 1; i < steps_.size(); ++i) {
      const Step& s = *steps_[i];
      if (i == store) continue;
      if (std::ranges::any_of(s.in, holds)) return true;
      if (s.native >= 0 || s.line >= 0) return true;
      if (s.access < 0) continue;
      const Access& a = AccessOf(s);
      if (tape_.MayOverlap(Reach(s), slice) || holds(a.mask) || holds(a.offsets)) return true;
    }
    return false;
  }
  TapePlace PlaceResult(std::size_t at, int slot) {
    Value& value = ValueOf(slot);
    if (const std::optional<Target> target = DirectTarget(at, slot)) {
      value.place = target->place;
      value.memory = target->slice;
    } else {
      value.place = HomeOf(slot);
    }
    return *value.place;
  }

  void Add(std::size_t at) {
    const Step& s = *steps_[at];
    switch (s.kind) {
      case Kind::kConstant: {
        const TapePlace home = HomeOf(s.out);
        std::memcpy(tape_.Bytes(home.offset), &s.bits, static_cast<std::size_t>(s.width));
        ValueOf(s.out).is_constant = true;
        return;
      }
      case Kind::kSpread: return AddSpread(s);
      case Kind::kRamp: return AddRamp(s);
      case Kind::kOp: return AddOp(at);
      case Kind::kLoad: return AddLoad(at);
      case Kind::kStore: return AddStore(at);
      case Kind::kMulAdd:
      case Kind::kDivide:
      case Kind::kModulus:
      case Kind::kUniformDivide:
      case Kind::kUniformModulus:
      case Kind::kNative:
      case Kind::kLoadLine:
      case Kind::kStoreLine: return AddAsElsewhere(s);
      case Kind::kNothing:
      case Kind::kParam: return;  // there is none
    }
  }

  // Bytes of the frame that hold what never changes.
  std::byte* Fixed(int slot, int64_t bytes) {
    const int64_t at = tape_.Reserve(bytes);
    ValueOf(slot).place = TapePlace{TapePlace::kFrame, at};
    return tape_.Bytes(at);
  }
  void AddSpread(const Step& s) {
    if (!ValueOf(s.in[0]).is_constant) return AddAsElsewhere(s);
    uint64_t value = 0;
    std::memcpy(&value, tape_.Bytes(ValueOf(s.in[0]).place->offset), static_cast<std::size_t>(s.width));
    Fill(s.width, reinterpret_cast<const std::byte*>(&value), Fixed(s.out, n_ * s.width), n_);
  }
  void AddRamp(const Step& s) {
    const BlockProgram::Address& address = AddressOf(s.address);
    if (!TermsOf(address).empty()) return AddAsElsewhere(s);
    const int64_t rows = s.is_uniform ? 1 : rows_, columns = s.is_uniform ? 1 : columns_;
    BlockRamp(reinterpret_cast<int32_t*>(Fixed(s.out, rows * columns * 4)), rows, columns, address.constant,
              s.row_stride, s.column_stride);
    ValueOf(s.out).is_constant = s.is_uniform;
  }

  void AddOp(std::size_t at) {
    const Step& s = *steps_[at];
    if (!IsPlaced(s)) {
      ValueOf(s.out).place = HomeOf(s.out);
      return AddAsElsewhere(s);
    }
    TapeOp op{.run = &CallBlock, .n = CountOf(s), .bits = s.bits, .what = {.block = s.fn}};
    if (op.n == 1 ? s.scalar != nullptr : s.small != nullptr) op = {.run = op.n == 1 ? s.scalar : s.small, .n = op.n};
    const int number = tape_.Add(op);
    Operands(number, s);
    tape_.Out(number, PlaceResult(at, s.out));
  }

  // The bytes by which an access is moved from where it would be with all values 0: in elements of an s32 or s64.
  struct Index {
    TapePlace place;
    int64_t factor = 0;
    bool is_wide = false;
  };
  std::optional<Index> IndexOf(const Access& a) {
    const std::vector<BlockProgram::Term> terms = TermsOf(AddressOf(a.address));
    for (const BlockProgram::Term& t : terms)
      if (!ValueOf(t.number).place) return std::nullopt;
    const auto is_wide = [](const BlockProgram::Term& t) { return t.kind == BlockProgram::Term::Kind::kDivision; };
    if (terms.size() == 1) return Index{*ValueOf(terms[0].number).place, terms[0].factor * a.width, is_wide(terms[0])};
    TapePlace sum;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      TapeOp op{.bits = static_cast<uint64_t>(terms[t].factor * a.width)};
      if (t == 0) op.run = is_wide(terms[t]) ? &ScaleIndex<int64_t, false> : &ScaleIndex<int32_t, false>;
      else op.run = is_wide(terms[t]) ? &ScaleIndex<int64_t, true> : &ScaleIndex<int32_t, true>;
      const int number = tape_.Add(op);
      tape_.In(number, 0, *ValueOf(terms[t].number).place);
      if (t > 0) tape_.In(number, 1, sum);
      sum = {TapePlace::kFrame, tape_.Reserve(8)};
      tape_.Out(number, sum);
    }
    return Index{sum, 1, true};
  }

  void AddLoad(std::size_t at) {
    const Step& s = *steps_[at];
    const Access& a = AccessOf(s);
    Value& value = ValueOf(s.out);
    const int64_t n = CountOf(s);
    if (const std::optional<Target> from = FixedTarget(s)) {
      if (a.convert == nullptr) {
        value.place = from->place;
        value.memory = from->slice;
        return;
      }
      const int op = tape_.Add({.run = &CallConvert, .n = n, .what = {.convert = a.convert}});
      tape_.In(op, 0, from->place);
      tape_.Out(op, PlaceResult(at, s.out));
      return;
    }
    const bool is_plain = a.mask < 0 && a.offsets < 0 && IsDense(a, s) && n * a.width <= kCopiedBytes;
    const std::optional<Index> index = is_plain ? IndexOf(a) : std::nullopt;
    if (!index) {
      // It may leave a pointer into the buffer.
      const bool fills = a.convert != nullptr || a.offsets >= 0;
      value.place = fills ? std::optional(HomeOf(s.out)) : std::nullopt;
      if (!fills) value.memory = Reach(s);
      return AddAsElsewhere(s);
    }
    const int copy =
        tape_.Add({.run = index->is_wide ? FromIndex<int64_t>(n * a.width) : FromIndex<int32_t>(n * a.width),
                   .n = n * a.width,
                   .bits = static_cast<uint64_t>(index->factor)});
    tape_.In(copy, 0, BaseOf(a));
    tape_.In(copy, 1, index->place);
    if (a.convert == nullptr) {
      tape_.Out(copy, PlaceResult(at, s.out));
      return;
    }
    tape_.Out(copy, Staging());
    const int op = tape_.Add({.run = &CallConvert, .n = n, .what = {.convert = a.convert}});
    tape_.In(op, 0, Staging());
    tape_.Out(op, PlaceResult(at, s.out));
  }
  TapePlace BaseOf(const Access& a) const {
    const plan::Slice& buffer = buffers_[static_cast<std::size_t>(a.buffer)];
    return {buffer.allocation, buffer.offset + AddressOf(a.address).constant * a.width};
  }

  void AddStore(std::size_t at) {
    if (is_stored_[at]) return;
    const Step& s = *steps_[at];
    const Access& a = AccessOf(s);
    const Value& value = ValueOf(s.in[0]);
    const int64_t n = CountOf(s);
    const std::optional<Target> to = FixedTarget(s);
    const bool is_plain = a.mask < 0 && a.offsets < 0 && IsDense(a, s) && value.place.has_value();
    const std::optional<Index> index = is_plain && !to ? IndexOf(a) : std::nullopt;
    if (!is_plain || (!to && !index)) return AddAsElsewhere(s);
    TapePlace from = *value.place;
    if (a.convert != nullptr) {
      const int op = tape_.Add({.run = &CallConvert, .n = n, .what = {.convert = a.convert}});
      tape_.In(op, 0, from);
      tape_.Out(op, to ? to->place : Staging());
      if (to) return;
      from = Staging();
    }
    if (to) {
      if (from.base == to->place.base && from.offset == to->place.offset) return;
      const int op = tape_.Add(CopyOp(n * a.width));
      tape_.In(op, 0, from);
      tape_.Out(op, to->place);
      return;
    }
    const int op = tape_.Add({.run = index->is_wide ? ToIndex<int64_t>(n * a.width) : ToIndex<int32_t>(n * a.width),
                              .n = n * a.width,
                              .bits = static_cast<uint64_t>(index->factor)});
    tape_.In(op, 0, from);
    tape_.In(op, 1, index->place);
    tape_.Out(op, BaseOf(a));
  }

  const BlockProgram& program_;
  TapeBuilder& tape_;
  std::span<const plan::Slice> buffers_;
  int64_t rows_, columns_, n_;
  std::vector<Value> values_;
  std::vector<const Step*> steps_;
  std::vector<bool> is_stored_;
  int64_t frame_ = 0;
};

bool BlockProgram::has_params() const {
  return std::ranges::any_of(tile_steps_, [](const Step& s) { return s.kind == Step::Kind::kParam; });
}

void BlockProgram::AppendTo(TapeBuilder& tape, std::span<const plan::Slice> buffers, int64_t rows,
                            int64_t columns) const {
  BlockTape(*this, tape, buffers, rows, columns).Append();
}

}  // namespace krafla::cpu
