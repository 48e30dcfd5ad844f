// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "command.h"
#include "ir/opcode.h"

namespace krafla::cli {
namespace {

std::string Types(uint32_t set) {
  if ((set & type_set::kAny) == type_set::kAny) return "all";
  std::string out;
  auto add = [&](uint32_t bit, const char* name) {
    if (set & bit) out += Format("{}{}", out.empty() ? "" : ", ", name);
  };
  add(type_set::kPred, "pred"), add(type_set::kSigned, "signed"), add(type_set::kUnsigned, "unsigned");
  add(type_set::kFloat, "float"), add(type_set::kComplex, "complex"), add(type_set::kToken, "token"), add(type_set::kTuple, "tuple");
  return out;
}

std::string_view Where(Lowering lowering) {
  switch (lowering) {
    case Lowering::kDirect: return "fused, a few instructions";
    case Lowering::kFormula: return "fused, by formula";
    case Lowering::kFamily: return "kernel of its own";
    case Lowering::kDataMovement: return "fused, as an index map";
    case Lowering::kExpanded: return "expanded to other ops";
    case Lowering::kStructural: return "no work";
    case Lowering::kCollective: return "between devices";
    case Lowering::kHost: return "host";
    case Lowering::kDynamic: return "run-time sizes";
  }
  return "";
}

std::string Accuracy(double ulp) {
  if (ulp == 0) return "exact";
  if (ulp < 0) return "bound";
  return Format("{} ULP", ulp);
}

constexpr const char* kExceptions = R"(
## Exceptions

Every operation runs on the CPU and on Vulkan with XLA's results, with these exceptions.

| what | where it runs, or how it may differ | why |
|---|---|---|
| infeed, outfeed, custom calls to registered functions | on the host, named in the report | their other end is there |
| between devices: collectives, send, recv | elements pass through the host's memory | works on any mix of devices |
| f64, c128 on a device without float64 | on the host, named in the report | no arithmetic of 64 bits to build on |
| reduce and scatter of complex numbers by multiplication | on the host, named in the report | the signs of zeros tell in which order parts were multiplied |
| cholesky, triangular-solve, fft, topk along a dynamic dimension, custom calls of dynamic shape | on the host, named in the report | a masked matrix has other factors |
| subnormal numbers of f32, f64 and bf16 | as arguments and results they may count as zeros of their sign | devices flush them, and so does XLA:CPU; f16 and narrower types keep theirs |
| NaN | its sign and payload are free, but where bits are only moved | devices are free to choose |
| sums and products of floats in dot, convolution, reduce, scan, fft, factorisations | to an error bound, the same in every run on a device | no order is prescribed |
| select-and-scatter with a NaN in a window of more than 16 elements | a device may select another element | a window is folded in parts, and comparisons with a NaN are no order |
)";

}  // namespace

int Ops(bool markdown, bool json) {
  if (markdown)
    std::printf("# Operations\n\nWritten by `krafla ops --md` from `src/ir/ops.def`; a test keeps it fresh.\n\n"
                "| HLO | StableHLO | operands | types | how it runs | accuracy (f32) | what it does |\n|---|---|---|---|---|---|---|\n");
  for (const OpInfo& op : AllOps()) {
    std::string arity = op.arity < 0 ? "any" : std::to_string(op.arity);
    if (json) {
      nlohmann::ordered_json line = {{"hlo", op.name}, {"stablehlo", op.stablehlo_name}, {"operands", op.arity},
                                     {"types", Types(op.types)}, {"runs", Where(op.lowering)}, {"accuracy", Accuracy(op.ulp)},
                                     {"doc", op.doc}};
      std::printf("%s\n", line.dump().c_str());
    } else if (markdown) {
      std::printf("| %s | %s | %s | %s | %s | %s | %s |\n", std::string(op.name).c_str(), std::string(op.stablehlo_name).c_str(),
                  arity.c_str(), Types(op.types).c_str(), std::string(Where(op.lowering)).c_str(), Accuracy(op.ulp).c_str(),
                  std::string(op.doc).c_str());
    } else {
      std::printf("%-26s %-4s %-36s %-26s %s\n", std::string(op.name).c_str(), arity.c_str(), Types(op.types).c_str(),
                  std::string(Where(op.lowering)).c_str(), std::string(op.doc).c_str());
    }
  }
  if (markdown) std::printf("%s", kExceptions);
  return kRight;
}

}  // namespace krafla::cli
