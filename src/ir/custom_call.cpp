// SPDX-License-Identifier: Apache-2.0
#include "ir/custom_call.h"

namespace krafla {
namespace {

constexpr std::string_view kSdyPrefix = "xla.sdy.";

// In the order of the enumerators after kUnknown.
constexpr std::string_view kTargetNames[] = {
#define KRAFLA_CUSTOM_CALL(Enum, name) name,
#include "ir/custom_call_targets.def"
};

constexpr std::string_view kBuiltInTargets[] = {
#define KRAFLA_CUSTOM_CALL(Enum, name) name,
#define KRAFLA_SDY_ANNOTATION(Enum, name)  // "xla.sdy.*" stands for them
#define KRAFLA_READER_CALL(Enum, name)
#include "ir/custom_call_targets.def"
};

}  // namespace

CustomCallTarget CustomCallTargetOf(std::string_view name) {
  for (std::size_t n = 0; n < std::size(kTargetNames); ++n)
    if (kTargetNames[n] == name) return static_cast<CustomCallTarget>(n + 1);
  return name.starts_with(kSdyPrefix) ? CustomCallTarget::kSdyOther : CustomCallTarget::kUnknown;
}

CustomCallTarget CustomCallTargetOf(const Instruction& i) {
  if (i.opcode() != Opcode::kCustomCall) return CustomCallTarget::kUnknown;
  return CustomCallTargetOf(i.attr<CustomCallAttributes>().target);
}

std::string_view CustomCallTargetName(CustomCallTarget target) {
  switch (target) {
    case CustomCallTarget::kUnknown: return "";
#define KRAFLA_CUSTOM_CALL(Enum, name) \
  case CustomCallTarget::Enum: return name;
#include "ir/custom_call_targets.def"
  }
  KRAFLA_UNREACHABLE();
}

std::span<const std::string_view> BuiltInCustomCalls() { return kBuiltInTargets; }

bool IsBuiltInCustomCall(CustomCallTarget target) {
  switch (target) {
    case CustomCallTarget::kUnknown:
#define KRAFLA_READER_CALL(Enum, name) case CustomCallTarget::Enum:
#include "ir/custom_call_targets.def"
      return false;
#define KRAFLA_CUSTOM_CALL(Enum, name) case CustomCallTarget::Enum:
#define KRAFLA_READER_CALL(Enum, name)
#include "ir/custom_call_targets.def"
      return true;
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla
