// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/x86_emitter.h"

#ifdef KRAFLA_HAVE_JIT

#include <asmjit/x86.h>
#include <cstdlib>

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

std::vector<std::byte> EmitAvx512(const LaneGraph& graph);

namespace {

const asmjit::CpuFeatures::X86& Features() { return asmjit::CpuInfo::host().features().x86(); }

bool HasAvx512() {
  const auto& f = Features();
  return f.hasBMI2() && f.hasAVX512_F() && f.hasAVX512_BW() && f.hasAVX512_CD() && f.hasAVX512_DQ() && f.hasAVX512_VL();
}

}  // namespace

bool HasTarget(X86Target target) {
  switch (target) {
    case X86Target::kAvx512: {
      static const bool has = HasAvx512();
      return has;
    }
  }
  return false;
}

bool CanEmit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx512: {
      static const bool counts_bits = Features().hasAVX512_VPOPCNTDQ();
      for (const LaneNode& n : graph.nodes)
        if (n.op == LaneOp::kPopcount && !counts_bits) return false;
      return true;
    }
  }
  return false;
}

std::vector<std::byte> Emit(X86Target target, const LaneGraph& graph) {
  switch (target) {
    case X86Target::kAvx512: return EmitAvx512(graph);
  }
  return {};
}

}  // namespace krafla::cpu::native

#endif
