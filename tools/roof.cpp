// SPDX-License-Identifier: Apache-2.0
#include "roof.h"

#include <algorithm>
#include <array>

#include "api/front_end.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "prepare.h"

namespace krafla::cli {
namespace {

constexpr int64_t kRows = 768;           // of the matrices, at the least ...
constexpr int64_t kMostRows = 6144;      // ... and at the most
constexpr double kLongMs = 4;            // a product that takes as long hides what a submission costs
constexpr int64_t kElements = 24 << 20;  // of the arrays
constexpr double kNoCopyMs = 0.02;       // no memory moves the arrays in that time
constexpr int kChain = 256;              // launches, one after the other

// The least time of a run, in milliseconds.
Result<double> LeastOf(Executable& program) {
  KRAFLA_TRY(program.Execute());
  double least = 0;
  const Stopwatch all;
  for (int n = 0; n < 8 && (n < 3 || all.Milliseconds() < 200); ++n) {
    const Stopwatch one;
    KRAFLA_TRY(program.Execute());
    least = n == 0 ? one.Milliseconds() : std::min(least, one.Milliseconds());
  }
  return least;
}

Result<Prepared> PrepareText(Client& client, const CompileOptions& options, const std::string& text) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  return PrepareAlone(std::move(module), nullptr, client, options);
}

Result<double> Least(Client& client, const CompileOptions& options, const std::string& text) {
  KRAFLA_ASSIGN(Prepared prepared, PrepareText(client, options, text));
  return LeastOf(*prepared.alone);
}

// Operations in a second, in a product that is large enough for the device.
Result<double> MatrixRate(Client& client, const CompileOptions& options, const char* from, const char* to) {
  for (int64_t rows = kRows;; rows *= 2) {
    KRAFLA_ASSIGN(const double ms, Least(client, options,
                                         Format(R"(HloModule product
ENTRY main {{
  a = {1}[{0},{0}] parameter(0)
  b = {1}[{0},{0}] parameter(1)
  ROOT c = {2}[{0},{0}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                                                rows, from, to)));
    const auto n = static_cast<double>(rows);
    if (ms >= kLongMs || 2 * rows > kMostRows) return 2 * n * n * n / (ms * 1e-3);
  }
}

// Bytes in a second: of a copy both those that are read and those that are written.
Result<double> CopyRate(Client& client, const CompileOptions& options) {
  KRAFLA_ASSIGN(const double ms, Least(client, options,
                                       Format(R"(HloModule move
ENTRY main {{
  a = f32[{0}] parameter(0)
  ROOT b = f32[{0}] negate(a)
}})",
                                              kElements)));
  return 8.0 * static_cast<double>(kElements) / (ms * 1e-3);
}

Result<double> ReadRate(Client& client, const CompileOptions& options) {
  KRAFLA_ASSIGN(const double ms, Least(client, options,
                                       Format(R"(HloModule read
larger {{
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] maximum(x, y)
}}
ENTRY main {{
  a = f32[{0},4096] parameter(0)
  zero = f32[] constant(0)
  ROOT b = f32[{0}] reduce(a, zero), dimensions={{1}}, to_apply=larger
}})",
                                              kElements / 4096)));
  return 4.0 * static_cast<double>(kElements) / (ms * 1e-3);
}

Result<double> WriteRate(Client& client, const CompileOptions& options) {
  KRAFLA_ASSIGN(const double ms, Least(client, options,
                                       Format(R"(HloModule write
ENTRY main {{
  a = f32[] parameter(0)
  ROOT b = f32[{0}] broadcast(a), dimensions={{}}
}})",
                                              kElements)));
  return 4.0 * static_cast<double>(kElements) / (ms * 1e-3);
}

// A submission of `length` kernels of one number each, every one of which waits for the one before. Each reads an
// argument of its own order, so that nothing folds them; without fusion they stay kernels.
Result<std::pair<double, int>> ChainMs(Client& client, CompileOptions options, int length) {
  options.disabled.insert("fusion");
  options.disabled.insert("loops");
  std::string text = "HloModule chain\nENTRY main {\n  a = f32[16] parameter(0)\n  x0 = f32[16] parameter(1)\n";
  for (int n = 1; n <= length; ++n)
    text += Format("  {}x{} = f32[16] {}(x{}, a)\n", n == length ? "ROOT " : "", n, n % 2 ? "add" : "multiply", n - 1);
  KRAFLA_ASSIGN(Prepared prepared, PrepareText(client, options, text + "}\n"));
  KRAFLA_ASSIGN(const double ms, LeastOf(*prepared.alone));
  return std::pair(ms, prepared.report.launches);
}

