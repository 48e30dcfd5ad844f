// SPDX-License-Identifier: Apache-2.0
// ToString(ProgramPlan): kernels with their programs, then the steps.
#include <algorithm>

#include "plan/planner.h"

namespace krafla::plan {
namespace {

std::string SliceText(const ProgramPlan& plan, const Slice& s) {
  const Allocation& a = plan.allocations[static_cast<std::size_t>(s.allocation)];
  const auto part = [&](std::string whole) {
    return s.offset == 0 && s.size == a.size ? whole : Format("{}+{}:{}", whole, s.offset, s.size);
  };
  switch (a.kind) {
    case Allocation::Kind::kArgument: return part(Format("arg{}", a.number));
    case Allocation::Kind::kResult: return part(Format("result{}", a.number));
    case Allocation::Kind::kState: return part(Format("state{}", a.number));
    case Allocation::Kind::kConstant: return part(Format("const{}", a.number));
    case Allocation::Kind::kDeviceId: return a.number == 0 ? "replica_id" : "partition_id";
    case Allocation::Kind::kArena: return Format("arena+{}:{}", a.offset + s.offset, s.size);
    case Allocation::Kind::kBlock: return Format("block+{}:{}", a.offset + s.offset, s.size);
  }
  KRAFLA_UNREACHABLE();
}

std::string DimsText(const Dims& dims) {
  std::string out = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) out += Format("{}{}", i ? "," : "", dims[i]);
  return out + "]";
}

std::string Indent(const std::string& text, std::string_view by) {
  std::string out(by);
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += by;
  }
  return out;
}

std::string ReduceText(const ReduceKernel& body) {
  std::string out = Format("rows {} elements {}\n", DimsText(body.row_dims), DimsText(body.element_dims));
  for (const ReduceStage& s : body.stages) {
    out += Format("{} stage, {} reductions\n", s.scope == ReduceStage::Scope::kRow ? "row" : "element",
                  s.reductions.size());
    out += Indent(s.program.ToString(), "  ");
  }
  return out;
}

std::string DotText(const DotKernel& body) {
  const auto where = [](bool computed, int binding, int64_t offset) {
    return computed ? std::string("computed") : Format("b{}+{}", binding, offset);
  };
  std::string out =
      Format("batch {} m {} n {} k {}; lhs {} {} strides m {} k {}; rhs {} {} strides k {} n {}\n",
             DimsText(body.batch), body.m, body.n, body.k,
             where(body.computes_lhs(), body.lhs_binding, body.lhs_offset), ElementTypeName(body.lhs_type),
             body.lhs_m_stride, body.lhs_k_stride, where(body.computes_rhs(), body.rhs_binding, body.rhs_offset),
             ElementTypeName(body.rhs_type), body.rhs_k_stride, body.rhs_n_stride);
  if (body.computes_lhs()) out += "lhs, over [batch, m, k]\n" + Indent(body.lhs_program.ToString(), "  ");
  if (body.computes_rhs()) out += "rhs, over [batch, k, n]\n" + Indent(body.rhs_program.ToString(), "  ");
  return out + body.epilogue.ToString();
}

std::string HorizontalText(const HorizontalKernel& body) {
  std::string out = body.begins_with_rows ? "rows in each workgroup\n" : "";
  for (const HorizontalKernel::Part& part : body.parts)
    out += std::visit(
        [](const auto& p) {
          using T = std::decay_t<decltype(p)>;
          if constexpr (std::is_same_v<T, LoopKernel>) return "loop\n" + Indent(p.program.ToString(), "  ");
          if constexpr (std::is_same_v<T, ReduceKernel>) return "reduce\n" + Indent(ReduceText(p), "  ");
          if constexpr (std::is_same_v<T, DotKernel>) return "dot\n" + Indent(DotText(p), "  ");
        },
        part);
  return out;
}

std::string BodyText(const KernelPlan& kernel) {
  return std::visit(
      [](const auto& body) -> std::string {
        using T = std::decay_t<decltype(body)>;
        if constexpr (std::is_same_v<T, LoopKernel>) return body.program.ToString();
        if constexpr (std::is_same_v<T, ReduceKernel>) return ReduceText(body);
        if constexpr (std::is_same_v<T, DotKernel>) return DotText(body);
        if constexpr (std::is_same_v<T, HorizontalKernel>) return HorizontalText(body);
        if constexpr (std::is_same_v<T, AttentionKernel>)
          return Format("scores\n{}rows\n{}product\n{}", Indent(DotText(body.scores), "  "),
                        Indent(ReduceText(body.rows), "  "), Indent(DotText(body.product), "  ")) +
                 (body.limits ? Format("columns of a row, {} ends first\n{}", body.limits->ends,
                                       Indent(body.limits->program.ToString(), "  "))
                              : std::string());
        if constexpr (std::is_same_v<T, ConvKernel>)
          return Format("input {} kernel {} output {} groups {}\n{}", DimsText(body.input_dims),
                        DimsText(body.kernel_dims), DimsText(body.output_dims), body.attributes.feature_group_count,
                        body.epilogue.ToString());
        if constexpr (std::is_same_v<T, SortKernel>)
          return Format("dims {} dimension {}{}\n{}", DimsText(body.dims), body.dimension,
                        body.keep < 0 ? std::string() : Format(" keep {}", body.keep), body.comparator.ToString());
        if constexpr (std::is_same_v<T, ScanKernel>)
          return Format("dims {} dimension {}\n{}", DimsText(body.dims), body.dimension,
                        body.reduction.combiner.ToString());
        if constexpr (std::is_same_v<T, ScatterKernel>)
          return Format("operand {} updates {}{}\n{}", DimsText(body.operand_dims), DimsText(body.updates_dims),
                        body.multiplies_complex ? " of complex numbers" : "", body.combiner.combiner.ToString());
        if constexpr (std::is_same_v<T, FftKernel>)
          return Format("{} lengths {} batch {}\n", ElementTypeName(body.real), DimsText(body.lengths), body.batch);
        if constexpr (std::is_same_v<T, LinalgKernel>) {
          constexpr std::string_view kOps[] = {
              "cholesky", "triangular solve", "lu", "qr", "householder product", "eigh", "svd"};
          return Format("{} of {}, batch {} rows {} columns {}\n", kOps[static_cast<std::size_t>(body.op)],
                        ElementTypeName(body.type), body.batch, body.rows, body.columns);
        }
        if constexpr (std::is_same_v<T, HostKernel>) return Format("{}\n", Describe(*body.instruction));
      },
      kernel.body);
}

