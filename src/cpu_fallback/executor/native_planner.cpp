// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/native_planner.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"
#include "ir/mini_float.h"

namespace krafla::cpu {

using native::LaneBuilder;
using native::LaneOp;
using native::LaneStream;

namespace {

// Lanes times operations from which on a compilation is worth it: half a microsecond of the interpreter's time, which a
// program that runs some hundred times makes up for.
constexpr int64_t kWorthwhile = 8192;
// Each operation costs some microseconds to compile: it has to be done for that many elements, or so many operations
// begin (in one long program, or in all turns of a loop) that beginning them is what takes the time: 30 ns each.
constexpr int64_t kFewElements = 256, kManyStarts = 200;
// Nodes of a loop; code for more is not made in one piece.
constexpr std::size_t kMaxNodes = 1500;

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
  if (elements < kFewElements) return work >= kManyStarts / runs_;
  return elements >= kWorthwhile / work / runs_;
}

void NativePlanner::FindConstants() {
  for (const Step& s : out_.launch_steps_) {
    if (s.kind == Step::Kind::kConstant) constants_[s.out] = s.bits;
    if (s.kind != Step::Kind::kOp || s.key < 0 || keys_[At(s.key)].op != plan::NodeOp::kDecode) continue;
    const auto code = constants_.find(s.in[0]);
    const MiniFloat* format = FindMiniFloat(keys_[At(s.key)].storage);
    if (code == constants_.end() || format == nullptr) continue;
    const float number = DecodeMiniFloat(static_cast<uint32_t>(code->second), *format);
    if (number == number) constants_[s.out] = std::bit_cast<uint32_t>(number);
  }
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
// What one loop makes and a later one needs is an operand of both: of long sums of the same terms all of these, which
// leaves them half of what there may be.
int NativePlanner::OpenLevel(int wanted) {
  int level = std::max(wanted, 0);
  while (LoopAt(level).builder.graph().nodes.size() > kMaxNodes ||
         LoopAt(level).operands.size() > BlockProgram::kMaxNativeOperands / 2)
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
  stream.same_rows =
      (adds_rows_ || FoldsColumns()) && stream.kind == LaneStream::Kind::kDense && operand.row_stride == 0;
  const int out = Stream(loop, operand, stream);
  loop.access_streams.emplace(number, out);
  return out;
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
void NativePlanner::NeedArray(int slot, bool is_seen) {
  const Source& source = sources_[static_cast<std::size_t>(slot)];
  Loop& loop = LoopAt(source.level);
  if (loop.outputs.contains(slot)) return;
  const int width = out_.slots_[static_cast<std::size_t>(slot)].width;
  const Operand operand{.kind = Operand::Kind::kSlot, .number = slot, .width = width, .is_output = true};
  const int stream = Stream(loop, operand, {.kind = LaneStream::Kind::kDense, .width = width});
  loop.outputs.emplace(slot, stream);
  const LaneValue value = loop.values.at(slot);
  loop.builder.graph().stores.push_back({stream, is_seen ? loop.builder.Seen(value) : value.node, -1});
}

// Of rows of two vectors and more, or columns that fill one: else an array is folded as soon.
bool NativePlanner::CanFold(std::size_t result) const {
  if (result >= folds_.size() || !folds_[result] || along_rows_) return false;
  const ElementType type = out_.result_types_[result];
  return StorageBytes(type) >= 4 &&
         out_.tile_.columns * StorageBytes(type) >= (fold_side_ == FoldSide::kColumns ? 64 : 128);
}

// Combines the result's values in the loop that computes them.
bool NativePlanner::Fold(std::size_t result) {
  const int slot = out_.results_[result];
  const ElementType type = out_.result_types_[result];
  Loop& loop = LoopAt(sources_[static_cast<std::size_t>(slot)].level);
  if (loop.operands.size() >= BlockProgram::kMaxNativeOperands) return false;
  const int node = loop.builder.As(loop.values.at(slot), type).node, width = StorageBytes(type);
  const auto buffer = static_cast<int>(out_.buffer_count_ - out_.results_.size() + result);
  const Operand operand{.kind = Operand::Kind::kFold,
                        .number = buffer,
                        .width = width,
                        .is_uniform = fold_side_ == FoldSide::kTile,
                        .row_stride = fold_side_ == FoldSide::kRows ? 1 : 0};
  const bool is_of_columns = fold_side_ == FoldSide::kColumns;
  const int stream = Stream(loop, operand,
                            {.kind = is_of_columns ? LaneStream::Kind::kDense : LaneStream::Kind::kRow,
                             .width = width,
                             .same_rows = is_of_columns});
  loop.builder.graph().folds_columns = is_of_columns;
  loop.builder.graph().folds.push_back({*folds_[result], stream, node});
  fold_buffers_[result] = buffer;
  return true;
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

// Parts of so many bits side by side, the first one lowest.
int NativePlanner::WordOf(LaneBuilder& b, const std::map<int, int>& parts, int bits) {
  const ElementType word = ElementType::kU32;
  int out = -1;
  for (const auto& [number, node] : parts) {
    const int part = b.Add(LaneOp::kExtend, word, b.Bitcast(node, native::UnsignedOfWidth(bits / 8)));
    const auto by = static_cast<uint64_t>(bits * number);
    const int moved = by == 0 ? part : b.Add(LaneOp::kShl, word, part, b.Constant(word, by));
    out = out < 0 ? moved : b.Add(LaneOp::kOr, word, out, moved);
  }
  return out;
}

bool NativePlanner::StoreIn(int level, const Step& s) {
  const Access& a = AccessOf(s.access);
  if (s.is_uniform || !CanStore(s.access) || (a.mask >= 0 && a.mask_is_uniform)) return false;
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
    node = adds_rows_ ? value->node : loop.builder.Seen(*value);
  }
  if (loop.builder.TypeOf(node) != ElementType::kPred && StorageBytes(loop.builder.TypeOf(node)) != a.width)
    return false;
  const int64_t stride = LaneStride(a);
  LaneStream stream{.width = a.width, .stride = static_cast<int>(stride)};
  stream.kind = stride == 1 ? LaneStream::Kind::kDense : LaneStream::Kind::kStrided;
  if (const auto it = interleaved_.find(s.access); it != interleaved_.end()) {
    const bool is_word = a.width < 4 && !has_narrow_lanes_;
    stream.kind = LaneStream::Kind::kInterleaved;
    if (is_word) stream = {.kind = LaneStream::Kind::kDense, .width = 4};
    if (loop.builder.TypeOf(node) == ElementType::kPred) node = loop.builder.As({node}, ElementType::kU8).node;
    const int pair = StreamOf(loop, it->second.first, stream);
    std::map<int, int>& parts = loop.parts[pair];
    parts[it->second.part] = node;
    if (static_cast<int>(parts.size()) < it->second.parts) return true;
    ++loop.op_count;
    native::LaneStore store{pair, is_word ? WordOf(loop.builder, parts, 8 * a.width) : parts[0], -1};
    for (int p = 1; !is_word && p < it->second.parts; ++p) store.parts[static_cast<std::size_t>(p - 1)] = parts[p];
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
    reads_memory |=
        !CanStore(s.access) && (source.kind == Source::Kind::kMemory || source.kind == Source::Kind::kPlain);
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
    if (loop.builder.graph().stores.empty() && loop.builder.graph().folds.empty()) continue;
    loop.builder.graph().adds_rows = adds_rows_;
    loop.builder.graph().adds_pairs = adds_pairs_;
    if (native::HasAvx512Code()) native::TabulateCodes(loop.builder.graph());
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
  out_.fold_buffers_ = std::move(fold_buffers_);
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
  fold_buffers_.assign(out_.results_.size(), -1);
  for (std::size_t r = 0; r < out_.results_.size(); ++r) {
    const int slot = out_.results_[r];
    const Source& source = sources_[static_cast<std::size_t>(slot)];
    if (source.kind == Source::Kind::kNative && CanFold(r) && Fold(r)) continue;
    if (source.kind == Source::Kind::kNative) NeedArray(slot, r >= 64 || ((summed_ >> r) & 1) == 0);
    if (source.kind == Source::Kind::kMemory) is_needed_[static_cast<std::size_t>(source.step)] = true;
  }
  PlaceStores();
  if (std::ranges::any_of(loops_, [](const auto& loop) { return loop->op_count > 0; })) Finish();
}

}  // namespace krafla::cpu
