// SPDX-License-Identifier: Apache-2.0
// Householder QR as LAPACK's geqrf and orgqr define it (XLA: qr_expander.cc). Reflector k is I - tau v v^H with v[k] =
// 1; the part of v below lies unscaled in column k of the working copy, with its scale beside it, so that no invocation
// writes a column that another still reads.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/linalg.h"

namespace krafla::spirv {
namespace {

// The working copy of one matrix, in a buffer or in the workgroup's memory.
struct WorkingCopy {
  ElementLoad load;
  ElementStore store;
};

struct Reflector {
  Number scale;  // v[r] = scale a[r, k] for r > k
  Number tau;
  Number beta;  // the new a[k, k]
};

// The reflector of a column; `tail` is the sum of the squares below row k.
Reflector MakeReflector(LinalgKernelWriter& w, Value tail, Number alpha) {
  Builder& b = w.b;
  Numbers& n = w.numbers;
  const Value zero = n.Constant(0), one = n.Constant(1);
  // Where there is nothing to reflect, the reflector does nothing.
  Value idle = b.FCompare(FCmp::kEq, tail, zero);
  if (n.complex()) idle = b.LAnd(idle, b.FCompare(FCmp::kEq, alpha.im, zero));
  const Value norm = b.Glsl(31 /* Sqrt */, {b.FAdd(tail, n.Square(alpha))}, n.kind(), 1);
  const Value negative = b.FCompare(FCmp::kLt, alpha.re, zero);
  const Value beta = b.Select(idle, one, b.Select(negative, norm, b.FNeg(norm)));
  const Number wide_beta = {beta, n.complex() ? zero : Value{}};
  Reflector out;
  // tau = (beta - re, -im) / beta
  Number tau = n.Sub(wide_beta, alpha);
  tau = n.Div(tau, wide_beta);
  Number difference = n.Sub(alpha, wide_beta);
  difference = n.Select(idle, n.Real(1), difference);
  out.scale = n.Select(idle, n.Real(0), n.Div(n.Real(1), difference));
  out.tau = n.Select(idle, n.Real(0), tau);
  out.beta = n.Select(idle, alpha, wide_beta);
  return out;
}

// column c -= v conj(tau) (v^H column), v from column k of `a`.
void ApplyReflector(LinalgKernelWriter& w, const WorkingCopy& a, int64_t rows, Value k, Value c, const Reflector& h) {
  Builder& b = w.b;
  Numbers& n = w.numbers;
  const Value below = b.Add(k, b.U32(1));
  const Number top = a.load(k, c), start[] = {n.Real(0)};
  const Values sum = b.For(below, w.U32(rows), b.U32(1), n.Pack(start), [&](Value r, const Values& carried) {
    const Number next[] = {n.Add(n.Unpack(carried, 0), n.Mul(n.Conj(a.load(r, k)), a.load(r, c)))};
    return n.Pack(next);
  });
  const Number product = n.Add(top, n.Mul(n.Conj(h.scale), n.Unpack(sum, 0)));
  const Number by = n.Mul(product, n.Conj(h.tau)), scaled = n.Mul(by, h.scale);
  a.store(k, c, n.Sub(top, by));
  b.For(below, w.U32(rows), b.U32(1),
        [&](Value r) { a.store(r, c, n.Sub(a.load(r, c), n.Mul(a.load(r, k), scaled))); });
}

class QrEmitter {
 public:
  QrEmitter(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target)
      : k_(k),
        target_(target),
        rows_(k.rows),
        columns_(k.columns),
        local_(WorkgroupSize(target.profile, target.tuning.linalg.local)),
        // The working copy; scale and beta of each reflector.
        program_(plan, k, target, {k.batch * k.rows * k.columns, k.batch * k.reflectors * 2}) {}

  Refusal RefusesShared() const {
    const ElementType wide = Numbers::WideType(k_.type);
    const int64_t element = StorageBytes(RealPart(wide)) * (IsComplex(wide) ? 2 : 1);
    if ((rows_ * columns_ + local_) * element <= SharedRoom(target_)) return std::nullopt;
    return "a matrix does not fit shared memory";
  }

  // All of a matrix in the memory of one workgroup.
  Result<EmittedProgram> EmitShared() {
    const int whole = program_.AddGroups("qr.shared", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      SharedMatrix shared(w, rows_, columns_);
      WorkingCopy a;
      a.load = [&](Value r, Value c) { return shared.Load(r, c); };
      a.store = [&](Value r, Value c, Number v) { shared.Store(r, c, v); };
      const Value first = b.Mul(w.matrix, w.U32(rows_ * columns_));
      b.For(b.LocalIndex(), w.U32(rows_ * columns_), w.U32(local_),
            [&](Value e) { shared.StoreAt(e, n.Load(kA, k_.type, b.Add(first, e))); });
      b.For(b.U32(0), w.U32(k_.reflectors), b.U32(1), [&](Value k) {
        b.WorkgroupBarrier();
        const Reflector h = FindReflector(w, a, k);
        SaveReflector(w, k, h);
        b.For(b.Add(b.Add(k, b.U32(1)), b.LocalIndex()), w.U32(columns_), w.U32(local_),
              [&](Value c) { ApplyReflector(w, a, rows_, k, c, h); });
        // Column k is read before the next turn, which writes the columns after it only.
      });
      b.WorkgroupBarrier();
      b.For(b.LocalIndex(), w.U32(rows_ * columns_), w.U32(local_),
            [&](Value e) { n.StoreWide(program_.scratch(0), b.Add(first, e), shared.LoadAt(e)); });
    });
    KRAFLA_TRY(program_.Run(whole, 1));
    return Finish();
  }

