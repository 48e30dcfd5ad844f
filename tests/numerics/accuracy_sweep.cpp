// SPDX-License-Identifier: Apache-2.0
// The worst error of every elementary function and where it is: over all 2^32 f32 numbers, all f16 and bf16 numbers,
// samples of f64, and pairs for functions of two operands. What runs is the CPU's block loops, whose bits are the
// GPU's.
//
//   accuracy_sweep [--types f32,f16,bf16,f64] [--ops NAME,...] [--stride N] [--pairs N] [--samples N] [--threads N]
//                  [--json FILE]
//
// The table is Markdown, on standard output; the exit code says whether every budget of ops.def is kept.
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "accuracy_errors.h"
#include "accuracy_samples.h"
#include "accuracy_truth.h"
#include "cpu_fallback/kernels/block_ops.h"
#include "krafla/status.h"
#include "numerics/formats.h"

namespace krafla::accuracy {
namespace {

constexpr int64_t kBlock = 4096;

struct Options {
  std::vector<std::string> types = {"f32", "f16", "bf16", "f64"}, ops;
  uint64_t stride = 1, pairs = uint64_t{1} << 28, samples = uint64_t{1} << 24;
  unsigned threads = 2;
  std::string json;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A line that says how far one sweep has come; only where someone watches.
class Progress {
 public:
  Progress(std::string name, uint64_t total) : name_(std::move(name)), total_(total), start_(Now()) {}
  void Show(uint64_t done) {
    if (!watched_ || Now() < next_) return;
    next_ = Now() + 0.2;
    const double part = static_cast<double>(done) / static_cast<double>(total_), passed = Now() - start_;
    std::fprintf(stderr, "\r%-32s %5.1f %%  %4.0f s left ", name_.c_str(), 100 * part,
                 part > 0 ? passed / part - passed : 0);
  }
  double Finish() {
    if (watched_) std::fprintf(stderr, "\r%-60s\r", "");
    return Now() - start_;
  }

