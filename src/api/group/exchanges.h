// SPDX-License-Identifier: Apache-2.0
// What the instructions between devices of one program do when a device reaches them.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/collective.h"
#include "collectives/rendezvous.h"
#include "collectives/spanning.h"
#include "ir/module.h"

namespace krafla {

// Programs compiled apart, for devices that differ, have the same instructions in the same order, so that the n-th of
// one is the n-th of another.
class Exchanges {
 public:
  static Result<Exchanges> Make(const Module& module, const DeviceGrid& grid);

  // Which exchange each instruction of a program is.
  static std::unordered_map<const Instruction*, std::size_t> Number(const Module& module);
  // The instructions themselves, by number.
  static std::vector<const Instruction*> Of(const Module& module);

  std::size_t size() const { return exchanges_.size(); }
  const Collective* collective(std::size_t number) const { return exchanges_[number].collective.get(); }

  // A run's meeting places: within this process, and between processes where there are several.
  struct Places {
    Rendezvous& rendezvous;
    SpanningExchange* spanning = nullptr;
    std::stop_token stop = {};
  };
  Result<> Run(std::size_t number, Opcode opcode, int64_t device, const Places& places,
               std::span<const std::byte* const> operands, std::span<std::byte* const> results) const;

 private:
  struct Exchange {
    std::unique_ptr<const Collective> collective;  // or a send or recv-done:
    std::vector<std::pair<int64_t, int64_t>> pairs;
    int64_t channel = 0;
    std::vector<int64_t> sizes;  // bytes of the leaves
    std::string what;
  };
  Result<std::shared_ptr<const Combiner>> CombinerOf(const Computation& c);

  std::vector<Exchange> exchanges_;
  std::map<std::pair<Opcode, ElementType>, std::shared_ptr<const Combiner>> combiners_;
};

}  // namespace krafla
