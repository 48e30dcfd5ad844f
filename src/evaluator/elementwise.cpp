// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/interruption.h"
#include "evaluator/context.h"
#include "evaluator/scalar_program.h"
#include "evaluator/strided.h"

namespace krafla::evaluator {

Result<Value> EvalElementwise(Context& context, const Instruction& i, Operands operands) {
  if (i.opcode() == Opcode::kBitcastConvert) return EvalBitcastConvert(context, i, operands);
  KRAFLA_ASSIGN(BlockOp op, MakeBlockOp(i));
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  KRAFLA_TRY(CutToShape(context, operands, out.shape()));
  const int64_t n = out.shape().element_count();
  bool spread = false;
  for (Value& v : operands) {
    const int64_t count = v.shape().element_count();
    if (count != n && (count != 1 || !v.shape().IsScalar()))
      return InvalidArgument("Operand {} does not have as many elements as the result {}.", v.shape().ToString(false),
                             out.shape().ToString(false));
    spread = spread || count != n;
  }
  const void* in[BlockOp::kMaxArity] = {};
  for (std::size_t o = 0; o < operands.size(); ++o) in[o] = operands[o].array().bytes().data();
  if (!spread) {
    op.Run(in, out.bytes().data(), n);
    return Value::Own(std::move(out));
  }
  // clamp's bounds and select's predicate may be scalars: a block full of each.
  constexpr int64_t kBlock = 512;
  AlignedBytes filled[BlockOp::kMaxArity];
  for (std::size_t o = 0; o < operands.size(); ++o) {
    if (operands[o].shape().element_count() == n) continue;
    const std::size_t bytes = static_cast<std::size_t>(op.in_bytes[o]);
    filled[o] = AlignedBytes(bytes * kBlock, false);
    for (std::size_t k = 0; k < kBlock; ++k) std::memcpy(filled[o].data() + k * bytes, in[o], bytes);
  }
  InterruptionPoll poll;
  for (int64_t at = 0; at < n && !poll.Ends(kBlock); at += kBlock) {
    const void* block[BlockOp::kMaxArity];
    for (std::size_t o = 0; o < operands.size(); ++o)
      block[o] = filled[o].size() > 0 ? filled[o].data() : static_cast<const std::byte*>(in[o]) + at * op.in_bytes[o];
    op.Run(block, out.bytes().data() + at * op.out_bytes, std::min(kBlock, n - at));
  }
  return Value::Own(std::move(out));
}

namespace {

// Types below 8 bits: each element to its pattern in `bits` bits and back.
void PackBits(std::span<const std::byte> in, int bits, std::span<std::byte> out) {
  const std::size_t per = 8 / static_cast<std::size_t>(bits);
  const unsigned mask = (1u << bits) - 1;
  InterruptionPoll poll;
  for (std::size_t k = 0; k < out.size() && !poll.Ends(); ++k) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < per; ++j)
      byte |= (static_cast<unsigned>(in[k * per + j]) & mask) << (j * static_cast<std::size_t>(bits));
    out[k] = static_cast<std::byte>(byte);
  }
}
void UnpackBits(std::span<const std::byte> in, int bits, bool sign, std::span<std::byte> out) {
  const std::size_t per = 8 / static_cast<std::size_t>(bits);
  InterruptionPoll poll;
  for (std::size_t k = 0; k < out.size() && !poll.Ends(); ++k) {
    unsigned v = static_cast<unsigned>(in[k / per]) >> ((k % per) * static_cast<std::size_t>(bits));
    v = (v << (8 - bits)) & 0xffu;
    if (sign) out[k] = static_cast<std::byte>(static_cast<int8_t>(v) >> (8 - bits));
    else out[k] = static_cast<std::byte>(v >> (8 - bits));
  }
}

}  // namespace

Result<Value> EvalBitcastConvert(Context& context, const Instruction& i, Operands operands) {
  const Literal& in = operands[0].array();
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  const ElementType from = in.shape().element_type(), to = out.shape().element_type();
  const int from_bits = BitWidth(from), to_bits = BitWidth(to);
  // The elements as a dense string of bits, low bits first; the last dimension is the one that splits or joins.
  if (in.shape().element_count() * from_bits != out.shape().element_count() * to_bits)
    return InvalidArgument("{} and {} differ in their number of bits.", in.shape().ToString(false),
                           out.shape().ToString(false));
  if (from_bits >= 8 && to_bits >= 8) {
    CopyBytes(in.bytes(), out.bytes().data());
  } else if (from_bits == to_bits) {
    InterruptionPoll poll;
    for (std::size_t k = 0; k < out.bytes().size() && !poll.Ends(); ++k) {
      const unsigned v = (static_cast<unsigned>(in.bytes()[k]) << (8 - to_bits)) & 0xffu;
      const int extended = static_cast<int8_t>(v) >> (8 - to_bits);
      out.bytes()[k] = static_cast<std::byte>(IsSigned(to) ? static_cast<unsigned>(extended) : v >> (8 - to_bits));
    }
  } else if (from_bits < 8 && to_bits >= 8) {
    PackBits(in.bytes(), from_bits, out.bytes());
  } else if (from_bits >= 8) {
    UnpackBits(in.bytes(), to_bits, IsSigned(to), out.bytes());
  } else {
    const std::size_t bits = static_cast<std::size_t>(in.shape().element_count()) * static_cast<std::size_t>(from_bits);
    // Whole bytes, the last one filled up with zeros.
    AlignedBytes padded_in((bits + 7) / 8 * 8 / static_cast<std::size_t>(from_bits));
    CopyBytes(in.bytes(), padded_in.data());
    AlignedBytes packed((bits + 7) / 8);
    PackBits(padded_in.span(), from_bits, packed.span());
    UnpackBits(packed.span(), to_bits, IsSigned(to), out.bytes());
  }
  return Value::Own(std::move(out));
}

Result<Value> EvalMap(Context& context, const Instruction& i, Operands operands) {
  KRAFLA_ASSIGN(Literal out, NewResult(context, i, operands));
  ScalarFunction f(context, *i.called(0));
  const int64_t n = out.shape().element_count();
  KRAFLA_TRY(context.SpendProduct(n, f.cost()));
  std::vector<const void*> in;
  for (const Value& v : operands) {
    if (v.shape().element_count() != n)
      return InvalidArgument("Operand {} does not have as many elements as the result {}.", v.shape().ToString(false),
                             out.shape().ToString(false));
    in.push_back(v.array().bytes().data());
  }
  void* to[] = {out.bytes().data()};
  KRAFLA_TRY(f.Run(in, to, n));
  return Value::Own(std::move(out));
}

}  // namespace krafla::evaluator