 private:
  std::string name_;
  uint64_t total_;
  double start_, next_ = 0;
  bool watched_ = isatty(STDERR_FILENO) != 0;
};

// Runs body(block number, tally of its thread) for every block.
template <class Body>
Tally Sweep(const std::string& name, uint64_t blocks, unsigned threads, double* seconds, Body body) {
  Progress progress(name, blocks);
  std::atomic<uint64_t> next = 0;
  std::mutex mutex;
  Tally all;
  auto work = [&](bool shows) {
    Tally mine;
    for (uint64_t block; (block = next++) < blocks;) {
      body(block, mine);
      if (shows) progress.Show(block);
    }
    const std::lock_guard lock(mutex);
    all.Join(mine);
  };
  std::vector<std::thread> workers;
  for (unsigned t = 1; t < threads; ++t) workers.emplace_back(work, false);
  work(true);
  for (std::thread& w : workers) w.join();
  *seconds = progress.Finish();
  return all;
}

cpu::BlockFn BlockOf(Opcode opcode, ElementType type) {
  cpu::BlockKey key;
  key.opcode = opcode;
  key.type = key.operand = type;
  return cpu::FindBlockFn(key);
}

struct Row {
  std::string op, type;
  double budget = 0;
  Tally tally;
  double seconds = 0;
  bool kept() const { return tally.wrong == 0 && (budget < 0 || tally.worst <= budget); }
};

Tally SweepF32(const Truth& truth, const Options& options, double* seconds) {
  const cpu::BlockFn run = BlockOf(truth.opcode, ElementType::kF32);
  const uint64_t count = ((uint64_t{1} << 32) + options.stride - 1) / options.stride;
  const std::string name(OpcodeName(truth.opcode));
  return Sweep(name + " f32", (count + kBlock - 1) / kBlock, options.threads, seconds,
               [&](uint64_t block, Tally& tally) {
                 alignas(64) float x[kBlock], got[kBlock];
                 const uint64_t first = block * kBlock, n = std::min<uint64_t>(kBlock, count - first);
                 for (uint64_t i = 0; i < n; ++i)
                   x[i] = std::bit_cast<float>(static_cast<uint32_t>((first + i) * options.stride));
                 run({got, {x, nullptr, nullptr}, static_cast<int64_t>(n), 0});
                 for (uint64_t i = 0; i < n; ++i)
                   tally.Take(got[i], truth.unary(static_cast<double>(x[i])), x[i],
                              [&](float flushed) { return truth.unary(static_cast<double>(flushed)); });
               });
}

Tally SweepPairs(const Truth& truth, const Options& options, double* seconds) {
  const cpu::BlockFn run = BlockOf(truth.opcode, ElementType::kF32);
  const std::string name(OpcodeName(truth.opcode));
  return Sweep(name + " f32 pairs", (options.pairs + kBlock - 1) / kBlock, options.threads, seconds,
               [&](uint64_t block, Tally& tally) {
                 alignas(64) float x[kBlock], y[kBlock], got[kBlock];
                 MakePairs(block, x, y, kBlock);
                 run({got, {x, y, nullptr}, kBlock, 0});
                 for (int64_t i = 0; i < kBlock; ++i) tally.TakePair(got[i], truth.binary, x[i], y[i]);
               });
}

// Narrow types are widened, computed in f32 and rounded once, as an element program does it.
Tally SweepNarrow(const Truth& truth, ElementType type, const Options& options, double* seconds) {
  const cpu::BlockFn run = BlockOf(truth.opcode, ElementType::kF32);
  const bool half = type == ElementType::kF16;
  const std::string name(OpcodeName(truth.opcode));
  return Sweep(name + " " + std::string(ElementTypeName(type)), 65536 / kBlock, options.threads, seconds,
               [&](uint64_t block, Tally& tally) {
                 alignas(64) float x[kBlock], got[kBlock];
                 for (int64_t i = 0; i < kBlock; ++i) {
                   const auto code = static_cast<uint16_t>(block * kBlock + static_cast<uint64_t>(i));
                   x[i] = half ? F16ToFloat(code) : BF16ToFloat(code);
                 }
                 run({got, {x, nullptr, nullptr}, kBlock, 0});
                 for (int64_t i = 0; i < kBlock; ++i) {
                   const uint16_t mine = half ? FloatToF16(got[i]) : FloatToBF16(got[i]);
                   tally.TakeNarrow(mine, half, x[i],
                                    [&](float operand) { return truth.unary(static_cast<double>(operand)); });
                 }
               });
}

Tally SweepF64(const Truth& truth, const Options& options, double* seconds) {
  const cpu::BlockFn run = BlockOf(truth.opcode, ElementType::kF64);
  const std::string name(OpcodeName(truth.opcode));
  const bool pairs = truth.long_binary != nullptr;
  return Sweep(name + " f64", (options.samples + kBlock - 1) / kBlock, options.threads, seconds,
               [&](uint64_t block, Tally& tally) {
                 alignas(64) double x[kBlock], y[kBlock], got[kBlock];
                 MakeDoubles(block, x, kBlock);
                 if (pairs) MakeDoublePairs(block, x, y, kBlock);
                 run({got, {x, pairs ? y : nullptr, nullptr}, kBlock, 0});
                 for (int64_t i = 0; i < kBlock; ++i) {
                   const auto a = static_cast<long double>(x[i]), b = pairs ? static_cast<long double>(y[i]) : 0.0L;
                   tally.TakeDouble(got[i], pairs ? truth.long_binary(a, b) : truth.long_unary(a), x[i],
                                    pairs ? y[i] : 0.0);
                 }
               });
}

bool Chosen(const std::vector<std::string>& list, std::string_view name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

void Print(const Row& row) {
  const Tally& t = row.tally;
  std::string where = t.worst > 0 ? t.Where(row.type == "f64") : "";
  std::printf("| %s | %s | %.4g | %s | %.3f | %s | %llu | %llu | %s |\n", row.op.c_str(), row.type.c_str(),
              static_cast<double>(t.inputs), row.budget < 0 ? "" : Format("{}", row.budget).c_str(), t.worst,
              where.c_str(), static_cast<unsigned long long>(t.misrounded), static_cast<unsigned long long>(t.wrong),
              row.kept() ? "yes" : "**no**");
  if (t.wrong > 0) std::printf("wrong first: %s\n", t.first_wrong.c_str());
  std::fflush(stdout);
}

std::string Json(const Row& row) {
  const Tally& t = row.tally;
  return Format(
      R"({{"op":"{}","type":"{}","inputs":{},"budget_ulp":{},"worst_ulp":{:.6f},"at":"{}","misrounded":{},"flushed":{},"wrong":{},"kept":{},"seconds":{:.1f}}})",
      row.op, row.type, t.inputs, row.budget, t.worst, t.Where(row.type == "f64"), t.misrounded, t.flushed, t.wrong,
      row.kept(), row.seconds);
}

int Run(const Options& options) {
  std::vector<Row> rows;
  std::printf(
      "| operation | type | inputs | budget, ULP | worst, ULP | where | not the nearest | wrong | kept |\n|---|---|---:|---:|---:|---|---:|---:|---|\n");
  for (const OpInfo& op : AllOps()) {
    if (!IsElementwise(op.opcode) || (op.types & type_set::kFloat) == 0 || !Chosen(options.ops, op.name)) continue;
    const Truth* truth = FindTruth(op.opcode);
    if (truth == nullptr) {
      if (op.lowering != Lowering::kFormula) continue;
      std::fprintf(stderr, "accuracy_sweep: there is no truth for the formula of %s.\n", std::string(op.name).c_str());
      return 2;
    }
    for (const std::string& type : options.types) {
      Row row{std::string(op.name), type, truth->budget < 0 ? op.ulp : truth->budget, {}, 0};
      if (type == "f32" && truth->unary) row.tally = SweepF32(*truth, options, &row.seconds);
      else if (type == "f32") row.tally = SweepPairs(*truth, options, &row.seconds);
      else if (type == "f64") row.budget = truth->double_budget, row.tally = SweepF64(*truth, options, &row.seconds);
      else if (!truth->unary) continue;
      // At most the one rounding is added to the error of f32: a unit in the last place of the narrow type.
      else
        row.budget = 1,
        row.tally = SweepNarrow(*truth, type == "f16" ? ElementType::kF16 : ElementType::kBF16, options, &row.seconds);
      Print(row);
      rows.push_back(std::move(row));
    }
  }
  bool kept = !rows.empty();
  for (const Row& row : rows) kept &= row.kept();
  if (!options.json.empty()) {
    std::ofstream out(options.json);
    for (std::size_t i = 0; i < rows.size(); ++i) out << (i == 0 ? "[" : ",\n") << Json(rows[i]);
    out << "]\n";
    if (!out.good()) return std::fprintf(stderr, "accuracy_sweep: '%s' cannot be written.\n", options.json.c_str()), 2;
  }
  return kept ? 0 : 1;
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t comma = std::min(list.find(',', at), list.size());
    if (comma > at) out.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return out;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 == argc)
      return std::fprintf(stderr, "accuracy_sweep: '%s' is unknown or lacks its value.\n", flag.c_str()), 2;
    const std::string value = argv[++i];
    const uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
    if (flag == "--types") options.types = Split(value);
    else if (flag == "--ops") options.ops = Split(value);
    else if (flag == "--stride") options.stride = std::max<uint64_t>(1, number);
    else if (flag == "--pairs") options.pairs = std::max<uint64_t>(1, number);
    else if (flag == "--samples") options.samples = std::max<uint64_t>(1, number);
    else if (flag == "--threads") options.threads = static_cast<unsigned>(std::clamp<uint64_t>(number, 1, 256));
    else if (flag == "--json") options.json = value;
    else return std::fprintf(stderr, "accuracy_sweep: unknown argument '%s'.\n", flag.c_str()), 2;
  }
  for (const std::string& type : options.types)
    if (!Chosen({"f32", "f16", "bf16", "f64"}, type))
      return std::fprintf(stderr, "accuracy_sweep: there is no type '%s' here.\n", type.c_str()), 2;
  return Run(options);
}

}  // namespace
}  // namespace krafla::accuracy

int main(int argc, char** argv) { return krafla::accuracy::Main(argc, argv); }
