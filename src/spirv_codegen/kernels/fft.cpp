// SPDX-License-Identifier: Apache-2.0
// FftKernel: one dispatch for each pass of fft_passes.h. An invocation does one butterfly in registers or, where the
// radix is a large prime, sums up one point.
#include <bit>

#include "base/checked_math.h"
#include "spirv_codegen/kernels/fft_passes.h"
#include "spirv_codegen/kernels/numbers.h"
#include "spirv_codegen/scalar_ops.h"

namespace krafla::spirv {
namespace {

using Form = FftPass::Form;
constexpr int kMostRadix = 16;

struct ButterflyOps {
  using V = Value;
  Builder& b;
  Numbers& numbers;
  V Add(V x, V y) { return b.FAdd(x, y); }
  V Sub(V x, V y) { return b.FSub(x, y); }
  V Mul(V x, V y) { return b.FMul(x, y); }
  V Neg(V x) { return b.FNeg(x); }
  V MulAdd(V x, V y, V z) { return b.FAdd(z, b.FMul(x, y)); }
  V NegMulAdd(V x, V y, V z) { return b.FSub(z, b.FMul(x, y)); }
  Number Root(int k, int n) {
    const std::complex<double> w = RootOfUnity(k, n, 1);
    return {numbers.Constant(w.real()), numbers.Constant(w.imag())};
  }
};

template <int R = kMostRadix>
void RunButterfly(ButterflyOps& ops, std::vector<Number>& x, int sign) {
  if constexpr (R >= 1) {
    if (x.size() == R) return Butterfly<R>(ops, x.data(), sign);
    RunButterfly<R - 1>(ops, x, sign);
  }
}

class PassEmitter {
 public:
  PassEmitter(KernelWriter& w, const plan::FftKernel& fft, const FftPass& pass, int from, int to, int table)
      : b_(w.b),
        buffers_(w.buffers),
        real_(fft.real),
        numbers_(w, fft.real == ElementType::kF64 ? ElementType::kC128 : ElementType::kC64),
        p_(pass),
        from_(from),
        to_(to),
        table_(table) {}

  // The invocations of a pass: one for each butterfly, or for each point of a direct sum.
  static int64_t Items(const FftPass& p) {
    return p.outer * p.inner * (p.radix > kMostRadix ? p.points : p.points / p.radix);
  }

  void Emit(Value item) {
    const Value rest = b_.UDiv(item, U32(p_.inner));
    beside_ = b_.Sub(item, b_.Mul(rest, U32(p_.inner)));
    const int64_t each = Items(p_) / (p_.outer * p_.inner);
    line_ = b_.UDiv(rest, U32(each));
    const Value within = b_.Sub(rest, b_.Mul(line_, U32(each)));
    if (p_.radix > kMostRadix) EmitDirect(within);
    else EmitButterfly(within);
  }

 private:
  Value U32(int64_t v) { return b_.U32(static_cast<uint32_t>(v)); }

  void EmitButterfly(Value i) {
    const int64_t stride = p_.points / p_.radix;
    const Value block = b_.UDiv(i, U32(p_.done)), k = b_.Sub(i, b_.Mul(block, U32(p_.done)));
    std::vector<Number> x;
    for (int q = 0; q < p_.radix; ++q) {
      Number v = Read(b_.Add(i, U32(q * stride)));
      if (q > 0 && p_.done > 1) v = numbers_.Mul(v, Twiddle(b_.Mul(k, U32(q * (stride / p_.done)))));
      x.push_back(v);
    }
    ButterflyOps ops{b_, numbers_};
    RunButterfly(ops, x, p_.sign);
    const Value first = b_.Add(b_.Mul(block, U32(p_.done * p_.radix)), k);
    for (int q = 0; q < p_.radix; ++q) Write(b_.Add(first, U32(q * p_.done)), x[static_cast<std::size_t>(q)]);
  }

