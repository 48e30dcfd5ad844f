// SPDX-License-Identifier: Apache-2.0
// How the indices of a program change over a group of points: four neighbours along one dimension, of which the first
// lies at a multiple of their number, or any other points that lie alike in all groups. It turns divisions and moduli
// inside the group into constants: a group of 4 along k has one k / 32, and its k % 2 are 0, 1, 0, 1.
#pragma once

#include <optional>
#include <vector>

#include "plan/element_program.h"

namespace krafla::spirv {

class PointGroup {
 public:
  static constexpr int kPoints = 4;
  // At point i an index is at[i] more than a number that is the same for all points: a multiple of `multiple`, or 0
  // where that is 0.
  struct Offsets {
    int64_t multiple = 1;
    InlineVector<int64_t, kPoints> at;
    bool is_constant() const { return multiple == 0; }
    bool same() const;
  };
  // The coordinates of the points along a dimension; along those that are not named all points lie at one.
  struct Along {
    int dim = 0;
    Offsets offsets;
  };

  PointGroup(const plan::ElementProgram& program, int dim);
  PointGroup(const plan::ElementProgram& program, std::vector<Along> points);

  std::optional<Offsets> Of(plan::IndexId id);
  // Whether the node has one value in all points of every group.
  bool IsSame(plan::NodeId id) const { return same_[static_cast<std::size_t>(id)]; }

 private:
  struct Known {
    bool done = false;
    std::optional<Offsets> offsets;
  };
  std::optional<Offsets> OfAtom(plan::AtomId id);
  std::optional<Offsets> OfSum(const plan::IndexExpr& e);
  Offsets Same(int64_t multiple, int64_t at) const;
  bool Varies(uint64_t depends) const { return (depends & dims_) != 0; }

  const plan::IndexSpace* space_;
  std::vector<Along> points_;
  std::size_t count_;
  uint64_t dims_ = 0;  // bit d: the points lie along dimension d
  std::vector<Known> known_;
  std::vector<bool> same_;
};

// By how many elements the index goes on from one point to the next along `dim`, on average.
double MeanStride(const plan::IndexSpace& space, plan::IndexId id, int dim);

}  // namespace krafla::spirv
