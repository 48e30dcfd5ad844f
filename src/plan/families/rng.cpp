// SPDX-License-Identifier: Apache-2.0
// rng-bit-generator as loops of integer arithmetic: one over the random elements, and one of a single point for the new
// state. 64-bit values are read and written as pairs of 32-bit words, so that no device needs 64-bit integers.
#include "numerics/rng.h"
#include "plan/collapse.h"
#include "plan/families/accepts.h"
#include "plan/kernel_builder.h"

namespace krafla::plan {
namespace {

// The integer part of the Ops concept, as nodes.
struct NodeOps {
  using I = NodeId;
  using B = NodeId;
  ProgramBuilder& b;

  I Make(Opcode opcode, I x, I y) const { return b.Hlo(opcode, ElementType::kU32, {x, y}); }
  I ConstI(uint32_t v) const { return b.Constant(ElementType::kU32, v); }
  I IAdd(I x, I y) const { return Make(Opcode::kAdd, x, y); }
  I ISub(I x, I y) const { return Make(Opcode::kSubtract, x, y); }
  I IMul(I x, I y) const { return Make(Opcode::kMultiply, x, y); }
  I UMulHi(I x, I y) const { return Make(Opcode::kMulhi, x, y); }
  I And(I x, I y) const { return Make(Opcode::kAnd, x, y); }
  I Or(I x, I y) const { return Make(Opcode::kOr, x, y); }
  I Xor(I x, I y) const { return Make(Opcode::kXor, x, y); }
  I Shl(I x, I y) const { return Make(Opcode::kShiftLeft, x, y); }
  I Shr(I x, I y) const { return Make(Opcode::kShiftRightLogical, x, y); }
  I UDiv(I x, I y) const { return Make(Opcode::kDivide, x, y); }
  B ULt(I x, I y) const { return b.Compare(ComparisonDirection::kLt, x, y); }
  B INe(I x, I y) const { return b.Compare(ComparisonDirection::kNe, x, y); }
  I SelectI(B c, I x, I y) const { return b.Select(c, x, y); }
};

Result<RngPlan> PlanOf(const Instruction& i) {
  RngMethod method = kDefaultRngMethod;
  RngAlgorithm wanted = i.attr<RngBitGeneratorAttributes>().algorithm;
  if (wanted == RngAlgorithm::kThreeFry) method = RngMethod::kThreeFry;
  if (wanted == RngAlgorithm::kPhilox) method = RngMethod::kPhilox;
  const Shape& bits = i.shape().tuple_elements()[1];
  return PlanRng(method, i.operand(0)->shape().element_count(), bits.dims(), BitWidth(bits.element_type()));
}

// The 32-bit words of the state: the key and the counter, the least significant word first (StartOf has both).
struct StartWords {
  std::array<NodeId, 2> key;
  std::array<NodeId, 4> counter;
};

StartWords LoadStart(ProgramBuilder& b, const RngPlan& plan, int buffer) {
  auto word = [&](int64_t n) { return b.Load(buffer, ElementType::kU32, b.space().Constant(n)); };
  NodeId zero = b.Constant(ElementType::kU32, 0);
  StartWords out{{word(0), word(1)}, {word(2), word(3), zero, zero}};
  if (plan.algorithm == RngMethod::kPhilox) {
    int64_t high = plan.state_words == 2 ? 0 : 4;
    out.counter[2] = word(high), out.counter[3] = word(high + 1);
  }
  return out;
}

}  // namespace

bool TakesRngBitGenerator(const Instruction& i) {
  if (!i.shape().IsTuple() || i.shape().tuple_elements().size() != 2 || i.shape().IsDynamic()) return false;
  const Shape& state = i.operand(0)->shape();
  const Shape& bits = i.shape().tuple_elements()[1];
  return state.IsArray() && state.element_type() == ElementType::kU64 && bits.IsArray() &&
         IsIntegral(bits.element_type()) && BitWidth(bits.element_type()) >= 8 &&
         bits.element_count() < (int64_t{1} << 30) && PlanOf(i).has_value();
}

int KernelBuilder::BindWords(const ValueRef& v, bool read, bool write) {
  int out = Bind(v, read, write);
  Binding& b = out_.kernel.bindings[static_cast<std::size_t>(out)];
  if (b.storage != ElementType::kU32) b = {ElementType::kU32, b.element_count * 2, b.read, b.written};
  return out;
}

Result<BuiltKernel> KernelBuilder::BuildRngBits() {
  const Instruction& i = *group_.heroes[0];
  KRAFLA_ASSIGN(RngPlan plan, PlanOf(i));
  const Shape& shape = i.shape().tuple_elements()[1];
  int64_t dims[] = {shape.element_count()};
  ProgramBuilder b(dims);
  NodeOps ops{b};
  StartWords start = LoadStart(b, plan, BindWords(ResolveValue({i.operand(0), 0}, true), true, false));
  IndexId at = b.space().Iter(0);
  NodeId index = b.Convert(b.Index(at), ElementType::kS32, ElementType::kU32);
  std::array<NodeId, 2> words = RngWords(ops, plan, start.key, start.counter, index);
  int width = BitWidth(shape.element_type());
  if (width == 64) {
    int out = BindWords({&i, 1}, false, true);
    IndexId low = b.space().Mul(at, 2);
    b.AddStore({out, low, words[0], ElementType::kU32});
    b.AddStore({out, b.space().AddConstant(low, 1), words[1], ElementType::kU32});
  } else {
    ElementType pattern = width == 32 ? ElementType::kU32 : width == 16 ? ElementType::kU16 : ElementType::kU8;
    int out = Bind({&i, 1}, false, true);
    b.AddStore({out, at, b.Convert(words[0], ElementType::kU32, pattern), pattern});
  }
  out_.kernel.body = LoopKernel{std::move(b).Finish()};
  out_.kernel.name = i.name();
  ShareBindings();
  return std::move(out_);
}

Result<BuiltKernel> KernelBuilder::BuildRngCounter() {
  const Instruction& i = *group_.heroes[0];
  if (i.shape().byte_size() != 16)
    return InvalidArgument("{}: The state must be u64[2], not {}.", Describe(i), i.shape().ToString());
  ProgramBuilder b({});
  NodeOps ops{b};
  const int state = BindWords({&i, 1}, true, true), out = BindWords({&i, 0}, false, true);
  const auto delta = static_cast<uint64_t>(i.attr<RngStateAttributes>().delta);
  const uint32_t sign = static_cast<int64_t>(delta) < 0 ? ~uint32_t{0} : 0;
  const uint32_t add[4] = {static_cast<uint32_t>(delta), static_cast<uint32_t>(delta >> 32), sign, sign};
  NodeId carry = ops.ConstI(0);
  for (int w = 0; w < 4; ++w) {
    const IndexId at = b.space().Constant(w);
    const NodeId old = b.Load(state, ElementType::kU32, at);
    b.AddStore({out, at, old, ElementType::kU32});
    const NodeId sum = ops.IAdd(old, ops.ConstI(add[w]));
    const NodeId first = ops.SelectI(ops.ULt(sum, old), ops.ConstI(1), ops.ConstI(0));
    const NodeId total = ops.IAdd(sum, carry);
    const NodeId second = ops.SelectI(ops.ULt(total, sum), ops.ConstI(1), ops.ConstI(0));
    carry = ops.Or(first, second);
    b.AddStore({state, at, total, ElementType::kU32});
  }
  out_.kernel.body = LoopKernel{std::move(b).Finish()};
  out_.kernel.name = i.name();
  ShareBindings();
  return std::move(out_);
}

Result<BuiltKernel> KernelBuilder::BuildRngState() {
  const Instruction& i = *group_.heroes[0];
  KRAFLA_ASSIGN(RngPlan plan, PlanOf(i));
  ProgramBuilder b({});
  NodeOps ops{b};
  StartWords start = LoadStart(b, plan, BindWords(ResolveValue({i.operand(0), 0}, true), true, false));
  int out = BindWords({&i, 0}, false, true);
  auto store = [&](int64_t word, NodeId node) { b.AddStore({out, b.space().Constant(word), node, ElementType::kU32}); };
  store(0, start.key[0]);
  store(1, start.key[1]);
  // The counter moves by plan.blocks, carrying from word to word.
  NodeId carry = ops.ConstI(0);
  const int words = plan.state_words == 3 ? 4 : 2;
  for (int w = 0; w < words; ++w) {
    NodeId add = ops.ConstI(w == 0   ? static_cast<uint32_t>(plan.blocks)
                            : w == 1 ? static_cast<uint32_t>(plan.blocks >> 32)
                                     : 0);
    NodeId sum = ops.IAdd(start.counter[static_cast<std::size_t>(w)], add);
    NodeId first = ops.SelectI(ops.ULt(sum, add), ops.ConstI(1), ops.ConstI(0));
    NodeId total = ops.IAdd(sum, carry);
    NodeId second = ops.SelectI(ops.ULt(total, carry), ops.ConstI(1), ops.ConstI(0));
    carry = ops.Or(first, second);
    store(2 + w, total);
  }
  out_.kernel.body = LoopKernel{std::move(b).Finish()};
  out_.kernel.name = i.name();
  ShareBindings();
  return std::move(out_);
}

}  // namespace krafla::plan
