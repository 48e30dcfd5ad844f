// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/x86_emitter.h"

#ifdef KRAFLA_HAVE_JIT

#include <algorithm>

#include "cpu_fallback/native/x86_avx2.h"
#include "cpu_fallback/native/x86_avx512.h"
#include "cpu_fallback/native/x86_routine.h"

namespace krafla::cpu::native {

namespace {

const asmjit::CpuFeatures::X86& Features() { return asmjit::CpuInfo::host().features().x86(); }

bool HasAvx2() {
  const auto& f = Features();
  return f.hasAVX2() && f.hasFMA() && f.hasF16C() && f.hasBMI2();
}
bool HasAvx512() {
  const auto& f = Features();
  return f.hasBMI2() && f.hasAVX512_F() && f.hasAVX512_BW() && f.hasAVX512_CD() && f.hasAVX512_DQ() && f.hasAVX512_VL();
}

bool HasAvx512For(const LaneNode& n) {
  static const bool counts_bits = Features().hasAVX512_VPOPCNTDQ();
  return n.op != LaneOp::kPopcount || counts_bits;
}
// Accesses under a mask, gathers and strided ones are of words and longer ones; a gather that goes along a row is a
// load. There are few conversions of 64-bit integers.
bool HasAvx2For(const LaneGraph& graph, const LaneNode& n) {
  const int width = StorageBytes(n.type);
  const bool is_block = n.lanes > 0;
  if (is_block && n.type != ElementType::kPred &&
      width * static_cast<int>(std::bit_ceil(unsigned{n.lanes})) > VectorBytes(X86Target::kAvx2))
    return false;
  switch (n.op) {
    case LaneOp::kQuotient:
    case LaneOp::kRoundToBf16:
    case LaneOp::kLookup:
    case LaneOp::kByteToFloat: return false;
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore: return is_block && (n.b < 0 || graph.accesses[n.bits].width >= 4);
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut:
    case LaneOp::kSequence:
    case LaneOp::kPermute: return is_block;
    case LaneOp::kGather: return n.b < 0 || graph.streams[n.bits].width >= 4;
    case LaneOp::kLoad: return n.b < 0 || graph.streams[n.bits & 0xffffffffu].width >= 4;
    case LaneOp::kFloatToInt: return width == 4;
    case LaneOp::kConstant:
    case LaneOp::kUniform:
    case LaneOp::kRow:
    case LaneOp::kRamp:
    case LaneOp::kAdd:
    case LaneOp::kSub:
    case LaneOp::kMul:
    case LaneOp::kDiv:
    case LaneOp::kMin:
    case LaneOp::kMax:
    case LaneOp::kGreater:
    case LaneOp::kLesser:
    case LaneOp::kSqrt:
    case LaneOp::kNeg:
    case LaneOp::kAbs:
    case LaneOp::kFloor:
    case LaneOp::kCeil:
    case LaneOp::kRoundEven:
    case LaneOp::kTrunc:
    case LaneOp::kAnd:
    case LaneOp::kOr:
    case LaneOp::kXor:
    case LaneOp::kNot:
    case LaneOp::kShl:
    case LaneOp::kShr:
    case LaneOp::kSar:
    case LaneOp::kMulHigh:
    case LaneOp::kScale:
    case LaneOp::kMulLow32:
    case LaneOp::kPopcount:
    case LaneOp::kClz:
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe:
    case LaneOp::kSelect:
    case LaneOp::kBitcast:
    case LaneOp::kExtend:
    case LaneOp::kIntToFloat:
    case LaneOp::kTruncate:
    case LaneOp::kTruncateToInt:
    case LaneOp::kFloatToFloat:
    case LaneOp::kHalfToFloat:
    case LaneOp::kFloatToHalf:
    case LaneOp::kSettle:
    case LaneOp::kPhi: return true;
  }
  return false;
}
// Vectors that lie side by side in one, two or four steps of halving, or by three.
bool IsPartedByAvx2(int parts) { return std::has_single_bit(static_cast<unsigned>(parts)) || parts == 3; }
bool HasAvx2For(const LaneGraph& graph) {
  for (const LaneStream& s : graph.streams) {
    if (s.kind == LaneStream::Kind::kShortRows) return false;
    if (s.kind == LaneStream::Kind::kStrided && s.width < 4) return false;
    if (s.kind == LaneStream::Kind::kInterleaved && (s.width < 4 || !IsPartedByAvx2(s.stride))) return false;
  }
  for (const LaneStore& s : graph.stores)
    if (s.mask >= 0 && graph.streams[static_cast<std::size_t>(s.stream)].width < 4) return false;
  const LaneLoop loop(graph);
  const std::vector<bool> used = graph.Used();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const LaneNode& n = graph.nodes[i];
    if (!used[i]) continue;
    if (!HasAvx2For(graph, n)) return false;
    if (n.op == LaneOp::kGather && graph.streams[n.bits].width < 4 && !loop.IsAlongRow(i)) return false;
  }
  return true;
}

template <class Emitter, class Source>
std::vector<std::byte> Assemble(const Source& source) {
  asmjit::CodeHolder code;
  if (code.init(asmjit::Environment::host(), asmjit::CpuInfo::host().features()) != asmjit::kErrorOk) return {};
  struct Refusals : asmjit::ErrorHandler {
    bool is_any = false;
    void handleError(asmjit::Error, const char*, asmjit::BaseEmitter*) override { is_any = true; }
  } refusals;
  code.setErrorHandler(&refusals);
  asmjit::x86::Compiler cc(&code);
  Emitter(source, cc).Run();
  if (cc.finalize() != asmjit::kErrorOk || refusals.is_any) return {};
  if (code.flatten() != asmjit::kErrorOk || code.resolveUnresolvedLinks() != asmjit::kErrorOk) return {};
  // It has no addresses but its own, relative ones.
  if (code.relocateToBase(0x10000) != asmjit::kErrorOk) return {};
  std::vector<std::byte> bytes(code.codeSize());
  if (code.copyFlattenedData(bytes.data(), bytes.size()) != asmjit::kErrorOk) return {};
  return bytes;
}

}  // namespace

