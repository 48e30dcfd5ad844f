// SPDX-License-Identifier: Apache-2.0
#include "language_model.h"

#include <algorithm>
#include <array>
#include <utility>

#include "weights_file.h"

namespace llm {
namespace {

using krafla::Buffer;
using krafla::ElementType;
using krafla::Result;

constexpr int kFormat = 1;  // of model.json

Result<ElementType> CacheType(const std::string& name) {
  if (name == "float32") return ElementType::kF32;
  if (name == "bfloat16") return ElementType::kBF16;
  if (name == "float16") return ElementType::kF16;
  return krafla::Unimplemented("model.json has caches of the type '{}'.", name);
}

}  // namespace

Result<LanguageModel::Program> LanguageModel::Describe(const json& from) {
  Program out;
  KRAFLA_ASSIGN(out.file, Get<std::string>(from, "file"));
  KRAFLA_ASSIGN(out.inputs, Get<std::vector<std::string>>(from, "inputs"));
  KRAFLA_ASSIGN(out.outputs, Get<std::vector<std::string>>(from, "outputs"));
  KRAFLA_ASSIGN(const auto donated, Get<std::vector<std::string>>(from, "donated"));
  for (const std::string& name : out.inputs) out.donated.push_back(std::ranges::find(donated, name) != donated.end());
  return out;
}

Result<std::unique_ptr<LanguageModel>> LanguageModel::Load(const std::string& folder, const std::string& device,
                                                           int threads, std::set<std::string> enabled) {
  KRAFLA_ASSIGN(json description, ReadJson(folder + "/model.json"));
  if (const int format = GetOr(description, "format", 0); format != kFormat)
    return krafla::Unimplemented("{}/model.json has format {}; this program reads {}.", folder, format, kFormat);
  krafla::ClientOptions options;
  options.threads = threads;
  KRAFLA_ASSIGN(krafla::LocalClient client, krafla::LocalClient::Create(device, options));
  std::unique_ptr<LanguageModel> out(new LanguageModel(folder, std::move(client), std::move(description)));
  out->enabled_ = std::move(enabled);
  KRAFLA_TRY(out->Prepare());
  return out;
}

Result<> LanguageModel::Prepare() {
  KRAFLA_ASSIGN(context_, Get<int64_t>(description_, "context"));
  KRAFLA_ASSIGN(vocabulary_, Get<int64_t>(description_, "vocabulary"));
  KRAFLA_ASSIGN(const auto programs, Get<json>(description_, "programs"));
  KRAFLA_ASSIGN(const auto prefills, Get<std::vector<json>>(programs, "prefill"));
  for (const json& one : prefills) {
    KRAFLA_ASSIGN(const auto length, Get<int64_t>(one, "length"));
    if (length < 1) return krafla::InvalidArgument("model.json has a prefill for {} tokens.", length);
    KRAFLA_ASSIGN(prefills_[length], Describe(one));
  }
  KRAFLA_ASSIGN(const auto decode, Get<json>(programs, "decode"));
  KRAFLA_ASSIGN(decode_, Describe(decode));
  KRAFLA_ASSIGN(const auto sample, Get<json>(programs, "sample"));
  KRAFLA_ASSIGN(sample_, Describe(sample));
  KRAFLA_ASSIGN(const auto weights, Get<json>(description_, "weights"));
  KRAFLA_ASSIGN(const auto file, Get<std::string>(weights, "file"));
  KRAFLA_ASSIGN(auto arrays, LoadWeights(client_, folder_ + "/" + file));
  for (auto& [name, buffer] : arrays) weights_.emplace("weights." + name, std::move(buffer));
  return MakeCaches();
}

Result<> LanguageModel::MakeCaches() {
  KRAFLA_ASSIGN(const auto cache, Get<json>(description_, "cache"));
  KRAFLA_ASSIGN(const auto name, Get<std::string>(cache, "type"));
  KRAFLA_ASSIGN(const auto dims, Get<std::vector<int64_t>>(cache, "shape"));
  KRAFLA_ASSIGN(const auto count, Get<int64_t>(cache, "count"));
  KRAFLA_ASSIGN(const ElementType type, CacheType(name));
  KRAFLA_ASSIGN(const krafla::Shape shape, krafla::Shape::MakeArray(type, dims));
  const std::vector<std::byte> zeros(static_cast<std::size_t>(shape.byte_size()));
  for (int64_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(Buffer buffer, Buffer::FromHost(client_, shape, zeros));
    state_.insert_or_assign("cache." + std::to_string(i), std::move(buffer));
  }
  fed_.clear();
  return {};
}

Result<> LanguageModel::LoadProgram(Program& program) {
  if (program.session != nullptr) return {};
  krafla::SessionOptions options;
  options.concurrent_runs = 1;
  options.build.enabled = enabled_;
  KRAFLA_ASSIGN(krafla::Session session, krafla::Session::LoadFile(client_, folder_ + "/" + program.file, options));
  if (session.inputs().size() != program.inputs.size() || session.outputs().size() != program.outputs.size())
    return krafla::InvalidArgument("{} takes {} and gives {} arrays; model.json has {} and {}.", program.file,
                                   session.inputs().size(), session.outputs().size(), program.inputs.size(),
                                   program.outputs.size());
  program.session = std::make_unique<krafla::Session>(std::move(session));
  return {};
}

Result<> LanguageModel::LoadAll() {
  for (auto& [length, program] : prefills_) KRAFLA_TRY(LoadProgram(program));
  return LoadProgram(decode_);
}

Result<> LanguageModel::Run(Program& program) {
  KRAFLA_TRY(LoadProgram(program));
  std::vector<krafla::BufferInput> inputs;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string& name = program.inputs[i];
    const auto weight = weights_.find(name), state = state_.find(name);
    if (weight == weights_.end() && state == state_.end())
      return krafla::NotFound("The program {} takes '{}', which is neither a weight nor made by a program.",
                              program.file, name);
    inputs.push_back({weight != weights_.end() ? weight->second : state->second, program.donated[i]});
  }
  auto made = program.session->Run(inputs);
  if (!made) {  // what was donated is gone
    KRAFLA_TRY(MakeCaches());
    return krafla::Failure(std::move(made).error());
  }
  for (std::size_t o = 0; o < made->size(); ++o) state_.insert_or_assign(program.outputs[o], std::move((*made)[o]));
  return {};
}

