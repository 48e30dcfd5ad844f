// SPDX-License-Identifier: Apache-2.0
// SPIR-V words -> compute pipelines: in a batch, by several threads, each kernel once, with a cache on disk.
//
// How a kernel finds its buffers (profile().features.buffer_device_address says which of the two it is):
//   addresses    push constant bytes 0..7: the address of this launch's row, binding_count 64-bit addresses.
//   descriptors  set 0, bindings 0..binding_count-1, storage buffers. Push constant bytes 0..7 are not written.
// In both, push constant bytes 8..63 are the launch's own words.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.h"
#include "krafla/status.h"
#include "vk_runtime/vk_api.h"

namespace krafla::vk {

class Device;

inline constexpr uint32_t kPushConstantBytes = 64;
inline constexpr uint32_t kPushWordsOffset = 8;
inline constexpr uint32_t kMaxPushWords = (kPushConstantBytes - kPushWordsOffset) / 4;

struct KernelCode {
  std::vector<uint32_t> spirv = {};
  std::string name = {};  // for people; equal code with different names is one pipeline
  std::string entry_point = "main";
  uint32_t binding_count = 0;
  uint32_t subgroup_size = 0;   // required; 0: any
  bool full_subgroups = false;  // required
  // The kernel does not read NumWorkgroups, so that a long launch may be cut into several along its grid.
  bool splittable = false;
};

class Pipeline {
 public:
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  VkPipeline handle() const { return handle_; }
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }  // null in the address model
  const std::string& name() const { return name_; }
  uint32_t binding_count() const { return binding_count_; }
  bool splittable() const { return splittable_; }

 private:
  friend class PipelineStore;
  Pipeline() = default;
  std::shared_ptr<Device> device_;
  VkPipeline handle_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  std::string name_;
  uint32_t binding_count_ = 0;
  bool splittable_ = false;
};

struct PipelineCounts {
  int compiled = 0;    // by the driver, now
  int from_cache = 0;  // by the driver, out of the cache on disk
  int reused = 0;      // living already, or twice in the batch
};

class PipelineStore {
 public:
  PipelineStore(Device& device, bool has_feedback) : device_(device), has_feedback_(has_feedback) {}
  ~PipelineStore();  // every Pipeline is gone by then: each keeps the device

  // One pipeline a kernel, in order. An error names the kernel; none of the batch is kept then. `threads`: whose number
  // of threads the driver is called by, or, where they are the application's own, which; null: as many as
  // DeviceOptions::pipeline_threads says. `progress`: told of each that is made, the `done`-th of `total`.
  Result<std::vector<std::shared_ptr<Pipeline>>> Create(std::span<const KernelCode> kernels,
                                                        PipelineCounts* counts = nullptr, ThreadPool* threads = nullptr,
                                                        const std::function<void(int, int)>& progress = {});

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  struct Layout {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
  };
  struct Built {
    VkPipeline handle = VK_NULL_HANDLE;
    VkResult result = VK_SUCCESS;
    bool hit = false;
  };

  static Key KeyOf(const KernelCode& code);
  Result<> Check(const KernelCode& code) const;
  Result<Layout> LayoutFor(uint32_t binding_count);
  Result<> LoadCache();
  void SaveCache();
  std::string CachePath() const;
  Built Build(const KernelCode& code, VkPipelineLayout layout);
  // Calls build(0) .. build(count - 1), several at once.
  void BuildAll(std::size_t count, const std::function<void(std::size_t)>& build, ThreadPool* threads);

  Device& device_;
  bool has_feedback_;
  std::mutex mutex_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  Key saved_ = {};  // checksum of the cache as it is on disk
  std::map<Key, std::weak_ptr<Pipeline>> living_;
  std::map<uint32_t, Layout> layouts_;
};

}  // namespace krafla::vk
