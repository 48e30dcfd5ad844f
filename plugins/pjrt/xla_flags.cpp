// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/xla_flags.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <span>

namespace krafla::pjrt {
namespace {

// The fields of DebugOptions (xla/xla.proto) as jaxlib 0.10.2 has them, without "xla_", by type, sorted. A repeated
// field is with those of its elements' type.
// clang-format off
constexpr std::string_view kBooleans[] = {
    "allow_excess_precision", "allow_h2h_copy_when_automatic_host_compute_offload_disabled",
    "allow_scalar_index_dynamic_ops", "cpu_copy_insertion_use_region_analysis",
    "cpu_enable_concurrency_optimized_scheduler", "cpu_enable_fast_math", "cpu_enable_fast_min_max",
    "cpu_enable_platform_dependent_math", "cpu_enable_xprof_traceme", "cpu_experimental_enable_tiling_propagation",
    "cpu_experimental_onednn_custom_call", "cpu_fast_math_honor_division", "cpu_fast_math_honor_functions",
    "cpu_fast_math_honor_infs", "cpu_fast_math_honor_nans", "cpu_ftz",
    "cpu_generate_unique_c_style_kernel_entry_points", "cpu_multi_thread_eigen", "cpu_strict_dot_conv_math",
    "cpu_use_acl", "cpu_use_fusion_emitters", "cpu_use_onednn", "cpu_use_xnnpack", "detailed_logging",
    "disable_all_hlo_passes", "disable_automatic_host_compute_offload", "dump_buffer_assignment_analysis",
    "dump_compress_protos", "dump_disable_metadata", "dump_enable_mlir_pretty_form", "dump_full_hlo_config",
    "dump_fusion_visualization", "dump_hlo_as_dot", "dump_hlo_as_html", "dump_hlo_as_long_text", "dump_hlo_as_proto",
    "dump_hlo_as_text", "dump_hlo_as_url", "dump_hlo_snapshots", "dump_hlo_to_subfolder",
    "dump_hlo_unoptimized_snapshots", "dump_include_timestamp", "dump_large_constants",
    "dump_latency_hiding_schedule", "dump_module_metadata", "early_exit_with_layouts",
    "eliminate_hlo_implicit_broadcast", "embed_ir_in_executable", "enable_command_buffers_during_profiling",
    "enable_dumping", "enable_enzyme_comms_opt", "enable_fast_math", "enable_hlo_sharding_v3",
    "enable_rgv3_materialization", "enable_scoped_logging_timers", "flags_reset", "gpu_async_dot",
    "gpu_collect_cost_model_stats", "gpu_collective_permute_connected_components", "gpu_command_buffer_unroll_loops",
    "gpu_copy_insertion_use_region_analysis", "gpu_crash_on_verification_failures", "gpu_cublas_fallback",
    "gpu_default_to_alg_dot_bf16_bf16_f32", "gpu_deterministic_ops", "gpu_disable_gpuasm_optimizations",
    "gpu_dump_autotuned_gemm_fusions", "gpu_dump_autotuned_instructions", "gpu_dump_llvmir",
    "gpu_enable_all_gather_combine_by_dim", "gpu_enable_analytical_latency_estimator",
    "gpu_enable_analytical_sol_latency_estimator", "gpu_enable_approx_costly_collectives",
    "gpu_enable_cub_radix_sort", "gpu_enable_cublaslt", "gpu_enable_cudnn_int8x32_convolution_reordering",
    "gpu_enable_cudnn_layer_norm", "gpu_enable_dus_accumulator_zero_init_elimination",
    "gpu_enable_dynamic_slice_fusion", "gpu_enable_fast_min_max", "gpu_enable_highest_priority_async_stream",
    "gpu_enable_host_memory_offloading", "gpu_enable_latency_hiding_scheduler", "gpu_enable_libnvptxcompiler",
    "gpu_enable_llvm_module_compilation_parallelism", "gpu_enable_nccl_clique_optimization",
    "gpu_enable_nccl_comm_splitting", "gpu_enable_nccl_user_buffers", "gpu_enable_pdl",
    "gpu_enable_pipelined_all_gather", "gpu_enable_pipelined_all_reduce", "gpu_enable_pipelined_collectives",
    "gpu_enable_pipelined_host_offloading", "gpu_enable_pipelined_p2p", "gpu_enable_pipelined_reduce_scatter",
    "gpu_enable_reassociation_for_converted_ar", "gpu_enable_reduce_scatter_combine_by_dim",
    "gpu_enable_scatter_determinism_expander", "gpu_enable_shared_constants", "gpu_enable_triton_gemm",
    "gpu_enable_while_loop_double_buffering", "gpu_enable_while_loop_reduce_scatter_code_motion",
    "gpu_exclude_nondeterministic_ops", "gpu_executable_embed_debug_info", "gpu_exhaustive_tiling_search",
    "gpu_experimental_all_fusions_with_triton", "gpu_experimental_aot_compiled_thunks",
    "gpu_experimental_autotune_post_fusion", "gpu_experimental_collective_start_as_early_as_possible",
    "gpu_experimental_disable_binary_libraries", "gpu_experimental_dump_fdo_profiles",
    "gpu_experimental_dump_gpu_executable", "gpu_experimental_dynamic_slice_fusion_verify_offsets",
    "gpu_experimental_enable_alltoall_windowed_einsum", "gpu_experimental_enable_buffer_saver_on_thunks",
    "gpu_experimental_enable_checksum_tracing_on_thunks", "gpu_experimental_enable_collective_multi_streaming",
    "gpu_experimental_enable_conv_fusion", "gpu_experimental_enable_fusion_autotuner",
    "gpu_experimental_enable_fusion_block_level_rewriter", "gpu_experimental_enable_heuristic_collective_combining",
    "gpu_experimental_enable_nccl_symmetric_buffers", "gpu_experimental_enable_nvshmem",
    "gpu_experimental_enable_subchannel_dequantisation_fusion", "gpu_experimental_enable_tiling_propagation",
    "gpu_experimental_enable_triton_heroless_priority_fusion", "gpu_experimental_enable_triton_warp_specialization",
    "gpu_experimental_gemm_fusion_v2", "gpu_experimental_pack_dot_operands_along_k_dimension",
    "gpu_experimental_ragged_all_to_all_use_barrier", "gpu_experimental_ragged_all_to_all_use_barrier_with_nccl",
    "gpu_experimental_ragged_all_to_all_zero_copy", "gpu_experimental_scaled_dot_with_triton",
    "gpu_experimental_stream_annotation", "gpu_experimental_thunk_buffer_debug_module_outputs",
    "gpu_experimental_use_raft_select_k", "gpu_experimental_use_ragged_dot_fusion",
    "gpu_experimental_use_ragged_dot_grouped_gemm", "gpu_fail_ptx_compilation_on_register_spilling",
    "gpu_filter_kernels_spilling_registers_on_autotuning", "gpu_force_conv_nchw", "gpu_force_conv_nhwc", "gpu_ftz",
    "gpu_fused_attention_use_cudnn_rng", "gpu_generate_debug_info", "gpu_generate_line_info",
    "gpu_graph_enable_concurrent_region", "gpu_log_minmax", "gpu_mock_custom_calls",
    "gpu_multi_streamed_windowed_einsum", "gpu_native_emitter_tune_unroll_factor_for_loops",
    "gpu_nccl_async_execution", "gpu_nccl_blocking_communicators", "gpu_nccl_terminate_on_error",
    "gpu_print_compilation_stats", "gpu_require_complete_aot_autotune_results", "gpu_require_exclusive_lock",
    "gpu_shard_autotuning", "gpu_temp_buffer_use_separate_color", "gpu_triton_gemm_any",
    "gpu_unsafe_fallback_to_driver_on_ptxas_not_found", "gpu_unsupported_enable_all_reduce_decomposer",
    "gpu_unsupported_enable_ragged_all_to_all_decomposer",
    "gpu_unsupported_enable_ragged_all_to_all_multi_host_decomposer", "gpu_unsupported_enable_triton_gemm",
    "gpu_unsupported_enable_triton_multi_output_fusion", "gpu_unsupported_use_all_reduce_one_shot_kernel",
    "gpu_unsupported_use_ragged_all_to_all_one_shot_kernel", "gpu_use_embeded_device_lib", "gpu_use_inprocess_lld",
    "gpu_use_memcpy_local_p2p", "gpu_use_runtime_fusion", "gpu_verify_triton_fusion_numerics",
    "hlo_evaluator_use_fast_path", "hlo_graph_addresses", "hlo_graph_sharding_color", "hlo_pass_fix_detect_cycles",
    "hlo_print_inline_stack_frames", "hlo_profile", "keep_shardings_after_spmd", "llvm_disable_expensive_passes",
    "llvm_enable_alias_scope_metadata", "llvm_enable_invariant_load_metadata", "llvm_enable_noalias_metadata",
    "llvm_force_inline_before_split", "pjrt_allow_auto_layout_in_hlo", "sdy_export_all_reduce_scatter",
    "syntax_sugar_async_ops", "test_add_command_buffer_mode", "test_all_input_layouts", "test_all_output_layouts",
    "tpu_detect_inf", "tpu_detect_nan", "unsupported_crash_on_hlo_pass_fix_max_iterations",
    "unsupported_crash_on_hlo_pass_noop_change", "unsupported_crash_on_hlo_pass_silent_hlo_change",
};

constexpr std::string_view kInt32s[] = {
    "backend_optimization_level", "cpu_collective_call_terminate_timeout_seconds",
    "cpu_collective_call_warn_stuck_seconds", "cpu_collective_timeout_seconds", "cpu_emitter_verification_level",
    "cpu_parallel_codegen_split_count", "cpu_prefer_vector_width", "dump_max_hlo_modules",
    "force_host_platform_device_count", "gpu_all_reduce_blueconnect_num_devices_per_host",
    "gpu_auto_spmd_partitioning_memory_budget_gb", "gpu_autotune_level", "gpu_collective_inflation_factor",
    "gpu_cudnn_gemm_fusion_level", "gpu_cudnn_gemm_max_plans", "gpu_dot_merger_threshold_mb",
    "gpu_executable_num_communication_streams", "gpu_executable_num_compute_streams",
    "gpu_executable_terminate_timeout_seconds", "gpu_executable_warn_stuck_timeout_seconds",
    "gpu_execution_progress_tracking", "gpu_experimental_force_split_k", "gpu_experimental_max_unroll_factor",
    "gpu_experimental_parallel_async_compute_limit", "gpu_experimental_parallel_collective_overlap_limit",
    "gpu_first_collective_call_terminate_timeout_seconds", "gpu_first_collective_call_warn_stuck_timeout_seconds",
    "gpu_force_compilation_parallelism", "gpu_fusion_autotune_top_k_configs", "gpu_graph_min_graph_size",
    "gpu_llvm_verification_level", "gpu_memory_limit_slop_factor", "multiheap_size_constraint_per_heap",
    "recognize_reduction_optimization_level",
};

constexpr std::string_view kInt64s[] = {
    "cmd_buffer_trace_cache_size", "debug_buffer_assignment_show_max", "gpu_all_gather_combine_threshold_bytes",
    "gpu_all_reduce_combine_threshold_bytes", "gpu_autotune_max_solutions", "gpu_collective_combine_threshold_count",
    "gpu_collective_permute_combine_threshold_bytes", "gpu_collective_permute_decomposer_threshold",
    "gpu_experimental_collective_cse_distance_threshold", "gpu_gemm_rewrite_size_threshold",
    "gpu_nccl_collective_max_nchannels", "gpu_nccl_init_max_rank_per_root_ratio", "gpu_nccl_p2p_max_nchannels",
    "gpu_nccl_termination_timeout_seconds", "gpu_operand_bytes_threshold_for_windowed_einsum",
    "gpu_reduce_scatter_combine_threshold_bytes", "gpu_redzone_padding_bytes", "gpu_rocm_max_trace_events",
    "gpu_threshold_for_windowed_einsum_mib", "gpu_unsupported_override_fast_interconnect_slice_size",
    "reduce_window_rewrite_base_length",
};

constexpr std::string_view kFloats[] = {
    "gpu_auto_spmd_partitioning_memory_budget_ratio", "gpu_autotune_gemm_rtol",
};

constexpr std::string_view kStrings[] = {
    "cpu_max_isa", "disable_hlo_passes", "dump_emitter_re", "dump_hlo_module_re", "dump_hlo_pass_re",
    "dump_hlo_pipeline_re", "dump_to", "enable_hlo_passes_only", "gpu_algorithm_denylist_path",
    "gpu_collectives_implementation", "gpu_cuda_data_dir", "gpu_dump_autotune_logs_to",
    "gpu_dump_autotune_results_to", "gpu_execution_terminate_timeout", "gpu_experimental_autotuner_cache_dir",
    "gpu_experimental_collective_perf_table_path", "gpu_experimental_matmul_perf_table_path",
    "gpu_gemm_autotuner_override_file", "gpu_kernel_cache_file", "gpu_llvm_ir_file", "gpu_load_autotune_results_from",
    "gpu_override_gemm_autotuner", "gpu_per_fusion_autotune_cache_dir", "gpu_pgle_profile_file_or_directory_path",
    "gpu_ptx_compiler_extra_flags", "gpu_ptx_file", "gpu_target_config_filename",
};

constexpr std::string_view kEnumerations[] = {
    "cpu_experimental_onednn_fusion_type", "cpu_experimental_xnn_fusion_type",
    "cpu_experimental_xnn_graph_fusion_mode", "cpu_experimental_ynn_fusion_type", "cpu_opt_preset",
    "cpu_scheduler_type", "detect_unstable_reductions", "detect_unstable_reductions_post_optimizations",
    "gpu_all_gather_mode", "gpu_collective_permute_mode", "gpu_command_buffer_scheduling_mode",
    "gpu_command_buffer_update_mode", "gpu_detect_inf", "gpu_detect_nan", "gpu_deviceless_cub_mode",
    "gpu_disable_async_collectives", "gpu_enable_command_buffer", "gpu_enable_while_loop_unrolling",
    "gpu_experimental_autotune_backends", "gpu_experimental_autotune_cache_mode",
    "gpu_experimental_pipeline_parallelism_opt_level", "gpu_libnvjitlink_mode", "gpu_pgle_accuracy_checker",
    "gpu_ragged_all_to_all_mode", "gpu_shape_checks", "partitioning_algorithm", "step_marker_location",
};

constexpr std::string_view kMessages[] = {
    "backend_extra_options", "gpu_analytical_latency_estimator_options",
    "gpu_experimental_cost_model_gemm_tiling_options", "gpu_experimental_thunk_buffer_debug_filter",
};
// clang-format on

static_assert(std::ranges::is_sorted(kBooleans) && std::ranges::is_sorted(kInt32s) && std::ranges::is_sorted(kInt64s) &&
              std::ranges::is_sorted(kFloats) && std::ranges::is_sorted(kStrings) &&
              std::ranges::is_sorted(kEnumerations) && std::ranges::is_sorted(kMessages));

// All of the text as a number.
template <typename T>
bool Reads(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

bool Is(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {},
                            [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
}

bool IsBool(const FlagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Is(*text, "true") || Is(*text, "false");
  return std::holds_alternative<bool>(value);
}
bool IsInt32(const FlagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Reads<int32_t>(*text);
  const auto* number = std::get_if<int64_t>(&value);
  return number != nullptr && *number >= std::numeric_limits<int32_t>::min() &&
         *number <= std::numeric_limits<int32_t>::max();
}
bool IsInt64(const FlagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Reads<int64_t>(*text);
  return std::holds_alternative<int64_t>(value);
}
bool IsFloat(const FlagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return Reads<float>(*text);
  return std::holds_alternative<double>(value);
}
bool IsString(const FlagValue& value) { return std::holds_alternative<std::string>(value); }
// By name or number.
bool IsEnum(const FlagValue& value) {
  return std::holds_alternative<std::string>(value) || std::holds_alternative<int64_t>(value);
}
// Nothing that one value could be.
bool IsMessage(const FlagValue&) { return false; }

struct Kind {
  std::string_view name;
  std::span<const std::string_view> flags;
  bool (*holds)(const FlagValue&);
};
constexpr Kind kKinds[] = {
    {"bool", kBooleans, IsBool},       {"int32", kInt32s, IsInt32},    {"int64", kInt64s, IsInt64},
    {"float", kFloats, IsFloat},       {"string", kStrings, IsString}, {"enum", kEnumerations, IsEnum},
    {"message", kMessages, IsMessage},
};

std::string TextOf(const FlagValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const auto* number = std::get_if<int64_t>(&value)) return Format("{}", *number);
  return Format("{}", std::get<double>(value));
}

}  // namespace

Result<> CheckXlaFlag(std::string_view name, const FlagValue& value) {
  constexpr std::string_view kPrefix = "xla_";
  if (!name.starts_with(kPrefix)) return InvalidArgument("No such compile option: '{}'", name);
  const std::string_view rest = name.substr(kPrefix.size());
  for (const Kind& kind : kKinds) {
    if (!std::ranges::binary_search(kind.flags, rest)) continue;
    if (!kind.holds(value))
      return InvalidArgument("While setting option {}, '{}' is not a valid {} value.", name, TextOf(value), kind.name);
    break;
  }
  return {};
}

}  // namespace krafla::pjrt
