// SPDX-License-Identifier: Apache-2.0
// Verify, passes, plan, SPIR-V, spirv-val: a valid module goes through all of them or is refused with UNIMPLEMENTED or
// RESOURCE_EXHAUSTED; any other error and any shader that spirv-val refuses is a finding. No device is used.
//
// Inputs are HLO text. They are mutated by instructions: numbers, types, opcodes and operands change places, and every
// shape that follows from operands is put right before the module is verified, so that most mutations stay valid.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "../emit/module_facts.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "plan/planner.h"
#include "random_graph.h"

extern "C" std::size_t LLVMFuzzerMutate(uint8_t* data, std::size_t size, std::size_t max_size);

namespace krafla::fuzz {
namespace {

constexpr int64_t kMaxBytes = 1 << 20;  // of any array: what is looked for does not take large ones
constexpr std::size_t kMaxInstructions = 300;

void Finding(const Module& module, std::string_view stage, const std::string& what) {
  std::fprintf(stderr, "%.*s: %s\n%s\n", static_cast<int>(stage.size()), stage.data(), what.c_str(),
               PrintModule(module).c_str());
  std::abort();
}

bool Refusal(const Status& status) {
  return status.code() == StatusCode::kUnimplemented || status.code() == StatusCode::kResourceExhausted;
}

std::vector<DeviceProfile> LoadProfiles() {
  std::vector<DeviceProfile> out;
  for (const char* name : {"lavapipe", "nvidia_ada", "min_vulkan11", "swiftshader"}) {
    std::ifstream in(std::string(KRAFLA_SOURCE_DIR) + "/tests/profiles/" + name + ".json");
    auto profile = ParseDeviceProfile(std::string((std::istreambuf_iterator<char>(in)), {}));
    if (!profile) std::abort();
    out.push_back(std::move(*profile));
  }
  return out;
}

// Gives every instruction the shape that its operands make, where they make one. Loops and branches are left to Verify.
void RepairShapes(Module& module) {
  for (const auto& computation : module.computations()) {
    if (!computation->SortTopologically()) return;
    for (const auto& i : computation->instructions()) {
      if (IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kConstant})) continue;
      auto shape = InferShape(*computation, i->opcode(), i->operands(), i->attributes(), i->called(), &i->shape());
      if (shape && !Shape::Compatible(*shape, i->shape())) i->set_shape(*shape);
    }
  }
}

bool Small(const Module& module) {
  std::size_t count = 0;
  for (const auto& computation : module.computations())
    for (const auto& i : computation->instructions()) {
      if (++count > kMaxInstructions || i->shape().byte_size() > kMaxBytes) return false;
      // A window or a convolution may be wide without being large.
      if (const auto* w = std::get_if<WindowAttributes>(&i->attributes()))
        for (const WindowDim& d : w->window)
          if (d.size > 1000) return false;
    }
  return true;
}

void Run(const Module& parsed) {
  static const std::vector<DeviceProfile> profiles = LoadProfiles();
  std::unique_ptr<Module> module = parsed.Clone();
  RepairShapes(*module);
  if (!Small(*module) || !Verify(*module)) return;
  std::unique_ptr<Module> original = module->Clone();
  PassOptions options;
  options.fold_work_limit = 1 << 14;
  options.fold_module_work_limit = 1 << 16;
  options.max_instructions = 5000;
  Status* broken = nullptr;
  Status found(StatusCode::kInternal, "");
  auto passed = RunPipeline(*module, options, [&](const PassInfo& pass, Module& m, bool changed, double) -> Result<> {
    if (!changed) return {};
    if (auto still = Verify(m); !still && broken == nullptr) {
      found = std::move(still).error().WithContext("after the pass " + std::string(pass.name));
      broken = &found;
    }
    return {};
  });
  if (broken != nullptr) Finding(*original, "passes", broken->ToString());
  if (!passed) {
    if (!Refusal(passed.error())) Finding(*original, "passes", passed.error().ToString());
    return;
  }
  if (!Small(*module)) return;
  auto verified = VerifiedModule::Make(std::move(module));
  if (!verified) Finding(*original, "verify", verified.error().ToString());
  auto plan = plan::PlanProgram(std::move(*verified), {});
  if (!plan) {
    if (!Refusal(plan.error())) Finding(*original, "plan", plan.error().ToString());
    return;
  }
  for (const plan::KernelPlan& kernel : plan->kernels)
    for (const DeviceProfile& profile : profiles) {
      spirv::EmitOptions emit;
      emit.enable_cooperative_matrix = profile.features.cooperative_matrix;
      auto emitted = spirv::Emit(kernel, profile, emit);
      if (!emitted) {
        if (!Refusal(emitted.error())) Finding(*original, "emit", emitted.error().ToString());
        continue;
      }
      for (const spirv::EmittedKernel& k : emitted->kernels)
        if (std::string wrong = spirv::testing::Validate(k.words, profile); !wrong.empty())
          Finding(*original, "spirv-val, " + k.variant + " for " + profile.name, wrong);
    }
}

