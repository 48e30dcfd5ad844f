// SPDX-License-Identifier: Apache-2.0
// The loops over rows and columns, and the body.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx2.h"

namespace krafla::cpu::native {

namespace x86 = asmjit::x86;
namespace Inst = x86::Inst;
using asmjit::InstId;
using asmjit::Operand;

namespace {

// Of the sixteen registers one is for what lives for a single operation; constants have as many as values leave, and
// lie in memory otherwise.
constexpr int kRegistersOfValues = 15, kFixedConstants = 5;
// Values that live at once in a vector, up to which the registers hold those of two, and up to which a body that is a
// long chain has two or four: what waits in memory costs less than operations that wait for each other.
constexpr int kLiveInTwo = 5, kLiveInLongTwo = 20, kLiveInLongFour = 10;
constexpr int kLongChain = 12;               // operations, one after the other
constexpr std::ptrdiff_t kMostNodes = 1600;  // of all vectors of such a body: code for more takes long to make
// Nodes of a body of which there are copies for all parts of a vector.
constexpr std::size_t kPartedNodes = 60;

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
// Eight bytes over and over, in lanes of `width`.
x86::Vec Avx2Emitter::Pattern(uint64_t bytes, int width) {
  std::array<uint64_t, 4> all;
  all.fill(bytes);
  const Vec v = NewVector(width);
  Emit(Inst::kIdVmovdqu, v,
       cc_.newConst(asmjit::ConstPoolScope::kLocal, all.data(), width * lanes_ > 16 ? std::size_t{32} : 16));
  return v;
}
x86::Vec Avx2Emitter::Register(int id) {
  const Value& value = ValueOf(id);
  if (value.is_set) return is_block_ ? value.v : Sized(value.v, WidthOf(TypeOf(id)));
  if (TypeOf(id) == ElementType::kPred) return Load(At(id).bits != 0 ? ~uint64_t{0} : 0, mask_width_);
  return Load(At(id).bits, WidthOf(TypeOf(id)));
}
Operand Avx2Emitter::RegisterOrMemory(int id) {
  if (ValueOf(id).is_set || TypeOf(id) == ElementType::kPred) return Register(id);
  return Constant(At(id).bits, WidthOf(TypeOf(id)));
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
  const int left = std::clamp(kRegistersOfValues - VectorsAtOnce() * loop_.LiveVectors(fixed_), 0, kFixedConstants);
  if (constants.size() > static_cast<std::size_t>(left)) constants.resize(static_cast<std::size_t>(left));
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
  running_.resize(graph_.streams.size());
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    bases_[s] = cc_.newIntPtr();
    cc_.mov(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument))));
  }
  loop_ = LaneLoop(graph_);
  HoistConstants();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i] && graph_.nodes[i].op == LaneOp::kUniform) LoadOne(static_cast<int>(i));
  if (graph_.folds_columns) EmitFoldedColumns();
  else EmitRows();
  cc_.ret();
  cc_.endFunc();
}

void Avx2Emitter::EmitRows() {
  const asmjit::Label row = cc_.newLabel();
  cc_.bind(row);
  StartRow();
  cc_.xor_(index_, index_);
  if (graph_.folds.empty()) EmitRow();
  else EmitFoldedRow();
  EndRow();
  cc_.dec(rows_);
  cc_.jnz(row);
}

void Avx2Emitter::EmitRow() {
  const int vectors = VectorsAtOnce();
  if (vectors > 1) EmitColumns(vectors, lanes_);
  EmitColumns(1, lanes_);
  ForEachRest([&](int lanes) { EmitColumns(1, lanes); });
}

// Of what is left of a row: half a vector, a quarter and so on, or single lanes, where copies of the body are long.
template <class Function>
void Avx2Emitter::ForEachRest(Function function) {
  const auto used = static_cast<std::size_t>(std::ranges::count(used_, true));
  const int whole = lanes_;
  for (int lanes = used <= kPartedNodes ? whole / 2 : 1; lanes > 0 && lanes < whole; lanes /= 2) function(lanes);
}

void Avx2Emitter::RunBlock(const std::vector<Gp>& bases) {
  bases_ = bases;
  is_block_ = true;
  Body(1);
}

// The processor finds more to do at once where operations wait for each other: it looks some hundred of them ahead,
// fewer than a formula has. Folds have two vectors at the most.
int Avx2Emitter::VectorsAtOnce() const {
  const int live = loop_.LiveVectors(fixed_);
  if (loop_.LongestChain() < kLongChain) return live <= kLiveInTwo ? 2 : 1;
  const std::ptrdiff_t nodes = std::ranges::count(loop_.in_body, true);
  if (live <= kLiveInLongFour && graph_.folds.empty() && 4 * nodes <= kMostNodes) return 4;
  return live <= kLiveInLongTwo && 2 * nodes <= kMostNodes ? 2 : 1;
}

void Avx2Emitter::StartRow() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (!Runs(s)) continue;
    if (!running_[s].isValid()) running_[s] = cc_.newIntPtr();
    cc_.mov(running_[s], bases_[s]);
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!used_[i]) continue;
    if (n.op == LaneOp::kRow) LoadOne(static_cast<int>(i));
    if (n.op != LaneOp::kRamp) continue;
    std::array<int32_t, 8> steps{};
    for (uint32_t l = 0; l < 8; ++l) steps[l] = static_cast<int32_t>(l * static_cast<uint32_t>(n.bits));
    const Vec v = values_[0][i].is_set ? values_[0][i].v : NewVector(4);
    Emit(Inst::kIdVmovd, v.xmm(), bases_[n.bits >> 32].r32());
    Emit(Inst::kIdVpbroadcastd, v, v.xmm());
    Emit(
        Inst::kIdVpaddd, v, v,
        cc_.newConst(asmjit::ConstPoolScope::kLocal, steps.data(), static_cast<std::size_t>(std::max(16, 4 * lanes_))));
    Set(static_cast<int>(i), v);
  }
  EmitRowValues();
}

