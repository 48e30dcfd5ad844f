// SPDX-License-Identifier: Apache-2.0
// An ElementProgram made ready to run over tiles of its iteration space. A tile spans up to `rows` of one dimension and
// `columns` of another; every value that varies inside it is an array of rows * columns elements in the L1 cache, every
// other value is computed once a tile. Loads that are dense in memory are not copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cpu_fallback/kernels/block_ops.h"
#include "cpu_fallback/kernels/tape_op.h"
#include "cpu_fallback/native/native_code.h"
#include "krafla/status.h"
#include "plan/element_program.h"
#include "plan/program_plan.h"

namespace krafla::cpu {

class TapeBuilder;
class RoutineBlock;
struct RoutinePart;
struct RoutineStore;

struct TileShape {
  int row_dim = -1;  // of the iteration space; -1: none
  int column_dim = -1;
  int64_t rows = 1, columns = 1;  // the most of each that a tile has
  // Of programs that are one move or one loop of native code: a dimension that a tile has several of, each a tile by
  // itself.
  int plane_dim = -1;
  int64_t planes = 1;
};

enum class FoldSide : uint8_t { kTile, kRows, kColumns };

class BlockProgram {
 public:
  struct Options {
    TileShape tile = {};
    // Which iteration dimensions the params vary with, whatever their nodes say. Params that vary inside a tile are
    // arrays of rows * columns, the others single values.
    std::optional<uint64_t> param_depends = std::nullopt;
    // A program without dimensions whose params are arrays of up to tile.columns elements.
    bool params_are_arrays = false;
    // Results that are wanted as a narrow type stores them; kInvalid, or none at all: in their compute type. The low
    // bits of any integer, and floats that are loaded from memory of that type.
    std::span<const ElementType> result_lanes = {};
    // Results, a bit each of the first 64, that only sums and products are made of: their NaNs may be any.
    uint64_t summed = 0;
    // No buffer that is loaded from changes between the tiles of a run.
    bool memory_is_constant = false;
    // How many elements a run has, over all tiles, and how many runs there are in one of the kernel's program: native
    // code is made where that is worth its compilation.
    int64_t elements = 0;
    int64_t runs = 1;
    // The program's stores go to the same elements from all rows of a tile, and are added to what is there: sums over
    // the rows, in an order of its own. Native code does that, or the program is refused.
    bool adds_rows = false;
    // The same of LaneGraph::adds_pairs.
    bool adds_pairs = false;
    // By result: what its values are folded by, those of each row or column of a tile, or of all of it. Where native
    // code does that, the result is no array (FoldBuffer).
    std::span<const std::optional<native::LaneOp>> folds = {};
    FoldSide fold_side = FoldSide::kTile;
    // One value that is stored everywhere is no array: each tile is filled with it. Not for a loop's instructions.
    bool fills = false;
    // For AddTo: no native code of its own, and what that needs is kept.
    bool is_for_routine = false;
  };
  // Rows of fewer elements are not gone along one by one.
  static constexpr int64_t kShortRow = 16;
  // UNIMPLEMENTED names the node that has no loop.
  static Result<BlockProgram> Compile(const plan::ElementProgram& program, const Options& options);

  const TileShape& tile() const { return tile_; }
  // Scratch that one thread needs, at a 64-byte boundary.
  int64_t frame_bytes() const { return frame_bytes_; }

  struct Value {
    const std::byte* data = nullptr;
    bool is_uniform = false;
    ElementType type = ElementType::kF32;  // compute type, or one of Options::result_lanes
  };

  // Sets `memory` up for a run over these buffers, all of the program's or the first ones. The frame keeps what does
  // not change from tile to tile.
  void Start(std::byte* memory, std::span<std::byte* const> buffers) const;
  // Buffers behind those that Start was given.
  void SetBuffer(std::byte* memory, int buffer, std::byte* data) const {
    SlotPointers(memory)[slots_.size() + static_cast<std::size_t>(buffer)] = data;
  }
  // Runs one tile at `origin` (one index an iteration dimension).
  void RunTile(std::byte* memory, std::span<const int64_t> origin, int64_t rows, int64_t columns,
               const void* const* params = nullptr) const;
  // Whether a tile is one move, one store of a single value, or one call of native code: what several tiles need is
  // found once then.
  bool TakesPlanes() const;
  // Whether a tile is one call of native code that folds all results.
  bool FoldsAll() const;
  // As RunTile at `planes` places that follow each other along dimension `plane_dim`: for what TakesPlanes, or
  // FoldsAll, the columns of each plane behind those of the one before.
  void RunPlanes(std::byte* memory, std::span<const int64_t> origin, int64_t rows, int64_t columns, int plane_dim,
                 int64_t planes) const;
  // Adds to `tape` what Start and RunTile do over buffers that lie at `buffers`, for the only tile of the space. The
  // program must live as long as the tape and have no params.
  void AppendTo(TapeBuilder& tape, std::span<const plan::Slice> buffers, int64_t rows, int64_t columns) const;

