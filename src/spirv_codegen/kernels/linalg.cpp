// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/linalg.h"

#include "base/checked_math.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {

Refusal RefusesInvocationEach(const LinalgCase& c) {
  if (c.k.rows * c.k.columns <= c.target.tuning.linalg.invocation_numbers) return std::nullopt;
  return Format("matrices of {} x {}", c.k.rows, c.k.columns);
}

Refusal RefusesInGroup(const LinalgCase& c) {
  using Op = plan::LinalgKernel::Op;
  if (Numbers::WideType(c.k.type) != c.k.type) return "numbers that are computed in a wider type";
  switch (c.k.op) {
    case Op::kCholesky:
    case Op::kLu: return RefusesInvocationEach(c);
    case Op::kTriangularSolve: {
      const int64_t n = c.k.left_side ? c.k.rows : c.k.columns;
      if (n <= c.target.tuning.linalg.block) return std::nullopt;
      return Format("triangles of {} rows", n);
    }
    case Op::kQr:
    case Op::kHouseholderProduct:
    case Op::kEigh:
    case Op::kSvd: return "reflections, eigenvalues or singular values";
  }
  KRAFLA_UNREACHABLE();
}

InGroupCost CostInGroup(const plan::LinalgKernel& k) {
  const double rows = static_cast<double>(k.rows), columns = static_cast<double>(k.columns);
  constexpr double kStep = 20;  // two loads, a store, a product and a difference
  if (k.op != plan::LinalgKernel::Op::kTriangularSolve)
    return {k.batch, kStep * rows * columns * std::min(rows, columns)};
  const double n = k.left_side ? rows : columns;
  return {k.batch * (k.left_side ? k.columns : k.rows), kStep * n * (n + 2)};
}

int64_t SharedRoom(const Target& target) { return int64_t{target.profile.limits.max_shared_memory_bytes} - 1024; }

LinalgProgram::LinalgProgram(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel, const Target& target,
                             const std::vector<int64_t>& scratch)
    : plan_(plan), kernel_(kernel), target_(target) {
  const ElementType wide = Numbers::WideType(kernel.type);
  const int bytes = StorageBytes(RealPart(wide)), parts = IsComplex(wide) ? 2 : 1;
  for (int64_t numbers : scratch) {
    descs_.push_back({numbers * parts, bytes});
    out_.scratch_bytes.push_back(numbers * parts * bytes);
  }
}

int LinalgProgram::Add(std::string variant, const LinalgBody& body) {
  const uint32_t local = WorkgroupSize(target_.profile, target_.tuning.linalg.local);
  return AddKernel(std::move(variant), local, local, body);
}
int LinalgProgram::AddElements(std::string variant, const LinalgBody& body) {
  const uint32_t local = WorkgroupSize(target_.profile, target_.tuning.linalg.local);
  const auto points = static_cast<uint32_t>(target_.tuning.linalg.workgroup_points);
  return AddKernel(std::move(variant), local, std::max(points / local, 1u) * local, body);
}
int LinalgProgram::AddGroups(std::string variant, uint32_t local, const LinalgBody& body) {
  return AddKernel(std::move(variant), local, 1, body);
}

int LinalgProgram::AddKernel(std::string variant, uint32_t local, uint32_t items, const LinalgBody& body) {
  if (target_.in_group != nullptr) {
    bodies_.push_back(body);
    return static_cast<int>(bodies_.size()) - 1;
  }
  KernelWriter w(plan_, target_, descs_, 2);
  Builder& b = w.b;
  Numbers numbers(w, kernel_.type);
  // The rows of a grid with more than one row have the device's greatest width.
  const Value group =
      b.Add(b.Mul(b.WorkgroupId(1), b.U32(target_.profile.limits.max_workgroup_count[0])), b.WorkgroupId(0));
  const Value count = w.buffers.PushWord(0);
  const Value at = w.buffers.PushWord(1), end = b.Mul(count, b.U32(static_cast<uint32_t>(kernel_.batch)));
  const auto item = [&](Value id) {
    b.If(b.Compare(Cmp::kULt, id, end), [&] {
      // Drivers without an instruction for it divide lane by lane.
      const Value matrix = kernel_.batch == 1 ? b.U32(0) : b.UDiv(id, count);
      LinalgKernelWriter writer{b, w.buffers, numbers, {}, matrix, b.Sub(id, b.Mul(matrix, count)), at};
      body(writer);
    });
  };
  const Value first = b.Mul(group, b.U32(items));
  if (items == 1) {
    item(first);
  } else if (items == local) {
    item(b.Add(first, b.LocalIndex()));
  } else {
    b.For(b.U32(0), b.U32(items), b.U32(local), [&](Value turn) { item(b.Add(b.Add(first, turn), b.LocalIndex())); });
  }
  out_.kernels.push_back(w.Finish({local, 1, 1}, std::move(variant)));
  items_.push_back(items);
  return static_cast<int>(out_.kernels.size()) - 1;
}

