// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/weights_in_memory.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/index.h"
#include "cpu_fallback/executor/iteration.h"
#include "cpu_fallback/executor/pieces.h"

namespace krafla::cpu {

using plan::ElementProgram;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// A dimension of a program once it has been split: a step along it is `unit` places of dimension `of`.
struct SplitPart {
  int of = 0;
  int64_t extent = 1, unit = 1;
};

// Splits dimensions until the program's indices are as affine as they get.
std::vector<SplitPart> SplitAll(ElementProgram& program) {
  std::vector<SplitPart> parts;
  for (int d = 0; d < static_cast<int>(program.space.dims().size()); ++d)
    parts.push_back({d, program.space.dims()[At(d)], 1});
  const auto next = [&] {
    // Halves between which a condition changes. Quotients come after them, which would hide them.
    const std::optional<Cut> cut = FindCut(program);
    if (cut && cut->at > 1 && 2 * cut->at == program.space.dims()[At(cut->dim)]) return DimSplit{cut->dim, cut->at};
    return FindSplit(program);
  };
  for (DimSplit split = next(); split.dim >= 0; split = next()) {
    program = SplitDim(program, split.dim, split.inner);
    SplitPart& outer = parts[At(split.dim)];
    const SplitPart inner{outer.of, split.inner, outer.unit};
    outer.extent /= split.inner, outer.unit *= split.inner;
    parts.insert(parts.begin() + split.dim + 1, inner);
  }
  return parts;
}

// The only load of a program, which has no mask.
std::optional<NodeId> OnlyLoad(const ElementProgram& program) {
  NodeId load = kNoNode;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (program.nodes[i].op != NodeOp::kLoad) continue;
    if (load != kNoNode || program.nodes[i].mask != kNoNode) return std::nullopt;
    load = static_cast<NodeId>(i);
  }
  return load == kNoNode ? std::nullopt : std::optional(load);
}

int64_t WrappedTo(int64_t value, int bits, bool is_signed) {
  const auto low = static_cast<uint64_t>(value) << (64 - bits);
  return is_signed ? static_cast<int64_t>(low) >> (64 - bits) : static_cast<int64_t>(low >> (64 - bits));
}

// What an operation of 32-bit integers makes of these operands.
std::optional<int64_t> BinaryValue(const Node& n, int64_t a, int64_t b) {
  const auto wrapped = [&](int64_t v) { return WrappedTo(v, 32, IsSigned(n.type)); };
  const int64_t shift = WrappedTo(b, 32, false);
  if (n.opcode == Opcode::kAnd) return a & b;
  if (n.opcode == Opcode::kOr) return a | b;
  if (n.opcode == Opcode::kXor) return a ^ b;
  if (n.opcode == Opcode::kAdd) return wrapped(a + b);
  if (n.opcode == Opcode::kSubtract) return wrapped(a - b);
  if (n.opcode == Opcode::kShiftLeft) return shift > 31 ? 0 : wrapped(a << shift);
  if (n.opcode == Opcode::kShiftRightLogical) return shift > 31 ? 0 : wrapped(WrappedTo(a, 32, false) >> shift);
  if (n.opcode == Opcode::kShiftRightArithmetic) return wrapped(WrappedTo(a, 32, true) >> std::min<int64_t>(shift, 31));
  return std::nullopt;
}

// The result of a program of integers whose only load finds these bits; nothing where it is more than that.
std::optional<int64_t> ResultOf(const ElementProgram& program, uint32_t bits) {
  std::vector<int64_t> values;
  for (const Node& n : program.nodes) {
    if (n.type != ElementType::kS32 && n.type != ElementType::kU32) return std::nullopt;
    const bool is_signed = IsSigned(n.type);
    const auto of = [&](std::size_t o) { return n.operands[o] == kNoNode ? 0 : values[At(n.operands[o])]; };
    if (n.op == NodeOp::kConstant) {
      values.push_back(WrappedTo(static_cast<int64_t>(n.bits), 32, is_signed));
    } else if (n.op == NodeOp::kLoad) {
      values.push_back(WrappedTo(bits, BitWidth(n.storage), IsSigned(n.storage)));
    } else if (n.op == NodeOp::kWrap) {
      values.push_back(WrappedTo(of(0), BitWidth(n.storage), IsSigned(n.storage)));
    } else if (n.op == NodeOp::kConvert || n.op == NodeOp::kBitcast) {
      values.push_back(WrappedTo(of(0), 32, is_signed));
    } else {
      const bool is_binary = n.op == NodeOp::kHlo && n.operands[2] == kNoNode;
      const std::optional<int64_t> made = is_binary ? BinaryValue(n, of(0), of(1)) : std::nullopt;
      if (!made) return std::nullopt;
      values.push_back(*made);
    }
  }
  return values[At(program.results[0])];
}