void Avx2Emitter::EmitRowValues() {
  const std::size_t count = graph_.nodes.size();
  const std::vector<bool> is_wanted = loop_.RowNodes();
  for (std::size_t i = 0; i < count; ++i)
    if (is_wanted[i] && !loop_.IsThere(i)) EmitNode(static_cast<int>(i));
  for (std::size_t i = 0; i < count; ++i) {
    if (!loop_.in_body[i] || !loop_.IsAlongRow(i)) continue;
    const LaneNode& n = graph_.nodes[i];
    const auto shift = static_cast<uint32_t>(std::countr_zero(static_cast<unsigned>(graph_.streams[n.bits].width)));
    const Gp place = cc_.newInt64();
    MoveToGeneral(place, Register(n.a));
    cc_.movsxd(place, place.r32());
    cc_.lea(place, x86::ptr(bases_[n.bits], place, shift));
    row_places_[i] = place;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_wanted[i] || loop_.IsThere(i)) continue;
    if (loop_.in_body[i] && loop_.IsRowValue(i) && graph_.nodes[i].type != ElementType::kPred) fixed_[i] = true;
    else values_[0][i].is_set = false;
  }
}

void Avx2Emitter::EndRow() {
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    if (graph_.streams[s].kind == LaneStream::Kind::kUniform || graph_.streams[s].same_rows) continue;
    cc_.add(bases_[s], x86::ptr(streams_, static_cast<int32_t>(s * sizeof(StreamArgument) +
                                                               offsetof(StreamArgument, row_stride))));
  }
}

// As many of the row's columns as there are left for so many vectors of so many lanes.
void Avx2Emitter::EmitColumns(int vectors, int lanes) {
  const asmjit::Label loop = cc_.newLabel(), end = cc_.newLabel();
  const Gp last = cc_.newInt64();
  const int count = vectors * lanes, whole = lanes_;
  cc_.lea(last, x86::ptr(columns_, -count));
  cc_.cmp(index_, last);
  cc_.jg(end);
  cc_.bind(loop);
  lanes_ = lanes;
  Body(vectors);
  lanes_ = whole;
  Advance(count);
  cc_.cmp(index_, last);
  cc_.jle(loop);
  cc_.bind(end);
}

void Avx2Emitter::Advance(int count) {
  cc_.add(index_, count);
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const LaneStream& stream = graph_.streams[s];
    if (Runs(s)) cc_.add(running_[s], count * stream.stride * stream.width);
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!loop_.in_body[i] || n.op != LaneOp::kRamp) continue;
    const Vec v = values_[0][i].v;
    Emit(Inst::kIdVpaddd, v, v, Constant(static_cast<uint32_t>(n.bits) * static_cast<uint32_t>(count), 4));
  }
}

void Avx2Emitter::Body(int vectors) {
  for (std::size_t v = 0; v < kVectors; ++v) {
    part_vectors_[v].clear();
    for (std::size_t i = 0; i < values_[v].size(); ++i)
      if (!IsShared(i) && (graph_.nodes[i].op != LaneOp::kRamp || v > 0)) values_[v][i].is_set = false;
  }
  const auto count = static_cast<std::size_t>(vectors);
  vectors_ = count;
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
    if (i >= graph_.nodes.size() || !loop_.in_body[i] || fixed_[i]) continue;
    UseLanesOf(id);
    for (vector_ = 0; vector_ < count; ++vector_) EmitNode(id);
    vector_ = 0;
  }
  for (vector_ = 0; vector_ < count; ++vector_) {
    for (const LaneStore& s : graph_.stores) EmitStore(s);
    for (std::size_t f = 0; f < graph_.folds.size(); ++f) FoldUp(f);
  }
  vector_ = 0;
}
void Avx2Emitter::EmitRegionBegin(std::size_t region) {
  const int condition = graph_.regions[region].condition;
  UseLanesOf(condition);
  Vec any;
  for (vector_ = 0; vector_ < vectors_; ++vector_) {
    ForEachPhi(region, [&](int phi) { Set(phi, Make(WidthOf(TypeOf(phi)), Inst::kIdVmovdqa, Register(At(phi).b))); });
    const Vec k = Register(condition);
    any = vector_ == 0 ? k : Make(mask_width_, Inst::kIdVpor, any, k);
  }
  vector_ = 0;
  skip_ = cc_.newLabel();
  Emit(Inst::kIdVptest, any, any);
  cc_.jz(skip_);
}
void Avx2Emitter::EmitRegionEnd(std::size_t region) {
  UseLanesOf(graph_.regions[region].condition);
  for (vector_ = 0; vector_ < vectors_; ++vector_) {
    ForEachPhi(region, [&](int phi) {
      const int width = WidthOf(TypeOf(phi));
      const Vec v = ValueOf(phi).v;
      Emit(Inst::kIdVpblendvb, v, v, Register(At(phi).a), MaskOf(graph_.regions[region].condition, width));
    });
  }
  vector_ = 0;
  cc_.bind(skip_);
}

}  // namespace krafla::cpu::native

#endif
