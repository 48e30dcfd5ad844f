// SPDX-License-Identifier: Apache-2.0
// The programs of a folder that export.py wrote, on a device: weights and caches stay there, and one number comes back
// for each token.
#pragma once

#include <krafla/session.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "json.h"

namespace llm {

struct Sampling {
  float temperature = 0;  // 0: the likeliest token
  int32_t top_k = 0;      // 0: all
  float top_p = 1;
  uint32_t seed = 0;
  bool operator==(const Sampling&) const = default;
};

class LanguageModel {
 public:
  static krafla::Result<std::unique_ptr<LanguageModel>> Load(const std::string& folder, const std::string& device,
                                                             int threads, std::set<std::string> enabled = {});

  const json& description() const { return description_; }  // model.json
  const std::string& device() const { return client_.device().selector; }
  int64_t context() const { return context_; }

  // Makes all programs ready, so that the first text is as fast as the others.
  krafla::Result<> LoadAll();
  // Brings the caches to the end of this text: what they have of it already stays. Gives how many tokens were computed.
  krafla::Result<int64_t> Feed(std::span<const int32_t> tokens);
  // The token after the text.
  krafla::Result<int32_t> Next(const Sampling& sampling);
  // Appends the token that Next gave to the text.
  krafla::Result<> Accept(int32_t token);
  bool IsFull() const { return static_cast<int64_t>(fed_.size()) >= context_; }

 private:
  // What model.json says of a program, and its session once it is loaded.
  struct Program {
    std::string file;
    std::vector<std::string> inputs, outputs;
    std::vector<bool> donated;  // of each input
    std::unique_ptr<krafla::Session> session;
  };
  static krafla::Result<Program> Describe(const json& from);

  LanguageModel(std::string folder, krafla::LocalClient client, json description)
      : folder_(std::move(folder)), client_(std::move(client)), description_(std::move(description)) {}
  krafla::Result<> Prepare();
  krafla::Result<> MakeCaches();
  krafla::Result<> LoadProgram(Program& program);
  // Runs on the weights and the state, and makes the results the state.
  krafla::Result<> Run(Program& program);
  template <typename T>
  krafla::Result<> Set(const std::string& name, krafla::ElementType type, std::span<const T> values, bool is_scalar);
  template <typename T>
  krafla::Result<> SetScalar(const std::string& name, krafla::ElementType type, T value) {
    return Set(name, type, std::span<const T>(&value, 1), true);
  }

  std::string folder_;
  krafla::LocalClient client_;
  json description_;
  int64_t context_ = 0, vocabulary_ = 0;
  std::map<std::string, krafla::Buffer> weights_, state_;
  std::map<int64_t, Program> prefills_;  // by length
  Program decode_, sample_;
  Sampling sampling_;              // whose numbers are in the state; with the temperature 0 none are
  std::set<std::string> enabled_;  // features of krafla's
  std::vector<int32_t> fed_;       // whose keys and values the caches hold
};

}  // namespace llm
