// SPDX-License-Identifier: Apache-2.0
// Loads as native code has them: which of them it reaches, which lie side by side, and how.
#include <algorithm>
#include <cstdlib>

#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/native_planner.h"

namespace krafla::cpu {

using native::LaneBuilder;
using native::LaneOp;
using native::LaneStream;

namespace {

constexpr int64_t kNearLoadBytes = 32;
// Elements of a tile of short rows whose quotients native code has by a multiplication.
constexpr int64_t kMostShortRows = int64_t{1} << 27;

}  // namespace

bool NativePlanner::GoesAlong(int64_t row_stride, int64_t lane_stride) const {
  if (along_rows_ || out_.tile_.rows == 1 || out_.tile_.columns >= BlockProgram::kShortRow) return true;
  return row_stride == out_.tile_.columns * lane_stride;
}

// Whether lanes are of one or two bytes throughout, as many as a vector of them has.
bool NativePlanner::HasNarrowLanes() const {
  const auto is_narrow = [](ElementType type) { return type == ElementType::kInvalid || StorageBytes(type) <= 2; };
  return native::HasByteShuffles() && std::ranges::all_of(out_.tile_steps_, [&](const Step& s) {
           if (s.is_uniform || s.kind == Step::Kind::kSpread) return true;
           if (s.kind == Step::Kind::kOp && s.key >= 0) {
             const BlockKey& key = keys_[static_cast<std::size_t>(s.key)];
             return is_narrow(key.type) && is_narrow(key.operand);
           }
           return (s.kind == Step::Kind::kLoad || s.kind == Step::Kind::kStore) && AccessOf(s.access).width <= 2 &&
                  AccessOf(s.access).convert == nullptr && AccessOf(s.access).offsets < 0;
         });
}

// Loads of some of 2 to 4 elements (of bytes: 8, of half of all: 16) that lie side by side, and stores of all of them.
// What lies between the first and the last element of a load may be read too.
void NativePlanner::FindInterleaved() {
  has_narrow_lanes_ = HasNarrowLanes();
  for (Step::Kind kind : {Step::Kind::kLoad, Step::Kind::kStore}) {
    std::vector<int> candidates;
    for (const Step& s : out_.tile_steps_) {
      if (s.kind != kind || s.is_uniform) continue;
      const Access& a = AccessOf(s.access);
      if (a.mask >= 0 || a.offsets >= 0 || !IsSideBySide(a)) continue;
      const bool is_store = kind == Step::Kind::kStore;
      const bool is_line = IsInLine(a) && !is_store && GoesAlong(RowStride(a), LaneStride(a));
      // Where lanes are wider, what is stored side by side is put together as words, of which they are the parts.
      const bool is_word = LaneStride(a) * a.width == 4;
      if (a.width < 4 ? (!is_store || has_narrow_lanes_ || is_word) && IsPacked(a)
                      : is_line || (IsReachable(a, is_store) && !IsInLine(a)))
        candidates.push_back(s.access);
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
        const std::optional<int64_t> part = interleaved_.contains(c) ? std::nullopt : out_.Distance(first, c);
        if (part && *part >= 0 && *part < parts) found.try_emplace(static_cast<int>(*part), c);
      }
      if (kind == Step::Kind::kStore && static_cast<int>(found.size()) < parts) continue;
      if (IsInLine(AccessOf(first)) && static_cast<int>(found.size()) < parts / 2) continue;
      // A word is loaded as a whole: behind its last part there may be no memory.
      if (AccessOf(first).width < 4 && !has_narrow_lanes_ && found.rbegin()->first + 1 < parts) continue;
      for (const auto& [part, access] : found) interleaved_[access] = {first, part, parts, found.rbegin()->first + 1};
    }
  }
}