void StepsText(const ProgramPlan& plan, const StepList& list, const std::string& indent, std::string& out);

// Writes each step on a line of its own, with the steps inside it indented below.
class StepText {
 public:
  StepText(const ProgramPlan& plan, const std::string& indent, std::string& out)
      : plan_(plan), indent_(indent), out_(out) {}

  void operator()(const LaunchStep& launch) const { Launch(launch, indent_, nullptr); }
  void operator()(const RowGroupStep& group) const {
    out_ += Format("{}for each block of {}{}\n", indent_, DimsText(group.grid),
                   group.in_order > 0 ? Format(", the last {} in order", group.in_order) : "");
    for (const BlockLaunch& launch : group.launches) Launch(launch, indent_ + "    ", &launch.strides);
  }
  void operator()(const AwaitStep& await) const {
    out_ += Format("{}await x{} {}\n", indent_, await.exchange, await.instruction->name());
  }
  void operator()(const CopyStep& copy) const {
    out_ += Format("{}copy {} -> {} ({} bytes)\n", indent_, SliceText(plan_, copy.from), SliceText(plan_, copy.to),
                   copy.from.size);
  }
  void operator()(const WhileStep& loop) const {
    out_ += Format("{}while {}{}\n", indent_, SliceText(plan_, loop.predicate),
                   loop.trip_count ? Format(" ({} times)", *loop.trip_count) : "");
    StepsText(plan_, *loop.condition, indent_ + "  ? ", out_);
    StepsText(plan_, *loop.body, indent_ + "    ", out_);
  }
  void operator()(const ConditionalStep& conditional) const {
    out_ += Format("{}conditional {}\n", indent_, SliceText(plan_, conditional.index));
    for (std::size_t b = 0; b < conditional.branches.size(); ++b) {
      out_ += Format("{}  branch {}\n", indent_, b);
      StepsText(plan_, *conditional.branches[b], indent_ + "    ", out_);
    }
  }
  void operator()(const CallStep& call) const {
    out_ += Format("{}call c{} {}\n", indent_, call.callee, call.instruction->name());
  }

 private:
  void Launch(const LaunchStep& launch, const std::string& indent, const std::vector<Dims>* strides) const {
    out_ += launch.exchange < 0 ? Format("{}launch", indent) : Format("{}start x{},", indent, launch.exchange);
    out_ += Format(" k{} {}(", launch.kernel, launch.instruction->name());
    const std::vector<Binding>& bindings = plan_.kernels[static_cast<std::size_t>(launch.kernel)].bindings;
    for (std::size_t b = 0; b < launch.bindings.size(); ++b) {
      out_ += Format("{}{}{}", b ? ", " : "", bindings[b].written ? "out " : "", SliceText(plan_, launch.bindings[b]));
      if (strides != nullptr && std::ranges::any_of((*strides)[b], [](int64_t s) { return s != 0; }))
        out_ += Format(" by {}", DimsText((*strides)[b]));
    }
    out_ += ")\n";
  }

  const ProgramPlan& plan_;
  const std::string& indent_;
  std::string& out_;
};

void StepsText(const ProgramPlan& plan, const StepList& list, const std::string& indent, std::string& out) {
  for (const Step& step : list.steps) std::visit(StepText(plan, indent, out), step);
}

}  // namespace

std::string ToString(const ProgramPlan& plan) {
  std::string out;
  for (std::size_t k = 0; k < plan.kernels.size(); ++k) {
    const KernelPlan& kernel = plan.kernels[k];
    out += Format("kernel k{} {} {}\n", k, FamilyName(kernel), kernel.name);
    for (std::size_t b = 0; b < kernel.bindings.size(); ++b)
      out +=
          Format("  b{} {}[{}]{}{}\n", b, ElementTypeName(kernel.bindings[b].storage), kernel.bindings[b].element_count,
                 kernel.bindings[b].read ? " read" : "", kernel.bindings[b].written ? " written" : "");
    out += Indent(BodyText(kernel), "  ");
  }
  out += Format("arena {} bytes, largest live set {}\n", plan.arena_size, plan.peak_live_bytes);
  if (plan.block_bytes > 0) out += Format("block {} bytes\n", plan.block_bytes);
  for (std::size_t c = 0; c < plan.callees.size(); ++c) {
    out += Format("callee c{}\n", c);
    StepsText(plan, plan.callees[c], "  ", out);
  }
  StepsText(plan, plan.steps, "", out);
  return out;
}

}  // namespace krafla::plan
