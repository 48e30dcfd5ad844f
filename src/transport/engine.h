// SPDX-License-Identifier: Apache-2.0
// An engine that moves bytes between machines, in a library of its own that is loaded when it is asked for.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "krafla/status.h"
#include "transport/bootstrap.h"
#include "transport/engine_abi.h"
#include "transport/mesh.h"

namespace krafla::transport {

class Engine {
 public:
  // "mpi" or "gloo". NOT_FOUND where the library is not there, with what the system says.
  static Result<std::shared_ptr<Engine>> Load(std::string_view name);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::string& name() const { return name_; }
  // The processes come together as their launcher has numbered them. UNIMPLEMENTED for an engine that knows no
  // launcher.
  static Result<std::unique_ptr<Bootstrap>> BootstrapOf(std::shared_ptr<Engine> engine);

  // Before it goes, it asks the mesh whether others may be waited for.
  void Watch(const Mesh& mesh) { watched_ = &mesh; }
  // Once. Ranks find each other by messages of the mesh.
  Result<> Open(Mesh& mesh, const std::string& address, std::chrono::milliseconds limit);
  // Ends all exchanges, and those to come.
  void Abort() {
    if (krafla_engine* const engine = engine_.load()) functions_->abort(engine);
  }
  // As Mesh::Exchange; other ranks only.
  Result<> Exchange(std::span<const Outgoing> sends, std::span<const Incoming> receives, const Patience& patience);

 private:
  Engine(std::string name, const krafla_engine_functions* functions) : name_(std::move(name)), functions_(functions) {}

  const std::string name_;
  const krafla_engine_functions* const functions_;
  bool is_launched_ = false;
  const Mesh* watched_ = nullptr;
  Mesh* mesh_ = nullptr;
  std::atomic<krafla_engine*> engine_ = nullptr;
};

}  // namespace krafla::transport
