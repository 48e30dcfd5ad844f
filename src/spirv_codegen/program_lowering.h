// SPDX-License-Identifier: Apache-2.0
// Emits an element program at one point of its iteration space, or at `width` neighbouring points along one dimension
// at once: nodes that vary along that dimension become vectors, the others stay scalars, and loads of neighbouring
// elements become one vector load.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "plan/element_program.h"
#include "spirv_codegen/buffers.h"
#include "spirv_codegen/point_group.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {

// How an index changes over the `width` neighbouring points of a group, whose first coordinate along `dim` is a
// multiple of `width`.
struct LanePattern {
  bool affine = true;
  int64_t stride = 0;
  bool aligned = false;  // the first point's index is a multiple of `width`
};
// The patterns of the expressions of one space. Each is worked out once, because expressions share their parts.
class LanePatterns {
 public:
  LanePatterns(const plan::IndexSpace& space, int dim, int width)
      : space_(&space), dim_(dim), width_(width), known_(space.expr_count()) {}
  LanePattern Of(plan::IndexId id);

 private:
  LanePattern OfAtom(plan::AtomId id);

  const plan::IndexSpace* space_;
  int dim_, width_;
  std::vector<std::optional<LanePattern>> known_;
};

// Whether groups of `width` points along `dim` pay: every store does not vary along it or is a vector store, and at
// least one access is a vector access.
bool PrefersVectors(const plan::ElementProgram& program, int dim, int width);

class ProgramLowering {
 public:
  // With a width of 1, `dim` is not used.
  ProgramLowering(Builder& builder, Buffers& buffers, const plan::ElementProgram& program, int dim = -1, int width = 1);

  // Says that someone sees the bits of the results, so that a NaN that arithmetic gives must be the one that all
  // devices give.
  void SeeResults();
  // Says that nothing writes what the program loads while the kernel runs.
  void LoadConstants() { constants_ = true; }
  // Says that this is point `point` of a group, whose dimension is not the vectors'. What all points have in common is
  // taken from `first`, which is null for the group's first point and has to stay while this is used.
  void SetPoint(PointGroup& group, ProgramLowering* first, int point) {
    group_ = &group, first_ = first, point_ = point;
  }
  // The u32 coordinate along `d`; along the vector dimension that of the first point.
  void SetIter(int d, Value coordinate);
  void SetParam(int number, Value value);
  // The value of a node that was worked out elsewhere.
  void SetNode(plan::NodeId id, Value value) { nodes_[static_cast<std::size_t>(id)] = value; }
  // The bits of a load, without its mask, that were read elsewhere: zero-extended, of all points.
  void SetBits(plan::NodeId load, Value bits) { bits_[load] = bits; }
  // Sets the coordinates of the dimensions [first, last) of the space from a row-major position in them.
  void SetLinear(Value linear, int first, int last);

  Value Node(plan::NodeId id);
  Value Index(plan::IndexId id);  // at the first point
  // Emits every node and every part of an index that varies with no dimension in `varying`, before a loop over these
  // dimensions begins. Copies of this object share what was emitted.
  void EmitInvariants(uint64_t varying);
  // `limit` is a condition on all stores of a program of width 1, such as the end of the iteration space.
  void EmitStores(Value limit = {});

 private:
  void FindSeen();
  // The value `out` of the node as it has to be where its bits are seen.
  Value Settle(const plan::Node& node, Value out);
  Value RoundProduct(const plan::Node& round, Value out);
  Value IndexValue(plan::IndexId id, bool vector);
  // The sum of those terms of `e` whose atoms depend on `varying` or, unless `inside`, of those that do not; no value
  // where there are none.
  Value Terms(const plan::IndexExpr& e, bool vector, uint64_t varying, bool inside);
  Value AtomValue(plan::AtomId id, bool vector);
  Value EmitLoad(plan::NodeId id);
  // A load of one or `width_` elements, which the points of a group do once.
  Value LoadBits(const plan::Node& node, Value index, int width);
  Value LoadLanes(const plan::Node& node, Value mask);
  // Of elements smaller than a word, those of the lanes from the words that hold them, where these are fewer; else no
  // value.
  Value LoadSharedWords(const plan::Node& node, const PointGroup::Offsets& offsets);
  // Whether the node is known to be a whole number wherever it is a number. Looks at most so many nodes deep.
  bool IsWhole(plan::NodeId id, int deep = 8) const;
  void EmitStore(const plan::Store& store, Value limit);
  bool Varies(uint64_t depends) const { return width_ > 1 && ((depends >> dim_) & 1) != 0; }

  Builder* b_;
  Buffers* buffers_;
  const plan::ElementProgram* program_;
  int dim_;
  int width_;
  LanePatterns patterns_;
  std::optional<PointGroup> lanes_;  // made when it is needed
  PointGroup* group_ = nullptr;
  ProgramLowering* first_ = nullptr;
  int point_ = 0;
  bool constants_ = false;
  std::map<std::tuple<int, Id, int>, Value> words_;       // that hold several lanes' elements
  std::map<std::tuple<int, int, Id, int>, Value> loads_;  // of a group, in its first point
  std::map<plan::NodeId, Value> bits_;                    // of loads, read elsewhere
  uint64_t varying_ = 0;
  std::vector<bool> seen_;  // floats whose bits, or whose sign where they are NaN, someone sees
  std::vector<Value> iters_, params_, nodes_;
  std::vector<Value> atoms_[2], exprs_[2];
};

}  // namespace krafla::spirv