template <typename T>
Result<> LanguageModel::Set(const std::string& name, ElementType type, std::span<const T> values, bool is_scalar) {
  const std::array<int64_t, 1> dims = {static_cast<int64_t>(values.size())};
  KRAFLA_ASSIGN(const krafla::Shape shape, krafla::Shape::MakeArray(type, std::span(dims).first(is_scalar ? 0 : 1)));
  KRAFLA_ASSIGN(Buffer buffer, Buffer::FromHost(client_, shape, std::as_bytes(values)));
  state_.insert_or_assign(name, std::move(buffer));
  return {};
}

Result<int64_t> LanguageModel::Feed(std::span<const int32_t> tokens) {
  if (tokens.empty()) return krafla::InvalidArgument("There are no tokens to begin with.");
  if (static_cast<int64_t>(tokens.size()) > context_)
    return krafla::InvalidArgument("The text has {} tokens; the model was exported for {} (export.py --context).",
                                   tokens.size(), context_);
  for (const int32_t token : tokens)
    if (token < 0 || token >= vocabulary_)
      return krafla::InvalidArgument("The token {} is not below {}, the vocabulary's size.", token, vocabulary_);
  std::size_t at = 0;
  while (at < fed_.size() && at + 1 < tokens.size() && fed_[at] == tokens[at]) ++at;
  const std::size_t first = at;
  fed_.resize(at);
  while (at < tokens.size()) {
    // The shortest program that takes what is left, else the longest; one that ends within the caches.
    const auto rest = static_cast<int64_t>(tokens.size() - at);
    int64_t length = 1;
    for (const auto& [n, program] : prefills_)
      if (length < rest && static_cast<int64_t>(at) + n <= context_) length = n;
    const auto count = static_cast<std::size_t>(std::min(length, rest));
    std::vector<int32_t> part(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                              tokens.begin() + static_cast<std::ptrdiff_t>(at + count));
    part.resize(static_cast<std::size_t>(length));
    KRAFLA_TRY(SetScalar("position", ElementType::kS32, static_cast<int32_t>(at)));
    KRAFLA_TRY(Set<int32_t>(length == 1 ? "token" : "tokens", ElementType::kS32, part, false));
    if (length > 1) KRAFLA_TRY(SetScalar("count", ElementType::kS32, static_cast<int32_t>(count)));
    KRAFLA_TRY(Run(length == 1 ? decode_ : prefills_.at(length)));
    at += count;
    fed_.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(at));
  }
  KRAFLA_TRY(state_.at("token").Wait());
  return static_cast<int64_t>(tokens.size() - first);
}

Result<int32_t> LanguageModel::Next(const Sampling& sampling) {
  if (sampling.temperature > 0) {
    if (sampling != sampling_) {
      KRAFLA_TRY(SetScalar("seed", ElementType::kU32, sampling.seed));
      KRAFLA_TRY(SetScalar("temperature", ElementType::kF32, sampling.temperature));
      KRAFLA_TRY(SetScalar("top_k", ElementType::kS32, sampling.top_k));
      KRAFLA_TRY(SetScalar("top_p", ElementType::kF32, sampling.top_p));
      sampling_ = sampling;
    }
    KRAFLA_TRY(Run(sample_));
  }
  int32_t token = 0;
  KRAFLA_TRY(state_.at("token").ReadTo(krafla::OutputBytes(reinterpret_cast<std::byte*>(&token), sizeof token)));
  return token;
}

Result<> LanguageModel::Accept(int32_t token) {
  if (IsFull()) return krafla::FailedPrecondition("The text has {} tokens, all that the caches hold.", fed_.size());
  KRAFLA_TRY(Run(decode_));
  fed_.push_back(token);
  return {};
}

}  // namespace llm
