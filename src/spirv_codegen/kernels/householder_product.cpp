// SPDX-License-Identifier: Apache-2.0
// The product of Householder reflectors, as LAPACK's orgqr defines it.
#include "spirv_codegen/kernels/reflectors.h"

namespace krafla::spirv {

namespace {

class HouseholderProduct {
 public:
  HouseholderProduct(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target)
      : k_(k),
        block_(target.tuning.linalg.reflectors),
        narrow_(Numbers::WideType(k.type) != k.type),
        program_(plan, k, target, Scratch()),
        products_(program_.scratch(0)),
        work_(narrow_ ? program_.scratch(1) : kOut) {}

  // The columns of the product do not depend on each other: each has an invocation, which applies the blocks of
  // reflectors from the last to the first. The work of an invocation in one dispatch cannot be cut, so each dispatch
  // applies some blocks.
  Result<EmittedProgram> Emit() {
    constexpr int64_t kMostTurns = int64_t{1} << 16;
    const int64_t rest = k_.reflectors % block_, whole = k_.reflectors - rest;
    KRAFLA_TRY(program_.Run(AddIdentity(), k_.rows * k_.columns));
    KRAFLA_TRY(program_.Run(AddProducts(), k_.reflectors * block_));
    if (rest > 0) {
      const int last =
          program_.Add("qr.product", [&](LinalgKernelWriter& w) { Apply(w, static_cast<int>(rest), w.U32(whole)); });
      KRAFLA_TRY(program_.Run(last, k_.columns));
    }
    if (whole > 0) {
      const int64_t most = std::max<int64_t>(1, kMostTurns / std::max<int64_t>(k_.rows, 1)) * block_;
      const int product = program_.Add("qr.product", [&](LinalgKernelWriter& w) {
        Builder& b = w.b;
        const Value end = b.Min(b.Add(w.at, w.U32(most)), w.U32(whole));
        b.For(w.at, end, w.U32(block_), [&](Value turn) {
          Apply(w, static_cast<int>(block_), b.Sub(b.Sub(end, w.U32(block_)), b.Sub(turn, w.at)));
        });
      });
      for (int64_t at = (whole - 1) / most * most; at >= 0; at -= most)
        KRAFLA_TRY(program_.Run(product, k_.columns, at));
    }
    if (narrow_) KRAFLA_TRY(program_.RunRound("qr.round", work_, kOut, k_.rows * k_.columns));
    return program_.Take();
  }

 private:
  // The products of reflectors with those of their block before them; the product in wide numbers.
  std::vector<int64_t> Scratch() const {
    std::vector<int64_t> out = {std::max<int64_t>(k_.batch * k_.reflectors * block_, 1)};
    if (narrow_) out.push_back(k_.batch * k_.rows * k_.columns);
    return out;
  }
  Value Place(LinalgKernelWriter& w, Value r, Value c) const {
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k_.rows)), r), w.U32(k_.columns)), c);
  }
  Number Reflector(LinalgKernelWriter& w, Value r, Value c) const {
    return w.numbers.Load(kA, k_.type, Place(w, r, c));
  }
  // Where the products of reflector j begin.
  Value Saved(LinalgKernelWriter& w, Value j) const {
    return w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k_.reflectors)), j), w.U32(block_));
  }

  int AddIdentity() {
    return program_.AddElements("qr.identity", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      const Value row = b.UDiv(w.item, w.U32(k_.columns)), column = b.Sub(w.item, b.Mul(row, w.U32(k_.columns)));
      n.StoreWide(work_, Place(w, row, column), n.Select(b.Compare(Cmp::kEq, row, column), n.Real(1), n.Real(0)));
    });
  }

  int AddProducts() {
    return program_.Add("qr.products", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      const Value j = b.UDiv(w.item, w.U32(block_)), before = b.Sub(w.item, b.Mul(j, w.U32(block_)));
      const Value i = b.Add(b.Mul(b.UDiv(j, w.U32(block_)), w.U32(block_)), before);
      b.If(b.Compare(Cmp::kULt, i, j), [&] {
        const Number top[] = {Reflector(w, j, i)};
        const Value below = b.Add(j, b.U32(1));
        const Values sum = b.For(below, w.U32(k_.rows), b.U32(1), n.Pack(top), [&](Value r, const Values& carried) {
          const Number product = n.Mul(n.Conj(Reflector(w, r, j)), Reflector(w, r, i));
          const Number next[] = {n.Add(n.Unpack(carried, 0), product)};
          return n.Pack(next);
        });
        n.StoreWide(products_, b.Add(Saved(w, j), before), n.Unpack(sum, 0));
      });
    });
  }

  // Applies `count` reflectors from number `first` on to this invocation's column.
  void Apply(LinalgKernelWriter& w, int count, Value first) const {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    const auto of = [&](int j) { return b.Add(first, w.U32(j)); };
    ReflectorBlock block;
    block.count = count;
    block.first = first;
    block.rows = w.U32(k_.rows);
    block.backward = true;
    block.v = [&](Value r, int j) { return Reflector(w, r, of(j)); };
    if (!n.complex() && k_.columns % 4 == 0 && block_ % 4 == 0)
      block.four = [&](Value r, int j) { return n.LoadFour(kA, k_.type, Place(w, r, of(j))); };
    block.tau = [&](int j) { return n.Load(kTaus, k_.type, b.Add(b.Mul(w.matrix, w.U32(k_.reflectors)), of(j))); };
    block.product = [&](int j, int i) { return n.LoadWide(products_, b.Add(Saved(w, of(j)), w.U32(i))); };
    // Reflectors after the column meet zeros only and change nothing.
    b.If(b.Compare(Cmp::kULe, first, w.item), [&] {
      ApplyReflectors(
          w, block, [&](Value r) { return n.LoadWide(work_, Place(w, r, w.item)); },
          [&](Value r, Number v) { n.StoreWide(work_, Place(w, r, w.item), v); });
    });
  }

  static constexpr int kA = 0, kTaus = 1, kOut = 2;
  const plan::LinalgKernel& k_;
  int64_t block_;  // reflectors of a block
  bool narrow_;
  LinalgProgram program_;
  int products_, work_;
};

}  // namespace

Result<EmittedProgram> EmitHouseholderProduct(const plan::KernelPlan& plan, const plan::LinalgKernel& k,
                                              const Target& target) {
  return HouseholderProduct(plan, k, target).Emit();
}

}  // namespace krafla::spirv
