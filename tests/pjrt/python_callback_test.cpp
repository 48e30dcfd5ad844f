// SPDX-License-Identifier: Apache-2.0
// Programs that call back, in the order that tokens give, and the options of compiling.
#include "plugins/pjrt/python_callback.h"

#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

std::vector<std::string> seen;

// Notes what came; gives the doubles; fails for "fail".
int Note(const char* config, size_t config_size, const KraflaHostArray* operands, size_t num_operands,
         KraflaHostArray* results, size_t num_results, char* error, size_t error_capacity) {
  std::string text(config, config_size);
  for (size_t i = 0; i < num_operands; ++i) {
    text += " " + std::string(operands[i].type) + "[";
    for (size_t d = 0; d < operands[i].rank; ++d) text += std::to_string(operands[i].dims[d]);
    text += "]";
  }
  seen.push_back(text);
  if (text.find("fail") != std::string::npos) {
    std::snprintf(error, error_capacity, "no doubles today");
    return 1;
  }
  if (text.find("bits") != std::string::npos) {
    for (size_t i = 0; i < num_results; ++i)
      for (size_t n = 0; n < results[i].bytes; ++n) static_cast<unsigned char*>(results[i].data)[n] = 9;
    return 0;
  }
  for (size_t i = 0; i < num_results; ++i)
    for (size_t n = 0; n < results[i].bytes / sizeof(float); ++n)
      static_cast<float*>(results[i].data)[n] = 2 * static_cast<const float*>(operands[i].data)[n];
  return 0;
}

class PythonCallbackTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    seen.clear();
    void* library = dlopen(KRAFLA_PJRT_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    auto* set = reinterpret_cast<void (*)(KraflaPythonCallback)>(dlsym(library, "krafla_set_python_callback"));
    ASSERT_NE(set, nullptr);
    set(Note);
  }

  const Client client_ = NewClient(GetParam());
  PJRT_Device* const device_ = Devices(client_)[0];
};

TEST_P(PythonCallbackTest, GivesArraysBothWays) {
  const Loaded loaded = Compile(client_, R"(HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  d = (f32[4], f32[4]) custom-call(a, b), custom_call_target="krafla_python_callback", backend_config="two"
  x = f32[4] get-tuple-element(d), index=0
  y = f32[4] get-tuple-element(d), index=1
  ROOT r = f32[4] subtract(y, x)
})");
  const Buffer a = Floats(client_, device_, {1, 2, 3, 4}), b = Floats(client_, device_, {2, 4, 6, 8});
  const Outcome out = Execute(loaded, {{a.get(), b.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{2, 4, 6, 8}));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_NE(seen[0].find("two"), std::string::npos) << seen[0];
  EXPECT_NE(seen[0].find(" f32[4] f32[4]"), std::string::npos) << seen[0];
}

// The host says nothing by the upper bits of a number of less than a byte: 9 is -7 in s4, 1 in u2 and s2.
TEST_P(PythonCallbackTest, FewBitsOfAByteCount) {
  const Loaded loaded = Compile(client_, R"(HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  d = (s4[3], u2[3], s2[3], pred[3]) custom-call(a), custom_call_target="krafla_python_callback", backend_config="bits"
  w = s4[3] get-tuple-element(d), index=0
  x = u2[3] get-tuple-element(d), index=1
  y = s2[3] get-tuple-element(d), index=2
  z = pred[3] get-tuple-element(d), index=3
  fw = f32[3] convert(w)
  fx = f32[3] convert(x)
  fy = f32[3] convert(y)
  fz = f32[3] convert(z)
  ROOT r = f32[12] concatenate(fw, fx, fy, fz), dimensions={0}
})");
  const Buffer a = Floats(client_, device_, {1, 2, 3, 4});
  const Outcome out = Execute(loaded, {{a.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  EXPECT_EQ(ToHost<float>(out.results[0][0]), (std::vector<float>{-7, -7, -7, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST_P(PythonCallbackTest, ItsErrorIsTheRuns) {
  const Loaded loaded = Compile(client_, R"(HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  ROOT d = f32[4] custom-call(a), custom_call_target="krafla_python_callback", backend_config="fail"
})");
  const Buffer a = Floats(client_, device_, {1, 2, 3, 4});
  const Outcome out = Execute(loaded, {{a.get()}});
  // Of the call: a caller that reads no result learns it too.
  EXPECT_EQ(out.error.code, 13u);
  EXPECT_NE(out.error.message.find("no doubles today"), std::string::npos) << out.error.message;
  // The next run is as good as any.
  EXPECT_EQ(Execute(loaded, {{a.get()}}).error.code, 13u);
  EXPECT_EQ(seen.size(), 2u);
}

TEST_P(PythonCallbackTest, HasBeenCalledWhenTheCallReturns) {
  const Loaded loaded = Compile(client_, R"(HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  ROOT d = f32[4] custom-call(a), custom_call_target="krafla_python_callback", backend_config="id:1:2"
})");
  const Buffer a = Floats(client_, device_, {1, 2, 3, 4});
  for (std::size_t run = 1; run <= 3; ++run) {
    const Outcome out = Execute(loaded, {{a.get()}});
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    EXPECT_EQ(seen.size(), run);
  }
}

// JAX gives an empty array for the first token, and what a run gave for the next.
TEST_P(PythonCallbackTest, TokensComeInAndGoOut) {
  const Loaded loaded = Compile(client_, R"(
module @m {
  func.func public @main(%t: !stablehlo.token, %a: tensor<4xf32>) -> (!stablehlo.token, tensor<4xf32>) {
    %0 = stablehlo.custom_call @krafla_python_callback(%t, %a) {has_side_effect = true, backend_config = "first"} : (!stablehlo.token, tensor<4xf32>) -> !stablehlo.token
    %1 = stablehlo.custom_call @krafla_python_callback(%0, %a) {has_side_effect = true, backend_config = "second"} : (!stablehlo.token, tensor<4xf32>) -> !stablehlo.token
    return %1, %a : !stablehlo.token, tensor<4xf32>
  }
})",
                                "mlir");
  const Buffer a = Floats(client_, device_, {1, 2, 3, 4}), empty = Floats(client_, device_, {});
  const Outcome one = Execute(loaded, {{empty.get(), a.get()}});
  ASSERT_EQ(one.error.code, 0u) << one.error.message;
  const Outcome two = Execute(loaded, {{one.results[0][0].get(), a.get()}});
  ASSERT_EQ(two.error.code, 0u) << two.error.message;
  EXPECT_EQ(ToHost<float>(two.results[0][1]), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_EQ(seen.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NE(seen[i].find(i % 2 == 0 ? "first" : "second"), std::string::npos) << seen[i];
  const Outcome wrong = Execute(loaded, {{a.get(), a.get()}});
  EXPECT_EQ(wrong.error.code, 3u) << wrong.error.message;
}

INSTANTIATE_TEST_SUITE_P(Devices, PythonCallbackTest, testing::Values("cpu"));

}  // namespace
}  // namespace krafla::pjrt_test
