// SPDX-License-Identifier: Apache-2.0
// Makes compute pipelines of SPIR-V files on the first Vulkan device and prints, as one JSON object per line, what the
// driver's compiler says of each (VK_KHR_pipeline_executable_properties). Nothing is dispatched, so that Mesa's shims,
// which execute nothing, are enough. It stands alone, so that it can be built for another architecture too.
//
//   compile_spirv JOBS ISA_FOLDER [FIRST]
//
// JOBS has a line per pipeline: SUBGROUP_SIZE(0: any) FULL_SUBGROUPS(0, 1) PUSH_BYTES FILE.spv. FIRST: the line to
// begin with. The line {"start": N} precedes each result, so that a caller knows which one a crash belongs to.
// ISA_FOLDER gets N.txt, the driver's disassembly.
#include <vulkan/vulkan.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

// Newer than the headers of Debian 13.
struct Bfloat16Features {
  VkStructureType sType;
  void* pNext;
  VkBool32 type, dot_product, cooperative_matrix;
};
constexpr auto kBfloat16Features = static_cast<VkStructureType>(1000141000);
struct Float8Features {
  VkStructureType sType;
  void* pNext;
  VkBool32 type, cooperative_matrix;
};
constexpr auto kFloat8Features = static_cast<VkStructureType>(1000567000);

[[noreturn]] void Die(const char* what, int code) {
  std::printf("{\"error\":\"%s: %d\"}\n", what, code);
  std::fflush(stdout);
  std::_Exit(4);  // without the shim's destructors
}
void Must(VkResult result, const char* what) {
  if (result < 0) Die(what, result);
}

