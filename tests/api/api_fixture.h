// SPDX-License-Identifier: Apache-2.0
// Small modules on every kind of device that is here, with and without fusion.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/client.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla::testing {

// The client, made once; an error where there is no such device.
inline Result<std::shared_ptr<Client>> SharedClient(const std::string& selector) {
  static auto* clients = new std::vector<std::pair<std::string, Result<std::shared_ptr<Client>>>>;
  for (const auto& [name, client] : *clients)
    if (name == selector) return client;
  clients->emplace_back(selector, Client::Create(selector));
  return clients->back().second;
}

inline Result<std::unique_ptr<Executable>> CompileText(Client& client, std::string_view text,
                                                       const CompileOptions& options = {}) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  return client.Compile(std::move(module), options);
}

// MakeLiteral<float>("f32[2,2]", {1, 2, 3, 4})
template <typename T>
Literal MakeLiteral(std::string_view shape_text, std::vector<T> values) {
  auto shape = ParseShape(shape_text);
  EXPECT_TRUE(shape.has_value()) << shape_text;
  auto out = Literal::FromBytes(*shape, std::as_bytes(std::span(values)));
  EXPECT_TRUE(out.has_value()) << out.error().ToString();
  return std::move(*out);
}

inline std::vector<const Literal*> Pointers(const std::vector<Literal>& literals) {
  std::vector<const Literal*> out;
  for (const Literal& l : literals) out.push_back(&l);
  return out;
}

template <typename T>
std::vector<T> Values(const Literal& literal) {
  auto data = literal.data<T>();
  return {data.begin(), data.end()};
}

struct DeviceCase {
  std::string name, selector;
  std::set<std::string> disabled;
};
inline void PrintTo(const DeviceCase& c, std::ostream* out) { *out << c.name; }
inline std::vector<DeviceCase> DeviceCases() {
  return {{"cpu", "cpu", {}},
          {"cpu_unfused", "cpu", {"fusion"}},
          {"vulkan", "vulkan", {}},
          {"vulkan_unfused", "vulkan", {"fusion"}},
          {"vulkan_descriptors", "vulkan", {"bda"}},
          {"vulkan_words", "vulkan", {"int64", "int16", "int8", "fp16", "storage8", "storage16"}}};
}

class DeviceTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    auto client = SharedClient(GetParam().selector);
    if (!client) GTEST_SKIP() << client.error().ToString();
    client_ = *client;
    options_.disabled = GetParam().disabled;
  }

  std::unique_ptr<Executable> Compile(std::string_view text) {
    auto out = CompileText(*client_, text, options_);
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return out ? std::move(*out) : nullptr;
  }
  // Empty after a failure.
  std::vector<Literal> Run(Executable& executable, const std::vector<Literal>& arguments) {
    auto out = executable.Run(Pointers(arguments));
    EXPECT_TRUE(out.has_value()) << out.error().ToString();
    return out ? std::move(*out) : std::vector<Literal>{};
  }
  std::vector<Literal> Run(std::string_view text, const std::vector<Literal>& arguments) {
    auto executable = Compile(text);
    return executable ? Run(*executable, arguments) : std::vector<Literal>{};
  }

  std::shared_ptr<Client> client_;
  CompileOptions options_;
};

inline std::string CaseName(const ::testing::TestParamInfo<DeviceCase>& info) { return info.param.name; }

}  // namespace krafla::testing
