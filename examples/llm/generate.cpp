// SPDX-License-Identifier: Apache-2.0
// Text from a language model that export.py wrote, without Python.
//
//   generate MODEL --prompt "Once upon a time" [--device vulkan] [--max-tokens 100]
//   generate MODEL --chat [MESSAGE]     one message, or a conversation; an empty line or Ctrl-D ends it
//   generate MODEL --tokens 1,15,7      tokens in, tokens out: no tokenizer
//
// The text goes to standard output as it is made, everything else to standard error. Exit: 0, 1 an error, 2 a wrong
// option, 130 Ctrl-C.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "language_model.h"
#include "tokens.h"

namespace {

using krafla::Result;
using llm::json;

volatile std::sig_atomic_t stopped = 0;
constexpr int kStopped = 130, kWrongUsage = 2;

struct Options {
  std::string model, device;
  std::optional<std::string> prompt, chat, system;
  std::optional<std::vector<int32_t>> tokens;
  llm::Sampling sampling;
  int threads = 0, max_tokens = 256;
  bool shows_tokens = false;
  std::set<std::string> enabled;
};

template <typename T>
Result<T> Number(std::string_view text, const std::string& what) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size())
    return krafla::InvalidArgument("{} takes a number, not '{}'.", what, text);
  return out;
}

Result<std::vector<int32_t>> Numbers(std::string_view text, const std::string& what) {
  std::vector<int32_t> out;
  for (;;) {
    const std::size_t comma = text.find(',');
    KRAFLA_ASSIGN(const auto number, Number<int32_t>(text.substr(0, comma), what));
    out.push_back(number);
    if (comma == std::string_view::npos) return out;
    text.remove_prefix(comma + 1);
  }
}

Result<> SetOption(Options& out, const std::string& name, const std::string& value) {
  if (name == "--prompt") {
    out.prompt = value;
  } else if (name == "--tokens") {
    KRAFLA_ASSIGN(out.tokens, Numbers(value, name));
  } else if (name == "--system") {
    out.system = value;
  } else if (name == "--device") {
    out.device = value;
  } else if (name == "--enable") {
    for (std::string_view rest = value; !rest.empty();) {
      const std::size_t comma = rest.find(',');
      out.enabled.emplace(rest.substr(0, comma));
      rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    }
  } else if (name == "--threads") {
    KRAFLA_ASSIGN(out.threads, Number<int>(value, name));
  } else if (name == "--max-tokens") {
    KRAFLA_ASSIGN(out.max_tokens, Number<int>(value, name));
  } else if (name == "--temperature") {
    KRAFLA_ASSIGN(out.sampling.temperature, Number<float>(value, name));
  } else if (name == "--top-k") {
    KRAFLA_ASSIGN(out.sampling.top_k, Number<int32_t>(value, name));
  } else if (name == "--top-p") {
    KRAFLA_ASSIGN(out.sampling.top_p, Number<float>(value, name));
  } else if (name == "--seed") {
    KRAFLA_ASSIGN(out.sampling.seed, Number<uint32_t>(value, name));
  } else {
    return krafla::InvalidArgument("There is no option {}.", name);
  }
  return {};
}

Result<Options> Parse(int argc, char** argv) {
  Options out;
  out.sampling.seed = std::random_device()();
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = i + 1 < argc && std::string_view(argv[i + 1]).substr(0, 2) != "--";
    if (!name.starts_with("--") && out.model.empty()) {
      out.model = name;
    } else if (name == "--show-tokens") {
      out.shows_tokens = true;
    } else if (name == "--chat") {
      out.chat = has_value ? argv[++i] : "";
    } else if (!has_value) {
      return krafla::InvalidArgument("{} {}.", name, name.starts_with("--") ? "takes a value" : "is one word too many");
    } else {
      KRAFLA_TRY(SetOption(out, name, argv[++i]));
    }
  }
  if (out.model.empty()) return krafla::InvalidArgument("A folder that export.py wrote is missing.");
  if (out.prompt.has_value() + out.chat.has_value() + out.tokens.has_value() != 1)
    return krafla::InvalidArgument("One of --prompt, --chat and --tokens is needed.");
  if (!(out.sampling.temperature >= 0) || out.sampling.top_k < 0 || !(out.sampling.top_p > 0) ||
      out.sampling.top_p > 1 || out.max_tokens < 1 || out.threads < 0)
    return krafla::InvalidArgument(
        "--temperature, --top-k and --threads are at least 0, --top-p is above 0 and at most 1, --max-tokens at least 1.");
  return out;
}