  // The parts that a routine's block takes a tile in: of as many lanes as a vector has of the widest values, or of one
  // row's at most.
  std::vector<RoutinePart> RoutineParts(int64_t rows, int64_t columns, bool of_one_row = false,
                                        int64_t most_lanes = INT64_MAX) const;
  // Adds to a routine's block what RunTile does for a part, if that takes all of it; what is stored comes into
  // `stores`.
  bool AddTo(RoutineBlock& block, std::span<const plan::Slice> buffers, RoutinePart& part,
             std::vector<RoutineStore>& stores) const;

  bool has_params() const;

  // Where a result is folded: the buffer that has to be set before each tile, with a value for each row or column or
  // one for the tile, which the result's are combined with. -1: the result is an array.
  int FoldBuffer(std::size_t result) const { return result < fold_buffers_.size() ? fold_buffers_[result] : -1; }
  std::size_t result_count() const { return results_.size(); }
  Value ResultValue(const std::byte* memory, std::size_t i) const;
  int slot_count() const { return static_cast<int>(slots_.size()); }
  // How many values a tile computes: for estimates of time.
  int step_count() const { return static_cast<int>(tile_steps_.size()); }
  // How many of them are native code, each for many operations.
  int native_count() const { return static_cast<int>(native_parts_.size()); }

 private:
  friend class BlockCompiler;
  friend class BlockTape;
  friend class BlockRoutine;
  friend class NativePlanner;

  // constant + sum of factors times iterators, uniform s32 values and uniform quotients and remainders.
  struct Term {
    enum class Kind : uint8_t { kIter, kValue, kDivision } kind = Kind::kIter;
    int number = 0;  // dimension or slot
    int64_t factor = 0;
  };
  struct Address {
    int64_t constant = 0;
    std::vector<Term> terms;
  };
  // How an access moves through memory within a tile: affinely, or by an array of offsets.
  struct Access {
    int buffer = 0;
    int width = 4;
    int address = 0;
    int64_t row_stride = 0, column_stride = 0;
    int offsets = -1;  // slot of an s32 array
    int mask = -1;     // slot
    bool mask_is_uniform = false;
    ConvertFn convert = nullptr;
    int converted_width = 4;  // of the compute type
    ElementType storage = ElementType::kInvalid;
    bool rounds = false;  // a store: `convert` takes any number
  };
  struct Step {
    enum class Kind : uint8_t {
      kOp,
      kLoad,
      kStore,
      kRamp,
      kSpread,
      kMulAdd,
      kDivide,
      kModulus,
      kUniformDivide,
      kUniformModulus,
      kConstant,
      kParam,
      kNative,
      kLoadLine,  // several loads, or stores, of elements that lie side by side
      kStoreLine,
      kNothing,  // while the program is compiled
    };
    Kind kind = Kind::kOp;
    bool is_uniform = false;
    int out = -1;  // slot
    std::array<int, 3> in = {-1, -1, -1};
    BlockFn fn = nullptr;
    TapeOp::Fn scalar = nullptr, small = nullptr;  // what does the same on single values, on small arrays
    uint64_t bits = 0;
    int access = -1;                            // kLoad, kStore; of a line its first
    int address = -1;                           // kRamp; kUniformDivide, kUniformModulus: the dividend
    int64_t row_stride = 0, column_stride = 0;  // kRamp
    int width = 4;                              // kSpread, kConstant
    int direct_store = -1;                      // kOp, kLoad: the access that its result goes to when that is dense
    bool moves = false;                         // kLoad: nothing else reads it, and it can go there whatever that is
    int key = -1;     // kOp: what `fn` was found by, while the program is compiled, or for a routine
    int native = -1;  // kNative: the part
    int line = -1;    // kLoadLine, kStoreLine
  };
  // Operations in one loop of native code, and its streams.
  struct NativeOperand {
    enum class Kind : uint8_t { kSlot, kAccess, kRamp, kLane, kFold } kind = Kind::kSlot;
    int number = 0;  // slot, access, address, buffer
    int width = 4;
    bool is_uniform = false;
    bool is_output = false;
    int64_t row_stride = 0, column_stride = 1;  // elements; of a slot whatever its array has
  };
  struct NativePart {
    std::shared_ptr<const native::NativeCode> code;
    std::vector<NativeOperand> operands;
  };
  static constexpr std::size_t kMaxNativeOperands = 128;
  // Registers one behind the other, LineStride apart, that are a row of memory each element.
  struct Line {
    std::vector<int> slots;  // by part; -1: there is none
    int width = 4;
    int64_t offset = 0;  // of the registers that tiles fill anew
  };
  struct Slot {
    int width = 4;
    bool is_uniform = false;
    int64_t offset = -1;  // of its register; -1: it only ever points elsewhere
    bool is_kept = true;  // the register is one of the frame; else of those that tiles fill anew
  };

