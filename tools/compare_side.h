// SPDX-License-Identifier: Apache-2.0
// One side of `krafla compare`: a device with options, another build of krafla, or the evaluator.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "recorded/corpus.h"

namespace krafla::cli {

class Side {
 public:
  // `text`: a device with options, as on the command line: "vulkan:0 --disable coopmat". `binary`: the build of krafla
  // that runs it; empty: this one.
  static Result<std::unique_ptr<Side>> Open(const std::string& text, const std::string& binary = "");
  static std::unique_ptr<Side> Evaluator();

  // "vulkan:0 --disable coopmat"
  const std::string& text() const { return text_; }
  // Null: another build, or the evaluator.
  const DeviceDescription* device() const { return client_ ? &client_->device() : nullptr; }
  const CompileOptions& options() const { return options_; }

  // The result's leaves. `disabled`: besides what the side's own options say.
  Result<std::vector<Literal>> Run(const Module& module, const std::vector<Literal>& arguments,
                                   const std::set<std::string>& disabled = {}) const;
  // Made ready to be run again and again; null for other builds and the evaluator.
  Result<std::unique_ptr<Executable>> Prepare(const Module& module, const std::vector<Literal>& arguments) const;
  // The median time of a few runs in a process of its own, by `krafla bench` of `binary` (empty: the side's own).
  Result<double> Bench(const std::string& path, const std::vector<std::string>& shapes,
                       const std::string& binary) const;
  RunLimit Limit() const { return device_.ToRunLimit(); }

 private:
  Result<std::vector<Literal>> RunHere(const Module& module, const std::vector<Literal>& arguments,
                                       const std::set<std::string>& disabled) const;
  Result<std::vector<Literal>> RunElsewhere(const Module& module, const std::vector<Literal>& arguments,
                                            const std::set<std::string>& disabled) const;
  Result<std::vector<Literal>> RunEvaluator(const Module& module, const std::vector<Literal>& arguments) const;
  // The options as words of a command line.
  std::vector<std::string> Words(const std::set<std::string>& disabled) const;

  std::string text_, binary_;
  DeviceOptions device_;
  CompileOptions options_;
  std::shared_ptr<Client> client_;
  bool is_evaluator_ = false;
};

}  // namespace krafla::cli
