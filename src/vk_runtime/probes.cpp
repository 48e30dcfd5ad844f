// SPDX-License-Identifier: Apache-2.0
#include "vk_runtime/probes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include "bda_16byte_ADDRESSES.h"
#include "coopmat_16_16_16_ADDRESSES.h"
#include "coopmat_16_16_16_DESCRIPTORS.h"
#include "coopmat_16_8_16_ADDRESSES.h"
#include "coopmat_16_8_16_DESCRIPTORS.h"
#include "coopmat_16_8_8_ADDRESSES.h"
#include "coopmat_16_8_8_DESCRIPTORS.h"
#include "coopmat_8_8_8_ADDRESSES.h"
#include "coopmat_8_8_8_DESCRIPTORS.h"
#include "denorm_nan_ADDRESSES.h"
#include "denorm_nan_DESCRIPTORS.h"
#include "subgroup_shuffle_ADDRESSES.h"
#include "subgroup_shuffle_DESCRIPTORS.h"
#include "vk_runtime/run_once.h"

namespace krafla::vk {
namespace {

using Words = std::vector<uint32_t>;

// A probe's kernel in both addressing models.
struct ProbeKernel {
  std::span<const uint32_t> addresses, descriptors;
};

// The words that one workgroup of the kernel leaves of `output`.
Result<Words> Ask(const std::shared_ptr<Device>& device, const ProbeReport& report, const ProbeKernel& kernel,
                  const Words& input, Words output, std::span<const uint32_t> push = {}) {
  const std::span<const uint32_t> words = device->uses_addresses() ? kernel.addresses : kernel.descriptors;
  const KernelCode code = {.spirv = Words(words.begin(), words.end()), .name = report.name, .binding_count = 2};
  const std::array<uint32_t, 3> grid = {1, 1, 1};
  const std::span<const std::byte> inputs[] = {std::as_bytes(std::span(input))};
  KRAFLA_TRY(
      RunOnce(device, code, grid, inputs, std::as_writable_bytes(std::span(output)), push, "probe " + report.name));
  return output;
}

constexpr uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }
constexpr bool IsNan(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

Result<> AskDenormNan(const std::shared_ptr<Device>& device, ProbeReport& report) {
  constexpr uint32_t kSubnormal = 0x00012345, kNan = 0x7fc12345;
  // 4097 * 4097 rounds to 2^24 + 2^13; fused with the addition it leaves the 1.
  const Words input = {kSubnormal,
                       Bits(1),
                       kNan,
                       Bits(std::numeric_limits<float>::infinity()),
                       Bits(-0.0f),
                       Bits(4097),
                       Bits(4097),
                       Bits(-16785408.0f),
                       Bits(std::numeric_limits<float>::infinity())};
  KRAFLA_ASSIGN(const Words got,
                Ask(device, report, {kdenorm_nan_ADDRESSES, kdenorm_nan_DESCRIPTORS}, input, Words(11)));
  auto subnormal = [&](uint32_t bits, uint32_t kept) {
    return bits == kept ? "kept" : bits == 0 ? "flushed to zero" : Format("{:#010x}", bits);
  };
  auto add = [&](const char* question, std::string answer, bool right = true) {
    report.answers.push_back({question, std::move(answer), right});
  };
  add("a subnormal number times one", subnormal(got[0], kSubnormal));
  add("the sum of two subnormal numbers", subnormal(got[1], 2 * kSubnormal));
  add("a subnormal number compared with zero", got[8] == 1 ? "greater" : "equal");
  add("infinity minus infinity", IsNan(got[2]) ? "NaN" : Format("{:#010x}", got[2]), IsNan(got[2]));
  add("an infinite number minus itself", IsNan(got[10]) ? "NaN" : got[10] == 0 ? "zero" : Format("{:#010x}", got[10]));
  add("a NaN compared with itself", got[4] == 1 ? "different" : "equal", got[4] == 1);
  add("a NaN ordered against one", got[5] == 0 ? "neither" : "ordered", got[5] == 0);
  add("the payload of a NaN that is copied", got[9] == kNan ? "kept" : "changed", got[9] == kNan);
  add("minus zero times one", got[3] == Bits(-0.0f) ? "kept" : "zero");
  add("one divided by minus zero", got[7] == 0xff800000u ? "-infinity" : Format("{:#010x}", got[7]));
  add("a product and a sum without contraction", got[6] == 0 ? "rounded twice" : "fused", got[6] == 0);
  return {};
}

Result<> AskSubgroupShuffle(const std::shared_ptr<Device>& device, ProbeReport& report) {
  const auto& subgroup = device->profile().subgroup;
  if (!subgroup.basic || !subgroup.ballot || !subgroup.shuffle) {
    report.not_asked = "The device has no shuffles of subgroups.";
    return {};
  }
  constexpr std::size_t kInvocations = 64;
  Words input(kInvocations);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = 0x9e3779b9u * static_cast<uint32_t>(i + 1);
  KRAFLA_ASSIGN(const Words got, Ask(device, report, {ksubgroup_shuffle_ADDRESSES, ksubgroup_shuffle_DESCRIPTORS},
                                     input, Words(2 + kInvocations, ~0u)));
  const DeviceLimits& limits = device->profile().limits;
  const uint32_t size = got[0];
  report.answers.push_back({"the size of a subgroup", Format("{}", size),
                            size >= limits.min_subgroup_size && size <= limits.max_subgroup_size});
  report.answers.push_back({"the invocations of the first subgroup", Format("{}", got[1]), got[1] > 0});
  const auto wrong = std::ranges::count_if(std::span(got).subspan(2), [](uint32_t count) { return count != 0; });
  report.answers.push_back(
      {"invocations that got another lane's word wrongly", Format("{} of {}", wrong, kInvocations), wrong == 0});
  return {};
}

struct MatrixKernel {
  uint32_t m, n, k;
  ProbeKernel kernel;
};
const MatrixKernel kMatrixKernels[] = {
    {8, 8, 8, {kcoopmat_8_8_8_ADDRESSES, kcoopmat_8_8_8_DESCRIPTORS}},
    {16, 8, 8, {kcoopmat_16_8_8_ADDRESSES, kcoopmat_16_8_8_DESCRIPTORS}},
    {16, 8, 16, {kcoopmat_16_8_16_ADDRESSES, kcoopmat_16_8_16_DESCRIPTORS}},
    {16, 16, 16, {kcoopmat_16_16_16_ADDRESSES, kcoopmat_16_16_16_DESCRIPTORS}},
};

// Whole numbers from -7 to 8, whose products and sums f16 and f32 hold exactly.
float MatrixElement(std::size_t i) { return static_cast<float>(i * 5 % 16) - 7; }

// As f16: an integer of at most 8 in magnitude.
uint32_t HalfBits(float value) {
  if (value == 0) return 0;
  const uint32_t bits = Bits(value);
  return (bits >> 16 & 0x8000u) | ((bits >> 23 & 0xffu) - 127 + 15) << 10 | (bits >> 13 & 0x3ffu);
}

Result<> AskMatrix(const std::shared_ptr<Device>& device, ProbeReport& report, const MatrixKernel& matrix) {
  const std::size_t m = matrix.m, n = matrix.n, k = matrix.k, a_size = m * k;
  Words input((a_size + k * n) / 2);
  for (std::size_t i = 0; i < input.size(); ++i)
    input[i] = HalfBits(MatrixElement(2 * i)) | HalfBits(MatrixElement(2 * i + 1)) << 16;
  // A lane holds at most all elements.
  const uint32_t product_at = 2 + 128 * static_cast<uint32_t>(m * n);
  const uint32_t push[] = {product_at};
  KRAFLA_ASSIGN(const Words got, Ask(device, report, matrix.kernel, input, Words(product_at + m * n, ~0u), push));
  const uint32_t lanes = got[0], length = got[1];
  const std::string size = Format("{} x {} x {}", m, n, k);
  if (lanes > 128 || length > m * n) {
    report.answers.push_back({size, Format("{} lanes with {} elements each", lanes, length), false});
    return {};
  }
  std::set<uint32_t> held;
  std::string first;
  for (uint32_t i = 0; i < lanes * length; ++i) {
    held.insert(got[2 + i]);
    if (i < length) first += Format("{}[{}, {}]", first.empty() ? "" : " ", got[2 + i] / n, got[2 + i] % n);
  }
  const bool all = held.size() == m * n && *held.rbegin() == m * n - 1;
  report.answers.push_back({size + ": lanes and elements of each", Format("{} and {}", lanes, length), length > 0});
  report.answers.push_back({size + ": elements of lane 0", first, true});
  report.answers.push_back({size + ": elements that some lane holds", Format("{} of {}", held.size(), m * n), all});
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::size_t i = 0; i < k; ++i) sum += MatrixElement(row * k + i) * MatrixElement(a_size + i * n + column);
      wrong += got[product_at + row * n + column] != Bits(sum + 0.0f);
    }
  }
  report.answers.push_back({size + ": wrong elements of a product", Format("{} of {}", wrong, m * n), wrong == 0});
  return {};
}

