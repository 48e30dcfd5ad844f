// SPDX-License-Identifier: Apache-2.0
// Programs for four devices, and their arguments: small integers, so that sums are exact in any order and results equal
// to the bit.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "api/group/device_group.h"

namespace krafla {

struct SpmdParameter {
  const char* name;
  std::vector<int64_t> dims;
};
inline const SpmdParameter kSpmdParameters[] = {
    {"a", {4, 8}}, {"b", {8, 4}}, {"c", {4, 8, 4}}, {"d", {4, 4, 4, 8}}, {"e", {4, 4, 8, 4}}};

inline std::string Replaced(std::string text, std::string_view from, const std::string& to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
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

  std::shared_ptr<DeviceGroup> group_;
};

}  // namespace krafla
