// SPDX-License-Identifier: Apache-2.0
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

std::vector<std::byte> EmitAvx512(const LaneGraph& graph) {
  asmjit::CodeHolder code;
  if (code.init(asmjit::Environment::host(), asmjit::CpuInfo::host().features()) != asmjit::kErrorOk) return {};
  struct Refusals : asmjit::ErrorHandler {
    bool is_any = false;
    void handleError(asmjit::Error, const char*, asmjit::BaseEmitter*) override { is_any = true; }
  } refusals;
  code.setErrorHandler(&refusals);
  x86::Compiler cc(&code);
  Avx512Emitter(graph, cc).Run();
  if (cc.finalize() != asmjit::kErrorOk || refusals.is_any) return {};
  if (code.flatten() != asmjit::kErrorOk || code.resolveUnresolvedLinks() != asmjit::kErrorOk) return {};
  std::vector<std::byte> bytes(code.codeSize());
  if (code.relocateToBase(0x10000) != asmjit::kErrorOk) return {};
  bytes.resize(code.codeSize());
  if (code.copyFlattenedData(bytes.data(), bytes.size()) != asmjit::kErrorOk) return {};
  return bytes;
}

}  // namespace krafla::cpu::native

#endif
