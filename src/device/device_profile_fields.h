// SPDX-License-Identifier: Apache-2.0
// The fields of DeviceProfile with their JSON names, listed once for the writer and the reader.
#pragma once

#include "device/device_profile.h"
#include "device/json_fields.h"

namespace krafla {

Names NamesOf(DeviceType);
Names NamesOf(ComponentType);
Names NamesOf(MatrixScope);
Names NamesOf(FloatIndependence);

template <Is<DeviceLimits> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("max_workgroup_invocations", x.max_workgroup_invocations);
  v("max_workgroup_size", x.max_workgroup_size);
  v("max_workgroup_count", x.max_workgroup_count);
  v("max_shared_memory_bytes", x.max_shared_memory_bytes);
  v("max_storage_buffer_range", x.max_storage_buffer_range);
  v("max_buffer_size", x.max_buffer_size);
  v("max_allocation_size", x.max_allocation_size);
  v("max_push_constant_bytes", x.max_push_constant_bytes);
  v("max_per_stage_storage_buffers", x.max_per_stage_storage_buffers);
  v("min_storage_buffer_offset_alignment", x.min_storage_buffer_offset_alignment);
  v("non_coherent_atom_bytes", x.non_coherent_atom_bytes);
  v("subgroup_size", x.subgroup_size);
  v("min_subgroup_size", x.min_subgroup_size);
  v("max_subgroup_size", x.max_subgroup_size);
  v("max_workgroup_subgroups", x.max_workgroup_subgroups);
  v("host_import_alignment", x.host_import_alignment);
  v("timestamp_valid_bits", x.timestamp_valid_bits);
  v("timestamp_period_ns", x.timestamp_period_ns);
  v("max_flexible_matrix_side", x.max_flexible_matrix_side);
  v("max_matrix_workgroup_invocations", x.max_matrix_workgroup_invocations);
  v("matrix_workgroup_reserved_bytes", x.matrix_workgroup_reserved_bytes);
}

template <Is<DeviceFeatures> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("int8", x.int8);
  v("int16", x.int16);
  v("int64", x.int64);
  v("float16", x.float16);
  v("float64", x.float64);
  v("storage8", x.storage8);
  v("storage16", x.storage16);
  v("bfloat16", x.bfloat16);
  v("bfloat16_dot", x.bfloat16_dot);
  v("bfloat16_cooperative_matrix", x.bfloat16_cooperative_matrix);
  v("float8", x.float8);
  v("float8_cooperative_matrix", x.float8_cooperative_matrix);
  v("buffer_device_address", x.buffer_device_address);
  v("timeline_semaphore", x.timeline_semaphore);
  v("synchronization2", x.synchronization2);
  v("vulkan_memory_model", x.vulkan_memory_model);
  v("vulkan_memory_model_device_scope", x.vulkan_memory_model_device_scope);
  v("scalar_block_layout", x.scalar_block_layout);
  v("variable_pointers_storage_buffer", x.variable_pointers_storage_buffer);
  v("variable_pointers", x.variable_pointers);
  v("workgroup_memory_explicit_layout", x.workgroup_memory_explicit_layout);
  v("zero_initialize_workgroup_memory", x.zero_initialize_workgroup_memory);
  v("maintenance4", x.maintenance4);
  v("subgroup_size_control", x.subgroup_size_control);
  v("compute_full_subgroups", x.compute_full_subgroups);
  v("subgroup_extended_types", x.subgroup_extended_types);
  v("subgroup_uniform_control_flow", x.subgroup_uniform_control_flow);
  v("maximal_reconvergence", x.maximal_reconvergence);
  v("shader_float_controls", x.shader_float_controls);
  v("float_controls2", x.float_controls2);
  v("cooperative_matrix", x.cooperative_matrix);
  v("matrix_workgroup_scope", x.matrix_workgroup_scope);
  v("matrix_flexible_dimensions", x.matrix_flexible_dimensions);
  v("matrix_per_element_operations", x.matrix_per_element_operations);
  v("matrix_tensor_addressing", x.matrix_tensor_addressing);
  v("integer_dot_product", x.integer_dot_product);
  v("dot4x8_packed_signed_accelerated", x.dot4x8_packed_signed_accelerated);
  v("dot4x8_packed_unsigned_accelerated", x.dot4x8_packed_unsigned_accelerated);
  v("dot4x8_packed_mixed_accelerated", x.dot4x8_packed_mixed_accelerated);
  v("atomic_int64", x.atomic_int64);
  v("atomic_float32_add_buffer", x.atomic_float32_add_buffer);
  v("atomic_float32_add_shared", x.atomic_float32_add_shared);
  v("atomic_float64_add_buffer", x.atomic_float64_add_buffer);
  v("atomic_float16_add_buffer", x.atomic_float16_add_buffer);
  v("external_memory_host", x.external_memory_host);
  v("memory_budget", x.memory_budget);
  v("pipeline_robustness", x.pipeline_robustness);
  v("device_fault", x.device_fault);
  v("pipeline_executable_properties", x.pipeline_executable_properties);
  v("conditional_rendering", x.conditional_rendering);
}