void LinalgProgram::RunInGroup(const LinalgBody& body, int64_t items, int64_t at) {
  const InGroup& group = *target_.in_group;
  Builder& b = group.w.b;
  const bool strict = b.strict;
  Numbers numbers(group.w, kernel_.type, group.names);
  const auto u32 = [&](int64_t v) { return b.U32(static_cast<uint32_t>(v)); };
  b.For(group.local > 1 ? b.LocalIndex() : b.U32(0), u32(items * kernel_.batch), b.U32(group.local), [&](Value id) {
    const Value matrix = kernel_.batch == 1 ? b.U32(0) : items == 1 ? id : b.UDiv(id, u32(items));
    const Value item = items == 1 ? b.U32(0) : b.Sub(id, b.Mul(matrix, u32(items)));
    LinalgKernelWriter writer{b, group.w.buffers, numbers, group.names, matrix, item, u32(at)};
    body(writer);
  });
  b.strict = strict;
  group.barrier();
}

Result<> LinalgProgram::Run(int kernel, int64_t items, int64_t at) {
  if (items == 0) return {};
  const auto k = static_cast<std::size_t>(kernel);
  if (target_.in_group != nullptr) {
    RunInGroup(bodies_[k], items, at);
    return {};
  }
  const int64_t total = items * kernel_.batch;
  const int64_t groups = CeilDiv(total, int64_t{items_[k]});
  const int64_t widest = target_.profile.limits.max_workgroup_count[0];
  const int64_t rows = CeilDiv(groups, widest);
  if (rows > target_.profile.limits.max_workgroup_count[1] || total > (int64_t{1} << 31))
    return Unimplemented("The kernel needs {} workgroups, more than {} takes at once.", groups, target_.profile.name);
  out_.dispatches.push_back({kernel,
                             {static_cast<uint32_t>(std::min(groups, widest)), static_cast<uint32_t>(rows), 1},
                             {static_cast<uint32_t>(items), static_cast<uint32_t>(at)}});
  return {};
}
Result<> LinalgProgram::RunRound(std::string variant, int work, int result, int64_t count) {
  const int kernel = AddElements(std::move(variant), [&](LinalgKernelWriter& w) {
    const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(count)), w.item);
    w.numbers.Store(result, kernel_.type, at, w.numbers.LoadWide(work, at));
  });
  return Run(kernel, count);
}

SharedMatrix::SharedMatrix(LinalgKernelWriter& w, int64_t rows, int64_t columns)
    : w_(w), columns_(columns), width_(w.numbers.complex() ? 2 : 1) {
  array_ = w.b.SharedArray(w.numbers.kind(), width_, static_cast<uint32_t>(rows * columns));
}
Number SharedMatrix::LoadAt(Value number) {
  const Value v = w_.b.LoadShared(array_, w_.numbers.kind(), width_, number);
  return width_ == 1 ? Number{v, {}} : Number{w_.b.Extract(v, 0), w_.b.Extract(v, 1)};
}
void SharedMatrix::StoreAt(Value number, Number v) {
  const Value lanes[] = {v.re, v.im};
  w_.b.StoreShared(array_, number, width_ == 1 ? v.re : w_.b.Composite(lanes));
}

void EmitSubstitution(LinalgKernelWriter& w, const SubstitutionBlock& s) {
  Builder& b = w.b;
  Numbers& n = w.numbers;
  b.For(b.U32(0), b.Sub(s.end, s.begin), b.U32(1), [&](Value step) {
    const Value row = s.forward ? b.Add(s.begin, step) : b.Sub(b.Sub(s.end, b.U32(1)), step);
    const Value first = s.forward ? s.begin : b.Add(row, b.U32(1)), last = s.forward ? row : s.end;
    const Number start[] = {s.load(row)};
    const Values sum = b.For(first, last, b.U32(1), n.Pack(start), [&](Value c, const Values& carried) {
      const Number next[] = {n.Sub(n.Unpack(carried, 0), n.Mul(s.m(row, c), s.load(c)))};
      return n.Pack(next);
    });
    Number value = n.Unpack(sum, 0);
    if (!s.unit) value = n.Div(value, s.m(row, row));
    s.store(row, value);
  });
}

Result<EmittedProgram> EmitLinalg(const plan::KernelPlan& plan, const plan::LinalgKernel& kernel,
                                  const Target& target) {
  using Op = plan::LinalgKernel::Op;
  switch (kernel.op) {
    case Op::kCholesky: return EmitCholesky(plan, kernel, target);
    case Op::kTriangularSolve: return EmitTriangularSolve(plan, kernel, target);
    case Op::kLu: return EmitLu(plan, kernel, target);
    case Op::kQr: return EmitQr(plan, kernel, target);
    case Op::kHouseholderProduct: return EmitHouseholderProduct(plan, kernel, target);
    case Op::kEigh:
    case Op::kSvd: return Unimplemented("Eigenvalues and singular values are found by the CPU's kernels.");
  }
  KRAFLA_UNREACHABLE();
}

}  // namespace krafla::spirv
