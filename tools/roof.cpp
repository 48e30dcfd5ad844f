// SPDX-License-Identifier: Apache-2.0
#include "roof.h"

#include <algorithm>

#include "api/front_end.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "prepare.h"

namespace krafla::cli {
namespace {

constexpr int64_t kRows = 768;           // of the matrices
constexpr int64_t kElements = 24 << 20;  // of the arrays

// The least time of a run, in milliseconds.
Result<double> Least(Client& client, const CompileOptions& options, const std::string& text) {
  KRAFLA_ASSIGN(std::unique_ptr<Module> module, ParseHloText(text));
  KRAFLA_ASSIGN(Prepared prepared, PrepareAlone(std::move(module), nullptr, client, options));
  KRAFLA_TRY(prepared.alone->Execute());
  double least = 0;
  const Stopwatch all;
  for (int n = 0; n < 8 && (n < 3 || all.Milliseconds() < 200); ++n) {
    const Stopwatch one;
    KRAFLA_TRY(prepared.alone->Execute());
    least = n == 0 ? one.Milliseconds() : std::min(least, one.Milliseconds());
  }
  return least;
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
  KRAFLA_ASSIGN(const double product, Least(client, options,
                                            Format(R"(HloModule product
ENTRY main {{
  a = f32[{0},{0}] parameter(0)
  b = f32[{0},{0}] parameter(1)
  ROOT c = f32[{0},{0}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}})",
                                                   kRows)));
  out.flops_per_s = 2.0 * kRows * kRows * kRows / (product * 1e-3);
  KRAFLA_ASSIGN(const double move, Least(client, options,
                                         Format(R"(HloModule move
ENTRY main {{
  a = f32[{0}] parameter(0)
  ROOT b = f32[{0}] negate(a)
}})",
                                                kElements)));
  out.bytes_per_s = 8.0 * static_cast<double>(kElements) / (move * 1e-3);
  return out;
}

}  // namespace krafla::cli