// ---- Mutations of the text, token by token.

struct Token {
  std::size_t begin, end;
  enum Kind { kNumber, kType, kWord } kind;
};

std::vector<Token> Tokens(const std::string& text) {
  std::vector<Token> out;
  auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-'; };
  for (std::size_t at = 0; at < text.size();) {
    if (!word(text[at])) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    while (at < text.size() && word(text[at])) ++at;
    std::string token = text.substr(begin, at - begin);
    bool number = token.find_first_not_of("0123456789") == std::string::npos;
    out.push_back({begin, at, number ? Token::kNumber : ElementTypeFromName(token) ? Token::kType : Token::kWord});
  }
  return out;
}

std::string Mutate(std::string text, Random& random) {
  static const char* kTypes[] = {"f32",  "f16", "bf16", "f64", "s32",      "u32",    "s8",  "u8",  "s64", "u64",
                                 "pred", "c64", "s4",   "u4",  "f8e4m3fn", "f8e5m2", "s16", "u16", "c128"};
  static const char* kNumbers[] = {"0",  "1",  "2",  "3",  "4",  "5",   "7",   "8",   "16",   "17",
                                   "31", "32", "33", "64", "65", "127", "128", "256", "1000", "4097"};
  for (int64_t n = random.Between(1, 3); n > 0; --n) {
    std::vector<Token> tokens = Tokens(text);
    if (tokens.empty()) return text;
    const Token& t = tokens[static_cast<std::size_t>(random.Below(std::ssize(tokens)))];
    std::string old = text.substr(t.begin, t.end - t.begin), with = old;
    if (t.kind == Token::kNumber) {
      with = kNumbers[random.Below(std::ssize(kNumbers))];
      // The same size elsewhere is often the same dimension.
      if (random.Chance(60)) {
        std::string out;
        std::size_t last = 0;
        for (const Token& other : tokens) {
          if (other.kind != Token::kNumber || text.compare(other.begin, other.end - other.begin, old) != 0) continue;
          out += text.substr(last, other.begin - last) + with;
          last = other.end;
        }
        text = out + text.substr(last);
        continue;
      }
    } else if (t.kind == Token::kType) {
      with = kTypes[random.Below(std::ssize(kTypes))];
      std::string out;
      std::size_t last = 0;
      for (const Token& other : tokens) {
        if (other.kind != Token::kType || text.compare(other.begin, other.end - other.begin, old) != 0) continue;
        out += text.substr(last, other.begin - last) + with;
        last = other.end;
      }
      text = out + text.substr(last);
      continue;
    } else if (auto opcode = OpcodeFromName(old)) {
      // Another op of as many operands.
      for (int tries = 0; tries < 40; ++tries) {
        const OpInfo& info = AllOps()[static_cast<std::size_t>(random.Below(std::ssize(AllOps())))];
        if (info.arity == GetOpInfo(*opcode).arity && info.attributes == GetOpInfo(*opcode).attributes) {
          with = info.name;
          break;
        }
      }
    } else {
      const Token& other = tokens[static_cast<std::size_t>(random.Below(std::ssize(tokens)))];
      if (other.kind == Token::kWord) with = text.substr(other.begin, other.end - other.begin);
    }
    text.replace(t.begin, t.end - t.begin, with);
  }
  return text;
}

}  // namespace
}  // namespace krafla::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  krafla::HloTextLimits limits;
  limits.max_constant_bytes = 1 << 18;
  limits.max_instructions = krafla::fuzz::kMaxInstructions;
  auto module = krafla::ParseHloText(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz", limits);
  if (module) krafla::fuzz::Run(**module);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  krafla::fuzz::Random random(seed);
  // Now and then a module from nothing, or what libFuzzer makes of the bytes.
  if (random.Chance(2)) return LLVMFuzzerMutate(data, size, max_size);
  std::string text;
  if (random.Chance(10)) {
    krafla::fuzz::RandomGraphOptions options;
    options.max_operations = 6;
    text = krafla::PrintModule(*krafla::fuzz::MakeRandomModule(random.Next(), options));
  } else {
    text = krafla::fuzz::Mutate(std::string(reinterpret_cast<const char*>(data), size), random);
  }
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
