// SPDX-License-Identifier: Apache-2.0
// Sort, scan and scatter against plain loops.
#include <algorithm>
#include <numeric>
#include <optional>

#include "kernel_fixture.h"

namespace krafla {
namespace {

using plan::NodeId;
using plan::ProgramBuilder;

enum class Order { kLess, kGreater, kTotal, kTwoKeys, kAllKeys, kOwn };

// Compares operand 0; with two keys, operand 1 where those are equal; with all keys, each where those before are equal.
// An order of its own compares a sum of both sides.
plan::ElementProgram Comparator(Order order, std::span<const ElementType> types) {
  ProgramBuilder b({});
  std::vector<NodeId> p;
  for (std::size_t i = 0; i < 2 * types.size(); ++i)
    p.push_back(b.Param(plan::ComputeType(types[i / 2]), static_cast<int>(i), 0));
  using enum ComparisonDirection;
  NodeId first = b.Compare(order == Order::kGreater ? kGt : kLt, p[0], p[1], order == Order::kTotal);
  if (order == Order::kTwoKeys) {
    NodeId second = b.Compare(kLt, p[2], p[3]);
    first = b.Select(b.Compare(kEq, p[0], p[1]), second, first);
  }
  if (order == Order::kAllKeys) {
    first = b.Compare(kGt, p[p.size() - 2], p[p.size() - 1]);
    for (std::size_t k = types.size() - 1; k-- > 0;) {
      const NodeId rest = b.Hlo(Opcode::kAnd, ElementType::kPred, {b.Compare(kEq, p[2 * k], p[2 * k + 1]), first});
      first = b.Hlo(Opcode::kOr, ElementType::kPred, {b.Compare(kLt, p[2 * k], p[2 * k + 1]), rest});
    }
  }
  if (order == Order::kOwn)
    first = b.Compare(kLt, b.Hlo(Opcode::kAdd, types[0], {p[0], p[0]}), b.Hlo(Opcode::kAdd, types[0], {p[0], p[1]}));
  b.AddResult(first);
  return std::move(b).Finish();
}

// The last operand is the position where `positions`.
void CheckSort(const Dims& dims, int dimension, Order order, std::vector<ElementType> types, int64_t keep, bool few,
               bool positions = false) {
  std::mt19937 random(9);
  int64_t count = 1, inner = 1;
  for (int64_t d : dims) count *= d;
  for (std::size_t d = static_cast<std::size_t>(dimension) + 1; d < dims.size(); ++d) inner *= dims[d];
  const int64_t length = dims[static_cast<std::size_t>(dimension)], kept = keep < 0 ? length : keep;
  plan::SortKernel sort;
  sort.dims = dims, sort.dimension = dimension, sort.is_stable = true, sort.keep = keep, sort.types = types;
  sort.comparator = Comparator(order, types);
  plan::KernelPlan plan;
  plan.name = "sort";
  std::vector<AlignedBytes> in, got, want;
  std::vector<std::byte*> pointers;
  for (std::size_t i = 0; i < types.size(); ++i) {
    in.push_back(RandomBuffer(types[i], count, random));
    // Many equal keys, and no NaN but for total order.
    if (i == 0 || order == Order::kAllKeys || (i == 1 && order == Order::kTwoKeys))
      for (int64_t k = 0; k < count; ++k) {
        const bool special = order == Order::kTotal && random() % 10 == 0;
        if (!special)
          reference::WriteElement(
              types[i], in[i].data(), k,
              IsFloat(types[i]) && types[i] != ElementType::kF64
                  ? reference::Bits(static_cast<float>(static_cast<int>(random() % (few ? 5u : 100000u)) - 2))
              : types[i] == ElementType::kF64 ? reference::Bits(static_cast<double>(random() % (few ? 5u : 100000u)))
                                              : static_cast<uint64_t>(random() % (few ? 5u : 100u)));
      }
    const bool is_position = positions && i + 1 == types.size();
    for (int64_t k = 0; is_position && k < count; ++k)
      reference::WriteElement(types[i], in[i].data(), k, static_cast<uint64_t>(k / inner % length));
    sort.inputs.push_back(is_position ? -1 : static_cast<int>(i));
    plan.bindings.push_back({types[i], count, true, false});
  }
  for (std::size_t i = 0; i < types.size(); ++i) {
    // What need not be written is not.
    got.emplace_back(static_cast<std::size_t>(count * StorageBytes(types[i])));
    std::memset(got.back().data(), 0x5a, got.back().size());
    want.push_back(got.back());
    sort.outputs.push_back(static_cast<int>(types.size() + i));
    plan.bindings.push_back({types[i], count, false, true});
  }
  for (AlignedBytes& b : in) pointers.push_back(b.data());
  for (AlignedBytes& b : got) pointers.push_back(b.data());
  for (int64_t row = 0; row < count / length; ++row) {
    const int64_t base = row / inner * length * inner + row % inner;
    std::vector<int64_t> at(static_cast<std::size_t>(length));
    std::iota(at.begin(), at.end(), 0);
    reference::Interpreter compare(sort.comparator, {});
    std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
      std::vector<uint64_t> params;
      for (std::size_t i = 0; i < types.size(); ++i) {
        params.push_back(reference::ReadElement(types[i], in[i].data(), base + a * inner));
        params.push_back(reference::ReadElement(types[i], in[i].data(), base + b * inner));
      }
      return compare.RunPoint({}, params)[0] != 0;
    });
    for (std::size_t i = 0; i < types.size(); ++i)
      for (int64_t k = 0; k < kept; ++k) {
        const auto width = static_cast<std::size_t>(StorageBytes(types[i]));
        const int64_t to = base + k * inner;
        std::memcpy(want[i].data() + static_cast<std::size_t>(to) * width,
                    in[i].data() + static_cast<std::size_t>(base + at[static_cast<std::size_t>(k)] * inner) * width,
                    width);
      }
  }
  plan.body = std::move(sort);
  RunKernel(plan, pointers);
  for (std::size_t i = 0; i < types.size(); ++i) ExpectSame(types[i], got[i], want[i], "sort");
}

