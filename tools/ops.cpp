// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "api/vulkan/emitted_kernels.h"
#include "base/thread_pool.h"
#include "command.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/opcode.h"
#include "ir/verifier.h"
#include "op_examples.h"
#include "results.h"

namespace krafla::cli {
namespace {

std::string Types(uint32_t set) {
  if ((set & type_set::kAny) == type_set::kAny) return "all";
  std::string out;
  auto add = [&](uint32_t bit, const char* name) {
    if (set & bit) out += Format("{}{}", out.empty() ? "" : ", ", name);
  };
  add(type_set::kPred, "pred"), add(type_set::kSigned, "signed"), add(type_set::kUnsigned, "unsigned");
  add(type_set::kFloat, "float"), add(type_set::kComplex, "complex"), add(type_set::kToken, "token"),
      add(type_set::kTuple, "tuple");
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
| custom calls Eigh and krafla_svd on Vulkan | on the host by the CPU's kernels, named in the report | QR steps are sequences of scalars, and a device would wait for each |
| f64, c128 on a device without float64 | on the host, named in the report | no arithmetic of 64 bits to build on |
| reduce and scatter of complex numbers by multiplication, on Vulkan | on the host by the CPU's kernels, named in the report | the signs of zeros tell in which order parts were multiplied, which one thread keeps |
| cholesky, triangular-solve, fft, topk along a dynamic dimension, custom calls of dynamic shape | on the host, named in the report | a masked matrix has other factors |
| subnormal numbers of f32, f64 and bf16 | as arguments and results they may count as zeros of their sign | devices flush them, and so does XLA:CPU; f16 and narrower types keep theirs |
| NaN | arithmetic gives the positive quiet one, whatever the machine's own; moved bits stay | the same bits on every device (docs/decisions/0003-same-bits.md) |
| sums and products of floats in dot, convolution, reduce, scan, fft, factorisations | to an error bound, the same in every run on a device | no order is prescribed |
| float dot with `--enable int-dot` on the CPU, where an operand is integers of up to 8 bits times a scale of a column or of a group of the depth, and the other one has up to four rows or columns | of a result: the sum, over blocks of at most 32 places of the depth, of the block's largest magnitude / 254 times the magnitudes of its weights; where numbers are not finite, NaN | the other operand is rounded to 8 bits in such blocks, and integers are added up; weights are not rounded on their way |
| select-and-scatter with a NaN in a window of more than 16 elements | a device may select another element | a window is folded in parts, and comparisons with a NaN are no order |
)";

// Where the examples of an operation run.
struct Places {
  std::vector<ElementType> device;
  std::map<std::string, std::vector<ElementType>> host;     // by reason
  std::map<std::string, std::vector<ElementType>> refused;  // by message: the type is taken, the module is not
  bool asked = false;
};

std::string Names(std::span<const ElementType> types) {
  std::string out;
  for (ElementType t : types) out += Format("{}{}", out.empty() ? "" : " ", ElementTypeName(t));
  return out;
}

// None for a device without one, the CPU: everything runs there.
Result<std::optional<DeviceProfile>> ProfileAtHand(const DeviceOptions& device, std::string& description) {
  KRAFLA_ASSIGN(std::shared_ptr<Client> client, OpenDevice(device.selector));
  description = client->device().description;
  return client->device().profile;
}

void Ask(const OpInfo& op, const DeviceProfile* profile, const CompileOptions& options, Places& out) {
  for (ElementType type : TypesOf(op)) {
    const std::optional<std::string> text = ExampleOf(op, type);
    if (!text) return;
    out.asked = true;
    auto module = ParseHloText(*text);
    if (!module || !Verify(**module)) continue;  // the operation does not take this type, though others of its kind
    if (profile == nullptr) {
      out.device.push_back(type);
      continue;
    }
    auto report = PlacementOn(*profile, std::move(*module), options);
    if (!report) out.refused[report.error().message()].push_back(type);
    else if (report->fallbacks.empty()) out.device.push_back(type);
    else out.host[report->fallbacks[0].reason].push_back(type);
  }
}

std::string Summary(const Places& places, bool is_cpu) {
  if (!places.asked) return "-";
  std::string out;
  auto add = [&](const char* where, std::string_view types) {
    out += Format("{}{}{}", out.empty() ? "" : "; ", where, types);
  };
  const bool everywhere = places.host.empty() && places.refused.empty();
  if (!places.device.empty()) add(is_cpu ? "cpu" : "device", everywhere ? "" : ": " + Names(places.device));
  for (const auto& [reason, types] : places.host) add("host", places.device.empty() ? "" : ": " + Names(types));
  for (const auto& [reason, types] : places.refused) add("not supported: ", Names(types));
  return out;
}

int OpsHere(const DeviceOptions& device, bool json) {
  auto options = device.ToCompileOptions();
  if (!options) return Fail(options.error());
  std::string description;
  auto profile = ProfileAtHand(device, description);
  if (!profile) return FailDevice(profile.error());
  const DeviceProfile* on = *profile ? &**profile : nullptr;
  std::vector<Places> places(AllOps().size());
  SharedThreadPool().ParallelFor(static_cast<int64_t>(places.size()), 1, [&](int64_t begin, int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      Ask(AllOps()[i], on, *options, places[i]);
  });
  if (!json) std::printf("# %s\n", description.c_str());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const OpInfo& op = AllOps()[i];
    if (json) {
      nlohmann::ordered_json line = {{"hlo", op.name},
                                     {"stablehlo", op.stablehlo_name},
                                     {"operands", op.arity},
                                     {"types", Types(op.types)},
                                     {"runs", Where(op.lowering)},
                                     {"accuracy", Accuracy(op.ulp)},
                                     {"doc", op.doc}};
      if (places[i].asked) {
        auto by_reason = [](const std::map<std::string, std::vector<ElementType>>& map) {
          auto out = nlohmann::ordered_json::array();
          for (const auto& [reason, types] : map) out.push_back({{"types", Names(types)}, {"reason", reason}});
          return out;
        };
        line["device"] = description;
        line["on_device"] = Names(places[i].device);
        line["on_host"] = by_reason(places[i].host);
        line["not_supported"] = by_reason(places[i].refused);
      }
      PrintJsonLine(line);
      continue;
    }
    std::printf("%-26s %-4s %-36s %-26s %-10s %s\n", std::string(op.name).c_str(),
                (op.arity < 0 ? "any" : std::to_string(op.arity)).c_str(), Types(op.types).c_str(),
                std::string(Where(op.lowering)).c_str(), Summary(places[i], on == nullptr).c_str(),
                std::string(op.doc).c_str());
  }
  if (json) return kRight;
  for (std::size_t i = 0; i < places.size(); ++i) {
    for (const auto& [reason, types] : places[i].host)
      std::printf("# %s of %s on the host: %s\n", std::string(AllOps()[i].name).c_str(), Names(types).c_str(),
                  reason.c_str());
    for (const auto& [reason, types] : places[i].refused)
      std::printf("# %s of %s: %s\n", std::string(AllOps()[i].name).c_str(), Names(types).c_str(), reason.c_str());
  }
  return kRight;
}

void OpsDocument() {
  std::printf(
      "# Operations\n\nWritten by `krafla ops --md` from `src/ir/ops.def`; a test keeps it fresh. `krafla ops` lists "
      "them with the\nelement types that run on the device at hand, and why others run on the host.\n\n"
      "| HLO | StableHLO | operands | types | how it runs | accuracy (f32) | what it does |\n|---|---|---|---|---|---|---|\n");
  for (const OpInfo& op : AllOps())
    std::printf("| %s | %s | %s | %s | %s | %s | %s |\n", std::string(op.name).c_str(),
                std::string(op.stablehlo_name).c_str(), (op.arity < 0 ? "any" : std::to_string(op.arity)).c_str(),
                Types(op.types).c_str(), std::string(Where(op.lowering)).c_str(), Accuracy(op.ulp).c_str(),
                std::string(op.doc).c_str());
  std::printf("%s", kExceptions);
}

}  // namespace

int Ops(const DeviceOptions& device, bool markdown) {
  if (!markdown) return OpsHere(device, device.json);
  OpsDocument();
  return kRight;
}

}  // namespace krafla::cli
