// SPDX-License-Identifier: Apache-2.0
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::Imm;
using asmjit::InstId;
using asmjit::Operand;

namespace {

constexpr std::size_t kFixedConstants = 5;

InstId ByWidth(int width, InstId b, InstId w, InstId d, InstId q) {
  return width == 1 ? b : width == 2 ? w : width == 4 ? d : q;
}

}  // namespace

// Constants fill a vector: there are no broadcasts in operands.
x86::Mem Avx2Emitter::Constant(uint64_t bits, int width) {
  std::array<std::byte, 32> bytes{};
  const int size = std::clamp(width * lanes_, 16, 32);
  for (int at = 0; at < size; at += width) std::memcpy(bytes.data() + at, &bits, static_cast<std::size_t>(width));
  return cc_.newConst(asmjit::ConstPoolScope::kLocal, bytes.data(), static_cast<std::size_t>(size));
}
x86::Vec Avx2Emitter::Load(uint64_t bits, int width) {
  const Vec v = NewVector(width);
  if (bits == 0) Emit(Inst::kIdVpxor, v, v, v);
  else Emit(Inst::kIdVmovdqu, v, Constant(bits, width));
  return v;
}
x86::Vec Avx2Emitter::Register(int id) {
  if (ValueOf(id).is_set) return ValueOf(id).v;
  if (TypeOf(id) == ElementType::kPred) return Load(At(id).bits != 0 ? ~uint64_t{0} : 0, mask_width_);
  return Load(At(id).bits, WidthOf(TypeOf(id)));
}
Operand Avx2Emitter::RegisterOrMemory(int id) {
  if (ValueOf(id).is_set || TypeOf(id) == ElementType::kPred) return Register(id);
  const int width = WidthOf(TypeOf(id));
  // An operand in memory is as long as the register.
  if (width * lanes_ < 16) return Load(At(id).bits, width);
  return Constant(At(id).bits, width);
}
void Avx2Emitter::HoistConstants() {
  std::vector<int> uses(graph_.nodes.size(), 0), constants;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i])
      for (int o : {graph_.nodes[i].a, graph_.nodes[i].a, graph_.nodes[i].b, graph_.nodes[i].c, graph_.nodes[i].c})
        if (o >= 0) ++uses[static_cast<std::size_t>(o)];
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i] && graph_.nodes[i].op == LaneOp::kConstant) constants.push_back(static_cast<int>(i));
  std::ranges::stable_sort(
      constants, [&](int a, int b) { return uses[static_cast<std::size_t>(a)] > uses[static_cast<std::size_t>(b)]; });
  if (constants.size() > kFixedConstants) constants.resize(kFixedConstants);
  for (int c : constants) {
    Set(c, Register(c));
    fixed_[static_cast<std::size_t>(c)] = true;
  }
}

void Avx2Emitter::Run() {
  asmjit::FuncNode* f = cc_.addFunc(asmjit::FuncSignatureT<void, const void*, int64_t, int64_t>());
  f->frame().setAvxEnabled();
  f->frame().setAvxCleanup();
  streams_ = cc_.newIntPtr(), rows_ = cc_.newInt64(), columns_ = cc_.newInt64(), index_ = cc_.newInt64();
  f->setArg(0, streams_);
  f->setArg(1, rows_);
  f->setArg(2, columns_);
  bases_.resize(graph_.streams.size());
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    bases_[s] = cc_.newIntPtr();
    cc_.mov(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument))));
  }
  HoistConstants();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i] && graph_.nodes[i].op == LaneOp::kUniform) LoadOne(static_cast<int>(i));
  const asmjit::Label row = cc_.newLabel(), loop = cc_.newLabel();
  cc_.bind(row);
  StartRow();
  cc_.xor_(index_, index_);
  cc_.bind(loop);
  Body();
  cc_.add(index_, lanes_);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!used_[i] || graph_.nodes[i].op != LaneOp::kRamp) continue;
    const Vec v = values_[i].v;
    Emit(Inst::kIdVpaddd, v, v, Load(static_cast<uint32_t>(graph_.nodes[i].bits) * static_cast<uint32_t>(lanes_), 4));
  }
  cc_.cmp(index_, columns_);
  cc_.jl(loop);
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const LaneStream::Kind kind = graph_.streams[s].kind;
    if (kind == LaneStream::Kind::kUniform || kind == LaneStream::Kind::kGather) continue;
    cc_.add(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument) +
                                                               offsetof(StreamArgument, row_stride))));
  }
  cc_.dec(rows_);
  cc_.jnz(row);
  cc_.ret();
  cc_.endFunc();
}