  int64_t Evaluate(const Address& address, const int64_t* origin, std::byte* const* slots) const;
  static int64_t FactorOf(const Address& address, int dim);
  // A frame: the address of the registers that tiles fill anew, the slots' pointers, the buffers' pointers, then
  // registers that are kept; by default the others come right behind.
  static std::byte** Registers(std::byte* memory) { return reinterpret_cast<std::byte**>(memory); }
  static std::byte** SlotPointers(std::byte* memory) { return reinterpret_cast<std::byte**>(memory) + 1; }
  std::byte* Home(std::byte* memory, int slot) const {
    const Slot& s = slots_[static_cast<std::size_t>(slot)];
    return s.is_kept ? memory + s.offset : *Registers(memory) + s.offset;
  }
  void RunSteps(const std::vector<Step>& steps, std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns,
                const void* const* params) const;
  // `stored`: accesses below 64 whose store has already been made; null: nothing is stored before its step comes.
  void RunStep(const Step& step, std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns,
               const void* const* params, uint64_t* stored) const;
  static const TapeOp* RunStepOfTape(const TapeOp* op, TapeRun& run);
  void RunNative(const NativePart& part, std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns) const;
  struct Move {
    const Access &from, &to;
    const std::byte* source;
    std::byte* target;
  };
  bool IsFlat(const NativePart& part) const;
  bool IsMove() const;
  bool IsFill() const;
  Move MoveOf(const Step& step, std::byte* memory, const int64_t* origin) const;
  void MovePlanes(std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns, int plane_dim,
                  int64_t planes) const;
  void FillPlanes(std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns, int plane_dim,
                  int64_t planes) const;
  native::StreamArgument StreamOf(const NativeOperand& operand, std::byte* memory, const int64_t* origin) const;
  // The slots that a step reads and writes, its access' mask and offsets among them.
  template <class Function>
  void ForEachInput(const Step& s, Function function) const {
    for (int in : s.in)
      if (in >= 0) function(in);
    if (s.kind == Step::Kind::kStoreLine)
      for (int slot : lines_[static_cast<std::size_t>(s.line)].slots) function(slot);
    if (s.access >= 0) {
      const Access& a = accesses_[static_cast<std::size_t>(s.access)];
      if (a.mask >= 0) function(a.mask);
      if (a.offsets >= 0) function(a.offsets);
    }
    if (s.native >= 0)
      for (const NativeOperand& o : native_parts_[static_cast<std::size_t>(s.native)].operands)
        if (o.kind == NativeOperand::Kind::kSlot && !o.is_output) function(o.number);
  }
  template <class Function>
  void ForEachOutput(const Step& s, Function function) const {
    if (s.out >= 0) function(s.out);
    if (s.kind == Step::Kind::kLoadLine)
      for (int slot : lines_[static_cast<std::size_t>(s.line)].slots)
        if (slot >= 0) function(slot);
    if (s.native >= 0)
      for (const NativeOperand& o : native_parts_[static_cast<std::size_t>(s.native)].operands)
        if (o.kind == NativeOperand::Kind::kSlot && o.is_output) function(o.number);
  }
  void Load(const Step& step, std::byte* memory, std::byte* home, const int64_t* origin, int64_t rows,
            int64_t columns) const;
  void Store(const Step& step, std::byte* memory, const int64_t* origin, int64_t rows, int64_t columns) const;
  // How many elements access `next` is ahead of `access`, where they go through memory alike.
  std::optional<int64_t> Distance(int access, int next) const;
  int64_t LineStride(const Line& line) const;  // in elements
  void MoveLine(const Step& step, std::byte* memory, const int64_t* origin, int64_t elements) const;

  TileShape tile_;
  std::vector<Slot> slots_;
  std::vector<Address> addresses_;
  std::vector<Access> accesses_;
  std::vector<Step> launch_steps_, tile_steps_;
  std::vector<NativePart> native_parts_;
  std::vector<Line> lines_;
  std::vector<BlockKey> keys_;  // for a routine
  std::vector<int> results_;    // slots
  std::vector<ElementType> result_types_;
  std::vector<int> fold_buffers_;  // by result, or none at all
  std::size_t buffer_count_ = 0;
  int64_t kept_bytes_ = 0;  // of the frame, before the registers that tiles fill anew
  int64_t staging_offset_ = 0, frame_bytes_ = 0;
};

}  // namespace krafla::cpu
