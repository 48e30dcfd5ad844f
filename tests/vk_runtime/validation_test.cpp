// SPDX-License-Identifier: Apache-2.0
// KRAFLA_VALIDATE=gpu: what a shader reads and writes outside of every buffer is told of, and nothing else is.
#include "test_device.h"

namespace krafla::vk {
namespace {

class ShaderValidation : public DeviceTest {
 protected:
  void SetUp() override {
    auto instance = Instance::Create({.validation = Validation::kShaders});
    if (!instance) GTEST_SKIP() << instance.error().ToString();
    instance_ = std::move(*instance);
  }
  // 64 words, of which the shader believes that there are `words`.
  std::vector<std::string> MessagesOfAxpy(uint32_t words) {
    Open();
    auto pipelines = MakePipelines({AxpyKernel(device_->profile())});
    std::vector<ProgramBuffer> buffers;
    std::vector<std::shared_ptr<Buffer>> kept;
    for (int b = 0; b < 3; ++b) {
      kept.push_back(MakeBuffer(Ramp(64)));
      buffers.push_back(ProgramBuffer::Fixed(kept.back()));
    }
    Launch launch = Axpy(0, 1, 2, 64, 3);
    launch.grid[0] = words / 64;
    launch.push[0] = words;
    auto program = Program::Create(device_, buffers, pipelines, {launch});
    EXPECT_OK(program);
    if (!program) return {};
    EXPECT_OK((*program)->Run({}));
    // Some come later, when the layer has looked at what the shader left.
    program->reset();
    buffers.clear(), kept.clear(), pipelines.clear();
    device_.reset();
    return instance_->TakeValidationMessages();
  }
};

TEST_P(ShaderValidation, TellsOfWhatLiesOutsideOfBuffers) {
  Open();
  const bool is_checked = device_->profile().features.int64;
  device_.reset();
  if (!is_checked) {
    instance_->TakeValidationMessages();  // that it turns these checks off
    GTEST_SKIP() << "The layer looks at no accesses on devices without 64-bit integers, and they would be made.";
  }
  EXPECT_EQ(MessagesOfAxpy(64), std::vector<std::string>());
  const std::vector<std::string> messages = MessagesOfAxpy(1 << 14);
  ASSERT_FALSE(messages.empty());
  EXPECT_NE(messages[0].find("ut of bounds"), std::string::npos) << messages[0];
}
INSTANTIATE_TEST_SUITE_P(Bindings, ShaderValidation, ::testing::Values(Modes{}, Modes{"bda"}), ModeName);

}  // namespace
}  // namespace krafla::vk
