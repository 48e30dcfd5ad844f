// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/custom_partitioner.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugins/pjrt/entry.h"

namespace krafla::pjrt {
namespace {

constexpr std::string_view kOwnPrefix = "krafla.";

JAX_CustomCallPartitioner_string View(std::string_view text) { return {text.data(), text.size()}; }
std::string_view Text(JAX_CustomCallPartitioner_string s) { return {s.data, s.size}; }

// One call of a function: its arguments, and after it its results.
template <typename Args>
class Asked {
 public:
  explicit Asked(const CustomCuts::Call& call) {
    args.backend_config = View(call.config);
    for (std::size_t o = 0; o < call.operand_shapes.size(); ++o)
      avals_.push_back({View(call.operand_shapes[o]), true, View(call.operand_shardings[o])});
    args.num_args = avals_.size();
    args.op_args = avals_.data();
  }
  ~Asked() {
    if (args.header.cleanup_fn != nullptr) args.header.cleanup_fn(args.header.data);
  }
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;

  Result<> Check() const {
    if (!args.header.has_error) return {};
    return Internal("The function that cuts the custom call failed: {}.", Text(args.header.error_msg));
  }

  Args args = {};

 private:
  std::vector<JAX_CustomCallPartitioner_aval> avals_;
};

class Partitioners final : public CustomCuts {
 public:
  void Register(std::string_view name, JAX_CustomCallPartitioner_Callbacks* callbacks) {
    std::lock_guard lock(mutex_);
    // What was there before may be in use on another thread, and stays.
    callbacks_[std::string(name)] = callbacks;
  }

  bool Takes(std::string_view target) const override { return Find(target) != nullptr; }

  Result<std::optional<std::string>> ResultSharding(std::string_view target, const Call& call) const override {
    JAX_CustomCallPartitioner_Callbacks* const callbacks = Find(target);
    Asked<JAX_CustomCallPartitioner_InferShardingFromOperands_Args> asked(call);
    asked.args.result_shape = View(call.result_shape);
    callbacks->infer_sharding(callbacks, &asked.args);
    KRAFLA_TRY(asked.Check());
    if (!asked.args.has_result_sharding) return std::nullopt;
    return std::string(Text(asked.args.result_sharding));
  }

  Result<Cut> Partition(std::string_view target, const Call& call) const override {
    JAX_CustomCallPartitioner_Callbacks* const callbacks = Find(target);
    Asked<JAX_CustomCallPartitioner_Partition_Args> asked(call);
    asked.args.op_result = {View(call.result_shape), true, View(call.wish)};
    callbacks->partition(callbacks, &asked.args);
    KRAFLA_TRY(asked.Check());
    Cut out;
    for (std::size_t o = 0; o < call.operand_shapes.size(); ++o)
      out.operand_shardings.emplace_back(Text(asked.args.args_sharding[o]));
    out.result_sharding = Text(asked.args.result_sharding);
    out.program = Text(asked.args.mlir_module);
    return out;
  }

 private:
  JAX_CustomCallPartitioner_Callbacks* Find(std::string_view target) const {
    std::lock_guard lock(mutex_);
    auto found = callbacks_.find(std::string(kOwnPrefix) + std::string(target));
    if (found == callbacks_.end()) found = callbacks_.find(target);
    return found == callbacks_.end() ? nullptr : found->second;
  }

  mutable std::mutex mutex_;
  std::map<std::string, JAX_CustomCallPartitioner_Callbacks*, std::less<>> callbacks_;
};

// Never destroyed: the functions are Python's, which may be gone by then.
Partitioners& All() {
  static Partitioners& all = *new Partitioners();
  return all;
}

Result<> Register(PJRT_Register_Custom_Partitioner_Args& args) {
  if (args.callbacks == nullptr || args.callbacks->version != 0)
    return Unimplemented("A partitioner of custom calls has functions of version 0.");
  All().Register({args.name, args.name_size}, args.callbacks);
  return {};
}

// JAX names those of its decompositions that may be cut along batches. Whatever the partitioner has no rule for it does
// on whole arrays.
Result<> RegisterBatch(PJRT_Register_Batch_Partitionable_Args&) { return {}; }

}  // namespace

const CustomCuts& RegisteredPartitioners() { return All(); }

PJRT_Custom_Partitioner_Extension* CustomPartitionerExtension() {
  static PJRT_Custom_Partitioner_Extension extension = [] {
    PJRT_Custom_Partitioner_Extension out = {};
    out.base.struct_size = sizeof(out);
    out.base.type = kPjrtCustomPartitionerExtension;
    using One = PJRT_Register_Custom_Partitioner_Args;
    using Batch = PJRT_Register_Batch_Partitionable_Args;
    out.register_custom_partitioner = [](One* args) -> PJRT_Error* {
      return Enter("PJRT_Register_Custom_Partitioner", args, sizeof(One), &Register);
    };
    out.register_batch_partitionable = [](Batch* args) -> PJRT_Error* {
      return Enter("PJRT_Register_Batch_Partitionable", args, sizeof(Batch), &RegisterBatch);
    };
    return out;
  }();
  return &extension;
}

}  // namespace krafla::pjrt