// What an element of memory holds: `count` codes of so many bits.
struct Packing {
  int count = 1, bits = 8;
  int width() const { return count * bits / 8; }
};

// How the programs make weights out of codes: programs[i] of code i of an element.
std::optional<CodeForm> CodeFormOf(std::span<const ElementProgram> programs, Packing packing, CodeForm::Kind kind) {
  CodeForm form{.kind = kind};
  const uint32_t codes = 1u << packing.bits;
  for (const uint32_t flip : {0u, codes / 2}) {
    bool fits = true;
    for (std::size_t i = 0; fits && i < programs.size(); ++i) {
      // Shifts, masks and sums with constants: bits around a code that change nothing when they are all clear, all set
      // or mixed never do.
      for (const uint32_t around : {0u, ~0u, 0x5a3c96e7u, 0xa5c36918u}) {
        const int shift = packing.bits * static_cast<int>(i);
        for (uint32_t code = 0; fits && code < codes; ++code) {
          const uint32_t bits = (around & ~((codes - 1) << shift)) | code << shift;
          const std::optional<int64_t> value = ResultOf(programs[i], bits);
          if (!value) return std::nullopt;
          if (i == 0 && around == 0 && code == 0) form.zero = static_cast<int32_t>(int64_t{flip} - *value);
          fits = int64_t{code ^ flip} - form.zero == *value;
        }
      }
    }
    form.flip = static_cast<uint8_t>(flip);
    if (fits) return form;
  }
  return std::nullopt;
}

// The last dimensions of an operand's program.
struct Roles {
  Roles(std::size_t dims, bool is_rhs)
      : lines(static_cast<int>(dims) - (is_rhs ? 1 : 2)), depth(static_cast<int>(dims) - (is_rhs ? 2 : 1)) {}
  int lines, depth;
};

// Codes along `packed`, one of the parts, which have an element of memory in common; -1: each has its own.
std::optional<CodesInMemory> CodesAlong(const ElementProgram& program, std::span<const SplitPart> parts, Dims dims,
                                        Roles roles, int packed) {
  Packing packing;
  if (packed >= 0) packing = {static_cast<int>(parts[At(packed)].extent), 4};
  std::vector<ElementProgram> programs;
  if (packed < 0) programs.push_back(Restrict(program, 0, 0, program.space.dims()[0]));
  else
    for (int i = 0; i < packing.count; ++i) programs.push_back(Restrict(program, packed, i, 1));
  CodesInMemory out;
  std::optional<Dims> steps;
  for (ElementProgram& p : programs) {
    const std::optional<NodeId> load = OnlyLoad(p);
    if (!load) return std::nullopt;
    const Node& n = p.nodes[At(*load)];
    const std::optional<Dims> coefficients = AffineCoefficients(p.space, n.index);
    const int64_t offset = p.space.expr(n.index).constant * packing.width();
    if (!IsIntegral(n.storage) || BitWidth(n.storage) != 8 * packing.width() || !coefficients) return std::nullopt;
    if (steps && (*steps != *coefficients || out.offset != offset)) return std::nullopt;
    steps = coefficients, out.offset = offset, out.buffer = n.buffer;
  }
  // Steps of the dimensions' parts are those of the dimensions.
  std::vector<std::optional<int64_t>> strides(dims.size());
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const SplitPart& part = parts[d];
    if (part.extent == 1 || static_cast<int>(d) == packed) continue;
    const bool is_packed = packed >= 0 && part.of == parts[At(packed)].of && parts[At(packed)].unit == 1;
    const int64_t unit = is_packed ? part.unit / packing.count : part.unit;
    std::optional<int64_t>& stride = strides[At(part.of)];
    if ((*steps)[d] % unit != 0 || (stride && *stride != (*steps)[d] / unit)) return std::nullopt;
    stride = (*steps)[d] / unit;
  }
  const int64_t line_stride = strides[At(roles.lines)].value_or(1), depth_stride = strides[At(roles.depth)].value_or(0);
  const bool is_pair = packing.count == 2 && parts[At(packed)].of == roles.depth && parts[At(packed)].unit == 1;
  const bool is_along_depth = line_stride != 1 && depth_stride == 1 && (packed < 0 || is_pair);
  if (line_stride != 1 && !is_along_depth) return std::nullopt;
  out.stride = (is_along_depth ? line_stride : depth_stride) * packing.width();
  for (std::size_t d = 0; d + 2 < dims.size(); ++d)
    out.batch_strides.push_back(strides[d].value_or(0) * packing.width());
  using enum CodeForm::Kind;
  CodeForm::Kind kind = is_along_depth ? kLineBytes : kBytes;
  if (packed >= 0) {
    const SplitPart& part = parts[At(packed)];
    kind = is_along_depth           ? kLinePairs
           : part.of == roles.lines ? kColumnPairs
           : part.unit > 1          ? kHalves
           : part.extent == 2       ? kRowPairs
                                    : kWords;
  }
  const std::optional<CodeForm> form = CodeFormOf(programs, packing, kind);
  if (!form) return std::nullopt;
  out.form = *form;
  return out;
}

}  // namespace

