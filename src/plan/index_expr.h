// SPDX-License-Identifier: Apache-2.0
// Index arithmetic of a kernel, kept as sums of terms so that strides can be read off and floor/mod cancel.
// An IndexExpr is constant + sum of coefficient * atom; an atom is an iteration variable, a floor division or modulus
// of another expression by a constant, or an integer computed by the program (a gather's start). Every expression has
// a proven range; division and modulus are only made of non-negative expressions.
//
// Expressions are kept in a normal form, so that equal expressions have one id and the simplest form is the one that
// kernels evaluate:
//   - Terms that the divisor divides are taken out of a division or modulus, and the rest is divided by its common
//     factor: (48*i0 + i1)/768 is i0/16 where i1 < 48, and (48*i0 + i1)%768 is 48*(i0%16) + i1.
//   - A division or modulus that its range decides is not made: i0/16 is 0 where i0 < 16, and i0%16 is i0.
//   - A division of a division is one division, a modulus of a modulus that it divides is one modulus, and (e%12)/4 is
//     (e/4)%3.
//   - A number that was split and is joined again is the number: 16*(i0/16) + i0%16 is i0.
// No step makes a dividend that does not fit 32 bits out of one that does, because kernels evaluate it in 32 bits.
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

// Owns the atoms and expressions of one program. Equal expressions have the same id; id 0 is the constant 0.
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
  IndexId OfAtom(AtomId atom) { return Intern({0, {{1, atom}}}); }  // the expression that is this atom alone
  IndexId Add(IndexId a, IndexId b);
  IndexId Sub(IndexId a, IndexId b);
  IndexId Mul(IndexId a, int64_t factor);
  IndexId AddConstant(IndexId a, int64_t value) { return Add(a, Constant(value)); }
  // The range of `a` must prove that it is not negative, and the divisor is positive.
  IndexId FloorDiv(IndexId a, int64_t divisor);
  IndexId Mod(IndexId a, int64_t divisor);

  using Range = Interval;
  Range RangeOf(IndexId id) const;
  uint64_t Depends(IndexId id) const;
  // Whether a value that the program has read is among its terms: neighbours in memory are not known then.
  bool HasValue(IndexId id) const;
  bool IsConstant(IndexId id) const { return expr(id).terms.empty(); }

  // How `id` changes with iteration dimension `dim` while the others stay: the coefficient where the dependence is
  // affine, that is where no atom but the iterator itself varies with `dim`; nullopt otherwise.
  struct Affine {
    bool affine = false;
    int64_t stride = 0;
  };
  Affine StrideAlong(IndexId id, int dim) const;

  // Row-major linear index of `index` in `dims`, and back.
  IndexId Linearize(std::span<const IndexId> index, std::span<const int64_t> dims);
  std::vector<IndexId> Delinearize(IndexId linear, std::span<const int64_t> dims);

  // To be called when the program's nodes were renumbered: node n became to[n]. Atoms of nodes that are gone must not
  // be used again.
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
  IndexId OfAtom(const IndexAtom& atom) { return OfAtom(InternAtom(atom)); }
  // A dividend split by the divisor: it is `multiples` times the divisor plus `rest`, which is not negative.
  struct Dividend {
    IndexId multiples, rest;
    Range range;  // of the rest
  };
  Dividend Split(IndexId a, int64_t divisor);
  // `rest` as factor * whole + part, where the factor is above 1 and divides the divisor, and 0 <= part < factor.
  struct Factored {
    int64_t factor;
    IndexExpr whole, part;
  };
  std::optional<Factored> FactorOut(IndexId rest, int64_t divisor) const;
  // The dividend of a modulus by `divisor`, without the moduli inside it that make no difference to the result.
  IndexId WithoutInnerModuli(IndexId rest, int64_t divisor);
  // Whether `quotient` is floor(e / divisor).
  bool IsQuotient(const IndexAtom& quotient, IndexId e, int64_t divisor) const;
  // The sum of two terms that are the parts of one split, as factor * id; nothing for other terms.
  struct Joined {
    IndexId id;
    int64_t factor;
  };
  std::optional<Joined> Join(const IndexTerm& high, const IndexTerm& low);

  Dims dims_;
  std::vector<IndexExpr> exprs_;
  std::vector<IndexAtom> atoms_;
  // Open hash tables of ids (-1: free), made when there are too many ids to compare with each.
  std::vector<int> expr_table_, atom_table_;
};

// The expression as text, for people and tests: "48*i0 + (i1)/4 + %7", where %7 is a node of the program.
std::string IndexText(const IndexSpace& space, IndexId id);

}  // namespace krafla::plan
