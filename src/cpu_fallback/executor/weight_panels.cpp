// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/weight_panels.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/index.h"

namespace krafla::cpu {

std::optional<WeightPanels> WeightPanels::Make(const plan::ElementProgram& program, bool is_rhs,
                                               GroupFactors::Extents extents, ElementType type) {
  if (type != ElementType::kBF16) return std::nullopt;
  const std::optional<QuantisedWeights> weights = FindQuantisedWeights(program, is_rhs);
  if (!weights) return std::nullopt;
  const std::optional<WeightKind> how = WeightKindOf(*weights);
  const std::optional<CodesInMemory> codes = FindCodesInMemory(*weights, is_rhs);
  if (!how || !codes || codes->form.is_along_depth()) return std::nullopt;
  WeightPanels out;
  out.depth_ = extents.groups, out.group_ = weights->group, out.batch_ = extents.batch, out.codes_ = *codes;
  if (kPlacesOfPart % codes->form.places() != 0 || out.group_ % codes->form.places() != 0) return std::nullopt;
  extents.groups /= out.group_;
  const bool divides = weights->made == QuantisedWeights::Made::kQuotients;
  const plan::ElementProgram& scales = divides ? weights->divisors : weights->scales;
  if (!scales.results.empty()) {
    out.scales_ = GroupFactors::Make(scales, is_rhs, extents, std::nullopt);
    if (!out.scales_) return std::nullopt;
    out.scale_type_ = out.scales_->type();
  }
  if (!weights->zeros.results.empty()) {
    out.zeros_ = GroupFactors::Make(weights->zeros, is_rhs, extents, ElementType::kF32);
    if (!out.zeros_) return std::nullopt;
  }
  for (const bool is_upper : {false, true})
    out.panels_[At(is_upper)] = FindWeightPanel(codes->form.kind, *how, out.scale_type_, is_upper);
  if (out.panels_[0] == nullptr) return std::nullopt;
  if (out.scales_) out.zeros_offset_ = RoundUp(out.scales_->scratch_bytes(), 64);
  out.scratch_bytes_ = out.zeros_offset_ + (out.zeros_ ? RoundUp(out.zeros_->scratch_bytes(), 64) : 0);
  return out;
}

int64_t WeightPanels::frame_bytes() const {
  int64_t bytes = 0;
  for (const std::optional<GroupFactors>* factors : {&scales_, &zeros_})
    if (*factors) bytes = std::max(bytes, (*factors)->frame_bytes());
  return bytes;
}

void WeightPanels::Start(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch,
                         const std::function<std::byte*(int worker)>& frame_of) const {
  if (scales_) scales_->Compute(bindings, pool, scratch, frame_of);
  if (zeros_) zeros_->Compute(bindings, pool, scratch + zeros_offset_, frame_of);
}

void WeightPanels::Make(std::span<std::byte* const> bindings, const std::byte* scratch, const Lines& lines,
                        int64_t begin, int64_t end, uint16_t* to, int64_t stride) const {
  const CodeForm& form = codes_.form;
  const int64_t half = form.kind == CodeForm::Kind::kHalves ? depth_ / 2 : depth_;
  const std::byte* codes = bindings[At(codes_.buffer)] + codes_.offset +
                           BatchOffset(lines.batch, batch_, codes_.batch_strides) + form.BytesOf(lines.first);
  for (int64_t place = begin, next = 0; place < end; place = next) {
    const int64_t group = place / group_;
    const bool is_upper = place >= half;
    next = std::min({end, (group + 1) * group_, is_upper ? end : half});
    WeightPanelTurn turn{.weights = codes + (is_upper ? place - half : place) / form.places() * codes_.stride,
                         .stride = codes_.stride,
                         .places = next - place,
                         .columns = lines.count,
                         .to = to + (place - begin) * stride,
                         .to_stride = stride};
    if (scales_) turn.scales = scales_->Of(bindings, scratch, lines.batch, group, lines.first);
    if (zeros_)
      turn.zeros = reinterpret_cast<const float*>(
          zeros_->Of(bindings, scratch + zeros_offset_, lines.batch, group, lines.first));
    panels_[At(is_upper)](form, turn);
  }
}

}  // namespace krafla::cpu
