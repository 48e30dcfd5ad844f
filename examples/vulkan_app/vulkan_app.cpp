// SPDX-License-Identifier: Apache-2.0
// A program with a Vulkan device of its own that runs a network on what its own kernel has made.
//
//   vulkan_app MODEL [--validate]
//
// Each frame is one command buffer and one submission of the program's: its kernel writes a picture into a part of its
// buffer, the network reads it there and writes its scores into another part, and the host reads those.
#include <vulkan/vulkan.h>

#include "app_device.h"

#include <krafla/session.h>
#include <krafla/vulkan.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>
#include <utility>

#include "vulkan_app_DESCRIPTORS.h"

namespace {

template <typename T>
T Must(krafla::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().ToString().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// As shaders/examples/vulkan_app.comp has it.
std::vector<float> PictureOf(std::size_t count, uint32_t frame) {
  std::vector<float> out(count);
  for (uint32_t i = 0; i < count; ++i) out[i] = static_cast<float>(i * 37 & 1023u >> frame) / 256.0f;
  return out;
}

// Weights for an input of this network, which takes them as arguments: as many as keep a layer's numbers near one, and
// positive ones where it takes roots of them.
std::vector<float> WeightsOf(const krafla::Shape& shape, uint32_t input) {
  std::vector<float> out(static_cast<std::size_t>(shape.byte_size()) / sizeof(float));
  float fan_in = 1;
  for (int64_t d = 0; d + 1 < shape.rank(); ++d) fan_in *= static_cast<float>(shape.dims()[d]);
  uint32_t state = 2654435761u * (input + 1);
  for (float& weight : out) {
    state = 1664525 * state + 1013904223;
    const float uniform = static_cast<float>(state >> 8) / 8388608.0f - 1;  // -1 to 1
    weight = shape.rank() == 1 ? 0.5f + 0.4f * uniform : 1.7f * uniform / std::sqrt(fan_in);
  }
  return out;
}

bool IsPicture(const krafla::Shape& shape) { return shape.rank() == 4 && shape.dims()[0] == 1 && shape.dims()[3] == 3; }

// Of all scores; NaN where one is.
float Difference(std::span<const float> a, std::span<const float> b) {
  float out = 0;
  for (std::size_t i = 0; i < a.size(); ++i) out += std::abs(a[i] - b[i]);
  return out;
}

constexpr VkDeviceSize kAlignment = 256;  // the largest that Vulkan allows devices to ask for

VkDeviceSize Aligned(VkDeviceSize bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// The program's frames: one command buffer, one fence.
class Frames {
 public:
  explicit Frames(const AppDevice& app) : app_(app) {
    auto pool = Vk<VkCommandPoolCreateInfo>(VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO);
    pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool.queueFamilyIndex = app.family;
    Check(vkCreateCommandPool(app.device, &pool, nullptr, &pool_), "vkCreateCommandPool");
    auto info = Vk<VkCommandBufferAllocateInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO);
    info.commandPool = pool_;
    info.commandBufferCount = 1;
    Check(vkAllocateCommandBuffers(app.device, &info, &commands_), "vkAllocateCommandBuffers");
    auto fence = Vk<VkFenceCreateInfo>(VK_STRUCTURE_TYPE_FENCE_CREATE_INFO);
    Check(vkCreateFence(app.device, &fence, nullptr, &fence_), "vkCreateFence");
  }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;
  ~Frames() {
    vkDestroyFence(app_.device, fence_, nullptr);
    vkDestroyCommandPool(app_.device, pool_, nullptr);
  }

  void Run(const AppKernel& kernel, uint32_t pixels, uint32_t frame, const krafla::VulkanRecording& network) {
    auto begin = Vk<VkCommandBufferBeginInfo>(VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO);
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    Check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
    kernel.Record(commands_, pixels, frame);
    // Begins with a barrier behind compute shaders, and ends with one before the host's reads.
    Must(network.Record(commands_));
    Check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
    auto submit = Vk<VkSubmitInfo>(VK_STRUCTURE_TYPE_SUBMIT_INFO);
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    Check(vkQueueSubmit(app_.queue, 1, &submit, fence_), "vkQueueSubmit");
    Check(vkWaitForFences(app_.device, 1, &fence_, VK_TRUE, 60'000'000'000), "vkWaitForFences");
    Check(vkResetFences(app_.device, 1, &fence_), "vkResetFences");
  }

 private:
  const AppDevice& app_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

// The same network on the CPU, to compare with.
class Reference {
 public:
  explicit Reference(const char* model)
      : client_(Must(krafla::LocalClient::Create("cpu"))), session_(Must(krafla::Session::LoadFile(client_, model))) {}

  std::vector<float> Run(std::vector<std::vector<float>> inputs, std::size_t scores) {
    std::vector<krafla::InputBytes> bytes;
    for (const auto& input : inputs) bytes.push_back(krafla::AsInput(input));
    std::vector<float> out(scores);
    const krafla::OutputBytes to = krafla::AsOutput(out);
    Must(session_.Run({bytes.data(), bytes.size()}, {&to, 1}));
    return out;
  }

 private:
  krafla::LocalClient client_;
  krafla::Session session_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: vulkan_app MODEL [--validate]\n");
    return 2;
  }
  AppDevice app(argc > 2 && std::string_view(argv[2]) == "--validate");
  {
    krafla::VulkanDevice mine;
    mine.instance = app.instance;
    mine.physical_device = app.physical;
    mine.device = app.device;
    mine.get_instance_proc_addr = &vkGetInstanceProcAddr;
    mine.api_version = app.api_version;
    mine.queue_family = app.family;
    mine.queue = app.queue;
    mine.features = &app.features;
    mine.extensions.assign(app.extensions.begin(), app.extensions.end());
    const krafla::LocalClient client = Must(krafla::WrapVulkanDevice(mine));
    krafla::Session session = Must(krafla::Session::LoadFile(client, argv[1]));
    std::printf("%s%s\n%s\n", app.name.c_str(), app.is_validated ? ", validated" : "",
                session.report().placement.c_str());

    // The picture and the scores in one buffer of the program's, the weights in krafla's.
    const auto infos = session.inputs();
    const auto picture = static_cast<std::size_t>(
        std::ranges::find_if(infos, [](const krafla::TensorInfo& i) { return IsPicture(i.shape); }) - infos.begin());
    if (picture == infos.size() || session.outputs().size() != 1) {
      std::fprintf(stderr, "%s is no network from a picture to scores.\n", argv[1]);
      return 1;
    }
    const krafla::Shape& scores_shape = session.outputs()[0].shape;
    const auto picture_bytes = static_cast<VkDeviceSize>(infos[picture].shape.byte_size());
    const auto scores_bytes = static_cast<VkDeviceSize>(scores_shape.byte_size());
    const VkDeviceSize scores_at = Aligned(picture_bytes);
    const AppBuffer memory(app, scores_at + Aligned(scores_bytes));
    std::vector<std::vector<float>> values;
    std::vector<krafla::Buffer> inputs;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      values.push_back(WeightsOf(infos[i].shape, static_cast<uint32_t>(i)));
      inputs.push_back(
          i == picture
              ? Must(krafla::ImportVulkanBuffer(client, infos[i].shape, {memory.handle, 0, Aligned(picture_bytes)}))
              : Must(krafla::Buffer::FromHost(client, infos[i].shape, krafla::AsInput(values[i]))));
    }
    const krafla::Buffer scores =
        Must(krafla::ImportVulkanBuffer(client, scores_shape, {memory.handle, scores_at, Aligned(scores_bytes)}));
    const krafla::VulkanRecording network = Must(krafla::VulkanRecording::Create(session, inputs, {&scores, 1}));

    const AppKernel kernel(app, kvulkan_app_DESCRIPTORS, memory.handle, picture_bytes);
    Frames frames(app);
    Reference reference(argv[1]);
    const std::size_t count = scores_bytes / sizeof(float), pixels = picture_bytes / sizeof(float);
    std::vector<float> before;
    for (uint32_t frame = 0; frame < 4; ++frame) {
      frames.Run(kernel, static_cast<uint32_t>(pixels), frame, network);
      const std::span<const float> got = memory.Floats(scores_at, count);
      values[picture] = PictureOf(pixels, frame);
      const std::vector<float> wanted = reference.Run(values, count);
      const float error = Difference(got, wanted);
      const float change = before.empty() ? 1 : Difference(got, before);
      // Scores of the frame before would be off by what a frame changes, which is far more than what devices round.
      if (!(error < 1e-5f) || !(change > 1e-4f)) {
        std::fprintf(stderr, "frame %u: scores are %g from the CPU's and %g from those of the frame before\n", frame,
                     static_cast<double>(error), static_cast<double>(change));
        return 1;
      }
      before.assign(got.begin(), got.end());
      const auto best = std::ranges::max_element(got) - got.begin();
      std::printf("frame %u: class %zd with %g\n", frame, best,
                  static_cast<double>(got[static_cast<std::size_t>(best)]));
    }
  }
  if (app.messages > 0) std::fprintf(stderr, "%d messages of the validation layer\n", app.messages);
  return app.messages == 0 ? 0 : 1;
}
