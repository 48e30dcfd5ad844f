// SPDX-License-Identifier: Apache-2.0
// Arithmetic and structured control flow over Module. Where operands have widths 1 and n, the scalar is repeated n
// times. Integer and boolean arithmetic on constants is folded.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "spirv_codegen/module.h"

namespace krafla::spirv {

using Values = std::vector<Value>;

enum class Cmp : uint8_t { kEq, kNe, kULt, kULe, kUGt, kUGe, kSLt, kSLe, kSGt, kSGe };
enum class FCmp : uint8_t { kEq, kNeUnordered, kLt, kLe, kGt, kGe };

// What drivers are told of a loop: to decide, or to leave it a loop. A few turns of much work, written out, have so
// many values at once that those of some drivers do not fit the registers.
enum class Unroll : uint8_t { kIfItPays, kNever };

class Builder {
 public:
  explicit Builder(Module& module) : m(module) {}
  Module& m;
  // Whether float arithmetic is NoContraction. Only the sums of contraction kernels do without.
  bool strict = true;

  Value U32(uint32_t v) { return m.U32(v); }
  Value F32(float v);
  Value Float(Kind kind, double v);  // of kF32 or kF64
  Value Const(Kind kind, uint64_t bits) { return m.Constant(kind, bits); }
  Value Iota(int width);  // u32 (0, 1, ..)
  Value Zero(Kind kind, int width = 1) { return Splat(m.Constant(kind, 0), width); }

  Value Splat(Value v, int width);
  Value Extract(Value v, int lane);
  Value Composite(std::span<const Value> lanes);  // 2 or 4 scalars
  Value Shuffle(Value a, Value b, std::span<const uint32_t> lanes);

  // Integers of any width, whose arithmetic wraps around.
  Value Add(Value a, Value b);
  Value Sub(Value a, Value b);
  Value Mul(Value a, Value b);
  Value UDiv(Value a, Value b);  // b not zero
  Value UMod(Value a, Value b);
  Value SDiv(Value a, Value b);  // b not zero, no overflow
  Value And(Value a, Value b);
  Value Or(Value a, Value b);
  Value Xor(Value a, Value b);
  Value Not(Value a);
  Value Shl(Value a, Value s);  // s within the width; any integer kind
  Value Shr(Value a, Value s);
  Value Sar(Value a, Value s);
  Value Neg(Value a);
  Value UMulHi(Value a, Value b);
  Value SMulHi(Value a, Value b);
  Value BitCount(Value a);  // 32 bits
  Value FindUMsb(Value a);  // 32 bits; -1 for 0
  Value Compare(Cmp cmp, Value a, Value b);
  Value Min(Value a, Value b);  // unsigned
  Value SMin(Value a, Value b);
  Value SMax(Value a, Value b);
  Value UMax(Value a, Value b);

  // Booleans.
  Value LAnd(Value a, Value b);
  Value LOr(Value a, Value b);
  Value LNot(Value a);
  Value LEqual(Value a, Value b);
  Value LNotEqual(Value a, Value b);
  Value Any(Value a);
  Value All(Value a);
  Value Select(Value c, Value a, Value b);

  // Floats.
  Value FAdd(Value a, Value b);
  Value FSub(Value a, Value b);
  Value FMul(Value a, Value b);
  Value FDiv(Value a, Value b);
  Value FNeg(Value a);
  Value FCompare(FCmp cmp, Value a, Value b);
  Value IsNan(Value a);
  Value Glsl(uint32_t instruction, std::initializer_list<Value> operands, Kind kind, int width);

  // Conversions.
  Value Bitcast(Value a, Kind kind);               // same width of each lane
  Value BitcastTo(Value a, Kind kind, int width);  // the same total bits
  Value UConvert(Value a, Kind kind);
  Value SConvert(Value a, Kind kind);  // sign-extends
  Value UToF(Value a, Kind kind);
  Value SToF(Value a, Kind kind);
  Value FToU(Value a, Kind kind);  // in range
  Value FToS(Value a, Kind kind);
  Value FConvert(Value a, Kind kind);

  // Control flow.
  void If(Value condition, const std::function<void()>& then);
  Values If(Value condition, const std::function<Values()>& then, const std::function<Values()>& otherwise);
  // Gives the values for which `condition` was false.
  Values While(const Values& initial, const std::function<Value(const Values&)>& condition,
               const std::function<Values(const Values&)>& body, Unroll unroll = Unroll::kIfItPays);
  // for (u32 i = begin; i < end; i += step)
  Values For(Value begin, Value end, Value step, const Values& carried,
             const std::function<Values(Value, const Values&)>& body, Unroll unroll = Unroll::kIfItPays);
  void For(Value begin, Value end, Value step, const std::function<void(Value)>& body,
           Unroll unroll = Unroll::kIfItPays);

  // Memory and synchronisation.
  // Whether a load that is made here may be made without an active lane (Workarounds::loads_without_lanes), and an
  // index into `count` elements for it: one that is within them then, too.
  bool MayLoadWithoutLanes() const { return m.workarounds().loads_without_lanes && m.in_construct(); }
  Value Within(Value index, int64_t count);
  Id SharedArray(Kind kind, int width, uint32_t count);
  int64_t shared_bytes() const { return shared_bytes_; }  // of the arrays so far
  Value LoadShared(Id array, Kind kind, int width, Value index);
  void StoreShared(Id array, Value index, Value value);
  void StoreSharedLane(Id array, Value index, Value lane, Value value);  // a lane of a vector of the array
  void WorkgroupBarrier();                                               // also orders workgroup memory
  void BufferBarrier();    // orders the invocations' accesses to buffers too; the buffers have to be coherent
  void SubgroupBarrier();  // the same within a subgroup
  void SubgroupBufferBarrier();
  Value LoadPrologue(Id variable, Kind kind, int width);  // of an Input variable
  Value WorkgroupId(int axis);
  // From here on workgroups are numbered, along the first axis, from this one on.
  void NumberGroupsFrom(uint32_t first) { first_group_ = first; }
  Value LocalIndex();
  Value SubgroupId();  // within the workgroup
  Value SubgroupLane();
  Value SubgroupShuffleXor(Value v, uint32_t mask);
  Value SubgroupBroadcast(Value v, uint32_t lane);  // by a constant lane

  Id TypeOf(Value v) { return m.Type(v.kind, v.width); }
  Value Unary(spv::Op op, Value a, Kind kind);
  Value Binary(spv::Op op, Value a, Value b, Kind kind, bool no_contraction = false);

 private:
  Value FloatToWord(spv::Op op, Value a, Kind kind);
  Value MulHi(spv::Op extended, Value a, Value b);  // the high half of what `extended` gives
  Value OfAllLanes(spv::Op op, Value a);            // reduces the booleans of all lanes to one
  bool Const2(Value a, Value b, uint64_t& x, uint64_t& y);
  Value ConstLike(Value like, int width, uint64_t bits) { return Splat(m.Constant(like.kind, bits), width); }
  void Branch(Id target);
  void Barrier(spv::Scope scope, bool buffers = false);

  uint32_t first_group_ = 0;
  int64_t shared_bytes_ = 0;
  std::map<Id, uint32_t> shared_counts_;  // elements of each array
  Value workgroup_id_, local_index_, subgroup_id_, lane_;
};

}  // namespace krafla::spirv
