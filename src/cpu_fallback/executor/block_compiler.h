// SPDX-License-Identifier: Apache-2.0
// From an element program to a block program: what varies with what and the order of the work (block_compiler.cpp),
// where accesses go (block_addresses.cpp), steps (block_lowering.cpp), those that are done together
// (block_lines.cpp), and where registers lie (block_slots.cpp).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/lanes.h"

namespace krafla::cpu {

class BlockCompiler {
  using AtomId = plan::AtomId;
  using ElementProgram = plan::ElementProgram;
  using IndexAtom = plan::IndexAtom;
  using IndexExpr = plan::IndexExpr;
  using IndexId = plan::IndexId;
  using IndexTerm = plan::IndexTerm;
  static constexpr plan::NodeId kNoNode = plan::kNoNode;
  using Node = plan::Node;
  using NodeId = plan::NodeId;
  using NodeOp = plan::NodeOp;

 public:
  BlockCompiler(const ElementProgram& program, const BlockProgram::Options& options);

  Result<BlockProgram> Run();

 private:
  using Step = BlockProgram::Step;
  // Registers hold compute types as they would be stored.
  static int ComputeWidth(ElementType type) { return StorageBytes(type); }
  template <class T>
  static T& Item(std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }
  template <class T>
  static const T& Item(const std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }

  static constexpr uint64_t kParamBit = uint64_t{1} << 63, kTileBit = uint64_t{1} << 62;

  // Which dimensions a node varies with, found anew: the params' are the caller's.
  void FindDepends();
  uint64_t AtomDepends(const IndexAtom& a) const;
  // Expressions share their parts: each is looked at once. (A node's indices are made of nodes before it, so what is
  // remembered is complete.)
  uint64_t Depends(IndexId id) const;
  bool Varies(uint64_t depends) const { return (depends & tile_mask_) != 0; }

  int NewSlot(int width, bool is_uniform) {
    out_.slots_.push_back({width, is_uniform, -1});
    fixed_.push_back(false);
    return static_cast<int>(out_.slots_.size()) - 1;
  }
  // Steps of values that are the same in all tiles run once a launch.
  bool IsOfLaunch(uint64_t depends) const { return (depends & ~whole_dims_) == 0; }
  std::vector<Step>& StepsFor(uint64_t depends) { return IsOfLaunch(depends) ? out_.launch_steps_ : out_.tile_steps_; }
  void MarkFixed(int slot, uint64_t depends) {
    if (IsOfLaunch(depends)) fixed_[static_cast<std::size_t>(slot)] = true;
  }

  // The part of `id` that is the same throughout a tile, with the tile's origin for the iterators.
  int UniformAddress(const IndexExpr& e);

  // The slot of a quotient or remainder that is the same throughout a tile, made once for all that use it.
  int UniformDivision(AtomId id);

  struct Split {
    int64_t row_stride = 0, column_stride = 0;
    std::vector<IndexTerm> varying;  // not affine within a tile
  };
  Split SplitExpr(const IndexExpr& e) const;

  // An s32 array of the parts of `e` that vary in a way that is not affine; with `whole`, of all of `e`.
  Result<int> OffsetsSlot(const IndexExpr& e, bool whole);
  Result<int> AtomSlot(AtomId id);

  Result<BlockProgram::Access> LowerAccess(int buffer, ElementType storage, IndexId index, NodeId mask);

  // A uniform value of a node, in slot `from`, as an array.
  int SpreadSlot(NodeId node, int from);

  int& NarrowSlot(NodeId id, int width) { return narrow_slot_of_[static_cast<std::size_t>(id)][width == 1 ? 0 : 1]; }

  Result<> LowerForms(NodeId id);

  // The low bits of a node.
  Result<> LowerNarrow(NodeId id, int width);

  int ConstantSlot(uint64_t bits, int width);

  Result<> LowerLoad(NodeId id, int width, ConvertFn convert, int& slot);

  Result<> LowerNode(NodeId id);

  // An op of node `id`, on operands in slots `in`, whose value of `width` bytes goes to `slot`.
  Result<> LowerOp(NodeId id, BlockKey key, std::array<int, 3> in, int width, int& slot);
  int AddKey(const BlockKey& key) {
    keys_.push_back(key);
    return static_cast<int>(keys_.size()) - 1;
  }
  void PushOp(Step& step, NodeId id, int width, int& slot);

  Result<> LowerStore(const plan::Store& store);

  void PlanNative();

  // An op whose result is stored as it is may write into the buffer itself, when nothing after it still has to read
  // memory that the write could change.
  void FindDirectStores();

  // Whether elements that are loaded and stored alone go from one place to the other at once. Of a transposition, each
  // of whose lines is written in pieces, only where those are whole vectors.
  bool CanMove(const Step& load, const BlockProgram::Access& to) const;

  // Loads and stores that are lines (block_lines.cpp).
  bool IsOfLine(const Step& s) const;
  std::vector<int> PartsOfLine(std::span<const int> candidates) const;
  void MakeLine(Step::Kind kind, const std::vector<int>& parts);
  void FindLines();

  // Registers: arrays are shared by values that do not live at the same time.
  void PlaceSlots();
  // Loads and stores of the tape, too, that convert.
  bool NeedsStaging() const;

  const ElementProgram& program_;
  const BlockProgram::Options& options_;
  const plan::IndexSpace& space_;
  const Lanes lanes_;
  uint64_t tile_mask_ = 0;
  // A short dimension that each tile has all of: what varies with nothing else, as the factors of three channels, is
  // the same in all tiles, and laid out for a whole one once a launch.
  uint64_t whole_dims_ = 0;
  BlockProgram out_;
  std::vector<uint64_t> depends_;
  mutable std::vector<std::optional<uint64_t>> expr_depends_;
  std::vector<int> slot_of_;
  std::vector<std::array<int, 2>> narrow_slot_of_;  // of 1 and of 2 bytes
  std::vector<bool> fixed_;                         // slots that keep their register throughout
  std::vector<int> param_slot_;
  std::vector<BlockKey> keys_;
  std::map<int, int> spread_;
  std::map<AtomId, int> atom_slots_, division_slots_;
};

}  // namespace krafla::cpu