TEST(OrderKernelTest, Sorts) {
  using enum ElementType;
  for (bool few : {false, true})
    for (Order order : {Order::kLess, Order::kGreater, Order::kTotal, Order::kTwoKeys})
      for (ElementType key : {kF32, kS32, kU32, kS64, kU64, kF64, kF16, kS8, kPred}) {
        if (order == Order::kTotal && !IsFloat(key)) continue;
        CheckSort({500}, 0, order, {key, kS32}, -1, few);
        CheckSort({3, 40, 5}, 1, order, {key, kF32, kU8}, -1, few);
        CheckSort({4, 300}, 1, order, {key, kS32}, 10, few);
        // Longer than what a partial sort gathers before it knows a limit.
        CheckSort({4, 3000}, 1, order, {key, kS32}, 5, few);
        if (order != Order::kTwoKeys) CheckSort({7, 1}, 1, order, {key}, -1, few);
        CheckSort({4, 300}, 1, order, {key, kF32, kS32}, 10, few, true);
        CheckSort({2, 90, 3}, 1, order, {key, kF32, kU32}, -1, few, true);
      }
}

TEST(OrderKernelTest, SortsByManyKeys) {
  using enum ElementType;
  for (int64_t keep : {-1, 7})
    for (const std::vector<ElementType>& keys :
         {std::vector{kS32, kF32}, {kF32, kS8, kU32}, {kF64, kS32}, {kU8, kF64, kS64, kF32}, {kS32, kF16, kU64}})
      for (const Dims& dims : {Dims{700}, Dims{3, 60, 2}})
        CheckSort(dims, dims.size() == 1 ? 0 : 1, Order::kAllKeys, keys, keep, true);
  CheckSort({300}, 0, Order::kOwn, {kS32, kF32, kS32}, -1, true, true);
}