// What stands around the messages of a conversation: model.json's "chat".
class Conversation {
 public:
  explicit Conversation(const json& parts) : parts_(parts) {}
  Result<> Say(const std::string& role, std::string content) {
    if (!parts_.is_object())
      return krafla::FailedPrecondition("The model has no chat template that is known; take --prompt.");
    if (!parts_.contains(role))
      return krafla::InvalidArgument("The model's conversations have no messages of the role '{}'.", role);
    const std::size_t begin = content.find_first_not_of(" \t\r\n");
    content = begin == std::string::npos ? "" : content.substr(begin, content.find_last_not_of(" \t\r\n") - begin + 1);
    messages_.emplace_back(role, std::move(content));
    return {};
  }
  void Forget() { messages_.pop_back(); }
  Result<std::string> Text() const {
    const bool has_system = messages_.front().first == "system";
    KRAFLA_ASSIGN(std::string out, llm::Get<std::string>(parts_, has_system ? "begin" : "begin_alone"));
    // The question that the system's message stands in, where it has no place of its own.
    const std::string inside = has_system ? llm::GetOr(parts_, "system_in", std::string()) : "";
    const auto asks = [](const auto& message) { return message.first == "user"; };
    auto holder = messages_.end();
    if (inside == "first") holder = std::ranges::find_if(messages_, asks);
    if (inside == "last") holder = std::ranges::find_last_if(messages_, asks).begin();
    for (auto at = messages_.begin(); at != messages_.end(); ++at) {
      if (at->first == "system" && !inside.empty()) continue;
      KRAFLA_ASSIGN(const auto around, Pair(at->first.c_str()));
      out += around[0];
      if (at == holder) {
        KRAFLA_ASSIGN(const auto system, Pair("system"));
        out += system[0] + messages_.front().second + system[1];
      }
      KRAFLA_ASSIGN(const std::string content, Remembered(*at));
      out += content + around[1];
    }
    KRAFLA_ASSIGN(const auto ask, llm::Get<std::string>(parts_, "ask"));
    return out + ask;
  }

 private:
  Result<std::vector<std::string>> Pair(const char* name) const {
    KRAFLA_ASSIGN(auto out, llm::Get<std::vector<std::string>>(parts_, name));
    if (out.size() != 2)
      return krafla::InvalidArgument("model.json has {} texts for '{}' of a chat.", out.size(), name);
    return out;
  }
  // A message without what the model thought before it answered: "thought".
  Result<std::string> Remembered(const std::pair<std::string, std::string>& message) const {
    const std::string& content = message.second;
    if (message.first != "assistant" || !parts_.contains("thought")) return content;
    KRAFLA_ASSIGN(const auto thought, Pair("thought"));
    const std::size_t end = content.rfind(thought[0]);
    if (end == std::string::npos) return content;
    const std::size_t begin = content.find_first_not_of(thought[1], end + thought[0].size());
    return begin == std::string::npos ? std::string() : content.substr(begin);
  }

  const json& parts_;
  std::vector<std::pair<std::string, std::string>> messages_;
};

class Program {
 public:
  static Result<Program> Load(Options options) {
    KRAFLA_ASSIGN(auto model,
                  llm::LanguageModel::Load(options.model, options.device, options.threads, options.enabled));
    KRAFLA_TRY(model->LoadAll());
    Program out(std::move(options), std::move(model));
    KRAFLA_ASSIGN(const auto stops, llm::Get<std::vector<int32_t>>(out.model_->description(), "stop"));
    out.stops_.insert(stops.begin(), stops.end());
    if (out.options_.tokens.has_value()) return out;
    const json tokenizer = llm::GetOr(out.model_->description(), "tokenizer", json());
    if (tokenizer.is_null()) return krafla::FailedPrecondition("The model has no tokenizer; take --tokens.");
    KRAFLA_ASSIGN(out.tokens_, llm::Tokens::Load(out.options_.model, tokenizer));
    return out;
  }

  Result<> Run() {
    if (options_.tokens.has_value()) {
      KRAFLA_TRY(Answer(*options_.tokens));
      return {};
    }
    if (options_.prompt.has_value()) {
      if (*options_.prompt == "-") options_.prompt = std::string(std::istreambuf_iterator<char>(std::cin), {});
      std::vector<int32_t> prompt = tokens_->prefix();
      KRAFLA_ASSIGN(const std::vector<int32_t> more, tokens_->Encode(*options_.prompt));
      prompt.insert(prompt.end(), more.begin(), more.end());
      Show(prompt);
      KRAFLA_TRY(Answer(prompt));
      return {};
    }
    return Converse();
  }

