// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/corpus.h"

namespace krafla {
namespace {

using Kind = Tolerance::Kind;

Literal Make(std::string_view shape, std::string_view text) {
  auto l = ParseLiteral(text, *ParseShape(shape));
  EXPECT_TRUE(l.has_value()) << (l ? "" : l.error().ToString());
  return std::move(*l);
}
bool Passes(std::string_view shape, std::string_view got, std::string_view expected, Tolerance tolerance) {
  return Compare(Make(shape, got), Make(shape, expected), nullptr, tolerance).passed;
}

TEST(Compare, Bits) {
  EXPECT_TRUE(Passes("f32[2]", "{1,-0.0}", "{1,-0.0}", {Kind::kBits}));
  EXPECT_FALSE(Passes("f32[1]", "{0}", "{-0.0}", {Kind::kBits}));
  EXPECT_FALSE(Passes("f32[1]", "{nan}", "{nan(0x1)}", {Kind::kBits}));
  // Integers are bits under every rule.
  EXPECT_FALSE(Passes("s32[1]", "{5}", "{6}", {Kind::kClose, 0, 10, 10, 0}));
}

TEST(Compare, Exact) {
  EXPECT_TRUE(Passes("f32[3]", "{nan,inf,1}", "{-nan(0x1),inf,1}", {Kind::kExact}));
  EXPECT_FALSE(Passes("f32[1]", "{0}", "{-0.0}", {Kind::kExact}));
  EXPECT_FALSE(Passes("f32[1]", "{inf}", "{-inf}", {Kind::kExact}));
  EXPECT_FALSE(Passes("f32[1]", "{nan}", "{1}", {Kind::kExact}));
}

TEST(Compare, Ulp) {
  EXPECT_TRUE(Passes("f32[1]", "{1.0000002384}", "{1}", {Kind::kUlp, 2}));
  EXPECT_FALSE(Passes("f32[1]", "{1.0000003576}", "{1}", {Kind::kUlp, 2}));
  EXPECT_TRUE(Passes("f32[1]", "{0}", "{-0.0}", {Kind::kUlp, 0}));
  // Across zero the distance counts both sides.
  EXPECT_TRUE(Passes("f32[1]", "{1e-45}", "{-1e-45}", {Kind::kUlp, 2}));
  EXPECT_FALSE(Passes("f32[1]", "{1e-45}", "{-1e-45}", {Kind::kUlp, 1}));
  EXPECT_TRUE(Passes("f32[1]", "{0.001}", "{0}", {Kind::kUlp, 1, 0.01, 0, 0}));
  // The largest number and infinity are neighbours, but not without any ULP, and never by atol.
  EXPECT_TRUE(Passes("f32[1]", "{inf}", "{3.4028235e38}", {Kind::kUlp, 1}));
  EXPECT_FALSE(Passes("f32[1]", "{inf}", "{3.4028235e38}", {Kind::kUlp, 0, 1e300, 0, 0}));
  EXPECT_FALSE(Passes("f32[1]", "{inf}", "{-inf}", {Kind::kUlp, INT64_MAX}));
  EXPECT_TRUE(Passes("f64[1]", "{-1e308}", "{1e308}", {Kind::kUlp, INT64_MAX}) ==
              Passes("f64[1]", "{1e308}", "{-1e308}", {Kind::kUlp, INT64_MAX}));
  EXPECT_TRUE(Passes("bf16[1]", "{1.0078125}", "{1}", {Kind::kUlp, 1}));
  EXPECT_FALSE(Passes("bf16[1]", "{1.015625}", "{1}", {Kind::kUlp, 1}));
  EXPECT_FALSE(Passes("c64[1]", "{(1,2)}", "{(1,2.5)}", {Kind::kUlp, 3}));
}

TEST(Compare, Close) {
  EXPECT_TRUE(Passes("f32[1]", "{0}", "{-0.0}", {Kind::kClose}));
  EXPECT_FALSE(Passes("f32[1]", "{1e-45}", "{0}", {Kind::kClose}));
  EXPECT_TRUE(Passes("f32[1]", "{10.5}", "{10}", {Kind::kClose, 0, 0.25, 0.025, 0}));
  EXPECT_FALSE(Passes("f32[1]", "{10.5001}", "{10}", {Kind::kClose, 0, 0.25, 0.025, 0}));
  EXPECT_FALSE(Passes("f32[1]", "{inf}", "{1}", {Kind::kClose, 0, 1e300, 1, 0}));
  EXPECT_FALSE(Passes("f32[1]", "{1}", "{inf}", {Kind::kClose, 0, 1e300, 1, 0}));
  EXPECT_FALSE(Passes("f32[1]", "{nan}", "{1}", {Kind::kClose, 0, 1e300, 1, 0}));
  EXPECT_TRUE(Passes("f32[2]", "{nan,-inf}", "{nan,-inf}", {Kind::kClose}));
  // Complex: the modulus, and one NaN part is as good as another.
  EXPECT_TRUE(Passes("c64[1]", "{(3,4)}", "{(3,4.5)}", {Kind::kClose, 0, 0.5, 0, 0}));
  EXPECT_FALSE(Passes("c64[1]", "{(3.4,4)}", "{(3,4.5)}", {Kind::kClose, 0, 0.5, 0, 0}));
  EXPECT_TRUE(Passes("c64[1]", "{(nan,1)}", "{(2,nan)}", {Kind::kClose}));
  EXPECT_FALSE(Passes("c64[1]", "{(nan,1)}", "{(2,1)}", {Kind::kClose}));
  EXPECT_TRUE(Passes("c64[1]", "{(inf,1)}", "{(2,-inf)}", {Kind::kClose}));
}

TEST(Compare, AlternativesCountElementByElement) {
  Literal a = Make("f32[2]", "{1,2}"), b = Make("f32[2]", "{5,6}");
  EXPECT_TRUE(Compare(Make("f32[2]", "{1,6}"), a, &b, {Kind::kExact}).passed);
  auto bad = Compare(Make("f32[2]", "{1,7}"), a, &b, {Kind::kExact});
  EXPECT_FALSE(bad.passed);
  EXPECT_NE(bad.reason.find("[1]"), std::string::npos) << bad.reason;
  EXPECT_NE(bad.reason.find("7 (0x40e00000)"), std::string::npos) << bad.reason;
}

TEST(Compare, AShareMayBeOutside) {
  Tolerance t{Kind::kClose, 0, 0, 0, 0.25};
  EXPECT_TRUE(Passes("f32[4]", "{1,2,3,9}", "{1,2,3,4}", t));
  EXPECT_FALSE(Passes("f32[4]", "{1,2,9,9}", "{1,2,3,4}", t));
  EXPECT_TRUE(Passes("s32[4]", "{1,2,3,9}", "{1,2,3,4}", t));
}

TEST(Compare, ReferencesMayBeWider) {
  Literal got = Make("f32[1]", "{0.1}"), ref = Make("f64[1]", "{0.1}");
  EXPECT_TRUE(Compare(got, ref, nullptr, {Kind::kClose, 0, 1e-8, 0, 0}).passed);
  EXPECT_FALSE(Compare(got, ref, nullptr, {Kind::kClose, 0, 1e-10, 0, 0}).passed);
  EXPECT_FALSE(Compare(got, ref, nullptr, {Kind::kUlp, 100}).passed);
  EXPECT_FALSE(Compare(Make("s32[1]", "{1}"), Make("s64[1]", "{1}"), nullptr, {Kind::kClose, 0, 1, 1, 0}).passed);
}

TEST(Compare, ShapesMustAgree) {
  auto c = Compare(Make("f32[2]", "{1,2}"), Make("f32[1,2]", "{{1,2}}"), nullptr, {Kind::kExact});
  EXPECT_FALSE(c.passed);
  EXPECT_EQ(c.reason, "the result is f32[2], expected f32[1,2]");
  EXPECT_TRUE(Passes("f32[0]", "{}", "{}", {Kind::kBits}));
}

TEST(Compare, Measures) {
  auto c = Compare(Make("f32[2]", "{1.5,4}"), Make("f32[2]", "{1,4}"), nullptr, {Kind::kClose, 0, 1, 0, 0});
  EXPECT_TRUE(c.passed);
  EXPECT_EQ(c.max_abs, 0.5);
  EXPECT_EQ(c.max_rel, 0.5);
  EXPECT_EQ(c.max_ulp, 4194304.0);
}

}  // namespace
}  // namespace krafla
