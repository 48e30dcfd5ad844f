// SPDX-License-Identifier: Apache-2.0
#include "same_results.h"

#include <gtest/gtest.h>

#include <limits>

#include "evaluator/evaluator.h"
#include "pass_harness.h"

namespace krafla {

Literal SmallNumbers(const Shape& shape, uint32_t seed, float unit) {
  auto out = Literal::Create(shape);
  KRAFLA_CHECK(out.has_value());
  uint32_t state = seed * 2654435761u + 12345u;
  auto next = [&] { return static_cast<int>((state = state * 1664525u + 1013904223u) >> 28) - 8; };
  if (shape.element_type() == ElementType::kF32)
    for (float& v : out->data<float>()) v = static_cast<float>(next()) * unit;
  else if (shape.element_type() == ElementType::kS32)
    for (int32_t& v : out->data<int32_t>()) v = next();
  else if (shape.element_type() == ElementType::kPred)
    for (uint8_t& v : out->data<uint8_t>()) v = next() > 0;
  return std::move(*out);
}

Result<Literal> RunWith(const Module& module, const std::vector<Literal>& arguments) {
  std::vector<const Literal*> pointers;
  for (const Literal& l : arguments) pointers.push_back(&l);
  return Evaluate(*module.entry(), pointers);
}

std::unique_ptr<Module> ExpectSame(std::string_view text, const std::vector<std::string>& passes, double tolerance,
                                   const Literal* last) {
  auto before = ParseHloText(text);
  auto after = RunOn(text, passes);
  if (!before || !after || !Verify(**before)) {
    ADD_FAILURE() << "cannot run\n" << text;
    return nullptr;
  }
  std::vector<Literal> arguments;
  for (const Instruction* p : (*before)->entry()->parameters())
    arguments.push_back(SmallNumbers(p->shape(), static_cast<uint32_t>(arguments.size() + 1), 0.25F));
  if (last != nullptr) arguments.back() = *last;
  auto x = RunWith(**before, arguments);
  auto y = RunWith(*after, arguments);
  if (!x || !y) {
    ADD_FAILURE() << (x ? y.error() : x.error()).ToString();
    return nullptr;
  }
  auto xs = x->ArrayLeaves(), ys = y->ArrayLeaves();
  EXPECT_EQ(xs.size(), ys.size());
  for (std::size_t n = 0; n < std::min(xs.size(), ys.size()); ++n) {
    if (tolerance == 0) {
      EXPECT_TRUE(*xs[n] == *ys[n]) << "output " << n << " of\n" << text;
      continue;
    }
    for (std::size_t e = 0; e < xs[n]->data<float>().size(); ++e)
      EXPECT_NEAR(xs[n]->data<float>()[e], ys[n]->data<float>()[e], tolerance) << "output " << n << " of\n" << text;
  }
  return after;
}

Literal FloatLine(int64_t rows, int64_t length) {
  auto out = Literal::Create(*Shape::MakeArray(ElementType::kF32, Dims{rows, length}.span()));
  KRAFLA_CHECK(out.has_value());
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float kinds[] = {0.0f, -0.0f, 1.0f, nan, -inf, -1.0f, 1.0f, -nan, inf, 0.0f, -0.0f, nan, 1e-40f};
  uint32_t state = 7;
  for (float& v : out->data<float>()) v = kinds[((state = state * 1664525u + 1013904223u) >> 16) % std::size(kinds)];
  return std::move(*out);
}

}  // namespace krafla