void Avx2Emitter::StartRow() {
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!used_[i]) continue;
    if (n.op == LaneOp::kRow) LoadOne(static_cast<int>(i));
    if (n.op != LaneOp::kRamp) continue;
    std::array<int32_t, 8> steps{};
    for (uint32_t l = 0; l < 8; ++l) steps[l] = static_cast<int32_t>(l * static_cast<uint32_t>(n.bits));
    const Vec v = NewVector(4);
    Emit(Inst::kIdVmovd, v.xmm(), bases_[n.bits >> 32].r32());
    Emit(Inst::kIdVpbroadcastd, v, v.xmm());
    Emit(
        Inst::kIdVpaddd, v, v,
        cc_.newConst(asmjit::ConstPoolScope::kLocal, steps.data(), static_cast<std::size_t>(std::max(16, 4 * lanes_))));
    Set(static_cast<int>(i), v);
  }
}

void Avx2Emitter::Body() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const LaneOp op = graph_.nodes[i].op;
    if (op != LaneOp::kUniform && op != LaneOp::kRow && op != LaneOp::kRamp && !fixed_[i]) values_[i].is_set = false;
  }
  std::size_t region = 0;
  bool is_inside = false;
  for (std::size_t i = 0; i <= graph_.nodes.size(); ++i) {
    const int id = static_cast<int>(i);
    if (is_inside && graph_.regions[region].end == id) {
      EmitRegionEnd(region++);
      is_inside = false;
    }
    while (!is_inside && region < graph_.regions.size() && graph_.regions[region].begin == id) {
      bool is_needed = false;
      ForEachPhi(region, [&](int) { is_needed = true; });
      if (is_needed && graph_.regions[region].end > id) {
        EmitRegionBegin(region);
        is_inside = true;
      } else {
        ++region;
      }
    }
    if (i < graph_.nodes.size() && used_[i]) EmitNode(id);
  }
  for (const LaneStore& s : graph_.stores) EmitStore(s);
}
void Avx2Emitter::EmitRegionBegin(std::size_t region) {
  ForEachPhi(region, [&](int phi) { Set(phi, Make(WidthOf(TypeOf(phi)), Inst::kIdVmovdqa, Register(At(phi).b))); });
  skip_ = cc_.newLabel();
  const Vec k = Register(graph_.regions[region].condition);
  Emit(Inst::kIdVptest, k, k);
  cc_.jz(skip_);
}
void Avx2Emitter::EmitRegionEnd(std::size_t region) {
  ForEachPhi(region, [&](int phi) {
    const int width = WidthOf(TypeOf(phi));
    const Vec v = ValueOf(phi).v;
    Emit(Inst::kIdVpblendvb, v, v, Register(At(phi).a), MaskOf(graph_.regions[region].condition, width));
  });
  cc_.bind(skip_);
}

// Memory.
x86::Mem Avx2Emitter::Address(std::size_t stream) const {
  const int shift = std::countr_zero(static_cast<unsigned>(graph_.streams[stream].width));
  return x86::ptr(bases_[stream], index_, static_cast<uint32_t>(shift));
}
void Avx2Emitter::LoadOne(int id) {
  const LaneNode& n = At(id);
  const int width = StorageBytes(n.type);
  const Vec v = ValueOf(id).is_set ? ValueOf(id).v : NewOf(n.type);
  Emit(ByWidth(width, Inst::kIdVpbroadcastb, Inst::kIdVpbroadcastw, Inst::kIdVpbroadcastd, Inst::kIdVpbroadcastq), v,
       x86::ptr(bases_[n.bits]));
  // All bytes are alike, so this is a mask of any width.
  if (n.type == ElementType::kPred) Emit(Inst::kIdVpcmpgtb, v, v, Load(0, mask_width_));
  Set(id, v);
}
void Avx2Emitter::EmitLoad(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits];
  const int bytes = stream.width * lanes_;
  const Vec v = NewVector(stream.width);
  Emit(bytes >= 16 ? Inst::kIdVmovdqu : bytes == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, v, Address(n.bits));
  if (n.type != ElementType::kPred) return Set(id, v);
  Set(id, Masks(Make(1, Inst::kIdVpcmpgtb, v, Load(0, 1)), 1));
}
void Avx2Emitter::StoreVector(const Mem& to, const Vec& v, int width) {
  const int bytes = width * lanes_;
  Emit(bytes >= 16 ? Inst::kIdVmovdqu : bytes == 8 ? Inst::kIdVmovq : Inst::kIdVmovd, to, v);
}
void Avx2Emitter::EmitStore(const LaneStore& s) {
  const auto number = static_cast<std::size_t>(s.stream);
  Vec v = Register(s.node);
  if (TypeOf(s.node) == ElementType::kPred) v = Make(1, Inst::kIdVpand, MaskOf(s.node, 1), Load(1, 1));
  StoreVector(Address(number), v, graph_.streams[number].width);
}

}  // namespace krafla::cpu::native

#endif