bool NativePlanner::IsReachable(const Access& a, bool is_store) const {
  const ElementType type = native::LaneTypeOf(a.storage);
  if (type == ElementType::kInvalid) return false;
  // Narrow ones only where they go along memory (TryLoad).
  if (a.offsets >= 0) return !is_store && (a.width >= 4 || a.mask < 0 || native::HasAvx512Code());
  const int64_t stride = LaneStride(a);
  if (!GoesAlong(RowStride(a), stride)) return false;
  if (stride == 1) return true;
  if (stride == 0) return !is_store && a.mask < 0;
  // Elements that lie far apart are loaded by lines of memory, tiles of which the interpreter transposes.
  return a.width >= 4 && std::abs(stride) * a.width <= kNearLoadBytes;
}

// Whether it and its neighbours, elements of a byte or two, are parts of a word that has lanes.
bool NativePlanner::IsPacked(const Access& a) const {
  const int64_t parts = LaneStride(a), bytes = parts * a.width;
  return native::LaneTypeOf(a.storage) != ElementType::kInvalid &&
         (a.storage != ElementType::kPred || has_narrow_lanes_) && (parts == 2 || parts == 4 || parts == 8) &&
         bytes <= 8 && GoesAlong(RowStride(a), parts);
}
// Loads whose place in a tile of short rows is a quotient and a remainder, of a divisor that holds for every tile.
// Bytes only where the elements of a vector lie close together.
bool NativePlanner::IsInShortRows(const Access& a) const {
  return !along_rows_ && !cuts_columns_ && out_.tile_.rows > 1 && out_.tile_.columns > 1 &&
         out_.tile_.columns < BlockProgram::kShortRow && a.mask < 0 && a.offsets < 0 &&
         native::LaneTypeOf(a.storage) != ElementType::kInvalid && !GoesAlong(RowStride(a), LaneStride(a)) &&
         (a.width >= 4 || IsInCloseShortRows(a)) &&
         std::max(std::abs(RowStride(a)), std::abs(LaneStride(a))) < INT32_MAX / std::max<int64_t>(out_.tile_.rows, 1);
}
bool NativePlanner::IsInCloseShortRows(const Access& a) const {
  return out_.tile_.rows * out_.tile_.columns < kMostShortRows &&
         AreShortRowsClose(a.width, out_.tile_.columns, RowStride(a), LaneStride(a));
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
  if (const auto it = interleaved_.find(access); it != interleaved_.end() && a.width < 4 && !has_narrow_lanes_) {
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
  if (type == ElementType::kPred && stream.kind == LaneStream::Kind::kInterleaved) {
    const int byte = loop.builder.Add({LaneOp::kLoad, ElementType::kU8, -1, -1, -1, at});
    return loop.builder.As({byte}, type);
  }
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

// An element of a table of at most sixteen, which a code names.
std::optional<NativePlanner::LaneValue> NativePlanner::LookUp(Loop& loop, int access, int place) {
  const Access& a = AccessOf(access);
  const bool is_word = a.convert == nullptr && a.width == 4 && native::LaneTypeOf(a.storage) == a.storage;
  if (!native::HasAvx512Code() || a.row_stride != 0 || a.column_stride != 0 ||
      (!is_word && a.storage != ElementType::kBF16))
    return std::nullopt;
  native::LaneGraph& graph = loop.builder.graph();
  const std::optional<native::CodedPlaces> coded = native::PlacesOfCodes(graph, place);
  if (!coded) return std::nullopt;
  const LaneStream stream{.kind = LaneStream::Kind::kGather, .width = a.width};
  graph.tables.push_back({coded->places, StreamOf(loop, access, stream), a.storage});
  const ElementType type = is_word ? a.storage : ElementType::kF32;
  return LaneValue{
      loop.builder.Add({LaneOp::kLookup, type, coded->base, -1, -1, static_cast<uint64_t>(graph.tables.size()) - 1})};
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
      if (offsets && !mask) {
        const std::optional<LaneValue> found =
            LookUp(loop, s.access, loop.builder.As(*offsets, ElementType::kS32).node);
        if (found) {
          ++loop.op_count;
          Define(s.out, level, *found);
          return true;
        }
      }
      if (offsets && a.width < 4) {
        const int place = loop.builder.As(*offsets, ElementType::kS32).node;
        if (loop.builder.graph().ColumnSteps()[static_cast<std::size_t>(place)] != 1) return false;
      }
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

}  // namespace krafla::cpu
