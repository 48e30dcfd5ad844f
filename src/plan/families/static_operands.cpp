// SPDX-License-Identifier: Apache-2.0
#include "plan/families/static_operands.h"

#include "plan/program_emitter.h"

namespace krafla::plan {
namespace {

// Elements whose offsets fit 32 bits, also as parts of complex numbers and in buffers padded to a power of two.
constexpr int64_t kMostElements = int64_t{1} << 28;

bool StaticArray(const Shape& shape) {
  return shape.IsArray() && !shape.IsDynamic() && shape.element_count() < kMostElements;
}

}  // namespace

bool HasStaticOperands(const Instruction& i) {
  int64_t computed = 0;
  for (const Shape* s : TupleLeaves(i.shape())) {
    if (!StaticArray(*s)) return false;
    computed += s->element_count();
  }
  for (const Instruction* o : i.operands())
    if (!StaticArray(o->shape()) || (computed > 0 && o->shape().element_count() == 0)) return false;
  return true;
}

bool HasRealStaticOperands(const Instruction& i) {
  for (const Instruction* o : i.operands())
    if (!o->shape().IsArray() || IsComplex(o->shape().element_type()) || o->shape().IsDynamic() ||
        o->shape().element_count() >= (int64_t{1} << 30))
      return false;
  return true;
}

bool IsEmittableOnScalars(const Computation& c) {
  for (const auto& i : c.instructions()) {
    if (IsOneOf(i->opcode(), {Opcode::kParameter, Opcode::kTuple})) continue;
    if (!IsEmittable(*i) || i->shape().rank() != 0) return false;
  }
  for (const Instruction* p : c.parameters())
    if (IsComplex(p->shape().element_type())) return false;
  const int leaves = static_cast<int>(LeafCount(c.root()->shape()));
  for (int leaf = 0; leaf < leaves; ++leaf)
    if (IsComplex(LeafShape({c.root(), leaf}).element_type())) return false;
  return true;
}

}  // namespace krafla::plan
