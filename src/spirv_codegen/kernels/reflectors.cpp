// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/reflectors.h"

namespace krafla::spirv {

void ApplyReflectors(LinalgKernelWriter& w, const ReflectorBlock& block, const std::function<Number(Value row)>& load,
                     const std::function<void(Value row, Number value)>& store) {
  Builder& b = w.b;
  Numbers& n = w.numbers;
  const int count = block.count;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto row = [&](int i) { return b.Add(block.first, b.U32(static_cast<uint32_t>(i))); };
  const Value below = row(count);
  // Of all reflectors in a row below those in which they begin.
  const auto all_of = [&](Value r) {
    std::vector<Number> v;
    for (int j = 0; j < count; ++j) {
      if (!block.four || j + 4 > count) {
        v.push_back(block.v(r, j));
        continue;
      }
      const Value four = block.four(r, j);
      for (int lane = 0; lane < 4; ++lane) v.push_back({b.Extract(four, lane), {}});
      j += 3;
    }
    return v;
  };

  // The rows in which reflectors begin, where reflector j has zeros above row j; then those below.
  std::vector<Number> top, w_of;
  for (int i = 0; i < count; ++i) top.push_back(load(row(i)));
  for (int j = 0; j < count; ++j) {
    Number sum = top[at(j)];
    for (int i = j + 1; i < count; ++i) sum = n.Add(sum, n.Mul(n.Conj(block.v(row(i), j)), top[at(i)]));
    w_of.push_back(sum);
  }
  const Values sums = b.For(below, block.rows, b.U32(1), n.Pack(w_of), [&](Value r, const Values& carried) {
    const Number x = load(r);
    const std::vector<Number> v = all_of(r);
    std::vector<Number> next;
    for (int j = 0; j < count; ++j) next.push_back(n.Add(n.Unpack(carried, at(j)), n.Mul(n.Conj(v[at(j)]), x)));
    return n.Pack(next);
  });

  std::vector<Number> y(at(count), n.Real(0));
  for (int turn = 0; turn < count; ++turn) {
    const int j = block.backward ? count - 1 - turn : turn;
    Number rest = n.Unpack(sums, at(j));
    for (int before = 0; before < turn; ++before) {
      const int i = block.backward ? count - 1 - before : before;
      const Number product = i < j ? block.product(j, i) : n.Conj(block.product(i, j));
      rest = n.Sub(rest, n.Mul(product, y[at(i)]));
    }
    y[at(j)] = n.Mul(block.tau(j), rest);
  }

  for (int i = 0; i < count; ++i) {
    Number x = n.Sub(top[at(i)], y[at(i)]);
    for (int j = 0; j < i; ++j) x = n.Sub(x, n.Mul(block.v(row(i), j), y[at(j)]));
    store(row(i), x);
  }
  b.For(below, block.rows, b.U32(1), [&](Value r) {
    Number x = load(r);
    const std::vector<Number> v = all_of(r);
    for (int j = 0; j < count; ++j) x = n.Sub(x, n.Mul(v[at(j)], y[at(j)]));
    store(r, x);
  });
}

}  // namespace krafla::spirv
