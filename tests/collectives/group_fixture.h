// SPDX-License-Identifier: Apache-2.0
// One collective run by a thread a device.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "collectives/rendezvous.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"

namespace krafla {

// f32 sums; counts nothing, keeps nothing.
class SumF32 : public Combiner {
 public:
  Result<> Combine(std::byte* accumulator, const std::byte* value, int64_t elements) const override {
    for (int64_t i = 0; i < elements; ++i) {
      float a, b;
      std::memcpy(&a, accumulator + 4 * i, 4);
      std::memcpy(&b, value + 4 * i, 4);
      a += b;
      std::memcpy(accumulator + 4 * i, &a, 4);
    }
    return {};
  }
};

using Floats = std::vector<float>;

// A module of `grid` whose root is the collective.
inline std::unique_ptr<Module> ParseFor(const std::string& text, const DeviceGrid& grid) {
  auto module = ParseHloText(text, "test");
  if (!module) {
    ADD_FAILURE() << module.error().ToString();
    return nullptr;
  }
  (*module)->replica_count = grid.replicas;
  (*module)->num_partitions = grid.partitions;
  if (auto verified = Verify(**module); !verified) ADD_FAILURE() << verified.error().ToString();
  return std::move(*module);
}

constexpr const char* kSum =
    "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n";

// Runs `body` on a thread a device; every device leaves with what its body returned.
inline std::vector<Result<>> OnEveryDevice(Rendezvous& rendezvous, int64_t devices,
                                           const std::function<Result<>(int64_t)>& body) {
  std::vector<Result<>> out(static_cast<std::size_t>(devices));
  rendezvous.Begin();
  std::vector<std::thread> threads;
  for (int64_t d = 0; d < devices; ++d)
    threads.emplace_back([&, d] {
      auto& outcome = out[static_cast<std::size_t>(d)];
      outcome = body(d);
      rendezvous.Leave(d, outcome);
    });
  for (std::thread& t : threads) t.join();
  return out;
}

// What the collective `root` gives each device: inputs[device][leaf], as 4-byte values.
inline std::vector<std::vector<Floats>> RunCollective(const Module& module, const DeviceGrid& grid,
                                                      std::vector<std::vector<Floats>> inputs, int times = 1) {
  auto made = Collective::Make(*module.entry()->root(), grid, std::make_shared<SumF32>());
  if (!made) {
    ADD_FAILURE() << made.error().ToString();
    return {};
  }
  const Collective& collective = **made;
  std::vector<std::vector<Floats>> results(inputs.size());
  for (auto& device : results)
    for (const Shape* leaf : TupleLeaves(module.entry()->root()->shape()))
      device.emplace_back(static_cast<std::size_t>(leaf->element_count()), -1.0f);
  Rendezvous rendezvous(grid.size(), {});
  auto outcomes = OnEveryDevice(rendezvous, grid.size(), [&](int64_t d) -> Result<> {
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (Floats& f : inputs[static_cast<std::size_t>(d)]) from.push_back(reinterpret_cast<const std::byte*>(f.data()));
    for (Floats& f : results[static_cast<std::size_t>(d)]) to.push_back(reinterpret_cast<std::byte*>(f.data()));
    for (int n = 0; n < times; ++n) KRAFLA_TRY(rendezvous.Meet(d, collective, {from, to}));
    return {};
  });
  for (const auto& outcome : outcomes)
    if (!outcome) ADD_FAILURE() << outcome.error().ToString();
  return results;
}

// Different on every device and at every place, and not exact in sums.
inline Floats Values(int64_t device, int64_t count, int leaf = 0) {
  Floats out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<float>((device * 7919 + i * 31 + leaf * 1013) % 1999) / 7.0f);
  return out;
}

}  // namespace krafla