Result<> AskCoopmatLayout(const std::shared_ptr<Device>& device, ProbeReport& report) {
  const DeviceProfile& profile = device->profile();
  if (!profile.features.cooperative_matrix || !profile.features.vulkan_memory_model || !profile.features.float16) {
    report.not_asked = "The device has no cooperative matrices of f16.";
    return {};
  }
  for (const MatrixKernel& matrix : kMatrixKernels) {
    const bool has = std::ranges::any_of(profile.cooperative_matrices, [&](const CooperativeMatrixShape& s) {
      return s.m == matrix.m && s.n == matrix.n && s.k == matrix.k && s.a == ComponentType::kF16 &&
             s.b == ComponentType::kF16 && s.c == ComponentType::kF32 && s.result == ComponentType::kF32 &&
             s.scope == MatrixScope::kSubgroup;
    });
    if (has) KRAFLA_TRY(AskMatrix(device, report, matrix));
  }
  if (report.answers.empty()) report.not_asked = "None of the sizes that the probe has is one of the device's.";
  return {};
}

Result<> AskBda16Byte(const std::shared_ptr<Device>& device, ProbeReport& report) {
  if (!device->uses_addresses()) {
    report.not_asked = "The device has no buffer addresses.";
    return {};
  }
  Words input(128);
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = 0x85ebca6bu * static_cast<uint32_t>(i + 1);
  KRAFLA_ASSIGN(const Words got, Ask(device, report, {kbda_16byte_ADDRESSES, {}}, input, Words(input.size())));
  const std::size_t half = input.size() / 2;
  for (const bool computed : {false, true}) {
    const std::size_t begin = computed ? half : 0;
    std::size_t wrong = 0;
    for (std::size_t i = begin; i < begin + half; ++i) wrong += got[i] != input[i];
    report.answers.push_back({computed ? "words wrong at addresses that were computed" : "words wrong in an array",
                              Format("{} of {}", wrong, half), wrong == 0});
  }
  return {};
}

}  // namespace

Result<std::vector<ProbeReport>> RunProbes(const std::shared_ptr<Device>& device) {
  constexpr std::pair<const char*, Result<> (*)(const std::shared_ptr<Device>&, ProbeReport&)> kProbes[] = {
      {"denorm_nan", AskDenormNan},
      {"subgroup_shuffle", AskSubgroupShuffle},
      {"coopmat_layout", AskCoopmatLayout},
      {"bda_16byte", AskBda16Byte},
  };
  std::vector<ProbeReport> reports;
  for (const auto& [name, ask] : kProbes) {
    ProbeReport& report = reports.emplace_back();
    report.name = name;
    Result<> asked = ask(device, report);
    if (asked) continue;
    if (!device->Alive())
      return Failure(std::move(asked).error().WithContext(Format("while running the probe {}", name)));
    report.answers.push_back({"whether the kernel runs", asked.error().message(), false});
  }
  return reports;
}

}  // namespace krafla::vk
