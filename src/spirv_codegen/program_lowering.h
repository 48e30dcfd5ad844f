// SPDX-License-Identifier: Apache-2.0
// Emits an element program at one point of its iteration space, or at `width` neighbouring points along one dimension
// at once: nodes that vary along that dimension become vectors, the others stay scalars, and loads of neighbouring
// elements become one vector load.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "plan/element_program.h"
#include "spirv_codegen/buffers.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {

// How an index changes over the `width` points of a group, whose first point is a multiple of `width` along `dim`.
struct LanePattern {
  bool affine = true;
  int64_t stride = 0;
  bool aligned = false;  // the first point's index is a multiple of `width`
};
// Of the expressions of one space, each worked out once: they share their parts.
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

// Whether groups of `width` along `dim` pay: every store is scalar along it or a vector store, and some access is one.
bool PrefersVectors(const plan::ElementProgram& program, int dim, int width);

class ProgramLowering {
 public:
  // width 1: dim is not used.
  ProgramLowering(Builder& builder, Buffers& buffers, const plan::ElementProgram& program, int dim = -1, int width = 1);

  // The u32 coordinate along `d`; along the vector dimension that of the first point.
  // The bits of results are seen: a NaN out of arithmetic has to be the one that all devices give.
  void SeeResults();
  void SetIter(int d, Value coordinate);
  void SetParam(int number, Value value);
  // Coordinates of row-major position `linear` in the dimensions [first, last) of the space.
  void SetLinear(Value linear, int first, int last);

  Value Node(plan::NodeId id);
  Value Index(plan::IndexId id);  // at the first point
  // Makes every node and every part of an index that varies with no dimension of `varying` now, before a loop over them
  // begins; copies of this object share what was made.
  void EmitInvariants(uint64_t varying);
  // `limit`: a condition on all stores of scalar programs, e.g. the end of the iteration space.
  void EmitStores(Value limit = {});

 private:
  void FindSeen();
  // What `out`, node's value, is where its bits are seen.
  Value Settle(const plan::Node& node, Value out);
  Value RoundProduct(const plan::Node& round, Value out);
  Value IndexValue(plan::IndexId id, bool vector);
  // The terms of `e` whose atoms depend on `varying` or, if not `inside`, that do not; no value: there are none.
  Value Terms(const plan::IndexExpr& e, bool vector, uint64_t varying, bool inside);
  Value AtomValue(plan::AtomId id, bool vector);
  Value EmitLoad(const plan::Node& node);
  void EmitStore(const plan::Store& store, Value limit);
  bool Varies(uint64_t depends) const { return width_ > 1 && ((depends >> dim_) & 1) != 0; }

  Builder* b_;
  Buffers* buffers_;
  const plan::ElementProgram* program_;
  int dim_;
  int width_;
  LanePatterns patterns_;
  uint64_t varying_ = 0;
  std::vector<bool> seen_;  // floats whose bits, or the sign of which as a NaN, matter to someone
  std::vector<Value> iters_, params_, nodes_;
  std::vector<Value> atoms_[2], exprs_[2];
};

}  // namespace krafla::spirv