  // One dispatch for each column.
  Result<EmittedProgram> EmitByColumns() {
    const int start = program_.Add("qr.copy", [&](LinalgKernelWriter& w) {
      const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(rows_ * columns_)), w.item);
      w.numbers.StoreWide(program_.scratch(0), at, w.numbers.Load(kA, k_.type, at));
    });
    KRAFLA_TRY(program_.Run(start, rows_ * columns_));
    const int column = program_.AddGroups("qr.column", local_, [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      WorkingCopy a;
      auto place = [&](Value r, Value c) {
        return b.Add(b.Mul(b.Add(b.Mul(w.matrix, w.U32(rows_)), r), w.U32(columns_)), c);
      };
      a.load = [&](Value r, Value c) { return w.numbers.LoadWide(program_.scratch(0), place(r, c)); };
      a.store = [&](Value r, Value c, Number v) { w.numbers.StoreWide(program_.scratch(0), place(r, c), v); };
      const Reflector h = FindReflector(w, a, w.at);
      b.If(b.Compare(Cmp::kEq, w.item, b.U32(0)), [&] { SaveReflector(w, w.at, h); });
      const Value c = b.Add(b.Add(w.at, b.U32(1)), b.Add(b.Mul(w.item, w.U32(local_)), b.LocalIndex()));
      b.If(b.Compare(Cmp::kULt, c, w.U32(columns_)), [&] { ApplyReflector(w, a, rows_, w.at, c, h); });
    });
    for (int64_t k = 0; k < k_.reflectors; ++k)
      KRAFLA_TRY(program_.Run(column, std::max<int64_t>(1, CeilDiv(columns_ - k - 1, int64_t{local_})), k));
    return Finish();
  }

 private:
  // All invocations of the workgroup find the reflector together. It has two barriers, which all of them must reach.
  Reflector FindReflector(LinalgKernelWriter& w, const WorkingCopy& a, Value k) {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    const Id sums = b.SharedArray(n.kind(), 1, local_);
    const Values partial =
        b.For(b.Add(b.Add(k, b.U32(1)), b.LocalIndex()), w.U32(rows_), w.U32(local_), {n.Constant(0)},
              [&](Value r, const Values& carried) { return Values{b.FAdd(carried[0], n.Square(a.load(r, k)))}; });
    b.StoreShared(sums, b.LocalIndex(), partial[0]);
    b.WorkgroupBarrier();
    const Values tail = b.For(b.U32(0), w.U32(local_), b.U32(1), {n.Constant(0)}, [&](Value i, const Values& carried) {
      return Values{b.FAdd(carried[0], b.LoadShared(sums, n.kind(), 1, i))};
    });
    return MakeReflector(w, tail[0], a.load(k, k));
  }

  void SaveReflector(LinalgKernelWriter& w, Value k, const Reflector& h) {
    Builder& b = w.b;
    b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] {
      const Value at = b.Add(b.Mul(w.matrix, w.U32(k_.reflectors)), k);
      w.numbers.Store(kTaus, k_.type, at, h.tau);
      w.numbers.StoreWide(program_.scratch(1), b.Mul(at, b.U32(2)), h.scale);
      w.numbers.StoreWide(program_.scratch(1), b.Add(b.Mul(at, b.U32(2)), b.U32(1)), h.beta);
    });
  }

  Result<EmittedProgram> Finish() {
    const int finish = program_.Add("qr.finish", [&](LinalgKernelWriter& w) {
      Builder& b = w.b;
      Numbers& n = w.numbers;
      const Value row = b.UDiv(w.item, w.U32(columns_)), column = b.Sub(w.item, b.Mul(row, w.U32(columns_)));
      const Value at = b.Add(b.Mul(w.matrix, w.U32(rows_ * columns_)), w.item);
      const Number v = n.LoadWide(program_.scratch(0), at);
      // Columns after the last reflector have none of their own, and lie above the diagonal.
      const Value k = b.Min(column, w.U32(k_.reflectors - 1));
      const Value saved = b.Mul(b.Add(b.Mul(w.matrix, w.U32(k_.reflectors)), k), b.U32(2));
      const Number below = n.Mul(v, n.LoadWide(program_.scratch(1), saved));
      const Number beta = n.LoadWide(program_.scratch(1), b.Add(saved, b.U32(1)));
      const Number lower = n.Select(b.Compare(Cmp::kEq, row, column), beta, below);
      n.Store(kOut, k_.type, at, n.Select(b.Compare(Cmp::kUGe, row, column), lower, v));
    });
    KRAFLA_TRY(program_.Run(finish, rows_ * columns_));
    return program_.Take();
  }

  static constexpr int kA = 0, kOut = 1, kTaus = 2;
  const plan::LinalgKernel& k_;
  const Target& target_;
  int64_t rows_, columns_;
  uint32_t local_;
  LinalgProgram program_;
};