  void EmitDirect(Value point) {
    const int64_t stride = p_.points / p_.radix;
    const Value above = b_.UDiv(point, U32(p_.done)), k = b_.Sub(point, b_.Mul(above, U32(p_.done)));
    const Value block = b_.UDiv(above, U32(p_.radix)), t = b_.Sub(above, b_.Mul(block, U32(p_.radix)));
    const Value i = b_.Add(b_.Mul(block, U32(p_.done)), k);
    // k and t count less than their radices, so that the angle of one step is less than a turn and a bit.
    const Value raw = b_.Add(b_.Mul(k, U32(stride / p_.done)), b_.Mul(t, U32(stride)));
    const Value step = b_.UMod(raw, U32(p_.points));
    const Number zero = numbers_.Real(0);
    const Values sum =
        b_.For(b_.U32(0), U32(p_.radix), b_.U32(1), {zero.re, zero.im, b_.U32(0)}, [&](Value q, const Values& carried) {
          const Number x = numbers_.Mul(Read(b_.Add(i, b_.Mul(q, U32(stride)))), Twiddle(carried[2]));
          const Value next = b_.Add(carried[2], step);
          const Value wrapped =
              b_.Select(b_.Compare(Cmp::kUGe, next, U32(p_.points)), b_.Sub(next, U32(p_.points)), next);
          return Values{b_.FAdd(carried[0], x.re), b_.FAdd(carried[1], x.im), wrapped};
        });
    Write(point, {sum[0], sum[1]});
  }

  Number Twiddle(Value t) { return Table(p_.twiddles, t); }
  Number Table(int64_t offset, Value t) { return numbers_.LoadWide(table_, b_.Add(t, U32(offset))); }

  Value Address(Value e, int64_t stored) {
    const Value at = b_.Add(b_.Mul(line_, U32(stored)), e);
    return b_.Add(b_.Mul(at, U32(p_.inner)), beside_);
  }

  Number Read(Value e) {
    if (p_.points_in == p_.points) return ReadInside(e);
    const Number zero = numbers_.Real(0);
    const Values got = b_.If(
        b_.Compare(Cmp::kULt, e, U32(p_.points_in)),
        [&] {
          const Number v = ReadInside(e);
          return Values{v.re, v.im};
        },
        [&] { return Values{zero.re, zero.im}; });
    return {got[0], got[1]};
  }

  Number ReadInside(Value e) {
    Number v;
    if (p_.read == Form::kReal) {
      const Value bits = buffers_.Load(from_, StorageBytes(real_), Address(e, p_.stored_in), 1, Kind::kF64);
      v = {FromStorage(b_, real_, bits), numbers_.Constant(0)};
    } else if (p_.read == Form::kHalf) {
      const int64_t n = p_.points_in;
      const Value mirrored = b_.Compare(Cmp::kUGt, e, U32(n / 2));
      v = numbers_.LoadWide(from_, Address(b_.Select(mirrored, b_.Sub(U32(n), e), e), p_.stored_in));
      v.im = b_.Select(mirrored, b_.FNeg(v.im), v.im);
      // The first and the last number of the half are taken as real.
      Value real = b_.Compare(Cmp::kEq, e, b_.U32(0));
      if (n % 2 == 0) real = b_.LOr(real, b_.Compare(Cmp::kEq, e, U32(n / 2)));
      v.im = b_.Select(real, numbers_.Constant(0), v.im);
    } else {
      v = numbers_.LoadWide(from_, Address(e, p_.stored_in));
    }
    return p_.multiply_in < 0 ? v : numbers_.Mul(v, Table(p_.multiply_in, e));
  }

  void Write(Value e, Number v) {
    if (p_.stored_out == p_.points) return WriteInside(e, v);
    b_.If(b_.Compare(Cmp::kULt, e, U32(p_.stored_out)), [&] { WriteInside(e, v); });
  }

