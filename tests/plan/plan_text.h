// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>

#include "hlo_io/hlo_text/hlo_text.h"
#include "passes/pipeline.h"
#include "plan/planner.h"

namespace krafla::plan {

// The plan of a module in HLO text, after the passes.
inline Result<ProgramPlan> PlanText(std::string_view text, const PlanOptions& options = {}) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_TRY(RunPipeline(*module, {}));
  KRAFLA_ASSIGN(VerifiedModule verified, VerifiedModule::Make(std::move(module)));
  return PlanProgram(std::move(verified), options);
}

}  // namespace krafla::plan
