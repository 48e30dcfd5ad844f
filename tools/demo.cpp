// SPDX-License-Identifier: Apache-2.0
// krafla demo: a network trained on handwritten digits (examples/digits), its answers against XLA's recorded ones.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "api/front_end.h"
#include "base/system.h"
#include "command.h"
#include "recorded/corpus.h"
#include "recorded/npz.h"

namespace krafla::cli {
namespace {

constexpr int kShown = 6;

// Eight rows of pictures side by side, brighter pixels as denser characters.
void PrintDigits(const Literal& images, std::span<const int> which) {
  constexpr const char kShades[] = " .:-=+*#%@";
  auto pixels = images.data<float>();
  int64_t size = images.shape().dim(1);
  for (int64_t y = 0; y < size; ++y) {
    for (int image : which) {
      for (int64_t x = 0; x < size; ++x) {
        float v = pixels[static_cast<std::size_t>((image * size + y) * size + x)];
        int shade = std::clamp(static_cast<int>(v * 9.99f), 0, 9);
        std::printf("%c%c", kShades[shade], kShades[shade]);
      }
      std::printf("  ");
    }
    std::printf("\n");
  }
}

// Where the network is: as KRAFLA_DEMO_DIR says, beside an installed program, or where the build had it.
std::string DemoFolder() {
  if (const char* named = std::getenv("KRAFLA_DEMO_DIR"); named != nullptr) return named;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::canonical(os::ThisProgram(), error);
  const std::filesystem::path installed = program.parent_path().parent_path() / "share/krafla/digits";
  return !error && std::filesystem::is_directory(installed, error) ? installed.string() : KRAFLA_DEMO_DIR;
}

Result<int> RunDemo(Client& client, const CompileOptions& compile_options) {
  const std::string dir = DemoFolder();
  KRAFLA_ASSIGN(CaseList list, FindCases(dir));
  if (list.cases.size() != 1) return NotFound("{} is not the folder of the demo; set KRAFLA_DEMO_DIR.", dir);
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, LoadModule(list.cases[0].module_path));
  Stopwatch compile;
  KRAFLA_ASSIGN(std::unique_ptr<Executable> executable, client.Compile(std::move(module), compile_options));
  double compile_ms = compile.Milliseconds();
  KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(list.cases[0], executable->arguments(), executable->results()));
  KRAFLA_ASSIGN(std::vector<NamedLiteral> extra, ReadNpz(dir + "/labels.npz"));
  if (extra.empty() || extra[0].literal.shape().element_type() != ElementType::kS32)
    return DataLoss("{}/labels.npz does not hold the labels.", dir);
  auto labels = extra[0].literal.data<int32_t>();
  std::vector<const Literal*> pointers;
  for (const Literal& a : arrays.inputs[0]) pointers.push_back(&a);
  const Literal& images = arrays.inputs[0].back();
  KRAFLA_TRY(executable->SetArguments(pointers));
  KRAFLA_TRY(executable->Execute());
  double best = 1e30;
  for (int n = 0; n < 5; ++n) {
    Stopwatch run;
    KRAFLA_TRY(executable->Execute());
    best = std::min(best, run.Milliseconds());
  }
  KRAFLA_ASSIGN(std::vector<Literal> results, executable->Results());
  int64_t count = results[0].shape().dim(0), classes = results[0].shape().dim(1);
  if (count != static_cast<int64_t>(labels.size()) || images.shape().rank() < 3 || images.shape().dim(0) != count)
    return DataLoss("The files in {} do not belong together.", dir);
  auto scores = results[0].data<float>();
  std::vector<int> predicted;
  int right = 0;
  for (int64_t i = 0; i < count; ++i) {
    auto row = scores.subspan(static_cast<std::size_t>(i * classes), static_cast<std::size_t>(classes));
    predicted.push_back(static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin()));
    right += predicted.back() == labels[static_cast<std::size_t>(i)];
  }
  std::vector<int> shown;
  for (int i = 0; i < kShown && i < count; ++i) shown.push_back(i);
  PrintDigits(images, shown);
  std::printf("predicted:");
  for (int i : shown) std::printf(" %d", predicted[static_cast<std::size_t>(i)]);
  std::printf("   written:");
  for (int i : shown) std::printf(" %d", labels[static_cast<std::size_t>(i)]);
  std::printf("\n\n%d of %lld held-out digits right (%.1f %%)\n", right, static_cast<long long>(count),
              100.0 * right / static_cast<double>(count));
  std::printf("compiled in %s, all %lld pictures in %s\n", FormatMs(compile_ms).c_str(), static_cast<long long>(count),
              FormatMs(best).c_str());
  Remark(executable->PlacementLine());
  Comparison comparison = Compare(results[0], arrays.outputs[0][0], nullptr, arrays.tolerances[0]);
  if (!comparison.passed) {
    std::printf("FAILED: not XLA's recorded answers: %s\n", comparison.reason.c_str());
    return kCheckFailed;
  }
  std::printf("PASSED: XLA's recorded answers, largest difference %.3g\n", comparison.max_abs);
  return kRight;
}

}  // namespace

int Demo(const DeviceOptions& options) {
  const auto compile_options = options.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  const auto client = OpenDevice(options.selector);
  if (!client) return FailDevice(client.error());
  auto code = RunDemo(**client, *compile_options);
  return code ? *code : Fail(code.error());
}

}  // namespace krafla::cli
