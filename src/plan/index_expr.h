// SPDX-License-Identifier: Apache-2.0
// Index arithmetic of a kernel, kept as sums of terms so that strides can be read off and floor/mod cancel.
// An IndexExpr is constant + sum of coefficient * atom; an atom is an iteration variable, a floor division or modulus
// of another expression by a constant, or an integer computed by the program (a gather's start). Every expression has
// a proven range; division and modulus are only made of non-negative expressions.
//
// Expressions are kept in a normal form, so that equal ones are one and the simplest is the one that is evaluated:
//   - what a divisor divides leaves a division or modulus, with the common factor of what stays:
//     (48*i0 + i1)/768 is i0/16 where i1 < 48, and (48*i0 + i1)%768 is 48*(i0%16) + i1;
//   - what its range decides is gone: i0/16 is 0 where i0 < 16, and i0%16 is i0;
//   - divisions of divisions are one, a modulus of a modulus that it divides is one, and (e%12)/4 is (e/4)%3;
//   - what was split and is joined again is whole: 16*(i0/16) + i0%16 is i0.
// No step makes a dividend larger than 32 bits that was not, because that is how kernels evaluate it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "krafla/inline_vector.h"
#include "plan/interval.h"

namespace krafla::plan {

using IndexId = int;  // into IndexSpace::exprs
using AtomId = int;

struct IndexTerm {
  int64_t coefficient = 0;
  AtomId atom = 0;
  friend bool operator==(const IndexTerm&, const IndexTerm&) = default;
};

struct IndexExpr {
  int64_t constant = 0;
  InlineVector<IndexTerm, 6> terms;  // by rising atom, coefficients not zero
  friend bool operator==(const IndexExpr&, const IndexExpr&) = default;
};

struct IndexAtom {
  enum class Kind : uint8_t { kIter, kFloorDiv, kMod, kValue };
  Kind kind = Kind::kIter;
  int iter = 0;      // kIter: the dimension of the iteration space
  IndexId expr = 0;  // kFloorDiv, kMod: the dividend
  int64_t divisor = 1;
  int node = 0;  // kValue: an s32 node of the program, already clamped into [lo, hi]
  int64_t lo = 0, hi = 0;
  uint64_t depends = 0;  // bit d: varies with iteration dimension d
  friend bool operator==(const IndexAtom&, const IndexAtom&) = default;
};

// Owns atoms and expressions of one program; equal ones are the same id. Id 0 is the constant 0.
class IndexSpace {
 public:
  explicit IndexSpace(std::span<const int64_t> iteration_dims = {});

  const Dims& dims() const { return dims_; }
  const IndexExpr& expr(IndexId id) const { return exprs_[static_cast<std::size_t>(id)]; }
  const IndexAtom& atom(AtomId id) const { return atoms_[static_cast<std::size_t>(id)]; }
  std::size_t atom_count() const { return atoms_.size(); }
  std::size_t expr_count() const { return exprs_.size(); }

  IndexId Constant(int64_t value);
  IndexId Iter(int dim);  // in [0, dims[dim])
  IndexId Value(int node, int64_t lo, int64_t hi, uint64_t depends);
  IndexId Add(IndexId a, IndexId b);
  IndexId Sub(IndexId a, IndexId b);
  IndexId Mul(IndexId a, int64_t factor);
  IndexId AddConstant(IndexId a, int64_t value) { return Add(a, Constant(value)); }
  // a must be provably >= 0, divisor > 0.
  IndexId FloorDiv(IndexId a, int64_t divisor);
  IndexId Mod(IndexId a, int64_t divisor);

  using Range = Interval;
  Range RangeOf(IndexId id) const;
  uint64_t Depends(IndexId id) const;
  bool IsConstant(IndexId id) const { return expr(id).terms.empty(); }

  // How `id` changes with iteration dimension `dim` when all others stay: its coefficient when the dependence is
  // affine (atoms other than the iterator do not vary with dim); nullopt otherwise.
  struct Affine {
    bool affine = false;
    int64_t stride = 0;
  };
  Affine StrideAlong(IndexId id, int dim) const;

  // Row-major linear index of `index` in `dims`, and back.
  IndexId Linearize(std::span<const IndexId> index, std::span<const int64_t> dims);
  std::vector<IndexId> Delinearize(IndexId linear, std::span<const int64_t> dims);

  // After the program's nodes were renumbered: node n became to[n]. Atoms of nodes that are gone are never used again.
  void RenumberNodes(std::span<const int> to) {
    for (IndexAtom& a : atoms_)
      if (a.kind == IndexAtom::Kind::kValue) a.node = to[static_cast<std::size_t>(a.node)];
    atom_table_.clear();
  }

  friend bool operator==(const IndexSpace& a, const IndexSpace& b) {
    return a.dims_ == b.dims_ && a.exprs_ == b.exprs_ && a.atoms_ == b.atoms_;
  }

 private:
  IndexId Intern(IndexExpr expr);
  AtomId InternAtom(const IndexAtom& atom);
  Range RangeOf(const IndexExpr& e) const;
  // The sum of one atom.
  IndexId OfAtom(const IndexAtom& atom) { return Intern({0, {{1, InternAtom(atom)}}}); }
  // What a division or modulus is made of, after what the divisor divides has left it: `multiples` times the divisor
  // and `rest`, which is not negative.
  struct Dividend {
    IndexId multiples, rest;
    Range range;  // of the rest
  };
  Dividend Split(IndexId a, int64_t divisor);
  // The rest as factor * whole + part, with a factor above 1 that divides the divisor and 0 <= part < factor.
  struct Factored {
    int64_t factor;
    IndexExpr whole, part;
  };
  std::optional<Factored> FactorOut(IndexId rest, int64_t divisor) const;
  // The dividend of a modulus by `divisor` without the moduli in it that make no difference.
  IndexId WithoutInnerModuli(IndexId rest, int64_t divisor);
  // Whether `quotient` is floor(e / divisor).
  bool IsQuotient(const IndexAtom& quotient, IndexId e, int64_t divisor) const;
  // The sum of two of the terms, where they are parts of one split: factor * id, or nothing.
  struct Joined {
    IndexId id;
    int64_t factor;
  };
  std::optional<Joined> Join(const IndexTerm& high, const IndexTerm& low);

  Dims dims_;
  std::vector<IndexExpr> exprs_;
  std::vector<IndexAtom> atoms_;
  // Open hash tables of ids (-1: free), made once there are more than a look at each is worth.
  std::vector<int> expr_table_, atom_table_;
};

// For people and tests: "48*i0 + (i1)/4 + %7", where %7 is a node of the program.
std::string IndexText(const IndexSpace& space, IndexId id);

}  // namespace krafla::plan
