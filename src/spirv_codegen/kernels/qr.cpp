// SPDX-License-Identifier: Apache-2.0
// Householder QR as LAPACK's geqrf and orgqr define it (XLA: qr_expander.cc). Reflector k is I - tau v v^H with v[k] =
// 1; the part of v below lies in column k of the working copy.
#include "base/checked_math.h"
#include "spirv_codegen/kernels/reflectors.h"

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

// column c -= v conj(tau) (v^H column), v from column k of `a`, where it is not scaled.
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
        block_(target.tuning.linalg.reflectors),
        local_(WorkgroupSize(target.profile, target.tuning.linalg.local)),
        // The working copy; of each reflector its products with those of its block before it, and its tau, or, where a
        // workgroup has the matrix, its scale and beta.
        program_(plan, k, target, {k.batch * k.rows * k.columns, k.batch * k.reflectors * (block_ + 1)}) {}

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

  // Two dispatches for each block of reflectors: a workgroup finds them, then an invocation applies them to each column
  // after them.
  Result<EmittedProgram> EmitByBlocks() {
    const int start = program_.AddElements("qr.copy", [&](LinalgKernelWriter& w) {
      const Value at = w.b.Add(w.b.Mul(w.matrix, w.U32(rows_ * columns_)), w.item);
      w.numbers.StoreWide(program_.scratch(0), at, w.numbers.Load(kA, k_.type, at));
    });
    KRAFLA_TRY(program_.Run(start, rows_ * columns_));
    // Kernels of whole blocks, then of the last one where that is none.
    int64_t made = 0;
    int panel = -1, update = -1;
    for (int64_t at = 0; at < k_.reflectors; at += block_) {
      const int64_t count = std::min(block_, k_.reflectors - at), after = columns_ - at - count;
      if (count != made) panel = AddPanel(count), update = after > 0 ? AddUpdate(count) : -1;
      made = count;
      KRAFLA_TRY(program_.Run(panel, 1, at));
      if (after > 0) KRAFLA_TRY(program_.Run(update, after, at));
    }
    KRAFLA_TRY(program_.RunRound("qr.finish", program_.scratch(0), kOut, rows_ * columns_));
    return program_.Take();
  }

 private:
  Value Place(LinalgKernelWriter& w, Value r, Value c) const {
    return w.b.Add(w.b.Mul(w.b.Add(w.b.Mul(w.matrix, w.U32(rows_)), r), w.U32(columns_)), c);
  }
  WorkingCopy InScratch(LinalgKernelWriter& w) const {
    return {[this, &w](Value r, Value c) { return w.numbers.LoadWide(program_.scratch(0), Place(w, r, c)); },
            [this, &w](Value r, Value c, Number v) { w.numbers.StoreWide(program_.scratch(0), Place(w, r, c), v); }};
  }
  // Where a block's numbers of reflector k lie: its products with those before it, then its tau.
  Value Saved(LinalgKernelWriter& w, Value k, Value number) const {
    const Value reflector = w.b.Add(w.b.Mul(w.matrix, w.U32(k_.reflectors)), k);
    return w.b.Add(w.b.Mul(reflector, w.U32(block_ + 1)), number);
  }

  // Whether `count` columns from column `at` on are read and written by fours.
  bool HasFours(LinalgKernelWriter& w, int64_t count) const {
    return !w.numbers.complex() && columns_ % 4 == 0 && block_ % 4 == 0 && count % 4 == 0;
  }
  std::vector<Number> LoadPanelRow(LinalgKernelWriter& w, Value r, int64_t count) const {
    std::vector<Number> out;
    for (int64_t q = 0; q < count; q += HasFours(w, count) ? 4 : 1) {
      const Value place = Place(w, r, w.b.Add(w.at, w.U32(q)));
      if (!HasFours(w, count)) {
        out.push_back(w.numbers.LoadWide(program_.scratch(0), place));
        continue;
      }
      const Value four = w.numbers.LoadFour(program_.scratch(0), w.numbers.wide(), place);
      for (int lane = 0; lane < 4; ++lane) out.push_back({w.b.Extract(four, lane), {}});
    }
    return out;
  }
  // Stores those of the numbers of a row that come after column `at` + j; the others are as they were.
  void StorePanelRow(LinalgKernelWriter& w, Value r, Value j, std::span<const Number> row) const {
    const auto count = static_cast<int64_t>(row.size());
    for (int64_t q = 0; q < count; q += HasFours(w, count) ? 4 : 1) {
      const Value place = Place(w, r, w.b.Add(w.at, w.U32(q)));
      const auto first = static_cast<std::size_t>(q);
      if (!HasFours(w, count)) {
        w.b.If(w.b.Compare(Cmp::kUGt, w.U32(q), j),
               [&] { w.numbers.StoreWide(program_.scratch(0), place, row[first]); });
        continue;
      }
      Values lanes;
      for (std::size_t lane = 0; lane < 4; ++lane) lanes.push_back(row[first + lane].re);
      w.b.If(w.b.Compare(Cmp::kUGt, w.U32(q + 3), j),
             [&] { w.numbers.StoreFour(program_.scratch(0), w.numbers.wide(), place, w.b.Composite(lanes)); });
    }
  }

  // Finds `count` reflectors from column `at` on, one after the other, and applies each to the columns after it.
  int AddPanel(int64_t count) {
    return program_.AddGroups("qr.panel", local_, [&, count](LinalgKernelWriter& w) {
      Builder& b = w.b;
      w.buffers.MakeCoherent();
      const WorkingCopy a = InScratch(w);
      SharedMatrix parts(w, local_, count), products(w, 1, count);
      b.For(b.U32(0), w.U32(count), b.U32(1), [&](Value j) {
        const Value k = b.Add(w.at, j), below = b.Add(b.Add(k, b.U32(1)), b.LocalIndex());
        b.BufferBarrier();
        const Reflector h = FindReflector(w, a, k);
        b.BufferBarrier();
        b.For(below, w.U32(rows_), w.U32(local_),
              [&](Value r) { a.store(r, k, w.numbers.Mul(a.load(r, k), h.scale)); });
        b.If(b.Compare(Cmp::kEq, b.LocalIndex(), b.U32(0)), [&] {
          a.store(k, k, h.beta);
          w.numbers.StoreWide(program_.scratch(1), Saved(w, k, w.U32(block_)), h.tau);
          w.numbers.Store(kTaus, k_.type, b.Add(b.Mul(w.matrix, w.U32(k_.reflectors)), k), h.tau);
        });
        b.BufferBarrier();
        MultiplyPanel(w, a, k, count, parts, products);
        SubtractFromPanel(w, a, k, j, count, w.numbers.Conj(h.tau), products);
      });
    });
  }

  // products[q] = v_k^H x, where x is column `at` + q from row k on: another reflector before k, after it a column.
  void MultiplyPanel(LinalgKernelWriter& w, const WorkingCopy& a, Value k, int64_t count, SharedMatrix& parts,
                     SharedMatrix& products) {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    const std::vector<Number> zeros(static_cast<std::size_t>(count), n.Real(0));
    const Values sums = b.For(b.Add(b.Add(k, b.U32(1)), b.LocalIndex()), w.U32(rows_), w.U32(local_), n.Pack(zeros),
                              [&](Value r, const Values& carried) {
                                const Number v = n.Conj(a.load(r, k));
                                std::vector<Number> next = LoadPanelRow(w, r, count);
                                for (std::size_t q = 0; q < next.size(); ++q)
                                  next[q] = n.Add(n.Unpack(carried, q), n.Mul(v, next[q]));
                                return n.Pack(next);
                              });
    for (int64_t q = 0; q < count; ++q)
      parts.Store(b.LocalIndex(), w.U32(q), n.Unpack(sums, static_cast<std::size_t>(q)));
    b.WorkgroupBarrier();
    b.For(b.LocalIndex(), w.U32(count), w.U32(local_), [&](Value q) {
      const Number top[] = {a.load(k, b.Add(w.at, q))};
      const Values sum = b.For(b.U32(0), w.U32(local_), b.U32(1), n.Pack(top), [&](Value i, const Values& carried) {
        const Number next[] = {n.Add(n.Unpack(carried, 0), parts.Load(i, q))};
        return n.Pack(next);
      });
      products.StoreAt(q, n.Unpack(sum, 0));
    });
    b.WorkgroupBarrier();
  }

  // Applies reflector k to the panel's columns after it, and saves its products with those before it.
  void SubtractFromPanel(LinalgKernelWriter& w, const WorkingCopy& a, Value k, Value j, int64_t count, Number tau,
                         SharedMatrix& products) {
    Builder& b = w.b;
    Numbers& n = w.numbers;
    b.For(b.LocalIndex(), w.U32(count), w.U32(local_), [&](Value q) {
      const Number product = products.LoadAt(q);
      const Value c = b.Add(w.at, q);
      b.If(b.Compare(Cmp::kULt, q, j), [&] { n.StoreWide(program_.scratch(1), Saved(w, k, q), product); });
      b.If(b.Compare(Cmp::kUGt, q, j), [&] { a.store(k, c, n.Sub(a.load(k, c), n.Mul(product, tau))); });
    });
    std::vector<Number> by;
    for (int64_t q = 0; q < count; ++q) by.push_back(n.Mul(products.LoadAt(w.U32(q)), tau));
    b.For(b.Add(b.Add(k, b.U32(1)), b.LocalIndex()), w.U32(rows_), w.U32(local_), [&](Value r) {
      const Number v = a.load(r, k);
      std::vector<Number> row = LoadPanelRow(w, r, count);
      for (std::size_t q = 0; q < row.size(); ++q)
        row[q] =
            n.Select(b.Compare(Cmp::kUGt, b.U32(static_cast<uint32_t>(q)), j), n.Sub(row[q], n.Mul(v, by[q])), row[q]);
      StorePanelRow(w, r, j, row);
    });
  }

  // Applies the block of `count` reflectors to the columns after it.
  int AddUpdate(int64_t count) {
    return program_.Add("qr.update", [&, count](LinalgKernelWriter& w) {
      Builder& b = w.b;
      const WorkingCopy a = InScratch(w);
      const Value column = b.Add(b.Add(w.at, w.U32(count)), w.item);
      const auto of = [&](int j) { return b.Add(w.at, w.U32(j)); };
      const auto saved = [&](int j, int64_t number) {
        return w.numbers.LoadWide(program_.scratch(1), Saved(w, of(j), w.U32(number)));
      };
      ReflectorBlock block{.count = static_cast<int>(count),
                           .first = w.at,
                           .rows = w.U32(rows_),
                           .v = [&](Value r, int j) { return a.load(r, of(j)); },
                           .four = {},
                           .tau = [&](int j) { return w.numbers.Conj(saved(j, block_)); },
                           .product = [&](int j, int i) { return saved(j, i); }};
      if (HasFours(w, 4))
        block.four = [&](Value r, int j) {
          return w.numbers.LoadFour(program_.scratch(0), w.numbers.wide(), Place(w, r, of(j)));
        };
      ApplyReflectors(
          w, block, [&](Value r) { return a.load(r, column); }, [&](Value r, Number v) { a.store(r, column, v); });
    });
  }

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
    const int finish = program_.AddElements("qr.finish", [&](LinalgKernelWriter& w) {
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
  int64_t block_;  // reflectors of a block
  uint32_t local_;
  LinalgProgram program_;
};

// In order of preference.
constexpr LinalgVariant kQrVariants[] = {
    {"shared", [](const LinalgCase& c) { return QrEmitter(c.plan, c.k, c.target).RefusesShared(); },
     [](const LinalgCase& c, std::string) { return QrEmitter(c.plan, c.k, c.target).EmitShared(); }},
    {"by blocks", nullptr,
     [](const LinalgCase& c, std::string refused) {
       return WithReason(QrEmitter(c.plan, c.k, c.target).EmitByBlocks(), refused);
     }},
};
static_assert(TakesEverything(kQrVariants));

}  // namespace

Result<EmittedProgram> EmitQr(const plan::KernelPlan& plan, const plan::LinalgKernel& k, const Target& target) {
  return MakeFirst(kQrVariants, LinalgCase{plan, k, target});
}

}  // namespace krafla::spirv
