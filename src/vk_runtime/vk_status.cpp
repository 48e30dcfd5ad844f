// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/vk_status.h"

namespace krafla::vk {

namespace {
struct Row {
  VkResult result;
  std::string_view name;
  StatusCode code;
};
using enum StatusCode;
constexpr Row kRows[] = {
    {VK_NOT_READY, "VK_NOT_READY", kDeadlineExceeded},
    {VK_TIMEOUT, "VK_TIMEOUT", kDeadlineExceeded},
    {VK_INCOMPLETE, "VK_INCOMPLETE", kInternal},
    {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", kResourceExhausted},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", kResourceExhausted},
    {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED", kUnavailable},
    {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", kAborted},
    {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED", kResourceExhausted},
    {VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT", kUnavailable},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT", kUnimplemented},
    {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT", kUnimplemented},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER", kUnavailable},
    {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS", kResourceExhausted},
    {VK_ERROR_FORMAT_NOT_SUPPORTED, "VK_ERROR_FORMAT_NOT_SUPPORTED", kUnimplemented},
    {VK_ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL", kResourceExhausted},
    {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN", kUnavailable},
    {VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY", kResourceExhausted},
    {VK_ERROR_INVALID_EXTERNAL_HANDLE, "VK_ERROR_INVALID_EXTERNAL_HANDLE", kInvalidArgument},
    {VK_ERROR_FRAGMENTATION, "VK_ERROR_FRAGMENTATION", kResourceExhausted},
    {VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS, "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS", kInternal},
    {VK_ERROR_INVALID_SHADER_NV, "VK_ERROR_INVALID_SHADER_NV", kInternal},
    {VK_ERROR_VALIDATION_FAILED_EXT, "VK_ERROR_VALIDATION_FAILED_EXT", kInternal},
};

const Row* Find(VkResult result) {
  for (const Row& row : kRows) {
    if (row.result == result) return &row;
  }
  return nullptr;
}
}  // namespace

std::string_view ResultName(VkResult result) {
  if (result == VK_SUCCESS) return "VK_SUCCESS";
  const Row* row = Find(result);
  return row == nullptr ? "a VkResult that krafla does not know" : row->name;
}

StatusCode ResultCode(VkResult result) {
  const Row* row = Find(result);
  return row == nullptr ? kUnavailable : row->code;  // the driver's, whatever it is
}

Failure VulkanError(VkResult result, std::string_view what) {
  return MakeError(ResultCode(result), "The Vulkan driver failed to {}: it returned {} ({}).", what, ResultName(result),
                   static_cast<int>(result));
}

}  // namespace krafla::vk
