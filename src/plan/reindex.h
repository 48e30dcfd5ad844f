// SPDX-License-Identifier: Apache-2.0
// The same program over other iteration dimensions: split, joined, narrowed or in another order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/element_program.h"

namespace krafla::plan {

// A dimension of the old iteration space as constant + sum of coefficient * new dimension.
struct DimImage {
  struct Term {
    int dim = 0;
    int64_t coefficient = 1;
  };
  int64_t constant = 0;
  std::vector<Term> terms;
  static DimImage Of(int dim) { return {0, {{dim, 1}}}; }
};

// `images`: one for each dimension of the program. Nodes keep their numbers.
ElementProgram Reindex(const ElementProgram& program, std::span<const int64_t> dims, std::span<const DimImage> images);

// As Reindex, but what the images decide is worked out: comparisons, and the loads and values that these choose.
ElementProgram Specialize(const ElementProgram& program, std::span<const int64_t> dims,
                          std::span<const DimImage> images);

// Makes the program's nodes in a builder over `dims`, which has buffers of the same numbers: what each has become.
std::vector<NodeId> CopyNodes(const ElementProgram& program, std::span<const int64_t> dims,
                              std::span<const DimImage> images, ProgramBuilder& builder);

// The program over one dimension, the row-major number of a point. Nodes keep their numbers.
ElementProgram Flattened(const ElementProgram& program);

// Copies index expressions of one program into the space of another.
class IndexRewriter {
 public:
  // `iters`: what stands for each iterator; `nodes`: what the nodes have become, where that is not empty; `depends`:
  // what the new space's values of nodes vary with, by the old one's.
  struct Rules {
    std::vector<IndexId> iters;
    std::vector<NodeId> nodes;
    std::vector<uint64_t> depends;  // by old dimension
  };
  IndexRewriter(const IndexSpace& from, IndexSpace& to, Rules rules)
      : from_(from), to_(to), rules_(std::move(rules)), done_(from.expr_count(), -1) {}

  IndexId Expr(IndexId id);
  uint64_t Depends(uint64_t old) const;
  Rules& rules() { return rules_; }

 private:
  IndexId Atom(const IndexAtom& atom);

  const IndexSpace& from_;
  IndexSpace& to_;
  Rules rules_;
  std::vector<IndexId> done_;
};

}  // namespace krafla::plan
