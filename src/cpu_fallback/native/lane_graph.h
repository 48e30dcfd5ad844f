// SPDX-License-Identifier: Apache-2.0
// What a lane-wise segment of a block program computes for one element: a straight-line SSA graph of operations on
// lanes, over streams of memory. It knows no processor; an emitter turns it into a loop of machine code.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "krafla/element_type.h"

namespace krafla::cpu::native {

// Types of lanes: pred, s8 to u64, f32, f64. Floats of 16 bits are u16 until they are converted.
enum class LaneOp : uint8_t {
  kConstant,  // bits
  kUniform,   // the value at stream number bits, the same for all elements
  kRow,       // the same for all elements of a row
  kLoad,      // the element of the stream in the low half of bits, of an interleaved one the part in the high half;
              // with b, a pred, 0 where that is false, and no access
  kRamp,      // s32: the row's start, from stream number bits >> 32, plus the column times the low half of bits
  kGather,    // the element a (s32) of stream number bits; b as in kLoad
  kAdd,
  kSub,
  kMul,
  kDiv,       // floats; s32 and u32: by what is neither 0 nor, for s32, -1
  kQuotient,  // f32 a / b of a whole number, where c is the constant 1 / b, rounded (lane_quotients.cpp). AVX-512 alone
  kMin,
  kMax,  // floats: as XLA, a NaN wins (and is the NaN), +0 is larger than -0
  kGreater,
  kLesser,  // floats: a > b ? a : b, a < b ? a : b; so b for zeros and where either is a NaN
  kSqrt,
  kNeg,
  kAbs,
  kFloor,
  kCeil,
  kRoundEven,
  kTrunc,
  kAnd,
  kOr,
  kXor,
  kNot,  // integers and preds
  kShl,
  kShr,
  kSar,       // by any amount, unsigned: all bits gone, or the sign, from the width on. Of 8 and 16 bits: AVX-512 alone
  kMulHigh,   // integers of 16 and 32 bits: the upper half of the product
  kMulLow32,  // u64: the product of the lower halves
  kScale,     // f64 a times 2 to the power of b, an s64 of at most 32 bits (AVX2: its lower half), rounded once
  kPopcount,
  kClz,  // integers of 32 and 64 bits
  kEq,
  kNe,
  kLt,
  kLe,             // of a's type, to pred; floats: ordered, kNe unordered
  kSelect,         // a ? b : c
  kBitcast,        // between types of one width
  kExtend,         // an integer to a wider one, by the sign of its own type
  kTruncate,       // an integer to a narrower one
  kIntToFloat,     // rounded to nearest even
  kFloatToInt,     // to s32, u32, s64, u64: truncates, saturates; NaN gives 0
  kTruncateToInt,  // f32 to s32 or u32 that can hold it; else any bits
  kFloatToFloat,   // between f32 and f64; of a NaN: a NaN of its sign
  kHalfToFloat,    // u16, the bits of an f16, to f32; of a NaN: a NaN of its sign
  kFloatToHalf,    // and back, rounded to nearest even
  kByteToFloat,    // u8, the bits of a float of type number bits, seven below its sign, to f32. Where HasByteShuffles
  kRoundToBf16,  // f32 to the nearest number of bf16, to even; a NaN whose lower half is zero stays one. AVX-512 alone
  kLookup,       // the entry of table number bits that a's lower four bits name, of 32 bits, 16 lanes a vector. AVX-512
                 // alone
  kSettle,       // a NaN becomes the NaN (docs/decisions/0003-same-bits.md)
  kPhi,          // of region number bits: a where its condition holds, else b
  // Of routines (native/routine.h) alone.
  kFixedLoad,   // from access number bits; with b, a pred, 0 where that is false, and no access
  kFixedStore,  // of a, to access number bits; with b, a pred, where that is true
  kSpread,      // a, one value, in all lanes
  kPick,        // lanes of a from number bits on, a multiple of how many they are: a power of two
  kPut,         // a with b, one value, in lane number bits
  kSequence,    // s32: the numbers of sequence number bits
  kPermute,     // the lanes of a that sequence number bits names, and from kSequenceLanes on those of b
};

struct LaneNode {
  LaneOp op = LaneOp::kConstant;
  ElementType type = ElementType::kF32;
  int a = -1, b = -1, c = -1;
  uint64_t bits = 0;
  uint8_t lanes = 0;  // that it has in a routine; 0: those of the graph, or a constant
  friend bool operator==(const LaneNode&, const LaneNode&) = default;
};

// The type of a lane that is loaded as it lies in memory; kInvalid: there is none.
inline ElementType LaneTypeOf(ElementType storage) {
  if (storage == ElementType::kPred || storage == ElementType::kF32 || storage == ElementType::kF64) return storage;
  if (storage == ElementType::kF16 || storage == ElementType::kBF16) return ElementType::kU16;
  if (IsFloat(storage) && StorageBytes(storage) == 1) return ElementType::kU8;
  if (!IsIntegral(storage)) return ElementType::kInvalid;
  if (BitWidth(storage) < 8) return IsSigned(storage) ? ElementType::kS8 : ElementType::kU8;
  return storage;
}
inline ElementType UnsignedOfWidth(int width) {
  return width == 1   ? ElementType::kU8
         : width == 2 ? ElementType::kU16
         : width == 4 ? ElementType::kU32
                      : ElementType::kU64;
}
inline ElementType SignedOfWidth(int width) {
  return width == 1   ? ElementType::kS8
         : width == 2 ? ElementType::kS16
         : width == 4 ? ElementType::kS32
                      : ElementType::kS64;
}
inline int64_t SignExtended(uint64_t bits, int width) {
  return static_cast<int64_t>(bits << (64 - 8 * width)) >> (64 - 8 * width);
}

// Memory that a loop goes along, or a value that it takes.
struct LaneStream {
  enum class Kind : uint8_t {
    kUniform,      // one value
    kRow,          // one value a row
    kDense,        // an element for each
    kStrided,      // an element for each, `stride` elements apart
    kInterleaved,  // `stride` (2 to 4) elements for each, side by side, of which the first `reach` are there
    kShortRows,    // lane l's is that of row l / columns, each `row_stride` from the one before, and of column l %
                   // columns, `stride` elements apart; as many as WindowOfShortRows allows
    kRamp,         // no memory: the stream's base is an s64, the value at the row's start, its row stride what rows add
    kGather,       // elements anywhere
  } kind = Kind::kDense;
  int width = 4;  // of an element, in bytes
  int stride = 1;
  int reach = 0;  // of an interleaved stream that is loaded: memory behind the last one's may not be touched; 0: all
  int columns = 0, row_stride = 0;  // of short rows
  bool same_rows = false;           // a dense one, of a graph that adds rows up: all rows have the same elements
};

inline constexpr int kMaxInterleaved = 4;
inline constexpr int kMaxInterleavedBytes = 8;  // of one or two bytes: 2, 4 or 8
// Lanes that are taken from short rows at once, out of so many elements that lie one behind the other, or twice as
// many.
constexpr int LanesOfShortRows(int width) { return width == 8 ? 8 : 16; }
// How many elements some lanes that follow each other reach over at most, wherever the first one is in its row.
int64_t WindowOfShortRows(int lanes, int64_t columns, int64_t row_stride, int64_t stride);

struct LaneStore {
  int stream = 0;
  int node = 0;
  int mask = -1;  // a pred; not with an interleaved stream
  std::array<int, kMaxInterleavedBytes - 1> parts = {-1, -1, -1, -1, -1, -1, -1};  // of an interleaved stream: those
                                                                                   // behind `node`
};

// A node's values of each row, folded into one, which is combined with what the stream, of a value a row, has already;
// or those of each column, with a dense stream that has the same elements for all rows. In the order of ReduceOps::rows
// and ReduceOps::columns (kernels/reduce_ops.h).
struct LaneFold {
  LaneOp op = LaneOp::kAdd;  // or kMul, kMin, kMax, of numbers of 32 and 64 bits
  int stream = 0;
  int node = 0;
};

// What leaves every number as it is.
inline uint64_t NeutralBits(LaneOp op, ElementType type) {
  const bool is_wide = StorageBytes(type) == 8;
  if (IsFloat(type)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double neutral = op == LaneOp::kAdd   ? -0.0
                           : op == LaneOp::kMul ? 1.0
                           : op == LaneOp::kMin ? kInfinity
                                                : -kInfinity;
    return is_wide ? std::bit_cast<uint64_t>(neutral) : std::bit_cast<uint32_t>(static_cast<float>(neutral));
  }
  if (op == LaneOp::kAdd || op == LaneOp::kMul) return op == LaneOp::kAdd ? 0 : 1;
  // The largest number for a minimum, the smallest one for a maximum.
  const uint64_t sign = uint64_t{1} << (8 * StorageBytes(type) - 1), all = sign | (sign - 1);
  const uint64_t largest = IsSigned(type) ? sign - 1 : all;
  return op == LaneOp::kMin ? largest : all ^ largest;
}

// Nodes [begin, end) run only where `condition` holds for some lane. Their values are used by each other and by the
// region's phis, which lie right behind them.
struct LaneRegion {
  int condition = -1;
  int begin = 0, end = 0;
};

// `lanes` elements side by side, at a place of a routine's memory that one-valued integers may move.
struct LaneAccess {
  struct Term {
    int node = -1;  // s32 or s64
    int64_t bytes = 0;
    friend bool operator==(const Term&, const Term&) = default;
  };
  int base = 0;  // into the routine's table of addresses
  int64_t offset = 0;
  int width = 4;
  std::vector<Term> terms = {};
};

// Of so many lanes, what each of them has.
inline constexpr int kSequenceLanes = 16;
using LaneSequence = std::array<int32_t, kSequenceLanes>;
// The numbers in lanes of `width` bytes, as far as a vector has room.
std::array<std::byte, 64> BytesOfNumbers(const LaneSequence& sequence, int width);
// Where the bytes of lanes lie in a vector of 16 bytes: of those whose places are `first` and more, up to what one
// operand has; 0x80, which gives a zero, for the others.
std::array<std::byte, 16> BytesOfLanes(const LaneSequence& places, int width, int first);

// What a lookup finds: numbers, or elements of a stream that lies anywhere but does not move, at these places.
struct LaneTable {
  std::array<uint32_t, 16> entries{};
  int stream = -1;
  ElementType storage = ElementType::kInvalid;  // of the stream: 32 bits, or bf16, which is found as f32
  friend bool operator==(const LaneTable&, const LaneTable&) = default;
};

struct LaneGraph {
  std::vector<LaneNode> nodes;  // operands come before users
  std::vector<LaneTable> tables;
  std::vector<LaneStream> streams;
  std::vector<LaneRegion> regions;  // in order, none inside another
  std::vector<LaneStore> stores;    // after all loads of the same elements
  std::vector<LaneFold> folds;
  bool folds_columns = false;  // more than four rows each time
  std::vector<LaneAccess> accesses;
  std::vector<LaneSequence> sequences;
  // The stores of all rows go to the same elements, and are added to what was there: f32, f64 and 32-bit integers, with
  // streams that have one value, one a row, or an element for each.
  bool adds_rows = false;
  // Rows that are added up come in even numbers, and what is one a row is a number that bf16 has: it may be multiplied
  // with others of that kind where subnormal numbers count as zeros.
  bool adds_pairs = false;

  // The bytes that tell it from every other graph.
  std::string Key() const;
  // Which nodes stores and folds need, and those that are stores.
  std::vector<bool> Used() const;
  // What each node's value grows by from one column to the next, where that is the same throughout a row.
  std::vector<std::optional<int64_t>> ColumnSteps() const;
};

// What depends on nothing but four bits of a value becomes a lookup: codes of four bits or fewer, whatever is made of
// them, and entries of tables of constants. Of graphs for AVX-512 that have no regions.
void TabulateCodes(LaneGraph& graph);
// The places below 16 that `node`, an index, is for each four bits of node `base`; nothing: it is no such index.
struct CodedPlaces {
  int base = -1;
  std::array<uint32_t, 16> places{};
};
std::optional<CodedPlaces> PlacesOfCodes(LaneGraph& graph, int node);

// What a compiled graph is called with: a stream each.
struct StreamArgument {
  std::byte* base = nullptr;
  int64_t row_stride = 0;  // bytes; a ramp: numbers
};
using LaneFunction = void (*)(const StreamArgument* streams, int64_t rows, int64_t columns);

}  // namespace krafla::cpu::native
