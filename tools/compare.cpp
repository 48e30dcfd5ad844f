// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/explain.h"
#include "api/front_end.h"
#include "base/system.h"
#include "compare_search.h"
#include "ir/verifier.h"
#include "number_between.h"
#include "passes/pipeline.h"
#include "prepare.h"

namespace krafla::cli {
namespace {

using Json = nlohmann::ordered_json;

// Times of B as parts of those of A, taken in pairs.
struct Speed {
  std::vector<double> ratios;  // sorted
  double a_ms = 0, b_ms = 0;   // medians

  double At(double share) const { return ratios[static_cast<std::size_t>(share * double(ratios.size() - 1) + 0.5)]; }
};

struct Findings {
  std::vector<Comparison> results;
  std::optional<Speed> speed;
  std::optional<FirstDifference> first;
  std::string kernel_a, kernel_b;  // of the first difference
  std::optional<Bisection> bisection;
  std::string wrong;         // with a reference: the sides that differ from it
  bool is_compiled = false;  // the program is a compiled model, whose results are fixed: nothing is searched
};

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Comparer {
 public:
  Comparer(const CompareCommand& command, const Subject& subject, const Module& module)
      : command_(command), subject_(subject), module_(module) {}

  Result<Findings> Run(const Side& a, const Side& b) {
    KRAFLA_TRY(MakeArguments());
    const Question question{module_, arguments_, Rule()};
    KRAFLA_ASSIGN(const std::vector<Literal> got_a, a.Run(module_, arguments_));
    KRAFLA_ASSIGN(const std::vector<Literal> got_b, b.Run(module_, arguments_));
    KRAFLA_ASSIGN(out_.results, CompareAll(got_a, got_b, question.rule));
    const Side *left = &a, *right = &b;
    std::unique_ptr<Side> evaluator;
    bool differs = !AllPassed(out_.results);
    if (!command_.reference.empty()) {
      evaluator = Side::Evaluator();
      KRAFLA_ASSIGN(const std::vector<Literal> reference, evaluator->Run(module_, arguments_));
      KRAFLA_ASSIGN(const std::vector<Comparison> of_a, CompareAll(reference, got_a, question.rule));
      KRAFLA_ASSIGN(const std::vector<Comparison> of_b, CompareAll(reference, got_b, question.rule));
      const bool a_wrong = !AllPassed(of_a), b_wrong = !AllPassed(of_b);
      out_.wrong = a_wrong && b_wrong ? "A and B" : a_wrong ? "A" : b_wrong ? "B" : "";
      left = evaluator.get();
      if (a_wrong && !b_wrong) right = &a;
      differs = a_wrong || b_wrong;
    }
    if (command_.pairs > 0) KRAFLA_TRY(Time(a, b));
    out_.is_compiled = !module_.optimised.empty();
    if (!differs || out_.is_compiled) return std::move(out_);
    KRAFLA_ASSIGN(out_.first, FindFirstDifference(question, *left, *right));
    out_.kernel_a = KernelOf(*left);
    out_.kernel_b = KernelOf(*right);
    if (command_.bisect) {
      const bool terminal = StderrIsTerminal();
      KRAFLA_ASSIGN(out_.bisection, Bisect(question, *left, *right, [&](const std::string& name) {
                      if (terminal) std::fprintf(stderr, "\r\033[Kkrafla: without %s", name.c_str());
                    }));
      if (terminal) std::fprintf(stderr, "\r\033[K");
    }
    return std::move(out_);
  }

 private:
  Tolerance Rule() const {
    Tolerance out;
    if (command_.ulp == 0 && command_.atol == 0) return out;
    out.kind = Tolerance::Kind::kUlp;
    out.ulp = command_.ulp;
    out.atol = command_.atol;
    return out;
  }

  Result<> MakeArguments() {
    std::vector<Shape> parameters, results;
    for (const Instruction* p : module_.entry()->parameters())
      for (const Shape* leaf : TupleLeaves(p->shape())) parameters.push_back(*leaf);
    for (const Shape* leaf : TupleLeaves(module_.entry()->root()->shape())) results.push_back(*leaf);
    if (!subject_.recorded) {
      KRAFLA_ASSIGN(arguments_, RandomArguments(parameters, command_.seed));
      return {};
    }
    KRAFLA_ASSIGN(RecordedArrays arrays, ReadArrays(*subject_.recorded, parameters, results, RecordedPart::kInputs));
    arguments_ = std::move(arrays.inputs[0]);
    return {};
  }

  // Pairs in which each side comes first in turn, so that what drifts on the machine meets both.
  Result<> Time(const Side& a, const Side& b) {
    std::vector<double> a_ms, b_ms;
    Speed speed;
    std::function<Result<double>(const Side&)> one;
    std::unique_ptr<Executable> run_a, run_b;
    if (command_.binary.empty()) {
      KRAFLA_ASSIGN(run_a, a.Prepare(module_, arguments_));
      KRAFLA_ASSIGN(run_b, b.Prepare(module_, arguments_));
      one = [&](const Side& side) -> Result<double> {
        Executable& executable = &side == &a ? *run_a : *run_b;
        const RunLimit limit = side.Limit();
        executable.SetLimit(&limit);
        const Stopwatch time;
        const Result<> done = executable.Execute();
        const double ms = time.Milliseconds();
        executable.SetLimit(&kUnlimited);
        if (!done) return Failure(done.error());
        return ms;
      };
      for (const Side* side : {&a, &b})
        for (int warm = 0; warm < 2; ++warm)
          if (auto ms = one(*side); !ms) return Failure(std::move(ms).error());
    } else {
      one = [&](const Side& side) {
        return side.Bench(command_.module, command_.shapes, &side == &a ? os::ThisProgram() : command_.binary);
      };
    }
    for (int n = 0; n < command_.pairs; ++n) {
      const bool a_first = n % 2 == 0;
      KRAFLA_ASSIGN(const double first, one(a_first ? a : b));
      KRAFLA_ASSIGN(const double second, one(a_first ? b : a));
      a_ms.push_back(a_first ? first : second);
      b_ms.push_back(a_first ? second : first);
      speed.ratios.push_back(a_ms.back() > 0 ? b_ms.back() / a_ms.back() : 1);
    }
    std::ranges::sort(speed.ratios);
    speed.a_ms = MedianOf(a_ms);
    speed.b_ms = MedianOf(b_ms);
    out_.speed = std::move(speed);
    return {};
  }

  // The kernel that computes the first difference, where its name outlived the passes.
  std::string KernelOf(const Side& side) const {
    if (side.device() == nullptr || out_.first->instruction.empty()) return "";
    CompileOptions options = side.options();
    options.transfers = nullptr;
    const auto explained = Explain(module_.Clone(), *side.device(), {options, ""});
    if (!explained) return "";
    for (const Explanation::Kernel& kernel : explained->kernels)
      if (std::ranges::contains(kernel.instructions, out_.first->instruction))
        return Format("{} ({}) on the {}", kernel.name, kernel.variant.empty() ? kernel.family : kernel.variant,
                      kernel.place);
    return "";
  }

  const CompareCommand& command_;
  const Subject& subject_;
  const Module& module_;
  std::vector<Literal> arguments_;
  Findings out_;
};

std::string Distance(const Comparison& c) {
  if (c.max_ulp == 0 && c.max_abs == 0) return "";
  return Format("; at most {:g} ulp, {:.3g} absolute, {:.3g} relative", c.max_ulp, c.max_abs, c.max_rel);
}

void PrintFirst(const CompareCommand& command, const Findings& f) {
  const FirstDifference& first = *f.first;
  if (first.instruction.empty()) {
    std::printf(
        "\nthe difference goes away when values are made results, which may split kernels; it lies in the kernels "
        "of:\n");
    for (const std::string& name : first.between) std::printf("  %s\n", name.c_str());
  } else {
    std::printf("\nfirst to differ: %s (%s), whose operands are equal\n  %s%s\n", first.instruction.c_str(),
                first.opcode.c_str(), first.comparison.reason.c_str(), Distance(first.comparison).c_str());
    if (!f.kernel_a.empty()) std::printf("  A: kernel %s\n", f.kernel_a.c_str());
    if (!f.kernel_b.empty()) std::printf("  B: kernel %s\n", f.kernel_b.c_str());
    if (first.tried)
      std::printf("  %s\n", first.alone ? "It differs alone, too, on the same operands."
                                        : "Alone, on the same operands, it does not: what it is fused with matters.");
  }
  std::printf(
      "  found by %d runs of each side, with at most %zu values as results besides; such a value gets a buffer, "
      "and may split a kernel\n",
      first.runs, first.exposed);
  if (command.reference.empty()) std::printf("  a sum may differ within its bound (docs/ops.md)\n");
}

void PrintBisection(const CompareCommand& command, const Findings& f) {
  const std::string& changed = f.wrong == "A" ? command.a : command.b;
  std::printf("\nswitched off on '%s', one by one:\n", changed.c_str());
  std::string refused;
  for (const Suspect& s : f.bisection->suspects) {
    if (s.verdict == Suspect::Verdict::kGoesAway) std::printf("  %s: no difference\n", s.name.c_str());
    if (s.verdict == Suspect::Verdict::kRefused) refused += Format(" {}", s.name);
  }
  if (!refused.empty()) std::printf("  the program is refused without:%s\n", refused.c_str());
  if (f.bisection->needed.empty()) {
    std::printf("  the difference stays without any of these %zu, and without all of them\n",
                f.bisection->suspects.size());
    return;
  }
  std::string names;
  for (const std::string& name : f.bisection->needed) names += Format("{}{}", names.empty() ? "" : ",", name);
  const std::string without = Format("{} --disable {}", changed, names);
  const bool is_a = f.wrong == "A";
  std::string tail = command.binary.empty() ? "" : Format(" --binary {}", command.binary);
  if (!command.reference.empty()) tail += Format(" --reference {}", command.reference);
  if (command.ulp > 0) tail += Format(" --ulp {}", command.ulp);
  if (command.atol > 0) tail += Format(" --atol {}", command.atol);
  if (command.seed > 0) tail += Format(" --seed {}", command.seed);
  std::printf("this has no difference:\n  krafla compare %s '%s' '%s'%s\n", command.module.c_str(),
              (is_a ? without : command.a).c_str(), (is_a ? command.b : without).c_str(), tail.c_str());
}

void PrintText(const CompareCommand& command, const Findings& f) {
  std::printf("A: %s\nB: %s%s\n", command.a.c_str(), command.b.c_str(),
              command.binary.empty() ? "" : (" of " + command.binary).c_str());
  if (f.speed)
    std::printf("B takes %.3f of A's time (from %.3f to %.3f in the middle half of %zu pairs); medians %s and %s\n",
                f.speed->At(0.5), f.speed->At(0.25), f.speed->At(0.75), f.speed->ratios.size(),
                FormatMs(f.speed->a_ms).c_str(), FormatMs(f.speed->b_ms).c_str());
  std::size_t differ = 0;
  for (std::size_t r = 0; r < f.results.size(); ++r) {
    if (f.results[r].passed) continue;
    ++differ;
    std::printf("result %zu: %s%s\n", r, f.results[r].reason.c_str(), Distance(f.results[r]).c_str());
  }
  const bool by_bits = command.ulp == 0 && command.atol == 0;
  if (differ == 0)
    std::printf("%zu results are equal%s\n", f.results.size(), by_bits ? ", bit for bit" : " within the tolerance");
  if (!command.reference.empty())
    std::printf("%s\n", f.wrong.empty() ? "both have the evaluator's results"
                                        : Format("other results than the evaluator: {}", f.wrong).c_str());
  if (f.first) PrintFirst(command, f);
  else if (differ > 0 && f.is_compiled)
    std::printf(
        "compare the program that the model was compiled from to see which instruction is the first to differ\n");
  if (f.bisection) PrintBisection(command, f);
}

Json ToJson(const Comparison& c) {
  return {{"equal", c.passed},
          {"reason", c.reason},
          {"max_ulp", c.max_ulp},
          {"max_abs", c.max_abs},
          {"max_rel", c.max_rel}};
}

void PrintJson(const CompareCommand& command, const Findings& f) {
  Json line = {{"module", command.module}, {"a", command.a}, {"b", command.b}, {"equal", AllPassed(f.results)}};
  if (f.speed) {
    line["ratio"] = f.speed->At(0.5);
    line["ratio_quartiles"] = {f.speed->At(0.25), f.speed->At(0.75)};
    line["a_ms"] = f.speed->a_ms;
    line["b_ms"] = f.speed->b_ms;
  }
  line["results"] = Json::array();
  for (const Comparison& c : f.results) line["results"].push_back(ToJson(c));
  if (!command.reference.empty()) line["wrong"] = f.wrong;
  if (f.first) {
    Json first = ToJson(f.first->comparison);
    first["instruction"] = f.first->instruction;
    first["opcode"] = f.first->opcode;
    first["between"] = f.first->between;
    first["runs"] = f.first->runs;
    first["kernel_a"] = f.kernel_a;
    first["kernel_b"] = f.kernel_b;
    if (f.first->tried) first["alone"] = f.first->alone;
    line["first"] = std::move(first);
  }
  if (f.bisection) {
    constexpr const char* kVerdicts[] = {"stays", "goes away", "refused"};
    for (const Suspect& s : f.bisection->suspects) line["without"][s.name] = kVerdicts[static_cast<int>(s.verdict)];
    line["needed"] = f.bisection->needed;
  }
  std::printf("%s\n", line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

}  // namespace

void CompareCommand::AddTo(CLI::App& app, int& code) {
  CLI::App* cmd = app.add_subcommand(
      "compare", "compare two devices, sets of options or builds: speed, results, where they differ");
  cmd->add_option("module", module, "a model folder, or a module file (run on random arguments)")->required();
  AddShapeOption(*cmd, shapes);
  cmd->add_option("a", a, "a device with options: cpu, \"vulkan:0 --disable coopmat\"")->required();
  cmd->add_option("b", b, "another one")->required();
  cmd->add_option("--binary", binary, "another build of krafla, which runs B")->type_name("FILE");
  cmd->add_option("--pairs", pairs, "the number of timed pairs of runs; 0: time nothing (default: 11)")
      ->check(CLI::Range(0, 100'000));
  cmd->add_option("--ulp", ulp, "floats this many units in the last place apart are equal")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  cmd->add_option("--atol", atol, "floats this far apart are equal")->check(NumberBetween(0.0, 1e30));
  cmd->add_option("--seed", seed, "of random arguments");
  cmd->add_option("--reference", reference, "evaluator: judge both by krafla's evaluator, which is slow")
      ->check(CLI::IsMember({"evaluator"}));
  cmd->add_flag("--bisect", bisect, "find what --disable can switch off that makes the difference go away");
  cmd->add_flag("--json", json, "print one JSON object");
  cmd->callback([this, &code] { code = Run(); });
}

int CompareCommand::Run() const {
  const auto subject = FindSubject(module);
  if (!subject) return Fail(subject.error());
  auto read = LoadModule(subject->module_path, shapes);
  if (!read) return Fail(read.error());
  Module& program = **read;
  if (program.replica_count > 1 || program.num_partitions > 1 ||
      (subject->recorded && subject->recorded->replicas * subject->recorded->partitions > 1))
    return Fail(Unimplemented("{}: A program for several devices cannot be compared.", module).error());
  if (auto verified = Verify(program); !verified) return Fail(InFile(module, verified.error()));
  // What is called is looked into; what cannot be inlined stays a call.
  const std::string inliner[] = {"call_inliner"};
  if (auto inlined = RunPasses(program, inliner); !inlined) return Fail(InFile(module, inlined.error()));
  const auto side_a = Side::Open(a);
  if (!side_a) return FailDevice(side_a.error());
  const auto side_b = Side::Open(b, binary);
  if (!side_b) return FailDevice(side_b.error());
  const auto found = Comparer(*this, *subject, program).Run(**side_a, **side_b);
  if (!found) return Fail(InFile(module, found.error()));
  if (json) PrintJson(*this, *found);
  else PrintText(*this, *found);
  return AllPassed(found->results) && found->wrong.empty() ? kRight : kCheckFailed;
}

}  // namespace krafla::cli
