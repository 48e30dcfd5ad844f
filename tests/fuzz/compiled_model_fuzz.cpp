// SPDX-License-Identifier: Apache-2.0
// Compiled models from anybody: a file is refused, or its program is compiled for the CPU and run on zeros for a
// moment. Seeds are files of `krafla compile`. Sections are mutated one by one and put together with a checksum that is
// right, as whoever means harm would do.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "api/client.h"
#include "api/compiled/compiled_model.h"
#include "api/compiled/model_file.h"

extern "C" std::size_t LLVMFuzzerMutate(uint8_t* data, std::size_t size, std::size_t max_size);

namespace krafla {
namespace {

constexpr int64_t kMostBytes = 1 << 20;
constexpr int64_t kMostInstructions = 500;

// What is looked for does not take large arrays.
bool IsSmall(const Module& module) {
  int64_t count = 0;
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions())
      if (++count > kMostInstructions || i->shape().byte_size() > kMostBytes) return false;
  for (const OptimisedModule& o : module.optimised)
    if (!IsSmall(*o.module)) return false;
  return true;
}

void LoadAndRun(std::string_view bytes) {
  static const std::shared_ptr<Client> client = Client::Create("cpu").value();
  auto module = ReadCompiledModel(bytes, "fuzz", nullptr);
  if (!module || !IsSmall(**module)) return;
  auto executable = client->Compile(*std::move(module), {});
  if (!executable) return;
  std::vector<Literal> zeros;
  for (const Shape& shape : (*executable)->arguments()) {
    auto zero = Literal::Create(shape.WithStaticDims());
    if (!zero) return;
    zeros.push_back(*std::move(zero));
  }
  std::vector<const Literal*> arguments;
  for (const Literal& z : zeros) arguments.push_back(&z);
  (void)(*executable)->Run(arguments, {.deadline = RunLimit::Clock::now() + std::chrono::milliseconds(100)});
}

}  // namespace
}  // namespace krafla

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  krafla::LoadAndRun({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  using krafla::compiled::Section;
  using krafla::compiled::SectionKind;
  auto sections = krafla::compiled::ReadSections({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!sections || sections->empty() || seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> bytes;
  for (const Section& s : *sections) bytes.emplace_back(s.bytes);
  std::string& chosen = bytes[seed / 8 % bytes.size()];
  const std::size_t before = chosen.size();
  chosen.resize(before + 256);
  chosen.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(chosen.data()), before, chosen.size()));
  std::vector<Section> others;
  std::string weights;
  for (std::size_t s = 0; s < bytes.size(); ++s) {
    if ((*sections)[s].kind == SectionKind::kWeights) weights = bytes[s];
    else others.push_back({(*sections)[s].kind, bytes[s]});
  }
  const std::string out = krafla::compiled::WriteSections(others, weights.size()) + weights;
  if (out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