bool HasTarget(X86Target target) {
  static const bool has_avx2 = HasAvx2(), has_avx512 = HasAvx512();
  switch (target) {
    case X86Target::kAvx2: return has_avx2;
    case X86Target::kAvx512: return has_avx512;
  }
  return false;
}

bool HasAvx512Vnni() { return HasTarget(X86Target::kAvx512) && Features().hasAVX512_VNNI(); }
bool HasAvx512Bf16() { return HasTarget(X86Target::kAvx512) && Features().hasAVX512_BF16(); }
bool HasAvx512Fp16() { return HasTarget(X86Target::kAvx512) && Features().hasAVX512_FP16(); }
bool HasAvx512Vbmi() { return HasTarget(X86Target::kAvx512) && Features().hasAVX512_VBMI(); }

// Whether a loop may begin at any column of a row.
bool IsOfAnyColumn(const LaneStream& s) {
  return s.kind != LaneStream::Kind::kShortRows && s.kind != LaneStream::Kind::kRamp;
}

// Whether rows can be added up in registers (LaneGraph::adds_rows).
bool HasSumsFor(const LaneGraph& graph) {
  const auto is_sum = [&](const LaneStore& s) {
    const ElementType type = graph.nodes[static_cast<std::size_t>(s.node)].type;
    const LaneStream& stream = graph.streams[static_cast<std::size_t>(s.stream)];
    const int width = stream.width;
    return stream.kind == LaneStream::Kind::kDense && s.mask < 0 && s.parts[0] < 0 && StorageBytes(type) == width &&
           type != ElementType::kPred && (IsFloat(type) ? width >= 4 : width == 4);
  };
  return std::ranges::all_of(graph.streams, IsOfAnyColumn) && std::ranges::all_of(graph.stores, is_sum) &&
         graph.regions.empty();
}

// Whether rows or columns can be folded in registers, in a loop that has several copies: rows by whole vectors of what
// is folded.
bool HasFoldsFor(X86Target target, const LaneGraph& graph) {
  if (std::ranges::count(graph.Used(), true) > static_cast<std::ptrdiff_t>(kCopiedNodes)) return false;
  if (graph.folds_columns) return std::ranges::all_of(graph.streams, IsOfAnyColumn);
  const int lanes = LanesOf(target, graph);
  return std::ranges::all_of(graph.folds, [&](const LaneFold& f) {
    return StorageBytes(graph.nodes[static_cast<std::size_t>(f.node)].type) * lanes == VectorBytes(target);
  });
}

bool CanEmit(X86Target target, const LaneGraph& graph, const LaneNode& node) {
  return target == X86Target::kAvx512 ? HasAvx512For(node) : HasAvx2For(graph, node);
}
bool CanEmit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx2:
      return !graph.adds_rows && (graph.folds.empty() || HasFoldsFor(target, graph)) && HasAvx2For(graph);
    case X86Target::kAvx512:
      return std::ranges::all_of(graph.nodes, HasAvx512For) && (!graph.adds_rows || HasSumsFor(graph)) &&
             (graph.folds.empty() || HasFoldsFor(target, graph));
  }
  return false;
}

int LanesOf(X86Target target, const LaneGraph& graph) {
  const std::vector<bool> used = graph.Used();
  int widest = 1;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (used[i]) widest = std::max(widest, StorageBytes(graph.nodes[i].type));
  for (const LaneStore& s : graph.stores)
    widest = std::max(widest, graph.streams[static_cast<std::size_t>(s.stream)].width);
  return VectorBytes(target) / widest;
}

std::vector<std::byte> Emit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx2: return Assemble<Avx2Emitter>(graph);
    case X86Target::kAvx512: return Assemble<Avx512Emitter>(graph);
  }
  return {};
}

std::vector<std::byte> Emit(X86Target target, const Routine& routine) {
  switch (target) {
    case X86Target::kAvx2: return Assemble<RoutineEmitter<Avx2Emitter>>(routine);
    case X86Target::kAvx512: return Assemble<RoutineEmitter<Avx512Emitter>>(routine);
  }
  return {};
}

}  // namespace krafla::cpu::native

#endif
