// SPDX-License-Identifier: Apache-2.0
// Replaces the lane-wise steps of a block program by native code. What depends on nothing but lane-wise steps and
// memory is one loop; a step that is not lane-wise (a gather of bytes, a transposing load) stays and parts what comes
// before it from what needs it. Values that only live inside a loop have no array any more.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/native/lane_builder.h"
#include "cpu_fallback/native/native_code.h"

namespace krafla::cpu {

class NativePlanner {
 public:
  // keys: of the steps' operations. cuts_columns: some tiles have fewer columns than the others.
  NativePlanner(BlockProgram& program, const std::vector<BlockKey>& keys, const BlockProgram::Options& options,
                bool cuts_columns)
      : out_(program),
        keys_(keys),
        elements_(options.elements),
        runs_(options.runs),
        summed_(options.summed),
        folds_(options.folds),
        fold_side_(options.fold_side),
        adds_rows_(options.adds_rows),
        adds_pairs_(options.adds_pairs),
        cuts_columns_(cuts_columns) {}
  // Leaves the program as it is where native code is not had or not worth it, or does not fold.
  void Run();

 private:
  using Step = BlockProgram::Step;
  using Access = BlockProgram::Access;
  using Operand = BlockProgram::NativeOperand;
  using LaneValue = native::LaneBuilder::Value;

  // A loop in the making.
  struct Loop {
    native::LaneBuilder builder;
    std::vector<Operand> operands;            // of the graph's streams
    std::map<int, LaneValue> values;          // by slot
    std::map<int, int> access_streams;        // by access
    std::map<int, std::map<int, int>> parts;  // of interleaved streams that are yet to be stored: their nodes
    std::map<int, int> outputs;               // slots that steps elsewhere need: their streams
    int op_count = 0;
    int lane_number = -1;  // the node that says which lane of a flat tile this is
  };
  // Where a slot's value comes from.
  struct Source {
    enum class Kind : uint8_t { kOutside, kPlain, kNative, kMemory } kind = Kind::kOutside;
    int level = -1;  // kPlain: runs behind that loop; kNative: the loop
    int step = -1;   // kMemory: a load or a ramp, which any loop can do
    int alias = -1;  // a spread: of that slot
  };

  bool IsWorthIt() const;
  bool IsUniform(int slot) const { return out_.slots_[static_cast<std::size_t>(slot)].is_uniform; }
  const Access& AccessOf(int number) const { return out_.accesses_[static_cast<std::size_t>(number)]; }
  int64_t LaneStride(const Access& a) const { return along_rows_ ? a.row_stride : a.column_stride; }
  int64_t RowStride(const Access& a) const { return along_rows_ ? 0 : a.row_stride; }
  bool IsSideBySide(const Access& a) const {
    const int64_t stride = LaneStride(a);
    return stride >= 2 && (stride <= native::kMaxInterleaved || stride * a.width == 8 || IsInLine(a));
  }
  // 8 or 16 wide elements, half of which at least are loaded: as many vectors, of which all are wanted.
  bool IsInLine(const Access& a) const {
    const int64_t stride = LaneStride(a);
    return a.width >= 4 && (stride == 8 || stride == 16) && stride * a.width <= 64;
  }
  bool IsReachable(const Access& a, bool is_store) const;
  bool CanStore(int access) const { return IsReachable(AccessOf(access), true) || interleaved_.contains(access); }
  bool IsPacked(const Access& a) const;
  bool IsInShortRows(const Access& a) const;
  bool IsInCloseShortRows(const Access& a) const;
  int PlaceInShortRows(native::LaneBuilder& builder, Loop& loop, const Access& a);
  bool GoesAlong(int64_t row_stride, int64_t lane_stride) const;

  void FindSources();
  bool HasNarrowLanes() const;
  void FindInterleaved();
  void FindConstants();
  int LevelFor(const Step& s) const;
  int OpenLevel(int wanted);
  Loop& LoopAt(int level);
  bool TryOp(const Step& s);
  bool TryLoad(int number, const Step& s);
  bool TryUniformLoad(int number, const Step& s);
  bool TryIndexOp(const Step& s);
  void MakePlain(int number, const Step& s);
  void PlaceStores();
  static int WordOf(native::LaneBuilder& b, const std::map<int, int>& parts, int bits);
  bool StoreIn(int level, const Step& s);

  std::optional<LaneValue> ValueIn(int level, int slot);
  std::optional<LaneValue> LoadIn(Loop& loop, int step);
  std::optional<LaneValue> LookUp(Loop& loop, int access, int place);
  int StreamOf(Loop& loop, int access, native::LaneStream stream);
  int Stream(Loop& loop, const Operand& operand, native::LaneStream stream);
  // is_seen: with the bits that NaNs are to have.
  void NeedArray(int slot, bool is_seen = true);
  bool FoldsColumns() const { return !folds_.empty() && fold_side_ == FoldSide::kColumns; }
  bool CanFold(std::size_t result) const;
  bool Fold(std::size_t result);
  void Define(int slot, int level, LaneValue value);
  bool Finish();
  void DropSpreads();

  BlockProgram& out_;
  const std::vector<BlockKey>& keys_;
  int64_t elements_, runs_;
  uint64_t summed_;
  std::span<const std::optional<native::LaneOp>> folds_;
  FoldSide fold_side_ = FoldSide::kTile;
  bool adds_rows_ = false, adds_pairs_ = false, cuts_columns_ = false;
  std::vector<int> fold_buffers_;
  bool along_rows_ = false, has_narrow_lanes_ = false;
  std::vector<Source> sources_;
  std::map<int, uint64_t> constants_;
  // Accesses that are parts of an interleaved stream.
  struct Part {
    int first = -1;  // the access of part 0
    int part = 0, parts = 1;
    int reach = 1;  // behind the last part that there is
  };
  std::map<int, Part> interleaved_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<int> plain_level_;  // of each step; kAbsorbed: none
  std::vector<bool> is_needed_;   // a load or a ramp that a plain step reads
  static constexpr int kAbsorbed = -2;
};

}  // namespace krafla::cpu
