// SPDX-License-Identifier: Apache-2.0
// Programs for four devices, and their arguments: small integers, so that sums are exact in any order and results equal
// to the bit.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "api/group/device_group.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/sharding.h"

namespace krafla {

struct SpmdParameter {
  const char* name;
  std::vector<int64_t> dims;
};
inline const SpmdParameter kSpmdParameters[] = {
    {"a", {4, 8}}, {"b", {8, 4}}, {"c", {4, 8, 4}}, {"d", {4, 4, 4, 8}}, {"e", {4, 4, 8, 4}}};

// What programs reduce and sort by.
inline constexpr std::string_view kScalarComputations = R"(
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
larger { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
product { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] multiply(a, b) }
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
)";

inline std::string Replaced(std::string text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

inline Literal SmallNumbers(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return *Literal::FromBytes(shape, std::as_bytes(std::span(values)));
}

// The block of a device, with what nobody may look at behind the ends of the array.
inline Result<Literal> BlockWithRest(const Literal& whole, const Sharding& sharding, int64_t device) {
  KRAFLA_ASSIGN(Literal out, BlockOf(whole, sharding, device));
  if (whole.shape().element_type() != ElementType::kF32) return out;
  const std::vector<float> ones(static_cast<std::size_t>(whole.shape().element_count()), 1.0f);
  KRAFLA_ASSIGN(const Literal all, Literal::FromBytes(whole.shape(), std::as_bytes(std::span(ones))));
  KRAFLA_ASSIGN(const Literal is_there, BlockOf(all, sharding, device));
  std::vector<float> values(out.data<float>().begin(), out.data<float>().end());
  for (std::size_t n = 0; n < values.size(); ++n)
    if (is_there.data<float>()[n] == 0) values[n] = std::numeric_limits<float>::quiet_NaN();
  return Literal::FromBytes(out.shape(), std::as_bytes(std::span(values)));
}

class Spmd : public ::testing::Test {
 protected:
  void SetUp() override { group_ = *DeviceGroup::Create("cpu*4"); }

  static std::vector<Literal> Arguments() {
    std::mt19937 random(7);
    std::vector<Literal> out;
    for (const SpmdParameter& p : kSpmdParameters) {
      Shape shape = *Shape::MakeArray(ElementType::kF32, p.dims);
      std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
      for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 9) - 4);
      out.push_back(*Literal::FromBytes(shape, std::as_bytes(std::span(values))));
    }
    return out;
  }

  // The results of each device; of one device those of the whole program.
  Result<std::vector<std::vector<Literal>>> Run(const std::string& text, const std::vector<Literal>& arguments,
                                                std::vector<std::string>* result_shardings,
                                                const CompileOptions& options = {}) {
    KRAFLA_ASSIGN(auto module, ParseHloText(text, "test"));
    const int64_t devices = module->num_partitions;
    KRAFLA_ASSIGN(auto executable, group_->Compile(std::move(module), options));
    const auto& in = executable->parameter_shardings();
    *result_shardings = executable->result_shardings();
    for (int64_t d = 0; d < devices; ++d) {
      std::vector<Literal> blocks;
      for (std::size_t p = 0; p < arguments.size(); ++p) {
        const Sharding sharding = in.empty() ? Sharding() : *ParseSharding(in[p], devices);
        KRAFLA_ASSIGN(Literal block, BlockWithRest(arguments[p], sharding, d));
        blocks.push_back(std::move(block));
      }
      std::vector<const Literal*> pointers;
      for (const Literal& b : blocks) pointers.push_back(&b);
      KRAFLA_TRY(executable->SetArguments(d, pointers));
    }
    KRAFLA_TRY(executable->Execute());
    std::vector<std::vector<Literal>> out;
    for (int64_t d = 0; d < devices; ++d) {
      KRAFLA_ASSIGN(auto results, executable->Results(d));
      out.push_back(std::move(results));
    }
    return out;
  }

  std::shared_ptr<DeviceGroup> group_;
};

}  // namespace krafla