TEST(OrderKernelTest, Scans) {
  using enum ElementType;
  for (Opcode op : {Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum, Opcode::kMultiply, Opcode::kSubtract})
    for (bool reverse : {false, true})
      for (ElementType type : {kF32, kF64, kS64, kS32, kU16, kS8, kBF16, kF16}) {
        for (const auto& [dims, dimension] : {std::pair<Dims, int>{{100}, 0},
                                              {{600}, 0},
                                              {{3, 20, 7}, 1},
                                              {{5, 30}, 0},
                                              {{6, 30}, 1},
                                              {{3, 300}, 1},
                                              {{70, 5, 3}, 1},
                                              {{2200, 2}, 1}}) {
          std::mt19937 random(2);
          int64_t count = 1, inner = 1;
          for (int64_t d : dims) count *= d;
          for (std::size_t d = static_cast<std::size_t>(dimension) + 1; d < dims.size(); ++d) inner *= dims[d];
          const int64_t length = dims[static_cast<std::size_t>(dimension)];
          plan::ScanKernel scan;
          scan.dims = dims, scan.dimension = dimension, scan.is_reverse = reverse, scan.type = type;
          scan.reduction.hlo_type = type;
          ProgramBuilder b({});
          const ElementType c = plan::ComputeType(type);
          b.AddResult(b.Hlo(op, type, {b.Param(c, 0, 0), b.Param(c, 1, 0)}));
          scan.reduction.combiner = std::move(b).Finish();
          ProgramBuilder i({});
          i.AddResult(IsFloat(c) ? i.ConstantFloat(c, 2) : i.ConstantInt(c, 2));
          scan.reduction.init = std::move(i).Finish();
          AlignedBytes in(static_cast<std::size_t>(count * StorageBytes(type))), got = in, want = in;
          for (int64_t k = 0; k < count; ++k) {
            const int v = static_cast<int>(random() % 9) - 4;
            // Signs of zeros, and once in a while what is no number.
            const float f = random() % 101 == 0  ? std::numeric_limits<float>::quiet_NaN()
                            : random() % 67 == 0 ? static_cast<float>(v) * std::numeric_limits<float>::infinity()
                                                 : static_cast<float>(v) * (random() % 2 == 0 ? -0.5f : 0.5f);
            reference::WriteElement(type, in.data(), k,
                                    type == kF64    ? reference::Bits(static_cast<double>(f))
                                    : IsFloat(type) ? reference::Bits(f)
                                                    : reference::Bits(int64_t{v}));
          }
          reference::Interpreter combine(scan.reduction.combiner, {});
          for (int64_t row = 0; row < count / length; ++row) {
            uint64_t sum = c == kF64 ? reference::Bits(2.0) : IsFloat(c) ? reference::Bits(2.0f) : 2;
            for (int64_t step = 0; step < length; ++step) {
              const int64_t at =
                  row / inner * length * inner + (reverse ? length - 1 - step : step) * inner + row % inner;
              sum = combine.RunPoint({}, std::vector<uint64_t>{sum, reference::ReadElement(type, in.data(), at)})[0];
              reference::WriteElement(type, want.data(), at, sum);
            }
          }
          plan::KernelPlan plan;
          plan.bindings = {{type, count, true, false}, {type, count, false, true}};
          plan.body = std::move(scan);
          std::byte* pointers[] = {in.data(), got.data()};
          RunKernel(plan, pointers);
          ExpectSame(type, got, want, "scan " + std::string(OpcodeName(op)));
        }
      }
}