  void WriteInside(Value e, Number v) {
    if (p_.multiply_out >= 0) v = numbers_.Mul(v, Table(p_.multiply_out, e));
    if (p_.scale != 1) v = numbers_.Scale(v, numbers_.Constant(p_.scale));
    if (p_.write == Form::kReal)
      buffers_.Store(to_, StorageBytes(real_), Address(e, p_.stored_out), ToStorage(b_, real_, v.re));
    else numbers_.StoreWide(to_, Address(e, p_.stored_out), v);
  }

  Builder& b_;
  Buffers& buffers_;
  ElementType real_;
  Numbers numbers_;
  const FftPass& p_;
  int from_, to_, table_;
  Value line_, beside_;
};

}  // namespace

Result<EmittedProgram> EmitFft(const plan::KernelPlan& plan, const plan::FftKernel& fft, const Target& target) {
  const DeviceProfile& profile = target.profile;
  constexpr int64_t kMostNumbers = int64_t{1} << 27;  // in a table or a scratch buffer: 32-bit byte offsets
  for (int64_t n : fft.lengths)
    if (n > (int64_t{1} << 22))
      return Unimplemented("A transform of {} points needs a longer table of roots than the {} that are kept.", n,
                           int64_t{1} << 22);
  const FftPasses passes = PlanFft(fft, kMostRadix);
  const int bytes = StorageBytes(fft.real);
  int64_t most = 0;
  for (const FftPass& p : passes.passes) most = std::max(most, p.outer * p.inner * std::max(p.stored_out, p.points));
  if (most > kMostNumbers) return Unimplemented("The transform works on {} numbers, more than {}.", most, kMostNumbers);

  EmittedProgram out;
  std::vector<BufferDesc> descs;
  const bool one = passes.passes.size() == 1;
  if (!one) {
    // The first pass fills the first buffer, later ones alternate.
    const int64_t count = passes.passes.size() > 2 ? 2 : 1;
    for (int64_t s = 0; s < count; ++s) {
      out.scratch_bytes.push_back(most * 2 * bytes);
      descs.push_back({most * 2, bytes});
    }
  }
  for (double v : passes.table) {
    if (bytes == 4) {
      out.table.push_back(std::bit_cast<uint32_t>(static_cast<float>(v)));
    } else {
      const auto bits = std::bit_cast<uint64_t>(v);
      out.table.push_back(static_cast<uint32_t>(bits));
      out.table.push_back(static_cast<uint32_t>(bits >> 32));
    }
  }
  descs.push_back({static_cast<int64_t>(passes.table.size()), bytes});

  const int first_scratch = static_cast<int>(plan.bindings.size());
  const int table = first_scratch + static_cast<int>(out.scratch_bytes.size());
  const uint32_t local = WorkgroupSize(profile, target.tuning.fft.local);
  for (std::size_t n = 0; n < passes.passes.size(); ++n) {
    const FftPass& pass = passes.passes[n];
    const int from = n == 0 ? 0 : first_scratch + static_cast<int>((n - 1) % 2);
    const int to = n + 1 == passes.passes.size() ? 1 : first_scratch + static_cast<int>(n % 2);
    const int64_t items = PassEmitter::Items(pass);
    KRAFLA_ASSIGN(Grid grid, FoldGrid(CeilDiv(items, local), profile));
    KernelWriter w(plan, target, descs);
    const Value item = w.b.Add(w.b.Mul(GroupNumber(w.b, grid), w.b.U32(local)), w.b.LocalIndex());
    PassEmitter emitter(w, fft, pass, from, to, table);
    w.b.If(w.b.Compare(Cmp::kULt, item, w.b.U32(static_cast<uint32_t>(items))), [&] { emitter.Emit(item); });
    out.kernels.push_back(w.Finish({local, 1, 1}, Format("fft.radix{}", pass.radix)));
    out.dispatches.push_back({static_cast<int>(n), grid.size, {}});
  }
  return out;
}

}  // namespace krafla::spirv
