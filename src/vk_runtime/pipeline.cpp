// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/pipeline.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/first_exception.h"
#include "vk_runtime/cache_file.h"
#include "vk_runtime/device.h"

namespace krafla::vk {

Pipeline::~Pipeline() {
  if (handle_ != VK_NULL_HANDLE) device_->vk().vkDestroyPipeline(device_->handle(), handle_, nullptr);
}

PipelineStore::~PipelineStore() {
  const VolkDeviceTable& vk = device_.vk();
  for (const auto& [count, layout] : layouts_) {
    vk.vkDestroyPipelineLayout(device_.handle(), layout.pipeline, nullptr);
    if (layout.set != VK_NULL_HANDLE) vk.vkDestroyDescriptorSetLayout(device_.handle(), layout.set, nullptr);
  }
  if (cache_ != VK_NULL_HANDLE) vk.vkDestroyPipelineCache(device_.handle(), cache_, nullptr);
}

PipelineStore::Key PipelineStore::KeyOf(const KernelCode& code) {
  XXH128_hash_t words = XXH3_128bits(code.spirv.data(), code.spirv.size() * sizeof(uint32_t));
  uint64_t rest[] = {
      words.low64,        words.high64,       XXH3_64bits(code.entry_point.data(), code.entry_point.size()),
      code.binding_count, code.subgroup_size, uint64_t{code.full_subgroups} << 1 | uint64_t{code.splittable}};
  XXH128_hash_t all = XXH3_128bits(rest, sizeof(rest));
  return {all.low64, all.high64};
}

Result<> PipelineStore::Check(const KernelCode& code) const {
  const DeviceProfile& p = device_.profile();
  if (code.spirv.size() < 5 || code.spirv[0] != 0x07230203) {
    return InvalidArgument("The code of kernel '{}' is not SPIR-V.", code.name);
  }
  if (code.spirv[1] > p.max_spirv_version) {
    return Unimplemented("Kernel '{}' is SPIR-V version {:#x}; {} takes at most {:#x}.", code.name, code.spirv[1],
                         p.name, p.max_spirv_version);
  }
  if (code.subgroup_size != 0 && code.subgroup_size != p.limits.subgroup_size && !p.features.subgroup_size_control) {
    return Unimplemented("Kernel '{}' requires subgroups of {}; {} has {} and no subgroup size control.", code.name,
                         code.subgroup_size, p.name, p.limits.subgroup_size);
  }
  if (code.subgroup_size != 0 &&
      (code.subgroup_size < p.limits.min_subgroup_size || code.subgroup_size > p.limits.max_subgroup_size ||
       (code.subgroup_size & (code.subgroup_size - 1)) != 0)) {
    return Unimplemented("Kernel '{}' requires subgroups of {}; {} has powers of two from {} to {}.", code.name,
                         code.subgroup_size, p.name, p.limits.min_subgroup_size, p.limits.max_subgroup_size);
  }
  if (code.full_subgroups && !p.features.compute_full_subgroups) {
    return Unimplemented("Kernel '{}' requires full subgroups, which {} does not promise.", code.name, p.name);
  }
  if (!device_.uses_addresses() && code.binding_count > p.limits.max_per_stage_storage_buffers) {
    return Unimplemented("Kernel '{}' has {} buffers; {} allows {} in one kernel.", code.name, code.binding_count,
                         p.name, p.limits.max_per_stage_storage_buffers);
  }
  return {};
}

Result<PipelineStore::Layout> PipelineStore::LayoutFor(uint32_t binding_count) {
  if (device_.uses_addresses()) binding_count = 0;  // one layout for all
  auto found = layouts_.find(binding_count);
  if (found != layouts_.end()) return found->second;
  const VolkDeviceTable& vk = device_.vk();
  Layout layout;
  if (binding_count > 0) {
    std::vector<VkDescriptorSetLayoutBinding> bindings(binding_count);
    for (uint32_t i = 0; i < binding_count; ++i) {
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    }
    auto info = Struct<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    info.bindingCount = binding_count;
    info.pBindings = bindings.data();
    VkResult r = vk.vkCreateDescriptorSetLayout(device_.handle(), &info, nullptr, &layout.set);
    if (r != VK_SUCCESS) return device_.Fail(r, "create a descriptor set layout");
  }
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, kPushConstantBytes};
  auto info = Struct<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  info.setLayoutCount = layout.set == VK_NULL_HANDLE ? 0 : 1;
  info.pSetLayouts = &layout.set;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  VkResult r = vk.vkCreatePipelineLayout(device_.handle(), &info, nullptr, &layout.pipeline);
  if (r != VK_SUCCESS) {
    if (layout.set != VK_NULL_HANDLE) vk.vkDestroyDescriptorSetLayout(device_.handle(), layout.set, nullptr);
    return device_.Fail(r, "create a pipeline layout");
  }
  layouts_.emplace(binding_count, layout);
  return layout;
}

