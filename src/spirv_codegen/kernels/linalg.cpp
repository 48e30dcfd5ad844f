// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/linalg.h"

#include "base/checked_math.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {

Refusal RefusesInvocationEach(const LinalgCase& c) {
  if (c.k.rows * c.k.columns <= c.target.tuning.linalg.invocation_numbers) return std::nullopt;
  return Format("matrices of {} x {}", c.k.rows, c.k.columns);
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
  return AddKernel(std::move(variant), WorkgroupSize(target_.profile, target_.tuning.linalg.local), false, body);
}
int LinalgProgram::AddGroups(std::string variant, uint32_t local, const LinalgBody& body) {
  return AddKernel(std::move(variant), local, true, body);
}

int LinalgProgram::AddKernel(std::string variant, uint32_t local, bool groups, const LinalgBody& body) {
  KernelWriter w(plan_, target_, descs_, 2);
  Builder& b = w.b;
  Numbers numbers(w, kernel_.type);
  // The rows of a grid with more than one row have the device's greatest width.
  const Value group =
      b.Add(b.Mul(b.WorkgroupId(1), b.U32(target_.profile.limits.max_workgroup_count[0])), b.WorkgroupId(0));
  const Value id = groups ? group : b.Add(b.Mul(group, b.U32(local)), b.LocalIndex());
  const Value count = w.buffers.PushWord(0);
  const Value at = w.buffers.PushWord(1);
  b.If(b.Compare(Cmp::kULt, id, b.Mul(count, b.U32(static_cast<uint32_t>(kernel_.batch)))), [&] {
    const Value matrix = b.UDiv(id, count);
    LinalgKernelWriter writer{b, w.buffers, numbers, matrix, b.Sub(id, b.Mul(matrix, count)), at};
    body(writer);
  });
  out_.kernels.push_back(w.Finish({local, 1, 1}, std::move(variant)));
  groups_.push_back(groups);
  return static_cast<int>(out_.kernels.size()) - 1;
}

Result<> LinalgProgram::Run(int kernel, int64_t items, int64_t at) {
  if (items == 0) return {};
  const auto k = static_cast<std::size_t>(kernel);
  const int64_t total = items * kernel_.batch;
  const int64_t groups = groups_[k] ? total : CeilDiv(total, int64_t{out_.kernels[k].local_size[0]});
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
  const int kernel = Add(std::move(variant), [&](LinalgKernelWriter& w) {
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

void EmitUpdateTile(LinalgKernelWriter& w, const UpdateTile& t) {
  Builder& b = w.b;
  Numbers& n = w.numbers;
  // Beyond the bounds the last row or column is read again, and not stored.
  const auto place = [&](Value first, int offset, Value bound) {
    return b.Min(b.Add(first, b.U32(static_cast<uint32_t>(offset))), b.Sub(bound, b.U32(1)));
  };
  std::vector<Value> rows, columns;
  for (int i = 0; i < t.rows; ++i) rows.push_back(place(t.row, i, t.row_bound));
  for (int j = 0; j < t.columns; ++j) columns.push_back(place(t.column, j, t.column_bound));
  const std::vector<Number> zeros(static_cast<std::size_t>(t.rows * t.columns), n.Real(0));
  const Values sums = b.For(t.begin, t.end, b.U32(1), n.Pack(zeros), [&](Value k, const Values& carried) {
    std::vector<Number> left, right, next;
    for (Value r : rows) left.push_back(t.left(r, k));
    for (Value c : columns) right.push_back(t.right(k, c));
    for (std::size_t i = 0; i < left.size(); ++i)
      for (std::size_t j = 0; j < right.size(); ++j)
        next.push_back(n.Add(n.Unpack(carried, i * right.size() + j), n.Mul(left[i], right[j])));
    return n.Pack(next);
  });
  for (int i = 0; i < t.rows; ++i)
    for (int j = 0; j < t.columns; ++j) {
      const Value r = b.Add(t.row, b.U32(static_cast<uint32_t>(i))),
                  c = b.Add(t.column, b.U32(static_cast<uint32_t>(j)));
      const Value inside = b.LAnd(b.Compare(Cmp::kULt, r, t.row_bound), b.Compare(Cmp::kULt, c, t.column_bound));
      b.If(inside,
           [&] { t.store(r, c, n.Sub(t.load(r, c), n.Unpack(sums, static_cast<std::size_t>(i * t.columns + j)))); });
    }
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