std::optional<CodesInMemory> FindCodesInMemory(const QuantisedWeights& weights, bool is_rhs) {
  const Dims dims = weights.codes.space.dims();
  const Roles roles(dims.size(), is_rhs);
  ElementProgram program = weights.codes;
  const std::vector<SplitPart> parts = SplitAll(program);
  std::vector<int> packed = {-1};
  for (int d = 0; d < static_cast<int>(parts.size()); ++d) {
    const SplitPart& part = parts[At(d)];
    const bool of_depth = part.of == roles.depth;
    const bool is_pair = part.extent == 2, is_whole = weights.group % part.extent == 0;
    if (part.unit == 1 &&
        ((part.of == roles.lines && is_pair) || (of_depth && is_whole && (is_pair || part.extent == 8))))
      packed.push_back(d);
    // Halves of the depth, of whole groups.
    else if (of_depth && is_pair && 2 * part.unit == dims[At(roles.depth)] && part.unit % weights.group == 0)
      packed.push_back(d);
  }
  for (const int dim : packed)
    if (std::optional<CodesInMemory> found = CodesAlong(program, parts, dims, roles, dim)) return found;
  return std::nullopt;
}

std::optional<ScalesInMemory> FindScalesInMemory(const ElementProgram& scales, bool is_rhs, bool of_lines) {
  if (scales.results.empty()) return std::nullopt;
  const Node& n = scales.nodes[At(scales.results[0])];
  if (n.op != NodeOp::kLoad || n.mask != kNoNode) return std::nullopt;
  if (FindIntDot(CodeForm::Kind::kBytes, n.storage) == nullptr) return std::nullopt;
  const std::optional<Dims> coefficients = AffineCoefficients(scales.space, n.index);
  if (!coefficients) return std::nullopt;
  const std::size_t rank = coefficients->size();
  const std::size_t lines = rank - (is_rhs ? 1 : 2), groups = rank - (is_rhs ? 2 : 1);
  const std::size_t along = of_lines ? groups : lines, across = of_lines ? lines : groups;
  if ((*coefficients)[along] != 1 && scales.space.dims()[along] != 1) return std::nullopt;
  return ScalesInMemory{.type = n.storage,
                        .buffer = n.buffer,
                        .offset = scales.space.expr(n.index).constant,
                        .stride = (*coefficients)[across],
                        .batch_strides = Dims(coefficients->begin(), coefficients->end() - 2)};
}

std::optional<WeightKind> WeightKindOf(const QuantisedWeights& weights) {
  using Made = QuantisedWeights::Made;
  const ElementType in = weights.made_in;
  if (!weights.fits_bf16) return std::nullopt;
  if (weights.made == Made::kCodes) return WeightKind::kCodes;
  if (weights.made == Made::kProducts)
    return in == ElementType::kF32   ? WeightKind::kProducts
           : in == ElementType::kF16 ? WeightKind::kF16Products
                                     : WeightKind::kBf16Products;
  if (weights.IsMade(Made::kQuotients, ElementType::kBF16)) return WeightKind::kBf16Quotients;
  return std::nullopt;
}

}  // namespace krafla::cpu
