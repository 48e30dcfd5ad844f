// SPDX-License-Identifier: Apache-2.0
// What a Session is.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/session/apart.h"
#include "api/session/client_state.h"
#include "api/session/submission_queue.h"
#include "krafla/session.h"

namespace krafla {

// Arrays among the leaves: tokens have no bytes, and nobody has to give or take them.
struct SessionTensors {
  std::vector<TensorInfo> infos;
  std::vector<std::size_t> leaves;  // of each
  std::size_t leaf_count = 0;

  static Result<SessionTensors> Of(const std::vector<Shape>& shapes, std::vector<std::string> names) {
    SessionTensors out;
    out.leaf_count = shapes.size();
    names.resize(shapes.size());
    for (std::size_t leaf = 0; leaf < shapes.size(); ++leaf) {
      if (shapes[leaf].IsToken()) continue;
      if (!shapes[leaf].IsArray())
        return Unimplemented("'{}' is {}; sessions take and give arrays.", names[leaf], shapes[leaf].ToString(false));
      Shape shape = shapes[leaf];
      shape.ClearLayout();
      out.infos.push_back({std::move(names[leaf]), std::move(shape)});
      out.leaves.push_back(leaf);
    }
    return out;
  }
  bool HasTokens() const { return infos.size() != leaf_count; }
  // One for each leaf, tokens empty.
  template <typename Bytes>
  std::vector<Bytes> OnLeaves(Span<Bytes> given) const {
    std::vector<Bytes> out(leaf_count);
    for (std::size_t i = 0; i < given.size(); ++i) out[leaves[i]] = given[i];
    return out;
  }
};

struct Session::Impl {
  MadeIn made_in;
  std::shared_ptr<Client> client;
  std::shared_ptr<MemoryBudget> budget;
  std::shared_ptr<Executable> executable;
  SessionTensors inputs, outputs;
  BuildReport report;
  std::string side_effect;
  bool for_profile = false;
  MemoryBudget::Claim claim;
  SubmissionQueue queue;  // the first to go: it runs the others

  Result<> CheckProcess() const {
    return krafla::CheckProcess(made_in, client->device().runs_on_host_threads, "The session");
  }
  Result<> Run(Span<InputBytes> in, Span<OutputBytes> out, const RunLimit& limit) {
    KRAFLA_TRY(CheckProcess());
    KRAFLA_TRY(CheckCounts(in.size(), out.size()));
    KRAFLA_ASSIGN(const InputsApart apart, InputsApart::Of(in, out));
    if (!inputs.HasTokens() && !outputs.HasTokens()) return executable->RunInPlace(apart.span(), out, limit);
    const std::vector<InputBytes> in_leaves = inputs.OnLeaves(apart.span());
    const std::vector<OutputBytes> out_leaves = outputs.OnLeaves(out);
    return executable->RunInPlace(in_leaves, out_leaves, limit);
  }
  Result<> CheckCounts(std::size_t in, std::size_t out) const {
    if (in != inputs.infos.size())
      return InvalidArgument("The program takes {} inputs, {} were given.", inputs.infos.size(), in);
    if (out != outputs.infos.size())
      return InvalidArgument("The program gives {} outputs, memory for {} was given.", outputs.infos.size(), out);
    return {};
  }
  // Zeros for all inputs.
  Result<std::vector<Literal>> Zeros() const {
    if (!side_effect.empty())
      return FailedPrecondition("A run on zeros could be seen: {}. Run the program on inputs of your own.",
                                side_effect);
    std::vector<Literal> out;
    for (const Shape& shape : executable->arguments()) {
      KRAFLA_ASSIGN(Literal zeros, Literal::Create(shape.WithStaticDims()));
      out.push_back(std::move(zeros));
    }
    return out;
  }
};

}  // namespace krafla