Result<double> SubmitSeconds(Client& client, const CompileOptions& options) {
  KRAFLA_ASSIGN(const auto one, ChainMs(client, options, 1));
  return one.first * 1e-3;
}

Result<double> LaunchSeconds(Client& client, const CompileOptions& options) {
  KRAFLA_ASSIGN(const auto few, ChainMs(client, options, 1));
  KRAFLA_ASSIGN(const auto many, ChainMs(client, options, kChain));
  if (many.second <= few.second)
    return FailedPrecondition("A chain of {} kernels became {} launches, and tells nothing.", kChain, many.second);
  return std::max(0.0, many.first - few.first) * 1e-3 / (many.second - few.second);
}

// Bytes in a second; `to` or from the device.
Result<double> TransferRate(Client& client, bool to) {
  KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(ElementType::kF32, std::array<int64_t, 1>{kElements}));
  KRAFLA_ASSIGN(Literal made, Literal::Create(shape));
  const auto literal = std::make_shared<const Literal>(std::move(made));
  double least = 0;
  for (int n = 0; n < 4; ++n) {
    const Stopwatch there;
    KRAFLA_ASSIGN(const auto buffer, client.ToDevice(literal));
    KRAFLA_TRY(buffer->Wait());
    double ms = there.Milliseconds();
    if (!to) {
      const Stopwatch back;
      KRAFLA_ASSIGN(const auto copy, buffer->ToLiteral());
      ms = back.Milliseconds();
    }
    if (n > 0) least = n == 1 ? ms : std::min(least, ms);  // the first one allocates
  }
  if (least < kNoCopyMs) return FailedPrecondition("Nothing is copied, as the device works in the host's memory.");
  return 4.0 * static_cast<double>(kElements) / (least * 1e-3);
}

}  // namespace

double Roof::ShareOf(double flops, double bytes, double ms) const {
  if (ms <= 0) return 0;
  const double arithmetic = flops_per_s > 0 ? flops / (ms * 1e-3) / flops_per_s : 0;
  const double memory = bytes_per_s > 0 ? bytes / (ms * 1e-3) / bytes_per_s : 0;
  return std::max(arithmetic, memory);
}

Result<Roof> MeasureRoof(Client& client, const CompileOptions& options) {
  Roof out;
  KRAFLA_ASSIGN(out.flops_per_s, MatrixRate(client, options, "f32", "f32"));
  KRAFLA_ASSIGN(out.bytes_per_s, CopyRate(client, options));
  return out;
}

std::vector<Rate> MeasureRates(Client& client, const CompileOptions& options) {
  CompileOptions strict = options;
  strict.strict = true;  // a rate of the CPU in the device's place would be none
  std::vector<Rate> out;
  const auto add = [&](const char* name, const char* unit, const Result<double>& rate) {
    out.push_back(rate ? Rate{name, unit, *rate, ""} : Rate{name, unit, 0, rate.error().message()});
  };
  add("copy", "bytes/s", CopyRate(client, strict));
  add("read", "bytes/s", ReadRate(client, strict));
  add("write", "bytes/s", WriteRate(client, strict));
  add("matrix_f32", "flop/s", MatrixRate(client, strict, "f32", "f32"));
  add("matrix_f16", "flop/s", MatrixRate(client, strict, "f16", "f16"));
  add("matrix_bf16", "flop/s", MatrixRate(client, strict, "bf16", "bf16"));
  add("matrix_s8", "flop/s", MatrixRate(client, strict, "s8", "s32"));
  add("launch", "s", LaunchSeconds(client, strict));
  add("submit_and_wait", "s", SubmitSeconds(client, strict));
  add("to_device", "bytes/s", TransferRate(client, true));
  add("from_device", "bytes/s", TransferRate(client, false));
  return out;
}

}  // namespace krafla::cli