std::string PipelineStore::CachePath() const {
  const auto& dir = device_.options().cache_dir;
  std::string folder = dir ? *dir : DefaultCacheDir();
  if (folder.empty()) return "";
  return Format("{}/pipelines-{}-{:08x}.bin", folder, device_.profile().pipeline_cache_uuid,
                device_.profile().driver_version);
}

Result<> PipelineStore::LoadCache() {
  if (cache_ != VK_NULL_HANDLE) return {};
  std::vector<std::byte> bytes;
  if (std::string path = CachePath(); !path.empty()) {
    if (auto read = ReadCacheFile(path, device_.profile())) bytes = std::move(*read);
  }
  auto info = Struct<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  info.initialDataSize = bytes.size();
  info.pInitialData = bytes.data();
  VkResult r = device_.vk().vkCreatePipelineCache(device_.handle(), &info, nullptr, &cache_);
  if (r != VK_SUCCESS) {
    cache_ = VK_NULL_HANDLE;
    return device_.Fail(r, "create a pipeline cache");
  }
  XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  saved_ = {sum.low64, sum.high64};
  return {};
}

// Nothing here is an error: a cache that cannot be saved costs time, later.
void PipelineStore::SaveCache() {
  std::string path = CachePath();
  std::size_t size = 0;
  if (path.empty() || device_.vk().vkGetPipelineCacheData(device_.handle(), cache_, &size, nullptr) != VK_SUCCESS) {
    return;
  }
  std::vector<std::byte> bytes(size);
  if (device_.vk().vkGetPipelineCacheData(device_.handle(), cache_, &size, bytes.data()) != VK_SUCCESS) return;
  bytes.resize(size);
  XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  if (saved_ == Key{sum.low64, sum.high64}) return;
  if (WriteCacheFile(path, device_.profile(), bytes)) saved_ = {sum.low64, sum.high64};
}

PipelineStore::Built PipelineStore::Build(const KernelCode& code, VkPipelineLayout layout) {
  const VolkDeviceTable& vk = device_.vk();
  Built built;
  auto module_info = Struct<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  module_info.codeSize = code.spirv.size() * sizeof(uint32_t);
  module_info.pCode = code.spirv.data();
  VkShaderModule module = VK_NULL_HANDLE;
  built.result = vk.vkCreateShaderModule(device_.handle(), &module_info, nullptr, &module);
  if (built.result != VK_SUCCESS) return built;

  auto info = Struct<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  info.stage = Struct<VkPipelineShaderStageCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = code.entry_point.c_str();
  info.layout = layout;
  if (code.splittable) info.flags |= VK_PIPELINE_CREATE_DISPATCH_BASE_BIT;
  auto size = Struct<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  if (code.subgroup_size != 0 && device_.profile().features.subgroup_size_control) {
    size.requiredSubgroupSize = code.subgroup_size;
    info.stage.pNext = &size;
  }
  if (code.full_subgroups) info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  VkPipelineCreationFeedback whole = {}, stage = {};
  auto feedback =
      Struct<VkPipelineCreationFeedbackCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
  feedback.pPipelineCreationFeedback = &whole;
  feedback.pipelineStageCreationFeedbackCount = 1;
  feedback.pPipelineStageCreationFeedbacks = &stage;
  if (has_feedback_) info.pNext = &feedback;
  built.result = vk.vkCreateComputePipelines(device_.handle(), cache_, 1, &info, nullptr, &built.handle);
  // VK_PIPELINE_COMPILE_REQUIRED and its like are positive and leave no pipeline.
  if (built.result == VK_SUCCESS && built.handle == VK_NULL_HANDLE) built.result = VK_ERROR_UNKNOWN;
  if (built.result != VK_SUCCESS) built.handle = VK_NULL_HANDLE;
  constexpr VkPipelineCreationFeedbackFlags kHit =
      VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT | VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
  built.hit = (whole.flags & kHit) == kHit;
  vk.vkDestroyShaderModule(device_.handle(), module, nullptr);
  return built;
}

