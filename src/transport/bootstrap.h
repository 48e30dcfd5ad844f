// SPDX-License-Identifier: Apache-2.0
// How processes that know nothing of each other but their number come together: each gives a few bytes and gets those
// of all. Everything else goes over the connections that are made of what the bytes say (mesh.h).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/status.h"

namespace krafla::transport {

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // What every rank gives, in the order of ranks. All ranks call it equally often. DEADLINE_EXCEEDED names who has not.
  virtual Result<std::vector<std::string>> AllGather(std::string_view own) = 0;
};

// Rank 0 listens at `coordinator` ("host:port"), where the others ask.
Result<std::unique_ptr<Bootstrap>> BootstrapAt(std::string_view coordinator, int rank, int size,
                                               std::chrono::milliseconds limit);

// A store that all processes see, such as that of jax.distributed.
struct KeyValueStore {
  std::function<Result<>(const std::string& key, std::string_view value)> put;
  // Waits until it is there.
  std::function<Result<std::string>(const std::string& key, std::chrono::milliseconds limit)> get;
};
// `name` begins every key: two worlds of one store need two.
std::unique_ptr<Bootstrap> BootstrapThrough(KeyValueStore store, std::string name, int rank, int size,
                                            std::chrono::milliseconds limit);

inline constexpr int kMaxRanks = 4096;
// INVALID_ARGUMENT for numbers that no program has.
Result<> CheckRank(int64_t rank, int64_t size);

}  // namespace krafla::transport
