// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/x86_emitter.h"

#ifdef KRAFLA_HAVE_JIT

#include <algorithm>
#include <cstdlib>

#include "cpu_fallback/native/x86_avx2.h"
#include "cpu_fallback/native/x86_avx512.h"
#include "cpu_fallback/native/x86_routine.h"

// Debian's archive is compiled for programs, and one of its objects, which writes to stderr where the assembler finds a
// fault of its own, cannot be part of a shared library. With these functions here no linker takes it.
ASMJIT_BEGIN_NAMESPACE
namespace DebugUtils {
const char* errorAsString(Error) noexcept { return ""; }
void debugOutput(const char*) noexcept {}
void assertionFailed(const char*, int, const char*) noexcept { std::abort(); }
}  // namespace DebugUtils
ASMJIT_END_NAMESPACE

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
// There are no scatters, few conversions of 64-bit integers, and nothing that keeps the lanes behind the last element
// from touching memory: no gathers and no loads under a mask.
bool HasAvx2For(const LaneGraph& graph, const LaneNode& n) {
  const int width = StorageBytes(n.type);
  switch (n.op) {
    case LaneOp::kPopcount:
    case LaneOp::kClz: return false;
    case LaneOp::kGather:
    case LaneOp::kQuotient:
    case LaneOp::kScale:
    case LaneOp::kRoundToBf16:
    case LaneOp::kLookup:
    case LaneOp::kByteToFloat:
    case LaneOp::kFixedLoad:
    case LaneOp::kFixedStore:
    case LaneOp::kSpread:
    case LaneOp::kPick:
    case LaneOp::kPut: return false;
    case LaneOp::kLoad: return n.b < 0;
    case LaneOp::kFloatToInt: return width == 4;
    case LaneOp::kIntToFloat: return width == 8 || StorageBytes(graph.nodes[static_cast<std::size_t>(n.a)].type) == 4;
    case LaneOp::kSar: return width == 4 || graph.nodes[static_cast<std::size_t>(n.b)].op == LaneOp::kConstant;
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
    case LaneOp::kMulHigh:
    case LaneOp::kMulLow32:
    case LaneOp::kEq:
    case LaneOp::kNe:
    case LaneOp::kLt:
    case LaneOp::kLe:
    case LaneOp::kSelect:
    case LaneOp::kBitcast:
    case LaneOp::kExtend:
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
bool HasAvx2For(const LaneGraph& graph) {
  for (const LaneStream& s : graph.streams)
    if (s.kind == LaneStream::Kind::kStrided || s.kind == LaneStream::Kind::kInterleaved ||
        s.kind == LaneStream::Kind::kShortRows)
      return false;
  for (const LaneStore& s : graph.stores)
    if (s.mask >= 0) return false;
  const std::vector<bool> used = graph.Used();
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (used[i] && !HasAvx2For(graph, graph.nodes[i])) return false;
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
bool HasFoldsFor(const LaneGraph& graph) {
  if (std::ranges::count(graph.Used(), true) > static_cast<std::ptrdiff_t>(kCopiedNodes)) return false;
  if (graph.folds_columns) return std::ranges::all_of(graph.streams, IsOfAnyColumn);
  const int lanes = LanesOf(X86Target::kAvx512, graph);
  return std::ranges::all_of(graph.folds, [&](const LaneFold& f) {
    return StorageBytes(graph.nodes[static_cast<std::size_t>(f.node)].type) * lanes == 64;
  });
}

bool CanEmit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx2: return !graph.adds_rows && graph.folds.empty() && HasAvx2For(graph);
    case X86Target::kAvx512:
      return std::ranges::all_of(graph.nodes, HasAvx512For) && (!graph.adds_rows || HasSumsFor(graph)) &&
             (graph.folds.empty() || HasFoldsFor(graph));
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
  return (target == X86Target::kAvx512 ? 64 : 32) / widest;
}

std::vector<std::byte> Emit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx2: return Assemble<Avx2Emitter>(graph);
    case X86Target::kAvx512: return Assemble<Avx512Emitter>(graph);
  }
  return {};
}

std::vector<std::byte> Emit(const Routine& routine) { return Assemble<RoutineEmitter>(routine); }

}  // namespace krafla::cpu::native

#endif