void PipelineStore::BuildAll(std::size_t count, const std::function<void(std::size_t)>& build, ThreadPool* pool) {
  if (pool != nullptr && !pool->owns_threads()) {
    // The application's threads are all that krafla works on.
    pool->ParallelFor(static_cast<int64_t>(count), 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t j = begin; j < end; ++j) build(static_cast<std::size_t>(j));
    });
    return;
  }
  // Threads of its own: the pool's may be busy with a run for as long as the driver takes.
  constexpr unsigned kMostThreads = 8;
  unsigned wanted = device_.options().pipeline_threads;
  if (wanted == 0)
    wanted =
        std::min(static_cast<unsigned>(pool != nullptr ? pool->threads() : ThreadPool::DefaultThreads()), kMostThreads);
  std::atomic<std::size_t> next = 0;
  FirstException thrown;
  const auto work = [&] {
    try {
      for (std::size_t j = next++; j < count && !thrown.IsThere(); j = next++) build(j);
    } catch (...) {  // the host has no memory
      thrown.Keep();
    }
  };
  struct Joined {
    std::vector<std::thread> threads;
    ~Joined() {
      for (std::thread& thread : threads) thread.join();
    }
  };
  {
    Joined joined;
    while (joined.threads.size() + 1 < std::min<std::size_t>(wanted, count)) {
      try {
        joined.threads.emplace_back(work);
      } catch (const std::exception&) {
        break;  // no more threads to be had: this one does the rest
      }
    }
    work();
  }
  thrown.Throw();
}

Result<std::vector<std::shared_ptr<Pipeline>>> PipelineStore::Create(std::span<const KernelCode> kernels,
                                                                     PipelineCounts* counts, ThreadPool* threads,
                                                                     const std::function<void(int, int)>& progress) {
  KRAFLA_TRY(device_.Alive());
  PipelineCounts unused;
  PipelineCounts& count = counts != nullptr ? *counts : unused;
  count = {};
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Pipeline>> out(kernels.size());
  std::map<Key, std::size_t> first;  // of the batch
  std::vector<std::size_t> missing;
  std::vector<Key> keys(kernels.size());
  std::vector<Layout> layouts(kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    KRAFLA_TRY(Check(kernels[i]));
    keys[i] = KeyOf(kernels[i]);
    if (auto it = living_.find(keys[i]); it != living_.end()) out[i] = it->second.lock();
    if (out[i] != nullptr || !first.emplace(keys[i], i).second) {
      ++count.reused;
      continue;
    }
    KRAFLA_ASSIGN(layouts[i], LayoutFor(kernels[i].binding_count));
    missing.push_back(i);
  }
  if (!missing.empty()) KRAFLA_TRY(LoadCache());

  std::vector<Built> built(missing.size());
  std::atomic<bool> has_failed = false;  // and with it the batch
  std::mutex telling;
  int done = 0;
  const auto build = [&](std::size_t j) {
    if (has_failed) return;
    built[j] = Build(kernels[missing[j]], layouts[missing[j]].pipeline);
    if (built[j].result != VK_SUCCESS) has_failed = true;
    if (!progress) return;
    const std::lock_guard one_at_a_time(telling);
    progress(++done, static_cast<int>(missing.size()));
  };
  try {
    BuildAll(missing.size(), build, threads);
  } catch (...) {  // the application's threads have thrown
    for (const Built& b : built)
      if (b.handle != VK_NULL_HANDLE) device_.vk().vkDestroyPipeline(device_.handle(), b.handle, nullptr);
    throw;
  }

  // Owners first, so that an error frees the whole batch.
  std::optional<std::size_t> failed;
  for (std::size_t j = 0; j < missing.size(); ++j) {
    std::size_t i = missing[j];
    if (built[j].handle == VK_NULL_HANDLE) {
      if (built[j].result != VK_SUCCESS && !failed) failed = j;
      continue;
    }
    out[i] = std::shared_ptr<Pipeline>(new Pipeline());
    Pipeline& p = *out[i];
    p.device_ = device_.shared_from_this();
    p.handle_ = built[j].handle;
    p.layout_ = layouts[i].pipeline;
    p.set_layout_ = layouts[i].set;
    p.name_ = kernels[i].name;
    p.binding_count_ = kernels[i].binding_count;
    p.splittable_ = kernels[i].splittable;
    ++(built[j].hit ? count.from_cache : count.compiled);
  }
  if (failed) {
    return device_.Fail(built[*failed].result, Format("compile kernel '{}'", kernels[missing[*failed]].name));
  }
  std::erase_if(living_, [](const auto& entry) { return entry.second.expired(); });
  for (std::size_t i : missing) living_[keys[i]] = out[i];
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (out[i] == nullptr) out[i] = out[first.at(keys[i])];
  }
  if (count.compiled > 0) SaveCache();
  return out;
}

}  // namespace krafla::vk
