// SPDX-License-Identifier: Apache-2.0
// The product of Householder reflectors, as LAPACK's orgqr defines it.
#include "spirv_codegen/kernels/reflectors.h"

namespace krafla::spirv {

// The columns of the product do not depend on each other: each has an invocation, which applies the blocks of
// reflectors from the last to the first. The work of an invocation in one dispatch cannot be cut, so each dispatch
// applies some blocks.
Result<EmittedProgram> EmitHouseholderProduct(const plan::KernelPlan& plan, const plan::LinalgKernel& k,
                                              const Target& target) {
  constexpr int kA = 0, kTaus = 1, kOut = 2;
  constexpr int64_t kMostTurns = int64_t{1} << 16;
  const int64_t block = target.tuning.linalg.reflectors, rest = k.reflectors % block, whole = k.reflectors - rest;
  const bool narrow = Numbers::WideType(k.type) != k.type;
  std::vector<int64_t> scratch = {std::max<int64_t>(k.batch * k.reflectors * block, 1)};
  if (narrow) scratch.push_back(k.batch * k.rows * k.columns);
  LinalgProgram program(plan, k, target, scratch);
  const int products = program.scratch(0), work = narrow ? program.scratch(1) : kOut;
  const auto place = [&](LinalgKernelWriter& w, Value r, Value c) {
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k.rows)), r), w.U32(k.columns)), c);
  };
  const auto reflector = [&](LinalgKernelWriter& w, Value r, Value c) {
    return w.numbers.Load(kA, k.type, place(w, r, c));
  };
  // Where the numbers of one reflector begin.
  const auto saved = [&](LinalgKernelWriter& w, Value j) {
    return w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(k.reflectors)), j), w.U32(block));
  };

  const int identity = program.AddElements("qr.identity", [&](LinalgKernelWriter& w) {
    Builder& b = w.b;
    const Value row = b.UDiv(w.item, w.U32(k.columns)), column = b.Sub(w.item, b.Mul(row, w.U32(k.columns)));
    w.numbers.StoreWide(work, place(w, row, column),
                        w.numbers.Select(b.Compare(Cmp::kEq, row, column), w.numbers.Real(1), w.numbers.Real(0)));
  });
  KRAFLA_TRY(program.Run(identity, k.rows * k.columns));
  const int multiply = program.Add("qr.products", [&](LinalgKernelWriter& w) {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    const Value j = b.UDiv(w.item, w.U32(block)), before = b.Sub(w.item, b.Mul(j, w.U32(block)));
    const Value i = b.Add(b.Mul(b.UDiv(j, w.U32(block)), w.U32(block)), before);
    b.If(b.Compare(Cmp::kULt, i, j), [&] {
      const Number top[] = {reflector(w, j, i)};
      const Values sum =
          b.For(b.Add(j, b.U32(1)), w.U32(k.rows), b.U32(1), n.Pack(top), [&](Value r, const Values& carried) {
            const Number next[] = {n.Add(n.Unpack(carried, 0), n.Mul(n.Conj(reflector(w, r, j)), reflector(w, r, i)))};
            return n.Pack(next);
          });
      n.StoreWide(products, b.Add(saved(w, j), before), n.Unpack(sum, 0));
    });
  });
  KRAFLA_TRY(program.Run(multiply, k.reflectors * block));

  const auto apply = [&](LinalgKernelWriter& w, int64_t count, Value first) {
    Builder& b = w.b;
    const auto of = [&](int j) { return b.Add(first, w.U32(j)); };
    ReflectorBlock reflectors{
        .count = static_cast<int>(count),
        .first = first,
        .rows = w.U32(k.rows),
        .v = [&](Value r, int j) { return reflector(w, r, of(j)); },
        .four = {},
        .tau = [&](int j) { return w.numbers.Load(kTaus, k.type, b.Add(b.Mul(w.matrix, w.U32(k.reflectors)), of(j))); },
        .product = [&](int j, int i) { return w.numbers.LoadWide(products, b.Add(saved(w, of(j)), w.U32(i))); },
        .backward = true};
    if (!w.numbers.complex() && k.columns % 4 == 0 && block % 4 == 0)
      reflectors.four = [&](Value r, int j) { return w.numbers.LoadFour(kA, k.type, place(w, r, of(j))); };
    // Reflectors after the column meet zeros only and change nothing.
    b.If(b.Compare(Cmp::kULe, first, w.item), [&] {
      ApplyReflectors(
          w, reflectors, [&](Value r) { return w.numbers.LoadWide(work, place(w, r, w.item)); },
          [&](Value r, Number v) { w.numbers.StoreWide(work, place(w, r, w.item), v); });
    });
  };
  if (rest > 0) {
    const int last = program.Add("qr.product", [&](LinalgKernelWriter& w) { apply(w, rest, w.U32(whole)); });
    KRAFLA_TRY(program.Run(last, k.columns));
  }
  if (whole > 0) {
    const int64_t most = std::max<int64_t>(1, kMostTurns / std::max<int64_t>(k.rows, 1)) * block;
    const int product = program.Add("qr.product", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const Value end = b.Min(b.Add(w.at, w.U32(most)), w.U32(whole));
      b.For(w.at, end, w.U32(block),
            [&](Value turn) { apply(w, block, b.Sub(b.Sub(end, w.U32(block)), b.Sub(turn, w.at))); });
    });
    for (int64_t at = (whole - 1) / most * most; at >= 0; at -= most) KRAFLA_TRY(program.Run(product, k.columns, at));
  }
  if (narrow) KRAFLA_TRY(program.RunRound("qr.round", work, kOut, k.rows * k.columns));
  return program.Take();
}

}  // namespace krafla::spirv