std::string Quote(const char* text) {
  std::string out = "\"";
  for (; *text != 0; ++text) {
    const auto c = static_cast<unsigned char>(*text);
    if (c < 32 || c > 126 || c == '"' || c == '\\') {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      out += escaped;
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

// What a pipeline's layout takes from the module: storage buffers of set 0, and the entry point's name.
struct Module {
  std::vector<uint32_t> words;
  std::set<uint32_t> bindings;
  std::string entry;
};

bool Read(const std::string& path, Module& module) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<uint32_t>& words = module.words;
  words.resize(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  if (words.size() < 5 || words[0] != 0x07230203) return false;
  for (std::size_t i = 5; i < words.size();) {
    const uint32_t op = words[i] & 0xffff, length = words[i] >> 16;
    if (length == 0 || i + length > words.size()) return false;
    const uint32_t* operands = &words[i + 1];
    if (op == 15 && length > 3 && module.entry.empty()) {  // OpEntryPoint: model, id, name
      const std::string name(reinterpret_cast<const char*>(operands + 2), (length - 3) * 4);
      module.entry = name.substr(0, name.find('\0'));
    }
    if (op == 71 && length == 4 && operands[1] == 33) module.bindings.insert(operands[2]);  // OpDecorate Binding
    i += length;
  }
  return true;
}

struct Device {
  VkDevice handle = VK_NULL_HANDLE;
  bool subgroup_size_control = false, full_subgroups = false, statistics = false;
  PFN_vkGetPipelineExecutablePropertiesKHR executables = nullptr;
  PFN_vkGetPipelineExecutableStatisticsKHR statistics_of = nullptr;
  PFN_vkGetPipelineExecutableInternalRepresentationsKHR representations = nullptr;
};

// A device with everything that it has, but robustness (as krafla makes it).
class DeviceMaker {
 public:
  explicit DeviceMaker(VkPhysicalDevice gpu) : gpu_(gpu) {
    uint32_t count = 0;
    vkEnumerateDeviceExtensionProperties(gpu, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> all(count);
    vkEnumerateDeviceExtensionProperties(gpu, nullptr, &count, all.data());
    for (const VkExtensionProperties& one : all) have_.insert(one.extensionName);
  }

  Device Make() {
    VkPhysicalDeviceProperties core;
    vkGetPhysicalDeviceProperties(gpu_, &core);
    VkPhysicalDeviceVulkan11Features core11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceVulkan12Features core12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan13Features core13 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures size = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    if (core.apiVersion >= VK_API_VERSION_1_2) Link(core11), Link(core12);
    const bool has13 = core.apiVersion >= VK_API_VERSION_1_3;
    if (has13) Link(core13);
    if (!has13) Extend(size, "VK_EXT_subgroup_size_control"), Extend(dot, "VK_KHR_shader_integer_dot_product");
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    Bfloat16Features bfloat16 = {kBfloat16Features, nullptr, 0, 0, 0};
    Float8Features float8 = {kFloat8Features, nullptr, 0, 0};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executable = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
    VkPhysicalDeviceWorkgroupMemoryExplicitLayoutFeaturesKHR shared = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR};
    VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT};
    VkPhysicalDeviceShaderSubgroupRotateFeaturesKHR rotate = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_ROTATE_FEATURES_KHR};
    VkPhysicalDeviceShaderFloatControls2FeaturesKHR controls = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT_CONTROLS_2_FEATURES_KHR};
    VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR reconvergence = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR};
    VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR uniform = {
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR};
    Extend(matrix, "VK_KHR_cooperative_matrix"), Extend(bfloat16, "VK_KHR_shader_bfloat16");
    Extend(float8, "VK_EXT_shader_float8"), Extend(executable, "VK_KHR_pipeline_executable_properties");
    Extend(shared, "VK_KHR_workgroup_memory_explicit_layout"), Extend(atomic, "VK_EXT_shader_atomic_float");
    Extend(rotate, "VK_KHR_shader_subgroup_rotate"), Extend(controls, "VK_KHR_shader_float_controls2");
    Extend(reconvergence, "VK_KHR_shader_maximal_reconvergence");
    Extend(uniform, "VK_KHR_shader_subgroup_uniform_control_flow");
    vkGetPhysicalDeviceFeatures2(gpu_, &features_);
    features_.features.robustBufferAccess = VK_FALSE;
    core13.robustImageAccess = VK_FALSE;

    Device device;
    device.subgroup_size_control = (core13.subgroupSizeControl | size.subgroupSizeControl) != 0;
    device.full_subgroups = (core13.computeFullSubgroups | size.computeFullSubgroups) != 0;
    device.statistics = executable.pipelineExecutableInfo != 0;
    Create(device);
    return device;
  }

 private:
  template <typename Features>
  void Link(Features& features) {
    *next_ = &features;
    next_ = &features.pNext;
  }
  template <typename Features>
  void Extend(Features& features, const char* extension) {
    if (!have_.contains(extension)) return;
    Link(features);
    enabled_.push_back(extension);
  }

  void Create(Device& device) {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(gpu_, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(gpu_, &count, families.data());
    const float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    while (queue.queueFamilyIndex + 1 < count &&
           (families[queue.queueFamilyIndex].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
      ++queue.queueFamilyIndex;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = &features_;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(enabled_.size());
    info.ppEnabledExtensionNames = enabled_.data();
    Must(vkCreateDevice(gpu_, &info, nullptr, &device.handle), "vkCreateDevice");
    const auto find = [&](const char* name) { return vkGetDeviceProcAddr(device.handle, name); };
    device.executables =
        reinterpret_cast<PFN_vkGetPipelineExecutablePropertiesKHR>(find("vkGetPipelineExecutablePropertiesKHR"));
    device.statistics_of =
        reinterpret_cast<PFN_vkGetPipelineExecutableStatisticsKHR>(find("vkGetPipelineExecutableStatisticsKHR"));
    device.representations = reinterpret_cast<PFN_vkGetPipelineExecutableInternalRepresentationsKHR>(
        find("vkGetPipelineExecutableInternalRepresentationsKHR"));
  }

  VkPhysicalDevice gpu_;
  std::set<std::string> have_;
  std::vector<const char*> enabled_;
  VkPhysicalDeviceFeatures2 features_ = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  void** next_ = &features_.pNext;
};

struct Job {
  uint32_t subgroup_size = 0, full_subgroups = 0, push_bytes = 0;
  std::string path;
};

// Everything that a pipeline needs; the objects live as long as the process does.
VkResult MakePipeline(const Device& device, const Job& job, const Module& module, VkPipeline& pipeline) {
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t binding : module.bindings)
    bindings.push_back({binding, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  VkDescriptorSetLayoutCreateInfo set_info = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set_info.bindingCount = static_cast<uint32_t>(bindings.size());
  set_info.pBindings = bindings.data();
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkResult result = vkCreateDescriptorSetLayout(device.handle, &set_info, nullptr, &set);
  if (result != VK_SUCCESS) return result;
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, job.push_bytes};
  VkPipelineLayoutCreateInfo layout_info = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set;
  layout_info.pushConstantRangeCount = job.push_bytes > 0 ? 1 : 0;
  layout_info.pPushConstantRanges = &range;
  VkShaderModuleCreateInfo module_info = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = module.words.size() * 4;
  module_info.pCode = module.words.data();
  VkComputePipelineCreateInfo info = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  result = vkCreatePipelineLayout(device.handle, &layout_info, nullptr, &info.layout);
  if (result != VK_SUCCESS) return result;
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = module.entry.c_str();
  result = vkCreateShaderModule(device.handle, &module_info, nullptr, &info.stage.module);
  if (result != VK_SUCCESS) return result;
  if (device.statistics)
    info.flags =
        VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  size.requiredSubgroupSize = job.subgroup_size;
  if (job.subgroup_size != 0 && device.subgroup_size_control) info.stage.pNext = &size;
  if (job.full_subgroups != 0 && device.full_subgroups)
    info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  return vkCreateComputePipelines(device.handle, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
}

std::string Value(const VkPipelineExecutableStatisticKHR& s) {
  char text[64];
  switch (s.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s.value.b32 != 0 ? "1" : "0";
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return std::to_string(s.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return std::to_string(s.value.u64);
    default: std::snprintf(text, sizeof text, "%g", s.value.f64); return text;
  }
}

// ,"subgroup":64,"stats":{..} of the pipeline's last executable; its disassembly goes to `isa`.
std::string Describe(const Device& device, VkPipeline pipeline, const std::string& isa) {
  VkPipelineInfoKHR pipeline_info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  pipeline_info.pipeline = pipeline;
  uint32_t count = 0;
  device.executables(device.handle, &pipeline_info, &count, nullptr);
  if (count == 0) return "";
  std::vector<VkPipelineExecutablePropertiesKHR> all(count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR});
  device.executables(device.handle, &pipeline_info, &count, all.data());
  VkPipelineExecutableInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
  info.pipeline = pipeline;
  info.executableIndex = count - 1;
  std::string out = ",\"subgroup\":" + std::to_string(all.back().subgroupSize) + ",\"stats\":{";

  device.statistics_of(device.handle, &info, &count, nullptr);
  std::vector<VkPipelineExecutableStatisticKHR> stats(count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
  device.statistics_of(device.handle, &info, &count, stats.data());
  for (uint32_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + Quote(stats[i].name) + ":" + Value(stats[i]);

  device.representations(device.handle, &info, &count, nullptr);
  std::vector<VkPipelineExecutableInternalRepresentationKHR> texts(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR});
  device.representations(device.handle, &info, &count, texts.data());
  std::vector<std::string> bytes(count);
  for (uint32_t i = 0; i < count; ++i) {
    bytes[i].resize(texts[i].dataSize + 1);
    texts[i].pData = bytes[i].data();
  }
  device.representations(device.handle, &info, &count, texts.data());
  std::string names;
  for (uint32_t i = 0; i < count; ++i) {
    names += (i > 0 ? "; " : "") + std::string(texts[i].name);
    const std::string name = texts[i].name;
    if (texts[i].isText != 0 && (name.find("ssembly") != std::string::npos || name.find("isasm") != std::string::npos))
      std::ofstream(isa) << bytes[i].c_str();
  }
  return out + "},\"texts\":" + Quote(names.c_str());
}

std::string Compile(const Device& device, const Job& job, const std::string& isa) {
  Module module;
  if (!Read(job.path, module)) return ",\"error\":\"not a SPIR-V file\"";
  VkPipeline pipeline = VK_NULL_HANDLE;
  const auto start = std::chrono::steady_clock::now();
  const VkResult result = MakePipeline(device, job, module, pipeline);
  if (result != VK_SUCCESS) return ",\"error\":\"the driver refuses the pipeline: " + std::to_string(result) + "\"";
  const auto ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  std::string out = ",\"ms\":" + std::to_string(ms) + (device.statistics ? Describe(device, pipeline, isa) : "");
  vkDestroyPipeline(device.handle, pipeline, nullptr);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: compile_spirv JOBS ISA_FOLDER [FIRST]\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const int first = argc > 3 ? std::atoi(argv[3]) : 0;
  VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &app;
  VkInstance instance;
  Must(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
  uint32_t count = 1;
  VkPhysicalDevice gpu = VK_NULL_HANDLE;
  Must(vkEnumeratePhysicalDevices(instance, &count, &gpu), "vkEnumeratePhysicalDevices");
  if (count == 0) Die("no Vulkan device", 0);
  const Device device = DeviceMaker(gpu).Make();

  std::ifstream in(argv[1]);
  std::string line;
  for (int n = 0; std::getline(in, line); ++n) {
    if (n < first) continue;
    Job job;
    std::istringstream words(line);
    words >> job.subgroup_size >> job.full_subgroups >> job.push_bytes >> job.path;
    std::printf("{\"start\":%d}\n", n);
    const std::string result = Compile(device, job, std::string(argv[2]) + "/" + std::to_string(n) + ".txt");
    std::printf("{\"job\":%d%s}\n", n, result.c_str());
  }
  std::fflush(stdout);
  std::_Exit(0);  // without the shim's destructors
}