template <Is<SubgroupOps> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("basic", x.basic);
  v("vote", x.vote);
  v("arithmetic", x.arithmetic);
  v("ballot", x.ballot);
  v("shuffle", x.shuffle);
  v("shuffle_relative", x.shuffle_relative);
  v("clustered", x.clustered);
  v("quad", x.quad);
  v("rotate", x.rotate);
}

template <Is<FloatControls> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("preserve_signed_zero_inf_nan", x.preserve_signed_zero_inf_nan);
  v("rounding_rte", x.rounding_rte);
  v("rounding_rtz", x.rounding_rtz);
  v("denorm_preserve", x.denorm_preserve);
  v("denorm_flush", x.denorm_flush);
}

template <Is<CooperativeMatrixShape> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("m", x.m);
  v("n", x.n);
  v("k", x.k);
  v("a", x.a);
  v("b", x.b);
  v("c", x.c);
  v("result", x.result);
  v("scope", x.scope);
  v("saturating", x.saturating);
}

template <Is<FlexibleMatrix> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("m", x.m);
  v("n", x.n);
  v("k", x.k);
  v("a", x.a);
  v("b", x.b);
  v("c", x.c);
  v("result", x.result);
  v("scope", x.scope);
  v("saturating", x.saturating);
  v("workgroup_invocations", x.workgroup_invocations);
}

template <Is<MemoryHeap> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("bytes", x.bytes);
  v("device_local", x.device_local);
}

template <Is<DeviceProfile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("name", x.name);
  v("driver_name", x.driver_name);
  v("driver_info", x.driver_info);
  v("driver_version", x.driver_version);
  v("driver_id", x.driver_id);
  v("vendor_id", x.vendor_id);
  v("device_id", x.device_id);
  v("type", x.type);
  v("is_cpu", x.is_cpu);
  v("api_major", x.api_major);
  v("api_minor", x.api_minor);
  v("api_patch", x.api_patch);
  v("max_spirv_version", x.max_spirv_version);
  v("device_uuid", x.device_uuid);
  v("driver_uuid", x.driver_uuid);
  v("pipeline_cache_uuid", x.pipeline_cache_uuid);
  v("pci", x.pci);
  v("limits", x.limits);
  v("features", x.features);
  v("subgroup", x.subgroup);
  v("float16_controls", x.float16_controls);
  v("float32_controls", x.float32_controls);
  v("float64_controls", x.float64_controls);
  v("denorm_independence", x.denorm_independence);
  v("rounding_independence", x.rounding_independence);
  v("cooperative_matrices", x.cooperative_matrices);
  v("flexible_matrices", x.flexible_matrices);
  v("heaps", x.heaps);
  v("unified_memory", x.unified_memory);
  v("disabled", x.disabled);
}

}  // namespace krafla
