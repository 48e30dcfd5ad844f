// SPDX-License-Identifier: Apache-2.0
#include "op_examples.h"

#include <map>

#include "krafla/status.h"

namespace krafla::cli {
namespace {

// $T the type, $R its real part, $U the unsigned type of its width, $F the transform of fft and $C its result. A line
// without "ENTRY" is a computation that comes before.
const std::map<std::string_view, std::string_view>& Bodies() {
  static const std::map<std::string_view, std::string_view> bodies = {
      {"batch-norm-grad", R"(
        x = $T[2,3,4] parameter(0)  g = $T[3] parameter(1)  m = $T[3] parameter(2)  v = $T[3] parameter(3)
        d = $T[2,3,4] parameter(4)
        ROOT r = ($T[2,3,4], $T[3], $T[3]) batch-norm-grad(x, g, m, v, d), epsilon=0.01, feature_index=1)"},
      {"batch-norm-inference", R"(
        x = $T[2,3,4] parameter(0)  g = $T[3] parameter(1)  b = $T[3] parameter(2)  m = $T[3] parameter(3)
        v = $T[3] parameter(4)
        ROOT r = $T[2,3,4] batch-norm-inference(x, g, b, m, v), epsilon=0.01, feature_index=1)"},
      {"batch-norm-training", R"(
        x = $T[2,3,4] parameter(0)  g = $T[3] parameter(1)  b = $T[3] parameter(2)
        ROOT r = ($T[2,3,4], $T[3], $T[3]) batch-norm-training(x, g, b), epsilon=0.01, feature_index=1)"},
      {"bitcast", "x = $T[4,6] parameter(0) ROOT r = $T[24] bitcast(x)"},
      {"bitcast-convert", "x = $T[24] parameter(0) ROOT r = $U[24] bitcast-convert(x)"},
      {"broadcast", "x = $T[6] parameter(0) ROOT r = $T[4,6] broadcast(x), dimensions={1}"},
      {"cholesky", "x = $T[6,6] parameter(0) ROOT r = $T[6,6] cholesky(x), lower=true"},
      {"clamp", R"(l = $T[24] parameter(0) x = $T[24] parameter(1) h = $T[24] parameter(2)
        ROOT r = $T[24] clamp(l, x, h))"},
      {"compare", "x = $T[24] parameter(0) y = $T[24] parameter(1) ROOT r = pred[24] compare(x, y), direction=EQ"},
      {"concatenate", R"(x = $T[4,6] parameter(0) y = $T[4,5] parameter(1)
        ROOT r = $T[4,11] concatenate(x, y), dimensions={1})"},
      {"convert", "x = $T[24] parameter(0) ROOT r = f32[24] convert(x)"},
      {"convolution", R"(x = $T[2,8,8,3] parameter(0) k = $T[3,3,3,4] parameter(1)
        ROOT r = $T[2,6,6,4] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f)"},
      {"copy", "x = $T[4,6] parameter(0) ROOT r = $T[4,6] copy(x)"},
      {"dot", R"(x = $T[6,8] parameter(0) y = $T[8,5] parameter(1)
        ROOT r = $T[6,5] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0})"},
      {"dynamic-reshape", R"(x = $T[4,6] parameter(0) n = s32[] parameter(1)
        ROOT r = $T[<=24] dynamic-reshape(x, n))"},
      {"dynamic-slice", R"(x = $T[24] parameter(0) i = s32[] parameter(1)
        ROOT r = $T[5] dynamic-slice(x, i), dynamic_slice_sizes={5})"},
      {"dynamic-update-slice", R"(x = $T[24] parameter(0) u = $T[5] parameter(1) i = s32[] parameter(2)
        ROOT r = $T[24] dynamic-update-slice(x, u, i))"},
      {"fft", "x = $T[3,8] parameter(0) ROOT r = $C fft(x), fft_type=$F, fft_length={8}"},
      {"gather", R"(x = $T[7,6] parameter(0) i = s32[5,1] parameter(1)
        ROOT r = $T[5,6] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
          index_vector_dim=1, slice_sizes={1,6})"},
      {"get-dimension-size", "x = $T[<=24] parameter(0) ROOT r = s32[] get-dimension-size(x), dimensions={0}"},
      {"infeed", "t = token[] after-all() ROOT r = ($T[24], token[]) infeed(t)"},
      {"iota", "ROOT r = $T[24] iota(), iota_dimension=0"},
      {"map", R"(f { a = $T[] parameter(0) ROOT b = $T[] add(a, a) }
        ENTRY x = $T[24] parameter(0) ROOT r = $T[24] map(x), dimensions={0}, to_apply=f)"},
      {"outfeed",
       "x = $T[24] parameter(0) t = token[] after-all() ROOT r = token[] outfeed(x, t), outfeed_shape=$T[24]"},
      {"pad", "x = $T[4,6] parameter(0) z = $T[] parameter(1) ROOT r = $T[7,11] pad(x, z), padding=1_2x0_0_1"},
      {"ragged-dot", R"(x = $T[6,8] parameter(0) y = $T[3,8,5] parameter(1) g = s32[3] parameter(2)
        ROOT r = $T[6,5] ragged-dot(x, y, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
          rhs_group_dims={0})"},
      {"reduce", R"(f { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = $T[] add(a, b) }
        ENTRY x = $T[4,6] parameter(0) z = $T[] parameter(1) ROOT r = $T[4] reduce(x, z), dimensions={1}, to_apply=f)"},
      {"reduce-precision", R"(x = $T[24] parameter(0)
        ROOT r = $T[24] reduce-precision(x), exponent_bits=4, mantissa_bits=2)"},
      {"reduce-window", R"(f { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = $T[] add(a, b) }
        ENTRY x = $T[4,6] parameter(0) z = $T[] parameter(1)
        ROOT r = $T[2,3] reduce-window(x, z), window={size=2x2 stride=2x2}, to_apply=f)"},
      {"reshape", "x = $T[4,6] parameter(0) ROOT r = $T[3,8] reshape(x)"},
      {"reverse", "x = $T[4,6] parameter(0) ROOT r = $T[4,6] reverse(x), dimensions={1}"},
      {"rng", R"(a = $T[] parameter(0) b = $T[] parameter(1)
        ROOT r = $T[24] rng(a, b), distribution=rng_uniform)"},
      {"rng-bit-generator", R"(s = u64[2] parameter(0)
        ROOT r = (u64[2], $T[24]) rng-bit-generator(s), algorithm=rng_philox)"},
      {"rng-get-and-update-state", "ROOT r = $T[2] rng-get-and-update-state(), delta=1"},
      {"scaled-dot", R"(x = $T[6,32] parameter(0) y = $T[32,5] parameter(1) a = f8e8m0fnu[6,1] parameter(2)
        b = f8e8m0fnu[1,5] parameter(3)
        ROOT r = f32[6,5] scaled-dot(x, y, a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0})"},
      {"scan",
       R"(f { a = $T[6] parameter(0) b = $T[6] parameter(1) c = $T[6] add(b, a) ROOT t = ($T[6], $T[6]) tuple(c, c) }
        ENTRY x = $T[4,6] parameter(0) i = $T[6] parameter(1)
        ROOT r = ($T[4,6], $T[6]) scan(x, i), dimensions={0}, num_carries=1, is_reverse=false, to_apply=f)"},
      {"scatter", R"(f { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = $T[] add(a, b) }
        ENTRY x = $T[8] parameter(0) i = s32[5,1] parameter(1) u = $T[5] parameter(2)
        ROOT r = $T[8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f)"},
      {"select", R"(p = pred[24] parameter(0) x = $T[24] parameter(1) y = $T[24] parameter(2)
        ROOT r = $T[24] select(p, x, y))"},
      {"select-and-scatter",
       R"(s { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
        f { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = $T[] add(a, b) }
        ENTRY x = $T[8] parameter(0) u = $T[4] parameter(1) z = $T[] parameter(2)
        ROOT r = $T[8] select-and-scatter(x, u, z), window={size=2 stride=2}, select=s, scatter=f)"},
      {"set-dimension-size", R"(x = $T[24] parameter(0) n = s32[] parameter(1)
        ROOT r = $T[<=24] set-dimension-size(x, n), dimensions={0})"},
      {"slice", "x = $T[24] parameter(0) ROOT r = $T[9] slice(x), slice={[3:21:2]}"},
      {"sort", R"(f { a = $T[] parameter(0) b = $T[] parameter(1) ROOT c = pred[] compare(a, b), direction=LT }
        ENTRY x = $T[4,6] parameter(0) ROOT r = $T[4,6] sort(x), dimensions={1}, to_apply=f)"},
      {"stochastic-convert", R"(x = $T[24] parameter(0) u = $U[24] parameter(1)
        ROOT r = s8[24] stochastic-convert(x, u))"},
      {"topk", "x = $T[4,16] parameter(0) ROOT r = ($T[4,3], s32[4,3]) topk(x), k=3, largest=true"},
      {"transpose", "x = $T[4,6] parameter(0) ROOT r = $T[6,4] transpose(x), dimensions={1,0}"},
      {"triangular-solve", R"(a = $T[6,6] parameter(0) b = $T[6,2] parameter(1)
        ROOT r = $T[6,2] triangular-solve(a, b), left_side=true, lower=true, unit_diagonal=false,
          transpose_a=NO_TRANSPOSE)"},
  };
  return bodies;
}

std::string Unsigned(ElementType type) { return Format("u{}", BitWidth(type)); }

void ReplaceAll(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

// One operand after the other, all of the type; the result is what the row's shape rule says.
std::string Elementwise(const OpInfo& op) {
  std::string out, operands;
  for (int o = 0; o < op.arity; ++o) {
    out += Format("p{} = $T[24] parameter({}) ", o, o);
    operands += Format("{}p{}", o == 0 ? "" : ", ", o);
  }
  std::string_view result = "$T";
  if (op.opcode == Opcode::kAbs || op.opcode == Opcode::kReal || op.opcode == Opcode::kImag) result = "$R";
  if (op.opcode == Opcode::kIsFinite) result = "pred";
  if (op.opcode == Opcode::kComplex) result = "$X";
  return out + Format("ROOT r = {}[24] {}({})", result, op.name, operands);
}

}  // namespace

std::vector<ElementType> TypesOf(const OpInfo& op) {
  std::vector<ElementType> out;
  for (int t = 1; t < kElementTypeCount; ++t) {
    const auto type = static_cast<ElementType>(t);
    if (!IsArrayType(type)) continue;
    const uint32_t wanted = type == ElementType::kPred ? type_set::kPred
                            : IsSigned(type)           ? type_set::kSigned
                            : IsUnsigned(type)         ? type_set::kUnsigned
                            : IsFloat(type)            ? type_set::kFloat
                                                       : type_set::kComplex;
    if ((op.types & wanted) != 0) out.push_back(type);
  }
  return out;
}

std::optional<std::string> ExampleOf(const OpInfo& op, ElementType type) {
  std::string body;
  if (auto it = Bodies().find(op.name); it != Bodies().end()) {
    body = it->second;
  } else if (IsElementwise(op.opcode)) {
    body = Elementwise(op);
  } else {
    return std::nullopt;
  }
  const bool complex = IsComplex(type);
  ReplaceAll(body, "$T", ElementTypeName(type));
  ReplaceAll(body, "$R", ElementTypeName(RealPart(type)));
  ReplaceAll(body, "$U", Unsigned(type));
  ReplaceAll(body, "$X", type == ElementType::kF64 ? "c128" : "c64");
  ReplaceAll(body, "$F", complex ? "FFT" : "RFFT");
  ReplaceAll(body, "$C",
             complex ? Format("{}[3,8]", ElementTypeName(type))
                     : Format("{}[3,5]", type == ElementType::kF64 ? "c128" : "c64"));
  const std::size_t entry = body.find("ENTRY");
  const std::string before = entry == body.npos ? "" : body.substr(0, entry);
  const std::string main = entry == body.npos ? body : body.substr(entry + 5);
  return Format("HloModule example\n{}\nENTRY main {{ {}\n}}\n", before, main);
}

}  // namespace krafla::cli
