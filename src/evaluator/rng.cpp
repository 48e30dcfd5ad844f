// SPDX-License-Identifier: Apache-2.0
// Random bits as XLA makes them (xla/hlo/builder/lib/prng.cc, rng_bit_generator_expander.cc), bit for bit; the values
// of rng are free, they come from the same Philox.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/host_memory.h"
#include "base/index.h"
#include "base/interruption.h"
#include "evaluator/block_op.h"
#include "evaluator/context.h"
#include "numerics/rng.h"
#include "numerics/scalar_ops.h"

namespace krafla::evaluator {

namespace {

std::array<uint32_t, 2> Halves(uint64_t x) { return {static_cast<uint32_t>(x), static_cast<uint32_t>(x >> 32)}; }

}  // namespace

Result<Value> EvalRngBitGenerator(Context& context, const Instruction& i, Operands operands) {
  const RngAlgorithm algorithm = i.attr<RngBitGeneratorAttributes>().algorithm;
  const Literal& state = operands[0].array();
  const Shape& result = i.shape();
  const int64_t state_bytes = state.shape().byte_size();
  const bool pair = result.IsTuple() && result.tuple_elements().size() == 2;
  if (!pair || state_bytes < 16 || state_bytes % 8 != 0)
    return InvalidArgument("rng-bit-generator takes a state of at least 16 bytes, not {}, and returns (state, bits).",
                           state.shape().ToString(false));
  const Shape bits_shape = result.tuple_elements()[1].WithStaticDims();
  KRAFLA_TRY(context.SpendProduct(bits_shape.element_count(), 16));
  KRAFLA_ASSIGN(Literal bits, NewLiteral(context, bits_shape));
  KRAFLA_ASSIGN(Literal next, Literal::FromBytes(state.shape(), state.bytes()));
  std::vector<uint64_t> s(At(state_bytes / 8));
  std::memcpy(s.data(), state.bytes().data(), At(state_bytes));
  const int64_t n = bits_shape.element_count();
  const int bytes = StorageBytes(bits_shape.element_type());
  const RngMethod method = algorithm == RngAlgorithm::kThreeFry ? RngMethod::kThreeFry
                           : algorithm == RngAlgorithm::kPhilox ? RngMethod::kPhilox
                                                                : kDefaultRngMethod;
  KRAFLA_ASSIGN(RngPlan plan, PlanRng(method, static_cast<int64_t>(s.size()), bits_shape.dims(), bytes == 8 ? 64 : 32));
  const RngStart start = StartOf(plan, s);
  InterruptionPoll poll;
  if (bytes == 8) {
    for (int64_t k = 0; k < n && !poll.Ends(); ++k)
      bits.data<uint64_t>()[At(k)] = RngElement(plan, start, static_cast<uint64_t>(k));
  } else {
    // Narrow elements keep the low bits of 32.
    constexpr int64_t kBlock = 512;
    uint32_t random[kBlock];
    const void* in[] = {random};
    const BlockOp convert = MakeConvert(ElementType::kU32, bits_shape.element_type());
    for (int64_t at = 0; at < n && !poll.Ends(kBlock); at += kBlock) {
      const int64_t count = std::min(kBlock, n - at);
      for (int64_t k = 0; k < count; ++k)
        random[k] = static_cast<uint32_t>(RngElement(plan, start, static_cast<uint64_t>(at + k)));
      std::byte* to = bits.bytes().data() + at * bytes;
      if (bytes == 4) std::memcpy(to, random, At(4 * count));
      if (bytes == 2)
        for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint16_t*>(to)[k] = static_cast<uint16_t>(random[k]);
      if (bytes == 1) convert.Run(in, to, count);
    }
  }
  const std::array<uint64_t, 3> after = NextState(plan, s);
  std::memcpy(next.bytes().data(), after.data(), At(state_bytes));
  std::vector<Value> elements;
  elements.push_back(Value::Own(std::move(next)));
  elements.push_back(Value::Own(std::move(bits)));
  return Value::Tuple(std::move(elements));
}

Result<Value> EvalRng(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const int64_t n = out.shape().element_count();
  KRAFLA_TRY(context.SpendProduct(n, 16));
  const ElementType type = out.shape().element_type();
  // Each rng of a run has a stream of its own.
  const uint64_t stream = context.rng_calls++;
  const auto key = Halves(context.host->rng_seed ^ 0x9e3779b97f4a7c15u), number = Halves(stream);
  auto block = [&](int64_t k, uint32_t* words) {
    const auto low = Halves(static_cast<uint64_t>(k));
    std::ranges::copy(Philox4x32(ScalarOps{}, {low[0], low[1], number[0], number[1]}, key), words);
  };
  auto unit = [](uint32_t low, uint32_t high) {  // [0, 1), 53 bits
    return static_cast<double>((uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  };
  InterruptionPoll poll;
  const bool normal = i.attr<RngAttributes>().distribution == RngDistribution::kNormal;
  if (type == ElementType::kPred || (IsIntegral(type) && !normal)) {
    uint64_t range[2];
    for (std::size_t o = 0; o < 2; ++o) {
      const void* in[] = {operands[o].array().bytes().data()};
      MakeConvert(type, ElementType::kU64).Run(in, &range[o], 1);
    }
    HostVector<uint64_t> values(At(n));
    const uint64_t width = range[1] - range[0];
    for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
      uint32_t w[4];
      block(k, w);
      const uint64_t x = uint64_t{w[1]} << 32 | w[0];
      // The high half of x * width, nearly free of bias.
      values[At(k)] = range[0] + static_cast<uint64_t>((static_cast<unsigned __int128>(x) * width) >> 64);
    }
    const void* in[] = {values.data()};
    MakeConvert(ElementType::kU64, type).Run(in, out.bytes().data(), n);
    return Value::Own(std::move(out));
  }
  if (!IsFloat(type)) return Unimplemented("An rng cannot return {}.", ElementTypeName(type));
  double range[2];
  for (std::size_t o = 0; o < 2; ++o) {
    const void* in[] = {operands[o].array().bytes().data()};
    MakeConvert(type, ElementType::kF64).Run(in, &range[o], 1);
  }
  HostVector<double> values(At(n));
  // A type's own precision, rounded down, so that rounding cannot reach the open end.
  const int bits = type == ElementType::kF64 ? 53 : type == ElementType::kF32 ? 24 : type == ElementType::kF16 ? 11 : 8;
  const double grain = std::ldexp(1.0, bits);
  for (int64_t k = 0; k < n && !poll.Ends(); ++k) {
    uint32_t w[4];
    block(k, w);
    if (normal) {
      const double radius = std::sqrt(-2 * std::log(1 - unit(w[0], w[1])));
      values[At(k)] = range[0] + range[1] * radius * std::cos(2 * std::numbers::pi * unit(w[2], w[3]));
    } else {
      const double u = std::floor(unit(w[0], w[1]) * grain) / grain;
      values[At(k)] = range[0] + u * (range[1] - range[0]);
    }
  }
  const void* in[] = {values.data()};
  MakeConvert(ElementType::kF64, type).Run(in, out.bytes().data(), n);
  if (!normal && type == ElementType::kF32) {
    const float open = static_cast<float>(range[1]);
    for (float& v : out.data<float>()) {
      if (poll.Ends()) break;
      if (v >= open && range[0] < range[1]) v = std::nextafter(open, static_cast<float>(range[0]));
    }
  }
  return Value::Own(std::move(out));
}

// XLA:CPU keeps a 128-bit counter an instruction that starts at 0x7012395 (rng_get_and_update_state_expander.cc).
Result<Value> EvalRngGetAndUpdateState(Context& context, const Instruction& i, Operands) {
  const unsigned __int128 first = static_cast<unsigned __int128>(context.host->rng_seed) + 0x7012395u;
  auto [at, fresh] = context.rng_states.try_emplace(&i, first);
  const unsigned __int128 state = at->second;
  at->second += static_cast<unsigned __int128>(static_cast<__int128>(i.attr<RngStateAttributes>().delta));
  KRAFLA_ASSIGN(Literal out, Literal::Create(i.shape()));
  if (out.bytes().size() != 16) return InvalidArgument("The result of rng-get-and-update-state is u64[2].");
  const uint64_t words[2] = {static_cast<uint64_t>(state), static_cast<uint64_t>(state >> 64)};
  std::memcpy(out.bytes().data(), words, 16);
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
