// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/native_planner.h"

#include <algorithm>
#include <cstdlib>

#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/native/routine.h"

namespace krafla::cpu {

using native::LaneBuilder;
using native::LaneGraph;
using native::LaneNode;
using native::LaneOp;
using native::LaneStream;

namespace {

// Lanes times operations from which on a compilation is worth it: half a microsecond of the interpreter's time, which a
// program that runs some hundred times makes up for.
constexpr int64_t kWorthwhile = 8192;
// Each operation costs some microseconds to compile: it has to be done for that many elements.
constexpr int64_t kFewElements = 256;
// Nodes of a loop; code for more is not made in one piece.
constexpr std::size_t kMaxNodes = 1500;
constexpr int64_t kNearBytes = 32;
// Elements of a tile of short rows whose quotients native code has by a multiplication.
constexpr int64_t kMostShortRows = int64_t{1} << 27;

}  // namespace

bool NativePlanner::IsWorthIt() const {
  if (!native::HasNativeCode()) return false;
  int64_t work = 0;
  for (const Step& s : out_.tile_steps_) {
    if (s.is_uniform) continue;
    if (s.kind == Step::Kind::kOp || s.kind == Step::Kind::kMulAdd || s.kind == Step::Kind::kDivide ||
        s.kind == Step::Kind::kModulus)
      ++work;
    // Conversions, and elements that lie side by side.
    if (s.access >= 0 && (AccessOf(s.access).convert != nullptr || IsSideBySide(AccessOf(s.access)))) ++work;
  }
  if (work == 0) return false;
  if (native::UseOfNativeCode() == native::NativeUse::kAlways) return true;
  const int64_t elements = elements_ > 0 ? elements_ : out_.tile_.rows * out_.tile_.columns * 16;
  return elements >= kFewElements && elements >= kWorthwhile / work / runs_;
}

bool NativePlanner::GoesAlong(int64_t row_stride, int64_t lane_stride) const {
  if (along_rows_ || out_.tile_.rows == 1 || out_.tile_.columns >= BlockProgram::kShortRow) return true;
  return row_stride == out_.tile_.columns * lane_stride;
}

// How many elements `next` is ahead of `access`, where they go through memory alike.
std::optional<int64_t> NativePlanner::Distance(int access, int next) const {
  const Access &a = AccessOf(access), &b = AccessOf(next);
  if (a.buffer != b.buffer || a.width != b.width || a.row_stride != b.row_stride || a.column_stride != b.column_stride)
    return std::nullopt;
  const BlockProgram::Address& from = out_.addresses_[static_cast<std::size_t>(a.address)];
  const BlockProgram::Address& to = out_.addresses_[static_cast<std::size_t>(b.address)];
  const bool is_alike = std::ranges::equal(from.terms, to.terms, [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.number == y.number && x.factor == y.factor;
  });
  if (!is_alike) return std::nullopt;
  return to.constant - from.constant;
}

// Loads of some of 2 to 4 elements (of bytes: 8) that lie side by side, and stores of all of them. What lies between
// the first and the last element of a load may be read too.
void NativePlanner::FindInterleaved() {
  for (Step::Kind kind : {Step::Kind::kLoad, Step::Kind::kStore}) {
    std::vector<int> candidates;
    for (const Step& s : out_.tile_steps_) {
      if (s.kind != kind || s.is_uniform) continue;
      const Access& a = AccessOf(s.access);
      if (a.mask >= 0 || a.offsets >= 0 || !IsSideBySide(a)) continue;
      const bool is_store = kind == Step::Kind::kStore;
      if (a.width < 4 ? !is_store && IsPacked(a) : IsReachable(a, is_store)) candidates.push_back(s.access);
    }
    // Programs have few of them; many are not worth the comparing.
    if (candidates.size() > 64) continue;
    const auto constant_of = [&](int access) {
      return out_.addresses_[static_cast<std::size_t>(AccessOf(access).address)].constant;
    };
    std::ranges::stable_sort(candidates, {}, constant_of);
    for (int first : candidates) {
      if (interleaved_.contains(first)) continue;
      const int parts = static_cast<int>(LaneStride(AccessOf(first)));
      std::map<int, int> found;  // part to access
      for (int c : candidates) {
        const std::optional<int64_t> part = interleaved_.contains(c) ? std::nullopt : Distance(first, c);
        if (part && *part >= 0 && *part < parts) found.try_emplace(static_cast<int>(*part), c);
      }
      if (kind == Step::Kind::kStore && static_cast<int>(found.size()) < parts) continue;
      for (const auto& [part, access] : found) interleaved_[access] = {first, part, parts, found.rbegin()->first + 1};
    }
  }
}

bool NativePlanner::IsReachable(const Access& a, bool is_store) const {
  const ElementType type = native::LaneTypeOf(a.storage);
  if (type == ElementType::kInvalid) return false;
  if (a.offsets >= 0) return !is_store && a.width >= 4;
  const int64_t stride = LaneStride(a);
  if (!GoesAlong(RowStride(a), stride)) return false;
  if (stride == 1) return true;
  if (stride == 0) return !is_store && a.mask < 0;
  // Elements that lie far apart are loaded by lines of memory, tiles of which the interpreter transposes.
  return a.width >= 4 && std::abs(stride) * a.width <= kNearBytes;
}

// Whether it and its neighbours, elements of a byte or two, are parts of a word that has lanes.
bool NativePlanner::IsPacked(const Access& a) const {
  const int64_t parts = LaneStride(a), bytes = parts * a.width;
  return native::LaneTypeOf(a.storage) != ElementType::kInvalid && a.storage != ElementType::kPred &&
         (parts == 2 || parts == 4 || parts == 8) && bytes <= 8 && GoesAlong(RowStride(a), parts);
}
// Loads whose place in a tile of short rows is a quotient and a remainder. (Such rows are never cut: every tile has all
// of their columns.) Bytes only where the elements of a vector lie close together.
bool NativePlanner::IsInShortRows(const Access& a) const {
  return !along_rows_ && out_.tile_.rows > 1 && out_.tile_.columns > 1 &&
         out_.tile_.columns < BlockProgram::kShortRow && a.mask < 0 && a.offsets < 0 &&
         native::LaneTypeOf(a.storage) != ElementType::kInvalid && native::HasRoutines() &&
         !GoesAlong(RowStride(a), LaneStride(a)) && (a.width >= 4 || IsInCloseShortRows(a)) &&
         std::max(std::abs(RowStride(a)), std::abs(LaneStride(a))) < INT32_MAX / std::max<int64_t>(out_.tile_.rows, 1);
}
bool NativePlanner::IsInCloseShortRows(const Access& a) const {
  return out_.tile_.rows * out_.tile_.columns < kMostShortRows &&
         AreShortRowsClose(a.width, out_.tile_.columns, RowStride(a), LaneStride(a));
}

void NativePlanner::FindConstants() {
  for (const Step& s : out_.launch_steps_)
    if (s.kind == Step::Kind::kConstant) constants_[s.out] = s.bits;
}

void NativePlanner::FindSources() {
  sources_.assign(out_.slots_.size(), {});
  for (const std::vector<Step>* steps : {&out_.launch_steps_, &out_.tile_steps_})
    for (const Step& s : *steps)
      if (s.kind == Step::Kind::kSpread) sources_[static_cast<std::size_t>(s.out)].alias = s.in[0];
}

NativePlanner::Loop& NativePlanner::LoopAt(int level) {
  while (loops_.size() <= static_cast<std::size_t>(level)) loops_.push_back(std::make_unique<Loop>());
  return *loops_[static_cast<std::size_t>(level)];
}
int NativePlanner::OpenLevel(int wanted) {
  int level = std::max(wanted, 0);
  while (LoopAt(level).builder.graph().nodes.size() > kMaxNodes ||
         LoopAt(level).operands.size() + 6 > BlockProgram::kMaxNativeOperands)
    ++level;
  return level;
}

// The first loop that has all that the step reads.
int NativePlanner::LevelFor(const Step& s) const {
  int level = 0;
  out_.ForEachInput(s, [&](int slot) {
    const Source& source = sources_[static_cast<std::size_t>(slot)];
    if (source.kind == Source::Kind::kNative) level = std::max(level, source.level);
    if (source.kind == Source::Kind::kPlain) level = std::max(level, source.level + 1);
  });
  return level;
}

int NativePlanner::Stream(Loop& loop, const Operand& operand, LaneStream stream) {
  loop.operands.push_back(operand);
  return loop.builder.AddStream(stream);
}
int NativePlanner::StreamOf(Loop& loop, int number, LaneStream stream) {
  if (const auto it = loop.access_streams.find(number); it != loop.access_streams.end()) return it->second;
  const Access& a = AccessOf(number);
  const Operand operand{.kind = Operand::Kind::kAccess,
                        .number = number,
                        .width = a.width,
                        .is_uniform = (a.row_stride == 0 && a.column_stride == 0) ||
                                      stream.kind == LaneStream::Kind::kGather ||
                                      stream.kind == LaneStream::Kind::kShortRows,
                        .row_stride = RowStride(a),
                        .column_stride = LaneStride(a)};
  const int out = Stream(loop, operand, stream);
  loop.access_streams.emplace(number, out);
  return out;
}

// A dense, strided or repeated load, or a ramp.
std::optional<NativePlanner::LaneValue> NativePlanner::LoadIn(Loop& loop, int number) {
  const Step& s = out_.tile_steps_[static_cast<std::size_t>(number)];
  if (s.kind == Step::Kind::kRamp) {
    const int64_t step = along_rows_ ? s.row_stride : s.column_stride;
    const Operand operand{.kind = Operand::Kind::kRamp,
                          .number = s.address,
                          .row_stride = along_rows_ ? 0 : s.row_stride,
                          .column_stride = step};
    const auto stream = static_cast<uint64_t>(Stream(loop, operand, {.kind = LaneStream::Kind::kRamp}));
    return LaneValue{
        loop.builder.Add({LaneOp::kRamp, ElementType::kS32, -1, -1, -1, stream << 32 | static_cast<uint32_t>(step)})};
  }
  const Access& a = AccessOf(s.access);
  const int64_t stride = LaneStride(a);
  LaneStream stream{.width = a.width, .stride = static_cast<int>(stride)};
  stream.kind = stride == 0   ? LaneStream::Kind::kRow
                : stride == 1 ? LaneStream::Kind::kDense
                              : LaneStream::Kind::kStrided;
  const ElementType type = native::LaneTypeOf(a.storage);
  int access = s.access;
  uint64_t part = 0;
  if (IsInShortRows(a)) {
    if (IsInCloseShortRows(a)) {
      stream = {.kind = LaneStream::Kind::kShortRows,
                .width = a.width,
                .stride = static_cast<int>(stride),
                .columns = static_cast<int>(out_.tile_.columns),
                .row_stride = static_cast<int>(RowStride(a))};
      const int stored =
          loop.builder.Add({LaneOp::kLoad, type, -1, -1, -1, static_cast<uint64_t>(StreamOf(loop, access, stream))});
      ++loop.op_count;
      if (a.convert == nullptr) return LaneValue{stored};
      return loop.builder.Widen(stored, a.storage);
    }
    const int place = PlaceInShortRows(loop.builder, loop, a);
    stream.kind = LaneStream::Kind::kGather;
    const int stored =
        loop.builder.Add({LaneOp::kGather, type, place, -1, -1, static_cast<uint64_t>(StreamOf(loop, access, stream))});
    if (a.convert == nullptr) return LaneValue{stored};
    return loop.builder.Widen(stored, a.storage);
  }
  if (const auto it = interleaved_.find(access); it != interleaved_.end() && a.width < 4) {
    // All parts are one word.
    const int bits = 8 * a.width, bytes = a.width * it->second.parts;
    const ElementType word = native::UnsignedOfWidth(bytes), lane = bytes == 2 ? ElementType::kU32 : word;
    stream = {.kind = LaneStream::Kind::kDense, .width = bytes};
    int all = loop.builder.Add(
        {LaneOp::kLoad, word, -1, -1, -1, static_cast<uint64_t>(StreamOf(loop, it->second.first, stream))});
    if (lane != word) all = loop.builder.Add(LaneOp::kExtend, lane, all);
    const auto by = static_cast<uint64_t>(bits * it->second.part);
    const int shifted = by == 0 ? all : loop.builder.Add(LaneOp::kShr, lane, all, loop.builder.Constant(lane, by));
    const int stored =
        loop.builder.Bitcast(loop.builder.Add(LaneOp::kTruncate, native::UnsignedOfWidth(a.width), shifted), type);
    ++loop.op_count;
    if (a.convert == nullptr) return LaneValue{stored};
    return loop.builder.Widen(stored, a.storage);
  }
  if (const auto it = interleaved_.find(access); it != interleaved_.end()) {
    stream.kind = LaneStream::Kind::kInterleaved;
    stream.reach = it->second.reach;
    access = it->second.first;
    part = static_cast<uint64_t>(it->second.part) << 32;
    ++loop.op_count;
  }
  const auto at = static_cast<uint64_t>(StreamOf(loop, access, stream)) | part;
  const int stored = loop.builder.Add({stride == 0 ? LaneOp::kRow : LaneOp::kLoad, type, -1, -1, -1, at});
  if (a.convert == nullptr) return LaneValue{stored};
  return loop.builder.Widen(stored, a.storage);
}

// Where lane l of a flat tile is: l / columns rows and l % columns elements from the first.
int NativePlanner::PlaceInShortRows(LaneBuilder& b, Loop& loop, const Access& a) {
  const ElementType t = ElementType::kS32;
  if (loop.lane_number < 0) {
    const Operand operand{.kind = Operand::Kind::kLane, .column_stride = 1};
    const auto stream = static_cast<uint64_t>(Stream(loop, operand, {.kind = LaneStream::Kind::kRamp}));
    loop.lane_number = b.Add({LaneOp::kRamp, t, -1, -1, -1, stream << 32 | 1u});
  }
  const auto columns = static_cast<uint64_t>(out_.tile_.columns);
  const int row = b.Bitcast(b.QuotientBelow2To31(b.Bitcast(loop.lane_number, ElementType::kU32), columns), t);
  const auto times = [&](int x, int64_t factor) {
    return factor == 1 ? x : b.Add(LaneOp::kMul, t, x, b.Constant(t, static_cast<uint64_t>(factor)));
  };
  // l * stride + row * (row stride - columns * stride)
  const int along = times(loop.lane_number, LaneStride(a)),
            down = times(row, RowStride(a) - out_.tile_.columns * LaneStride(a));
  return LaneStride(a) == 0 ? down : b.Add(LaneOp::kAdd, t, along, down);
}

std::optional<NativePlanner::LaneValue> NativePlanner::ValueIn(int level, int slot) {
  Loop& loop = LoopAt(level);
  if (const int alias = sources_[static_cast<std::size_t>(slot)].alias; alias >= 0) slot = alias;
  if (const auto it = loop.values.find(slot); it != loop.values.end()) return it->second;
  const Source& source = sources_[static_cast<std::size_t>(slot)];
  const int width = out_.slots_[static_cast<std::size_t>(slot)].width;
  LaneValue value;
  if (const auto it = constants_.find(slot); it != constants_.end()) {
    value.node = loop.builder.Constant(native::UnsignedOfWidth(width), it->second);
  } else if (source.kind == Source::Kind::kMemory) {
    const std::optional<LaneValue> loaded = LoadIn(loop, source.step);
    if (!loaded) return std::nullopt;
    value = *loaded;
  } else {
    // From its array, or one value for all.
    if (source.kind == Source::Kind::kNative) NeedArray(slot);
    const bool is_uniform = IsUniform(slot);
    const Operand operand{.kind = Operand::Kind::kSlot, .number = slot, .width = width, .is_uniform = is_uniform};
    const auto at = static_cast<uint64_t>(Stream(
        loop, operand, {.kind = is_uniform ? LaneStream::Kind::kUniform : LaneStream::Kind::kDense, .width = width}));
    value.node = loop.builder.Add(
        {is_uniform ? LaneOp::kUniform : LaneOp::kLoad, native::UnsignedOfWidth(width), -1, -1, -1, at});
  }
  loop.values.emplace(slot, value);
  return value;
}

// Makes the value of a slot that a loop computes an array for steps elsewhere.
void NativePlanner::NeedArray(int slot) {
  const Source& source = sources_[static_cast<std::size_t>(slot)];
  Loop& loop = LoopAt(source.level);
  if (loop.outputs.contains(slot)) return;
  const int width = out_.slots_[static_cast<std::size_t>(slot)].width;
  const Operand operand{.kind = Operand::Kind::kSlot, .number = slot, .width = width, .is_output = true};
  const int stream = Stream(loop, operand, {.kind = LaneStream::Kind::kDense, .width = width});
  loop.outputs.emplace(slot, stream);
  loop.builder.graph().stores.push_back({stream, loop.builder.Seen(loop.values.at(slot)), -1});
}

void NativePlanner::Define(int slot, int level, LaneValue value) {
  Source& source = sources_[static_cast<std::size_t>(slot)];
  source.kind = Source::Kind::kNative;
  source.level = level;
  LoopAt(level).values[slot] = value;
}

bool NativePlanner::TryOp(const Step& s) {
  if (s.kind == Step::Kind::kMulAdd || s.kind == Step::Kind::kDivide || s.kind == Step::Kind::kModulus)
    return TryIndexOp(s);
  if (s.kind != Step::Kind::kOp || s.key < 0) return false;
  const int level = OpenLevel(LevelFor(s));
  std::array<LaneValue, 3> values;
  std::size_t count = 0;
  for (int in : s.in) {
    if (in < 0) break;
    const std::optional<LaneValue> value = ValueIn(level, in);
    if (!value) return false;
    values[count++] = *value;
  }
  Loop& loop = LoopAt(level);
  const std::optional<LaneValue> result = loop.builder.Apply(keys_[static_cast<std::size_t>(s.key)], s.bits,
                                                             std::span<const LaneValue>(values.data(), count));
  if (!result) return false;
  ++loop.op_count;
  Define(s.out, level, *result);
  return true;
}

bool NativePlanner::TryIndexOp(const Step& s) {
  const int level = OpenLevel(LevelFor(s));
  LaneBuilder& b = LoopAt(level).builder;
  const ElementType t = ElementType::kS32;
  const std::optional<LaneValue> a = ValueIn(level, s.in[0]);
  if (!a) return false;
  const int x = b.As(*a, t).node;
  int result = -1;
  if (s.kind == Step::Kind::kMulAdd) {
    result = s.bits == 1 ? x : b.Add(LaneOp::kMul, t, x, b.Constant(t, s.bits));
    if (s.in[1] >= 0) {
      const std::optional<LaneValue> c = ValueIn(level, s.in[1]);
      if (!c) return false;
      result = b.Add(LaneOp::kAdd, t, result, b.As(*c, t).node);
    }
  } else {
    const uint64_t divisor = s.bits;
    if (divisor == 0 || divisor > INT32_MAX) return false;
    const int quotient = b.Bitcast(b.QuotientBelow2To31(b.Bitcast(x, ElementType::kU32), divisor), t);
    result = s.kind == Step::Kind::kDivide
                 ? quotient
                 : b.Add(LaneOp::kSub, t, x, b.Add(LaneOp::kMul, t, quotient, b.Constant(t, divisor)));
  }
  ++LoopAt(level).op_count;
  Define(s.out, level, {result});
  return true;
}

bool NativePlanner::TryLoad(int number, const Step& s) {
  const bool is_ramp = s.kind == Step::Kind::kRamp;
  if (is_ramp && !GoesAlong(s.row_stride, s.column_stride)) return false;
  if (!is_ramp) {
    const Access& a = AccessOf(s.access);
    if (!IsReachable(a, false) && !IsInShortRows(a) && !interleaved_.contains(s.access)) return false;
    if (a.mask >= 0 || a.offsets >= 0) {
      // It needs values that are there: in the loop that has them.
      if (a.mask >= 0 && a.mask_is_uniform) return false;
      const int level = OpenLevel(LevelFor(s));
      std::optional<LaneValue> mask, offsets;
      if (a.mask >= 0 && !(mask = ValueIn(level, a.mask))) return false;
      if (a.offsets >= 0 && !(offsets = ValueIn(level, a.offsets))) return false;
      Loop& loop = LoopAt(level);
      LaneStream stream{.width = a.width, .stride = static_cast<int>(LaneStride(a))};
      stream.kind = a.offsets >= 0       ? LaneStream::Kind::kGather
                    : stream.stride == 1 ? LaneStream::Kind::kDense
                                         : LaneStream::Kind::kStrided;
      const ElementType type = native::LaneTypeOf(a.storage);
      const auto at = static_cast<uint64_t>(StreamOf(loop, s.access, stream));
      const int p = mask ? loop.builder.As(*mask, ElementType::kPred).node : -1;
      const int i = offsets ? loop.builder.As(*offsets, ElementType::kS32).node : -1;
      const int stored = loop.builder.Add({a.offsets >= 0 ? LaneOp::kGather : LaneOp::kLoad, type, i, p, -1, at});
      std::optional<LaneValue> value = LaneValue{stored};
      if (a.convert != nullptr) value = loop.builder.Widen(stored, a.storage);
      if (!value) return false;
      ++loop.op_count;
      Define(s.out, level, *value);
      return true;
    }
    // Whether there are lanes for what it converts.
    LaneBuilder trial;
    if (a.convert != nullptr && !trial.Widen(trial.Constant(native::LaneTypeOf(a.storage), 0), a.storage)) return false;
  }
  Source& source = sources_[static_cast<std::size_t>(s.out)];
  source.kind = Source::Kind::kMemory;
  source.step = number;
  return true;
}

// One value for all of a tile, as the loop loads it when it begins: no step of the interpreter is left that parts
// tiles.
bool NativePlanner::TryUniformLoad(int number, const Step& s) {
  if (s.kind != Step::Kind::kLoad) return false;
  const Access& a = AccessOf(s.access);
  if (a.mask >= 0 || a.offsets >= 0 || a.convert != nullptr || native::LaneTypeOf(a.storage) == ElementType::kInvalid)
    return false;
  const auto is_part_of = [&](const BlockProgram::Address& address) {
    return std::ranges::any_of(
        address.terms, [&](const auto& t) { return t.kind != BlockProgram::Term::Kind::kIter && t.number == s.out; });
  };
  if (std::ranges::any_of(out_.addresses_, is_part_of)) return false;
  Source& source = sources_[static_cast<std::size_t>(s.out)];
  source.kind = Source::Kind::kMemory;
  source.step = number;
  return true;
}

// A step of the interpreter: behind all loops whose values it reads.
void NativePlanner::MakePlain(int number, const Step& s) {
  int level = -1;
  out_.ForEachInput(s, [&](int slot) {
    const Source& source = sources_[static_cast<std::size_t>(slot)];
    if (source.kind == Source::Kind::kNative) NeedArray(slot);
    if (source.kind == Source::Kind::kMemory) is_needed_[static_cast<std::size_t>(source.step)] = true;
    if (source.kind == Source::Kind::kNative || source.kind == Source::Kind::kPlain)
      level = std::max(level, source.level);
  });
  plain_level_[static_cast<std::size_t>(number)] = level;
  if (s.out < 0) return;
  Source& source = sources_[static_cast<std::size_t>(s.out)];
  source.kind = Source::Kind::kPlain;
  source.level = level;
}

bool NativePlanner::StoreIn(int level, const Step& s) {
  const Access& a = AccessOf(s.access);
  if (s.is_uniform || !IsReachable(a, true) || (a.mask >= 0 && a.mask_is_uniform)) return false;
  std::optional<LaneValue> value = ValueIn(level, s.in[0]), mask;
  if (!value || (a.mask >= 0 && !(mask = ValueIn(level, a.mask)))) return false;
  Loop& loop = LoopAt(level);
  int node = -1;
  if (a.convert != nullptr) {
    if (IsFloat(a.storage) && StorageBytes(a.storage) < 4) value = loop.builder.As(*value, ElementType::kF32);
    const std::optional<int> narrow = loop.builder.Narrow(*value, a.storage, a.rounds);
    if (!narrow) return false;
    node = *narrow;
    ++loop.op_count;
  } else {
    node = loop.builder.Seen(*value);
  }
  if (loop.builder.TypeOf(node) != ElementType::kPred && StorageBytes(loop.builder.TypeOf(node)) != a.width)
    return false;
  const int64_t stride = LaneStride(a);
  LaneStream stream{.width = a.width, .stride = static_cast<int>(stride)};
  stream.kind = stride == 1 ? LaneStream::Kind::kDense : LaneStream::Kind::kStrided;
  if (const auto it = interleaved_.find(s.access); it != interleaved_.end()) {
    stream.kind = LaneStream::Kind::kInterleaved;
    const int pair = StreamOf(loop, it->second.first, stream);
    std::map<int, int>& parts = loop.parts[pair];
    parts[it->second.part] = node;
    if (static_cast<int>(parts.size()) < it->second.parts) return true;
    ++loop.op_count;
    native::LaneStore store{pair, parts[0], -1};
    for (int p = 1; p < it->second.parts; ++p) store.parts[static_cast<std::size_t>(p - 1)] = parts[p];
    loop.builder.graph().stores.push_back(store);
    loop.parts.erase(pair);
    return true;
  }
  const int at = StreamOf(loop, s.access, stream);
  loop.operands[static_cast<std::size_t>(at)].is_output = true;
  loop.builder.graph().stores.push_back({at, node, mask ? loop.builder.As(*mask, ElementType::kPred).node : -1});
  return true;
}

// All stores are in the last loop, behind everything that reads memory.
void NativePlanner::PlaceStores() {
  int last = -1;
  for (std::size_t i = 0; i < out_.tile_steps_.size(); ++i) {
    const Step& s = out_.tile_steps_[i];
    if (s.kind != Step::Kind::kStore && !s.is_uniform && plain_level_[i] != kAbsorbed &&
        s.kind != Step::Kind::kSpread && s.kind != Step::Kind::kParam)
      last = std::max(last, plain_level_[i] + 1);
  }
  last = std::max(last, static_cast<int>(loops_.size()) - 1);
  last = std::max(last, 0);
  std::vector<int> stores;
  bool reads_memory = false;  // a store of the interpreter's whose value may lie in memory
  for (std::size_t i = 0; i < out_.tile_steps_.size(); ++i) {
    const Step& s = out_.tile_steps_[i];
    if (s.kind != Step::Kind::kStore) continue;
    stores.push_back(static_cast<int>(i));
    const Source& source = sources_[static_cast<std::size_t>(s.in[0])];
    reads_memory |= !IsReachable(AccessOf(s.access), true) &&
                    (source.kind == Source::Kind::kMemory || source.kind == Source::Kind::kPlain);
  }
  for (int i : stores) {
    const Step& s = out_.tile_steps_[static_cast<std::size_t>(i)];
    if (!reads_memory && OpenLevel(last) == last && StoreIn(last, s)) {
      plain_level_[static_cast<std::size_t>(i)] = kAbsorbed;
    } else {
      MakePlain(i, s);
      plain_level_[static_cast<std::size_t>(i)] = std::max(plain_level_[static_cast<std::size_t>(i)], last);
    }
  }
}

bool NativePlanner::Finish() {
  for (const auto& loop : loops_)
    if (loop->operands.size() > BlockProgram::kMaxNativeOperands || !loop->parts.empty()) return false;
  std::vector<BlockProgram::NativePart> parts(loops_.size());
  for (std::size_t l = 0; l < loops_.size(); ++l) {
    Loop& loop = *loops_[l];
    if (loop.builder.graph().stores.empty()) continue;
    if (!native::CanCompile(loop.builder.graph())) return false;
    parts[l].code = native::Compile(loop.builder.graph());
    if (parts[l].code == nullptr) return false;
    parts[l].operands = std::move(loop.operands);
  }
  std::vector<Step> steps;
  const int last = std::max(static_cast<int>(loops_.size()) - 1, *std::ranges::max_element(plain_level_));
  for (int level = -1; level <= last; ++level) {
    if (level >= 0 && static_cast<std::size_t>(level) < parts.size() &&
        parts[static_cast<std::size_t>(level)].code != nullptr) {
      steps.push_back({.kind = Step::Kind::kNative, .native = static_cast<int>(out_.native_parts_.size())});
      out_.native_parts_.push_back(std::move(parts[static_cast<std::size_t>(level)]));
    }
    for (std::size_t i = 0; i < out_.tile_steps_.size(); ++i) {
      const Step& s = out_.tile_steps_[i];
      const bool is_source = plain_level_[i] == kAbsorbed && is_needed_[i];
      if (plain_level_[i] == level || (level == -1 && is_source)) steps.push_back(s);
    }
  }
  out_.tile_steps_ = std::move(steps);
  DropSpreads();
  return true;
}

// Arrays of one value that nothing reads any more.
void NativePlanner::DropSpreads() {
  std::vector<bool> is_read(out_.slots_.size(), false);
  for (const std::vector<Step>* steps : {&out_.launch_steps_, &out_.tile_steps_})
    for (const Step& s : *steps)
      out_.ForEachInput(s, [&](int slot) { is_read[static_cast<std::size_t>(slot)] = true; });
  for (int slot : out_.results_) is_read[static_cast<std::size_t>(slot)] = true;
  for (std::vector<Step>* steps : {&out_.launch_steps_, &out_.tile_steps_})
    std::erase_if(*steps, [&](const Step& s) {
      return s.kind == Step::Kind::kSpread && !is_read[static_cast<std::size_t>(s.out)];
    });
}

void NativePlanner::Run() {
  along_rows_ = out_.tile_.columns == 1 && out_.tile_.rows > 1;
  if (!IsWorthIt()) return;
  FindSources();
  FindConstants();
  FindInterleaved();
  plain_level_.assign(out_.tile_steps_.size(), kAbsorbed);
  is_needed_.assign(out_.tile_steps_.size(), false);
  for (std::size_t i = 0; i < out_.tile_steps_.size(); ++i) {
    const Step& s = out_.tile_steps_[i];
    if (s.kind == Step::Kind::kStore) continue;
    const int number = static_cast<int>(i);
    if (s.is_uniform) {
      if (TryUniformLoad(number, s)) continue;
    } else {
      if ((s.kind == Step::Kind::kLoad || s.kind == Step::Kind::kRamp) && TryLoad(number, s)) continue;
      if (TryOp(s)) continue;
    }
    MakePlain(number, s);
  }
  for (int slot : out_.results_) {
    const Source& source = sources_[static_cast<std::size_t>(slot)];
    if (source.kind == Source::Kind::kNative) NeedArray(slot);
    if (source.kind == Source::Kind::kMemory) is_needed_[static_cast<std::size_t>(source.step)] = true;
  }
  PlaceStores();
  if (std::ranges::any_of(loops_, [](const auto& loop) { return loop->op_count > 0; })) Finish();
}

}  // namespace krafla::cpu