 private:
  Program(Options options, std::unique_ptr<llm::LanguageModel> model)
      : options_(std::move(options)), model_(std::move(model)) {}

  void Write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  void Show(const std::vector<int32_t>& prompt) {
    if (!options_.shows_tokens) return;
    std::cerr << "tokens: ";
    for (std::size_t i = 0; i < prompt.size(); ++i) std::cerr << (i == 0 ? "" : ",") << prompt[i];
    std::cerr << "\n";
  }

  // Writes what follows the prompt, and gives it.
  Result<std::string> Answer(const std::vector<int32_t>& prompt) {
    using Clock = std::chrono::steady_clock;
    const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
    const auto started = Clock::now();
    KRAFLA_ASSIGN(const int64_t computed, model_->Feed(prompt));
    const auto begun = Clock::now();
    std::string whole;
    llm::Utf8Stream characters;
    int count = 0;
    bool hides_space = tokens_ != nullptr && tokens_->hides_first_space() &&
                       std::ranges::all_of(prompt, [&](int32_t t) { return tokens_->BytesOf(t).empty(); });
    while (count < options_.max_tokens && stopped == 0) {
      KRAFLA_ASSIGN(const int32_t token, model_->Next(options_.sampling));
      ++count;
      if (stops_.contains(token)) break;
      std::string piece = tokens_ != nullptr ? characters.Add(tokens_->BytesOf(token))
                                             : krafla::Format("{}{}", count > 1 ? "," : "", token);
      if (hides_space && piece.starts_with(' ')) piece.erase(0, 1);
      hides_space &= piece.empty();
      Write(piece);
      whole += piece;
      if (count == options_.max_tokens || model_->IsFull()) break;
      KRAFLA_TRY(model_->Accept(token));
    }
    const std::string rest = characters.Rest();
    whole += rest;
    Write(rest + "\n");
    const double fed = seconds(begun - started), took = seconds(Clock::now() - begun);
    std::cerr << krafla::Format(
        "prefill: {} tokens in {:.3f} s, {:.1f} tokens/s; decode: {} tokens in {:.3f} s, {:.1f} tokens/s on {}\n",
        computed, fed, static_cast<double>(computed) / fed, count, took, static_cast<double>(count - 1) / took,
        model_->device());
    return whole;
  }

  Result<> Converse() {
    Conversation conversation(model_->description().at("chat"));
    if (options_.system.has_value()) KRAFLA_TRY(conversation.Say("system", *options_.system));
    for (bool is_one = !options_.chat->empty();;) {
      std::string line = *options_.chat;
      if (!is_one) {
        std::cerr << "> " << std::flush;
        if (!std::getline(std::cin, line) || line.empty()) return {};
      }
      KRAFLA_TRY(conversation.Say("user", line));
      KRAFLA_ASSIGN(const std::string text, conversation.Text());
      KRAFLA_ASSIGN(const std::vector<int32_t> prompt, tokens_->Encode(text));
      Show(prompt);
      KRAFLA_ASSIGN(std::string said, Answer(prompt));
      if (is_one) return {};
      if (stopped != 0) {  // ends the answer; the question is forgotten with it
        stopped = 0;
        conversation.Forget();
      } else {
        KRAFLA_TRY(conversation.Say("assistant", std::move(said)));
      }
    }
  }

  Options options_;
  std::unique_ptr<llm::LanguageModel> model_;
  std::unique_ptr<llm::Tokens> tokens_;
  std::set<int32_t> stops_;
};

}  // namespace

int main(int argc, char** argv) {
  auto options = Parse(argc, argv);
  if (!options) {
    std::cerr
        << "generate: " << options.error().message() << "\n"
        << "usage: generate MODEL (--prompt TEXT | --chat [MESSAGE] | --tokens N,..) [--system TEXT] [--device NAME]\n"
           "  [--show-tokens] [--threads N] [--enable NAME,..] [--max-tokens N] [--temperature T] [--top-k N] [--top-p P] [--seed N]\n";
    return kWrongUsage;
  }
  std::signal(SIGINT, [](int) { stopped = 1; });
  const auto run = [&]() -> Result<> {
    KRAFLA_ASSIGN(Program program, Program::Load(*std::move(options)));
    return program.Run();
  };
  if (const Result<> done = run(); !done) {
    std::cerr << "generate: " << done.error().ToString() << "\n";
    return 1;
  }
  return stopped != 0 ? kStopped : 0;
}
