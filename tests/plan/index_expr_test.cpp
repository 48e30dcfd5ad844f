// SPDX-License-Identifier: Apache-2.0
#include "plan/index_expr.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "index_text.h"
#include "krafla/status.h"

namespace krafla::plan {
namespace {

// What becomes of an expression over an iteration space of `dims`.
std::string Made(std::initializer_list<int64_t> dims, std::string_view text) {
  IndexSpace space(std::span<const int64_t>(dims.begin(), dims.size()));
  return IndexText(space, IndexReader(space, text).Read());
}

TEST(IndexExprTest, SumsAreInOrderOfTheirAtoms) {
  EXPECT_EQ(Made({8, 9}, "i0 + 3*i1 + 2*i0 + 4"), "3*i0 + 3*i1 + 4");
  EXPECT_EQ(Made({8, 9}, "i0 - i0"), "0");
  EXPECT_EQ(Made({8, 1}, "i0 + 5*i1"), "i0");  // an iterator over one element is 0
}

TEST(IndexExprTest, MultiplesLeaveADivision) {
  EXPECT_EQ(Made({8, 9}, "(9*i0 + i1)/9"), "i0");
  EXPECT_EQ(Made({8, 9}, "(9*i0 + i1)%9"), "i1");
  EXPECT_EQ(Made({8, 9}, "(18*i0 + i1 + 9)/9"), "2*i0 + 1");
  EXPECT_EQ(Made({8, 9}, "(10*i0 + i1)/5"), "2*i0 + (i1)/5");
}

TEST(IndexExprTest, ASplitThatIsJoinedIsGone) {
  EXPECT_EQ(Made({90}, "9*(i0/9) + i0%9"), "i0");
  EXPECT_EQ(Made({90}, "18*(i0/9) + 2*(i0%9) + 1"), "2*i0 + 1");
}

TEST(IndexExprTest, DivisionsOfDivisionsAreOne) {
  EXPECT_EQ(Made({90}, "i0/3/5"), "(i0)/15");
  EXPECT_EQ(Made({90}, "i0%30%5"), "(i0)%5");
}

TEST(IndexExprTest, CommonFactorsLeaveADivision) {
  EXPECT_EQ(Made({64, 48}, "(48*i0 + i1)/768"), "(i0)/16");
  EXPECT_EQ(Made({64, 48}, "(48*i0 + i1)%768"), "i1 + 48*(i0)%16");
  EXPECT_EQ(Made({64, 48}, "(48*i0 + 47)/192"), "(i0)/4");
  EXPECT_EQ(Made({64, 49}, "(48*i0 + i1)/768"), "(48*i0 + i1)/768");  // i1 may be 48
  EXPECT_EQ(Made({9, 5, 2}, "(30*i0 + 6*i1 + 3*i2)/60"), "(i0)/2");   // 6*i1 + 3*i2 is at most 27
  EXPECT_EQ(Made({64, 48}, "768*((48*i0 + i1)/768) + 48*(i0%16) + i1"), "48*i0 + i1");
}

TEST(IndexExprTest, RangesDecideDivisions) {
  EXPECT_EQ(Made({4}, "(48*i0)/192"), "0");
  EXPECT_EQ(Made({3}, "i0%3"), "i0");
  EXPECT_EQ(Made({}, "v0:10..14/5"), "2");
  EXPECT_EQ(Made({}, "v0:10..14%5"), "%0 + -10");
}

TEST(IndexExprTest, ModuliWithinModuliAndDivisions) {
  EXPECT_EQ(Made({90, 8}, "(i0%30 + i1)%10"), "(i0 + i1)%10");
  EXPECT_EQ(Made({90, 8}, "(2*(i0%15) + i1)%10"), "(2*i0 + i1)%10");
  EXPECT_EQ(Made({90}, "i0%30/5"), "((i0)/5)%6");
  EXPECT_EQ(Made({90}, "i0%7%5"), "((i0)%7)%5");
}

TEST(IndexExprTest, SplitsOfSplitsAreJoined) {
  EXPECT_EQ(Made({90}, "15*(i0/15) + 3*(i0/3%5) + i0%3"), "i0");
  EXPECT_EQ(Made({90}, "3*(i0/3%5) + i0%3"), "(i0)%15");
  EXPECT_EQ(Made({90}, "5*(i0/15) + i0/3%5"), "(i0)/3");
}

TEST(IndexExprTest, RangesSaturate) {
  IndexSpace space(Dims{int64_t{1} << 40});
  const IndexId large = space.Mul(space.Iter(0), int64_t{1} << 40);
  EXPECT_EQ(space.RangeOf(large).lo, 0);
  EXPECT_EQ(space.RangeOf(large).hi, INT64_MAX);
}

// Expressions that are built at random operation by operation, beside what the operations mean, over all points.
class RandomExpressions {
 public:
  RandomExpressions(unsigned seed, const Dims& dims) : random_(seed), dims_(dims), space_(dims) {
    for (std::size_t d = 0; d < dims.size(); ++d)
      Add(space_.Iter(static_cast<int>(d)), [d](const Dims& point) { return point[d]; });
    // A value of the program, which is the last coordinate of a point.
    Add(space_.Value(0, 2, 7, 0), [n = dims.size()](const Dims& point) { return point[n]; });
  }