// In order of preference.
constexpr LinalgVariant kQrVariants[] = {
    {"shared", [](const LinalgCase& c) { return QrEmitter(c.plan, c.k, c.target).RefusesShared(); },
     [](const LinalgCase& c, std::string) { return QrEmitter(c.plan, c.k, c.target).EmitShared(); }},
    {"by columns", nullptr,
     [](const LinalgCase& c, std::string refused) {
       return WithReason(QrEmitter(c.plan, c.k, c.target).EmitByColumns(), refused);
     }},
};
static_assert(TakesEverything(kQrVariants));

}  // namespace

Result<EmittedProgram> EmitQr(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target) {
  return MakeFirst(kQrVariants, LinalgCase{plan, k, target});
}

// The columns of the product do not depend on each other: each has an invocation, which applies the reflectors from the
// last to the first. The work of an invocation in one dispatch cannot be cut, so each dispatch applies a block of
// reflectors.
Result<EmittedProgram> EmitHouseholderProduct(const plan::KernelPlan& plan, const plan::LinalgKernel& k,
                                              const Target& target) {
  constexpr int kA = 0, kTaus = 1, kOut = 2;
  const bool narrow = Numbers::WideType(k.type) != k.type;
  std::vector<int64_t> scratch;
  if (narrow) scratch.push_back(k.batch * k.rows * k.columns);
  LinalgProgram program(plan, k, target, scratch);
  const int work = narrow ? program.scratch(0) : kOut;
  constexpr int64_t kMostTurns = int64_t{1} << 16;
  const int64_t block = std::max<int64_t>(1, kMostTurns / std::max<int64_t>(k.rows, 1));
  const int64_t top_block = k.reflectors == 0 ? 0 : (k.reflectors - 1) / block * block;
  const int product = program.Add("qr.product", [&](LinalgKernelWriter& w) {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    const Value column = w.item;
    auto place = [&](Value r, Value c) {
      return b.Add(b.Mul(b.Add(b.Mul(w.matrix, w.U32(k.rows)), r), w.U32(k.columns)), c);
    };
    auto load = [&](Value r) { return n.LoadWide(work, place(r, column)); };
    auto store = [&](Value r, Number v) { n.StoreWide(work, place(r, column), v); };
    auto reflector = [&](Value r, Value c) { return n.Load(kA, k.type, place(r, c)); };
    b.If(b.Compare(Cmp::kEq, w.at, w.U32(top_block)), [&] {
      b.For(b.U32(0), w.U32(k.rows), b.U32(1),
            [&](Value r) { store(r, n.Select(b.Compare(Cmp::kEq, r, column), n.Real(1), n.Real(0))); });
    });
    // A reflector after the column meets zeros only and changes nothing.
    const Value last = b.Min(b.Min(b.Add(column, b.U32(1)), w.U32(k.reflectors)), b.Add(w.at, w.U32(block)));
    b.For(w.at, last, b.U32(1), [&](Value turn) {
      const Value at = b.Sub(b.Sub(last, b.U32(1)), b.Sub(turn, w.at)), below = b.Add(at, b.U32(1));
      const Number top = load(at), start[] = {top};
      const Values sum = b.For(below, w.U32(k.rows), b.U32(1), n.Pack(start), [&](Value r, const Values& carried) {
        const Number next[] = {n.Add(n.Unpack(carried, 0), n.Mul(n.Conj(reflector(r, at)), load(r)))};
        return n.Pack(next);
      });
      const Number tau = n.Load(kTaus, k.type, b.Add(b.Mul(w.matrix, w.U32(k.reflectors)), at));
      const Number by = n.Mul(n.Unpack(sum, 0), tau);
      store(at, n.Sub(top, by));
      b.For(below, w.U32(k.rows), b.U32(1), [&](Value r) { store(r, n.Sub(load(r), n.Mul(reflector(r, at), by))); });
    });
  });
  for (int64_t at = top_block; at >= 0; at -= block) KRAFLA_TRY(program.Run(product, k.columns, at));
  if (narrow) KRAFLA_TRY(program.RunRound("qr.round", work, kOut, k.rows * k.columns));
  return program.Take();
}

}  // namespace krafla::spirv
