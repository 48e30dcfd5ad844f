// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/block_program.h"

#include <algorithm>
#include <cstring>

#include "cpu_fallback/kernels/move.h"

namespace krafla::cpu {

void BlockProgram::Start(std::byte* memory, std::span<std::byte* const> buffers) const {
  std::byte** slots = SlotPointers(memory);
  *Registers(memory) = memory + kept_bytes_;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    slots[i] = slots_[i].offset < 0 ? nullptr : Home(memory, static_cast<int>(i));
  for (std::size_t b = 0; b < buffer_count_; ++b) slots[slots_.size() + b] = b < buffers.size() ? buffers[b] : nullptr;
  RunSteps(launch_steps_, memory, nullptr, tile_.rows, tile_.columns, nullptr);
}

void BlockProgram::RunTile(std::byte* memory, std::span<const int64_t> origin, int64_t rows, int64_t columns,
                           const void* const* params) const {
  RunSteps(tile_steps_, memory, origin.data(), rows, columns, params);
}

BlockProgram::Value BlockProgram::ResultValue(const std::byte* memory, std::size_t i) const {
  const int slot = results_[i];
  std::byte* const* slots = SlotPointers(const_cast<std::byte*>(memory));
  return {slots[slot], slots_[static_cast<std::size_t>(slot)].is_uniform, result_types_[i]};
}

int64_t BlockProgram::Evaluate(const Address& address, const int64_t* origin, std::byte* const* slots) const {
  int64_t value = address.constant;
  for (const Term& t : address.terms) {
    switch (t.kind) {
      case Term::Kind::kIter: value += t.factor * origin[t.number]; break;
      case Term::Kind::kValue: {
        int32_t v;
        std::memcpy(&v, slots[t.number], sizeof(v));
        value += t.factor * v;
        break;
      }
      case Term::Kind::kDivision: {
        int64_t v;
        std::memcpy(&v, slots[t.number], sizeof(v));
        value += t.factor * v;
        break;
      }
    }
  }
  return value;
}

void BlockProgram::RunSteps(const std::vector<Step>& steps, std::byte* memory, const int64_t* origin, int64_t rows,
                            int64_t columns, const void* const* params) const {
  uint64_t stored = 0;
  for (const Step& s : steps) RunStep(s, memory, origin, rows, columns, params, &stored);
}

inline void BlockProgram::RunStep(const Step& s, std::byte* memory, const int64_t* origin, int64_t rows,
                                  int64_t columns, const void* const* params, uint64_t* stored) const {
  std::byte** slots = SlotPointers(memory);
  std::byte* const* buffers = slots + slots_.size();
  const int64_t n = rows * columns;
  // Where a step puts its result that may go to a buffer at once.
  auto home = [&] {
    if (s.direct_store < 0 || s.direct_store >= 64 || stored == nullptr) return Home(memory, s.out);
    const Access& a = accesses_[static_cast<std::size_t>(s.direct_store)];
    const bool dense = (columns == 1 || a.column_stride == 1) && (rows == 1 || a.row_stride == columns);
    if (!dense) return Home(memory, s.out);
    *stored |= uint64_t{1} << s.direct_store;
    return buffers[a.buffer] + Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width;
  };
  switch (s.kind) {
    case Step::Kind::kOp: {
      if (s.direct_store >= 0) slots[s.out] = home();
      BlockArgs args{slots[s.out], {nullptr, nullptr, nullptr}, s.is_uniform ? 1 : n, s.bits};
      for (std::size_t i = 0; i < 3; ++i)
        if (s.in[i] >= 0) args.in[i] = slots[s.in[i]];
      s.fn(args);
      break;
    }
    case Step::Kind::kLoad: {
      if (s.moves && stored != nullptr) {
        *stored |= uint64_t{1} << s.direct_store;
        const Move m = MoveOf(s, memory, origin);
        if (m.source != m.target)
          MoveTile(m.from.width, m.source, {m.from.row_stride, m.from.column_stride}, m.target,
                   {m.to.row_stride, m.to.column_stride}, rows, columns);
        break;
      }
      std::byte* place = home();
      Load(s, memory, place, origin, rows, columns);
      // Where it only points at what it loads, that is yet to be stored.
      if (s.direct_store >= 0 && s.direct_store < 64 && stored != nullptr && slots[s.out] != place)
        *stored &= ~(uint64_t{1} << s.direct_store);
      break;
    }
    case Step::Kind::kStore:
      if (stored != nullptr && s.access < 64 && ((*stored >> s.access) & 1)) break;
      if (IsFill()) return FillPlanes(memory, origin, rows, columns, -1, 1);
      Store(s, memory, origin, rows, columns);
      break;
    case Step::Kind::kRamp: {
      const int64_t base = Evaluate(addresses_[static_cast<std::size_t>(s.address)], origin, slots);
      if (s.is_uniform) {
        const int32_t value = static_cast<int32_t>(base);
        std::memcpy(slots[s.out], &value, sizeof(value));
      } else {
        BlockRamp(reinterpret_cast<int32_t*>(slots[s.out]), rows, columns, base, s.row_stride, s.column_stride);
      }
      break;
    }
    case Step::Kind::kSpread: Fill(s.width, slots[s.in[0]], slots[s.out], n); break;
    case Step::Kind::kMulAdd:
      BlockMulAdd(reinterpret_cast<int32_t*>(slots[s.out]), reinterpret_cast<const int32_t*>(slots[s.in[0]]),
                  static_cast<int32_t>(s.bits),
                  s.in[1] < 0 ? nullptr : reinterpret_cast<const int32_t*>(slots[s.in[1]]), n);
      break;
    case Step::Kind::kDivide:
      BlockDivide(reinterpret_cast<int32_t*>(slots[s.out]), reinterpret_cast<const int32_t*>(slots[s.in[0]]),
                  static_cast<int32_t>(s.bits), n);
      break;
    case Step::Kind::kModulus:
      BlockModulus(reinterpret_cast<int32_t*>(slots[s.out]), reinterpret_cast<const int32_t*>(slots[s.in[0]]),
                   static_cast<int32_t>(s.bits), n);
      break;
    case Step::Kind::kUniformDivide:
    case Step::Kind::kUniformModulus: {
      const int64_t dividend = Evaluate(addresses_[static_cast<std::size_t>(s.address)], origin, slots);
      const auto divisor = static_cast<int64_t>(s.bits);
      const int64_t value = s.kind == Step::Kind::kUniformDivide ? dividend / divisor : dividend % divisor;
      std::memcpy(slots[s.out], &value, sizeof(value));
      break;
    }
    case Step::Kind::kConstant: std::memcpy(slots[s.out], &s.bits, static_cast<std::size_t>(s.width)); break;
    case Step::Kind::kNative:
      RunNative(native_parts_[static_cast<std::size_t>(s.native)], memory, origin, rows, columns);
      break;
    case Step::Kind::kLoadLine:
    case Step::Kind::kStoreLine: MoveLine(s, memory, origin, n); break;
    case Step::Kind::kNothing: break;
    case Step::Kind::kParam:
      slots[s.out] = const_cast<std::byte*>(static_cast<const std::byte*>(params[s.bits]));
      break;
  }
}

// Its row stride is that of the operand.
native::StreamArgument BlockProgram::StreamOf(const NativeOperand& o, std::byte* memory, const int64_t* origin) const {
  std::byte** slots = SlotPointers(memory);
  switch (o.kind) {
    case NativeOperand::Kind::kSlot: return {slots[o.number], 0};
    case NativeOperand::Kind::kAccess: {
      const Access& a = accesses_[static_cast<std::size_t>(o.number)];
      return {slots[slots_.size() + static_cast<std::size_t>(a.buffer)] +
                  Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width,
              o.is_uniform ? 0 : o.row_stride * a.width};
    }
    case NativeOperand::Kind::kRamp:
      return {reinterpret_cast<std::byte*>(Evaluate(addresses_[static_cast<std::size_t>(o.number)], origin, slots)),
              o.row_stride};
    case NativeOperand::Kind::kLane: return {nullptr, 0};  // the tile is flat
    case NativeOperand::Kind::kFold:
      return {slots[slots_.size() + static_cast<std::size_t>(o.number)], o.row_stride * o.width};
  }
  return {};
}

void BlockProgram::RunNative(const NativePart& part, std::byte* memory, const int64_t* origin, int64_t rows,
                             int64_t columns) const {
  // A tile of single columns goes along its rows.
  const bool along_rows = tile_.columns == 1;
  const int64_t length = along_rows ? rows : columns;
  std::array<native::StreamArgument, kMaxNativeOperands> streams;
  bool is_flat = true;
  for (std::size_t i = 0; i < part.operands.size(); ++i) {
    const NativeOperand& o = part.operands[i];
    streams[i] = StreamOf(o, memory, origin);
    const bool is_memory = o.kind == NativeOperand::Kind::kAccess || o.kind == NativeOperand::Kind::kRamp;
    if (o.kind == NativeOperand::Kind::kSlot && !o.is_uniform) streams[i].row_stride = length * o.width;
    if (is_memory && !o.is_uniform) is_flat &= o.row_stride == length * o.column_stride;
    is_flat &= o.kind != NativeOperand::Kind::kFold || o.is_uniform;
  }
  if (along_rows || is_flat) part.code->Run(streams.data(), 1, rows * columns);
  else part.code->Run(streams.data(), rows, columns);
}

bool BlockProgram::IsMove() const {
  return tile_steps_.size() == 2 && tile_steps_[0].kind == Step::Kind::kLoad && tile_steps_[0].moves;
}

bool BlockProgram::IsFill() const {
  return tile_steps_.size() == 1 && tile_steps_[0].kind == Step::Kind::kStore && !tile_steps_[0].is_uniform &&
         slots_[static_cast<std::size_t>(tile_steps_[0].in[0])].is_uniform;
}

bool BlockProgram::TakesPlanes() const {
  if (IsMove() || IsFill()) return true;
  if (tile_steps_.size() != 1 || tile_steps_[0].kind != Step::Kind::kNative) return false;
  const NativePart& part = native_parts_[static_cast<std::size_t>(tile_steps_[0].native)];
  return std::ranges::none_of(part.operands,
                              [](const NativeOperand& o) { return o.kind == NativeOperand::Kind::kFold; });
}

bool BlockProgram::FoldsAll() const {
  for (std::size_t r = 0; r < results_.size(); ++r)
    if (FoldBuffer(r) < 0) return false;
  return tile_steps_.size() == 1 && tile_steps_[0].kind == Step::Kind::kNative;
}

// Whether each operand goes on from row to row as it does from column to column.
bool BlockProgram::IsFlat(const NativePart& part) const {
  return std::ranges::all_of(part.operands, [&](const NativeOperand& o) {
    const bool is_memory = o.kind == NativeOperand::Kind::kAccess || o.kind == NativeOperand::Kind::kRamp;
    return !is_memory || o.is_uniform || tile_.rows == 1 || tile_.columns == 1 ||
           o.row_stride == tile_.columns * o.column_stride;
  });
}

int64_t BlockProgram::FactorOf(const Address& address, int dim) {
  int64_t factor = 0;
  for (const Term& t : address.terms)
    if (t.kind == Term::Kind::kIter && t.number == dim) factor += t.factor;
  return factor;
}

void BlockProgram::RunPlanes(std::byte* memory, std::span<const int64_t> origin, int64_t rows, int64_t columns,
                             int plane_dim, int64_t planes) const {
  if (IsMove()) return MovePlanes(memory, origin.data(), rows, columns, plane_dim, planes);
  if (IsFill()) return FillPlanes(memory, origin.data(), rows, columns, plane_dim, planes);
  const NativePart& part = native_parts_[static_cast<std::size_t>(tile_steps_[0].native)];
  std::array<native::StreamArgument, kMaxNativeOperands> streams;
  std::array<int64_t, kMaxNativeOperands> steps;
  bool folds = false;
  for (std::size_t i = 0; i < part.operands.size(); ++i) {
    const NativeOperand& o = part.operands[i];
    streams[i] = StreamOf(o, memory, origin.data());
    // What is in a slot was made when the launch began.
    steps[i] = 0;
    if (o.kind == NativeOperand::Kind::kRamp)
      steps[i] = FactorOf(addresses_[static_cast<std::size_t>(o.number)], plane_dim);
    if (o.kind == NativeOperand::Kind::kAccess) {
      const Access& a = accesses_[static_cast<std::size_t>(o.number)];
      steps[i] = FactorOf(addresses_[static_cast<std::size_t>(a.address)], plane_dim) * a.width;
    }
    // A fold of columns goes on behind those of the plane before.
    if (o.kind == NativeOperand::Kind::kFold) steps[i] = columns * o.width, folds = true;
  }
  // Planes of one row each are the rows of one.
  if (!folds && IsFlat(part)) {
    for (std::size_t i = 0; i < part.operands.size(); ++i) streams[i].row_stride = steps[i];
    return part.code->Run(streams.data(), planes, rows * columns);
  }
  for (std::size_t i = 0; i < part.operands.size(); ++i) {
    const NativeOperand& o = part.operands[i];
    if (o.kind == NativeOperand::Kind::kSlot && !o.is_uniform) streams[i].row_stride = columns * o.width;
  }
  for (int64_t p = 0; p < planes; ++p) {
    part.code->Run(streams.data(), rows, columns);
    for (std::size_t i = 0; i < part.operands.size(); ++i) streams[i].base += steps[i];
  }
}

// What a load moves, and where to.
BlockProgram::Move BlockProgram::MoveOf(const Step& s, std::byte* memory, const int64_t* origin) const {
  std::byte* const* slots = SlotPointers(memory);
  std::byte* const* buffers = slots + slots_.size();
  const Access &from = accesses_[static_cast<std::size_t>(s.access)],
               &to = accesses_[static_cast<std::size_t>(s.direct_store)];
  const auto place = [&](const Access& a) {
    return buffers[a.buffer] + Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width;
  };
  return {from, to, place(from), place(to)};
}
void BlockProgram::MovePlanes(std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns, int plane_dim,
                              int64_t planes) const {
  const Move m = MoveOf(tile_steps_[0], memory, origin);
  const auto step = [&](const Access& a) {
    return FactorOf(addresses_[static_cast<std::size_t>(a.address)], plane_dim) * a.width;
  };
  const int64_t from_step = step(m.from), to_step = step(m.to);
  if (m.source == m.target) return;  // in place, each element at its own
  for (int64_t p = 0; p < planes; ++p)
    MoveTile(m.from.width, m.source + p * from_step, {m.from.row_stride, m.from.column_stride}, m.target + p * to_step,
             {m.to.row_stride, m.to.column_stride}, rows, columns);
}

void BlockProgram::FillPlanes(std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns, int plane_dim,
                              int64_t planes) const {
  const Access& a = accesses_[static_cast<std::size_t>(tile_steps_[0].access)];
  std::byte* const* slots = SlotPointers(memory);
  const Address& address = addresses_[static_cast<std::size_t>(a.address)];
  std::byte* to =
      slots[slots_.size() + static_cast<std::size_t>(a.buffer)] + Evaluate(address, origin, slots) * a.width;
  std::byte value[8];
  const std::byte* from = slots[tile_steps_[0].in[0]];
  if (a.convert != nullptr) a.convert(from, value, 1), from = value;
  const int64_t plane_stride = planes > 1 ? FactorOf(address, plane_dim) * a.width : 0;
  const bool is_dense = rows == 1 || a.row_stride == columns;
  for (int64_t p = 0; p < planes; ++p, to += plane_stride) {
    if (is_dense) Fill(a.width, from, to, rows * columns);
    else
      for (int64_t r = 0; r < rows; ++r) Fill(a.width, from, to + r * a.row_stride * a.width, columns);
  }
}

void BlockProgram::Load(const Step& step, std::byte* memory, std::byte* home, const int64_t* origin, int64_t rows,
                        int64_t columns) const {
  std::byte** slots = SlotPointers(memory);
  const Access& a = accesses_[static_cast<std::size_t>(step.access)];
  if (step.is_uniform) rows = columns = 1;
  const int64_t n = rows * columns;
  const uint8_t* mask = nullptr;
  if (a.mask >= 0) {
    mask = reinterpret_cast<const uint8_t*>(slots[a.mask]);
    const int state = a.mask_is_uniform ? (*mask != 0 ? 1 : 0) : MaskState(mask, n);
    if (state == 0) {
      slots[step.out] = home;
      std::memset(home, 0, static_cast<std::size_t>(n * a.converted_width));
      return;
    }
    if (state == 1) mask = nullptr;
  }
  const std::byte* from = slots[slots_.size() + static_cast<std::size_t>(a.buffer)] +
                          Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width;
  std::byte* staging = a.convert == nullptr ? home : *Registers(memory) + staging_offset_;
  if (a.offsets >= 0) {
    GatherElements(a.width, from, reinterpret_cast<const int32_t*>(slots[a.offsets]), mask, staging, n);
  } else if (mask != nullptr) {
    MoveTileMasked(a.width, from, {a.row_stride, a.column_stride}, staging, mask, rows, columns);
  } else {
    const bool dense = (columns == 1 || a.column_stride == 1) && (rows == 1 || a.row_stride == columns);
    if (dense) {
      if (a.convert == nullptr) {
        slots[step.out] = const_cast<std::byte*>(from);
        return;
      }
      staging = const_cast<std::byte*>(from);
    } else {
      MoveTile(a.width, from, {a.row_stride, a.column_stride}, staging, {columns, 1}, rows, columns);
    }
  }
  slots[step.out] = home;
  if (a.convert != nullptr) a.convert(staging, home, n);
}

void BlockProgram::Store(const Step& step, std::byte* memory, const int64_t* origin, int64_t rows,
                         int64_t columns) const {
  std::byte** slots = SlotPointers(memory);
  const Access& a = accesses_[static_cast<std::size_t>(step.access)];
  if (step.is_uniform) rows = columns = 1;
  const int64_t n = rows * columns;
  const uint8_t* mask = nullptr;
  if (a.mask >= 0) {
    mask = reinterpret_cast<const uint8_t*>(slots[a.mask]);
    const int state = a.mask_is_uniform ? (*mask != 0 ? 1 : 0) : MaskState(mask, n);
    if (state == 0) return;
    if (state == 1) mask = nullptr;
  }
  std::byte* to = slots[slots_.size() + static_cast<std::size_t>(a.buffer)] +
                  Evaluate(addresses_[static_cast<std::size_t>(a.address)], origin, slots) * a.width;
  const std::byte* from = slots[step.in[0]];
  const bool dense = a.offsets < 0 && mask == nullptr && (columns == 1 || a.column_stride == 1) &&
                     (rows == 1 || a.row_stride == columns);
  if (a.convert != nullptr) {
    std::byte* narrow = dense ? to : *Registers(memory) + staging_offset_;
    a.convert(from, narrow, n);
    from = narrow;
  }
  if (dense) {
    if (from != to) std::memmove(to, from, static_cast<std::size_t>(n * a.width));
  } else if (a.offsets >= 0) {
    ScatterElements(a.width, from, to, reinterpret_cast<const int32_t*>(slots[a.offsets]), mask, n);
  } else if (mask != nullptr) {
    PutTileMasked(a.width, from, to, {a.row_stride, a.column_stride}, mask, rows, columns);
  } else {
    MoveTile(a.width, from, {columns, 1}, to, {a.row_stride, a.column_stride}, rows, columns);
  }
}

const TapeOp* BlockProgram::RunStepOfTape(const TapeOp* op, TapeRun&) {
  static constexpr int64_t kOrigin[64] = {};
  const auto* program = reinterpret_cast<const BlockProgram*>(op->in[0]);
  program->RunStep(*static_cast<const Step*>(op->what.object), op->out, kOrigin, op->n, static_cast<int64_t>(op->bits),
                   nullptr, nullptr);
  return op + 1;
}

}  // namespace krafla::cpu