  void Grow(int steps) {
    for (int step = 0; step < steps; ++step) {
      const std::size_t a = Any(), b = Any();
      const int64_t number = 1 + static_cast<int64_t>(random_() % 13);
      const Meaning x = meanings_[a], y = meanings_[b];
      switch (random_() % 6) {
        case 0: Add(space_.Add(ids_[a], ids_[b]), [=](const Dims& p) { return x(p) + y(p); }); break;
        case 1: Add(space_.Sub(ids_[a], ids_[b]), [=](const Dims& p) { return x(p) - y(p); }); break;
        case 2: Add(space_.AddConstant(ids_[a], number), [=](const Dims& p) { return x(p) + number; }); break;
        case 3: Add(space_.Mul(ids_[a], number), [=](const Dims& p) { return x(p) * number; }); break;
        case 4:
          if (space_.RangeOf(ids_[a]).lo < 0) break;
          Add(space_.FloorDiv(ids_[a], number), [=](const Dims& p) { return x(p) / number; });
          break;
        case 5:
          if (space_.RangeOf(ids_[a]).lo < 0) break;
          Add(space_.Mod(ids_[a], number), [=](const Dims& p) { return x(p) % number; });
          break;
      }
    }
  }

  // The first difference between an expression and its meaning, or nothing.
  std::string Difference() const {
    Dims bounds = dims_;
    bounds.push_back(6);
    Dims point(bounds.size(), 0);
    do {
      Dims at = point;
      at.back() += 2;
      for (std::size_t n = 0; n < ids_.size(); ++n) {
        const int64_t wanted = meanings_[n](at), got = Value(ids_[n], at);
        const IndexSpace::Range range = space_.RangeOf(ids_[n]);
        if (got != wanted || !range.Contains(got))
          return Format("{} is {}, not {}, and said to be in [{}, {}]", IndexText(space_, ids_[n]), got, wanted,
                        range.lo, range.hi);
      }
    } while (Next(point, bounds));
    return {};
  }

 private:
  using Meaning = std::function<int64_t(const Dims&)>;

  void Add(IndexId id, Meaning meaning) {
    if (!space_.RangeOf(id).Within({-(int64_t{1} << 31), int64_t{1} << 31})) return;
    ids_.push_back(id);
    meanings_.push_back(std::move(meaning));
  }
  std::size_t Any() { return random_() % ids_.size(); }
  static bool Next(Dims& point, const Dims& bounds) {
    for (std::size_t d = point.size(); d-- > 0;) {
      if (++point[d] < bounds[d]) return true;
      point[d] = 0;
    }
    return false;
  }
  int64_t Value(IndexId id, const Dims& at) const {
    int64_t out = space_.expr(id).constant;
    for (const IndexTerm& t : space_.expr(id).terms) {
      const IndexAtom& a = space_.atom(t.atom);
      switch (a.kind) {
        case IndexAtom::Kind::kIter: out += t.coefficient * at[static_cast<std::size_t>(a.iter)]; break;
        case IndexAtom::Kind::kValue: out += t.coefficient * at.back(); break;
        case IndexAtom::Kind::kFloorDiv: out += t.coefficient * (Value(a.expr, at) / a.divisor); break;
        case IndexAtom::Kind::kMod: out += t.coefficient * (Value(a.expr, at) % a.divisor); break;
      }
    }
    return out;
  }

  std::mt19937 random_;
  Dims dims_;
  IndexSpace space_;
  std::vector<IndexId> ids_;
  std::vector<Meaning> meanings_;
};

TEST(IndexExprTest, ExpressionsMeanWhatTheirOperationsMean) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomExpressions expressions(seed, seed % 2 == 0 ? Dims{4, 6, 5} : Dims{2, 12});
    expressions.Grow(24);
    ASSERT_EQ(expressions.Difference(), "") << "seed " << seed;
  }
}

TEST(IndexExprTest, RangesAndStrides) {
  IndexSpace space(Dims{8, 9});
  const IndexId id = IndexReader(space, "3*i0 - 2*i1 + 20").Read();
  EXPECT_EQ(space.RangeOf(id).lo, 4);
  EXPECT_EQ(space.RangeOf(id).hi, 41);
  EXPECT_TRUE(space.StrideAlong(id, 1).affine);
  EXPECT_EQ(space.StrideAlong(id, 1).stride, -2);
  EXPECT_FALSE(space.StrideAlong(IndexReader(space, "i1/2").Read(), 1).affine);
  EXPECT_TRUE(space.StrideAlong(IndexReader(space, "i1/2").Read(), 0).affine);
}

TEST(IndexExprTest, DelinearizeUndoesLinearize) {
  IndexSpace space(Dims{4, 5, 6});
  const std::vector<IndexId> index = {space.Iter(0), space.Iter(1), space.Iter(2)};
  const Dims dims = {4, 5, 6};
  EXPECT_EQ(space.Delinearize(space.Linearize(index, dims), dims), index);
}

}  // namespace
}  // namespace krafla::plan
