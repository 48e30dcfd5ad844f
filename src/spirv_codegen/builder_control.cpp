// SPDX-License-Identifier: Apache-2.0
// Structured control flow: what a branch or a loop carries becomes phi instructions at its merge block.
#include "spirv_codegen/builder.h"

#include "krafla/status.h"

namespace krafla::spirv {

void Builder::Branch(Id target) {
  const uint32_t words[] = {target};
  m.EmitVoid(spv::Op::OpBranch, words);
}

void Builder::If(Value condition, const std::function<void()>& then) {
  If(
      condition,
      [&] {
        then();
        return Values{};
      },
      nullptr);
}

Values Builder::If(Value condition, const std::function<Values()>& then, const std::function<Values()>& otherwise) {
  uint64_t bits;
  if (m.IsConstant(condition, &bits)) {
    if (bits != 0) return then();
    return otherwise ? otherwise() : Values{};
  }
  const Id then_label = m.NewId(), merge = m.NewId();
  const Id else_label = otherwise ? m.NewId() : merge;
  const uint32_t selection[] = {merge, static_cast<uint32_t>(spv::SelectionControlMask::MaskNone)};
  m.EmitVoid(spv::Op::OpSelectionMerge, selection);
  const uint32_t branch[] = {condition.id, then_label, else_label};
  m.EmitVoid(spv::Op::OpBranchConditional, branch);
  m.BeginBlock(then_label);
  m.PushScope();
  const Values a = then();
  const Id then_end = m.current_block();
  Branch(merge);
  m.PopScope();
  Values b;
  Id else_end = 0;
  if (otherwise) {
    m.BeginBlock(else_label);
    m.PushScope();
    b = otherwise();
    else_end = m.current_block();
    Branch(merge);
    m.PopScope();
  }
  m.BeginBlock(merge);
  KRAFLA_CHECK(a.size() == b.size());
  Values out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    KRAFLA_CHECK(a[i].kind == b[i].kind && a[i].width == b[i].width);
    const uint32_t words[] = {a[i].id, then_end, b[i].id, else_end};
    out.push_back(a[i] == b[i] ? a[i] : Value{m.Emit(spv::Op::OpPhi, TypeOf(a[i]), words), a[i].kind, a[i].width});
  }
  return out;
}

Values Builder::While(const Values& initial, const std::function<Value(const Values&)>& condition,
                      const std::function<Values(const Values&)>& body, Unroll unroll) {
  const Id header = m.NewId(), test = m.NewId(), body_label = m.NewId(), next = m.NewId(), merge = m.NewId();
  const Id before = m.current_block();
  Branch(header);
  m.BeginBlock(header);
  m.PushScope();
  Values phis;
  std::vector<std::size_t> patch;
  for (Value v : initial) {
    const uint32_t words[] = {v.id, before, 0, next};
    phis.push_back(Value{m.Emit(spv::Op::OpPhi, TypeOf(v), words), v.kind, v.width});
    patch.push_back(m.BodySize() - 2);
  }
  const uint32_t control = static_cast<uint32_t>(unroll == Unroll::kNever ? spv::LoopControlMask::DontUnroll
                                                                          : spv::LoopControlMask::MaskNone);
  const uint32_t merge_words[] = {merge, next, control};
  m.EmitVoid(spv::Op::OpLoopMerge, merge_words);
  Branch(test);
  m.BeginBlock(test);
  const Value go = condition(phis);
  const uint32_t branch[] = {go.id, body_label, merge};
  m.EmitVoid(spv::Op::OpBranchConditional, branch);
  m.BeginBlock(body_label);
  m.PushScope();
  const Values updated = body(phis);
  Branch(next);
  m.PopScope();
  m.BeginBlock(next);
  Branch(header);
  m.PopScope();
  m.BeginBlock(merge);
  KRAFLA_CHECK(updated.size() == phis.size());
  for (std::size_t i = 0; i < phis.size(); ++i) {
    KRAFLA_CHECK(updated[i].kind == phis[i].kind && updated[i].width == phis[i].width);
    m.PatchBody(patch[i], updated[i].id);
  }
  return phis;
}

Values Builder::For(Value begin, Value end, Value step, const Values& carried,
                    const std::function<Values(Value, const Values&)>& body, Unroll unroll) {
  uint64_t b, e, s;
  if (m.IsConstant(begin, &b) && m.IsConstant(end, &e) && m.IsConstant(step, &s)) {
    if (b >= e) return carried;
    if (b + s >= e) return body(begin, carried);
  }
  Values initial{begin};
  initial.insert(initial.end(), carried.begin(), carried.end());
  Values after = While(
      initial, [&](const Values& v) { return Compare(Cmp::kULt, v[0], end); },
      [&](const Values& v) {
        Values inner(v.begin() + 1, v.end());
        Values out = body(v[0], inner);
        out.insert(out.begin(), Add(v[0], step));
        return out;
      },
      unroll);
  after.erase(after.begin());
  return after;
}

void Builder::For(Value begin, Value end, Value step, const std::function<void(Value)>& body, Unroll unroll) {
  For(
      begin, end, step, {},
      [&](Value i, const Values&) {
        body(i);
        return Values{};
      },
      unroll);
}

}  // namespace krafla::spirv