// Rows of a table, or single elements, or windows in the middle, or whole columns, or parts of such, or elements whose
// index is their place.
TEST(OrderKernelTest, Scatters) {
  using enum ElementType;
  enum class Shape { kRows, kElements, kWindows, kColumns, kParts, kPlaces };
  for (Shape shape : {Shape::kRows, Shape::kElements, Shape::kWindows, Shape::kColumns, Shape::kParts, Shape::kPlaces})
    for (ElementType type : {kF32, kS8, kBF16, kF64, kU8, kU16, kS32, kF16})
      for (std::optional<Opcode> op :
           {std::optional<Opcode>(), std::optional(Opcode::kAdd), std::optional(Opcode::kMultiply),
            std::optional(Opcode::kMaximum), std::optional(Opcode::kMinimum), std::optional(Opcode::kSubtract)})
        for (int64_t columns : {30, 2, 3, 4, 7, 130}) {
          if (shape != Shape::kRows && columns != 30) continue;
          std::mt19937 random(4);
          // The larger ones are more than what stays near the processor.
          const int64_t rows = type == kF32 && columns == 130 ? 1200 : 12, n = 25;
          plan::ScatterKernel s;
          s.operand_dims = {rows, columns};
          Dims window;  // sizes in the operand
          if (shape == Shape::kRows) {
            s.attributes.update_window_dims = {1}, s.attributes.inserted_window_dims = {0};
            s.attributes.scatter_dims_to_operand_dims = {0};
            s.indices_dims = {n, 1}, s.updates_dims = {n, columns};
            window = {1, columns};
          } else if (shape == Shape::kElements) {
            s.attributes.inserted_window_dims = {0, 1};
            s.attributes.scatter_dims_to_operand_dims = {1, 0};
            s.indices_dims = {n, 2}, s.updates_dims = {n};
            window = {1, 1};
          } else if (shape == Shape::kPlaces) {
            s.attributes.inserted_window_dims = {0, 1};
            s.attributes.scatter_dims_to_operand_dims = {1};
            s.indices_dims = {n, 1}, s.updates_dims = {n};
            window = {1, 1};
          } else if (shape == Shape::kColumns) {
            s.attributes.update_window_dims = {0}, s.attributes.inserted_window_dims = {1};
            s.attributes.scatter_dims_to_operand_dims = {1};
            s.indices_dims = {n, 1}, s.updates_dims = {rows, n};
            window = {rows, 1};
          } else if (shape == Shape::kParts) {
            // Windows overlap by other elements than the same ones.
            s.attributes.update_window_dims = {1}, s.attributes.inserted_window_dims = {1};
            s.attributes.scatter_dims_to_operand_dims = {0, 1};
            s.indices_dims = {n, 2}, s.updates_dims = {n, 5};
            window = {5, 1};
          } else {
            s.attributes.update_window_dims = {0, 2};
            s.attributes.scatter_dims_to_operand_dims = {0, 1};
            s.indices_dims = {n, 2}, s.updates_dims = {3, n, 4};
            window = {3, 4};
          }
          s.attributes.index_vector_dim = 1;
          const int64_t components = s.indices_dims[1], updates = Product(s.updates_dims);
          const bool is_place = shape == Shape::kPlaces;
          s.indices_binding = 0, s.indices_type = is_place ? kS32 : kS64;
          s.updates = {1}, s.outputs = {2}, s.types = {type};
          s.combiner.hlo_type = type;
          ProgramBuilder b({});
          const ElementType c = plan::ComputeType(type);
          NodeId old = b.Param(c, 0, 0), update = b.Param(c, 1, 0);
          // A difference stands for what is no plain op, and has two values at once.
          if (op == Opcode::kSubtract)
            old = b.Hlo(Opcode::kMaximum, type,
                        {b.Hlo(Opcode::kAdd, type, {old, old}), b.Hlo(Opcode::kAdd, type, {update, update})});
          b.AddResult(op ? b.Hlo(*op, type, {old, update}) : update);
          s.combiner.combiner = std::move(b).Finish();
          std::vector<int64_t> indices;
          for (int64_t i = 0; i < n * components; ++i) indices.push_back(static_cast<int64_t>(random() % 16) - 2);
          auto whole = [&](int64_t count) {
            AlignedBytes out(static_cast<std::size_t>(count * StorageBytes(type)));
            for (int64_t i = 0; i < count; ++i) {
              const int v = static_cast<int>(random() % 9) - 4;
              reference::WriteElement(type, out.data(), i,
                                      type == kF64    ? reference::Bits(static_cast<double>(v))
                                      : IsFloat(type) ? reference::Bits(static_cast<float>(v))
                                                      : reference::Bits(v));
            }
            return out;
          };
          AlignedBytes up = whole(updates), got = whole(rows * columns), want = got;
          reference::Interpreter combine(s.combiner.combiner, {});
          for (int64_t i = 0; i < n; ++i) {
            int64_t at[2] = {0, 0};
            for (int64_t k = 0; k < components; ++k)
              at[s.attributes.scatter_dims_to_operand_dims[static_cast<std::size_t>(k)]] =
                  indices[static_cast<std::size_t>(i * components + k)];
            if (at[0] < 0 || at[1] < 0 || at[0] + window[0] > rows || at[1] + window[1] > columns) continue;
            for (int64_t y = 0; y < window[0]; ++y)
              for (int64_t x = 0; x < window[1]; ++x) {
                const int64_t u = shape == Shape::kRows                   ? i * columns + x
                                  : shape == Shape::kElements || is_place ? i
                                  : shape == Shape::kColumns              ? y * n + i
                                  : shape == Shape::kParts                ? i * 5 + y
                                                                          : (y * n + i) * 4 + x;
                const int64_t to = (at[0] + y) * columns + at[1] + x;
                const uint64_t result =
                    combine.RunPoint({}, std::vector<uint64_t>{reference::ReadElement(type, want.data(), to),
                                                               reference::ReadElement(type, up.data(), u)})[0];
                reference::WriteElement(type, want.data(), to, result);
              }
          }
          plan::KernelPlan plan;
          const std::vector<int32_t> places(indices.begin(), indices.end());
          plan.bindings = {{is_place ? kS32 : kS64, n * components, true, false},
                           {type, updates, true, false},
                           {type, rows * columns, true, true}};
          plan.body = std::move(s);
          const void* given = is_place ? static_cast<const void*>(places.data()) : indices.data();
          std::byte* pointers[] = {static_cast<std::byte*>(const_cast<void*>(given)), up.data(), got.data()};
          RunKernel(plan, pointers);
          ExpectSame(type, got, want, "scatter");
        }
}

}  // namespace
}  // namespace krafla
