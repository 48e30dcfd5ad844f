// SPDX-License-Identifier: Apache-2.0
// Random programs with random shardings of parameters, values and results: what they give, put together, is what the
// program gives on one device. And what the partitioner does not do: compute or move more than the blocks that are
// kept.
#include <algorithm>
#include <random>

#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/sharding.h"
#include "spmd_fixture.h"

namespace krafla {
namespace {

using SpmdSizes = std::vector<int64_t>;

std::string TypeOf(const SpmdSizes& dims) {
  std::string out;
  for (const int64_t d : dims) out += (out.empty() ? "" : ",") + std::to_string(d);
  return "f32[" + out + "]";
}

// Lines of small whole numbers: whatever grows is clamped, so that sums are exact in any order.
class Maker {
 public:
  // `is_even`: most dimensions can be cut into equal blocks, and only such are.
  Maker(uint32_t seed, bool is_even) : random_(seed), is_even_(is_even) {}

  std::string Text(bool sharded) {
    random_.seed(random_());
    lines_.clear(), values_.clear();
    sharded_ = sharded;
    const SpmdSizes even[] = {{8, 16}, {16, 8}, {4, 8, 8}, {32, 4}}, uneven[] = {{7, 10}, {10, 7}, {3, 5, 6}, {25, 3}};
    for (const SpmdSizes& dims : is_even_ ? even : uneven) Add(dims, Format("parameter({})", values_.size()), true);
    for (int step = 0; step < 14; ++step) Step();
    std::string roots, types;
    for (std::size_t n = values_.size() - 3; n < values_.size(); ++n) {
      roots += (roots.empty() ? "" : ", ") + Name(n);
      types += (types.empty() ? "" : ", ") + TypeOf(values_[n]);
    }
    std::string shardings;
    for (std::size_t n = values_.size() - 3; n < values_.size(); ++n)
      shardings += (shardings.empty() ? "" : ", ") + RandomSharding(values_[n]);
    lines_ += Format("  ROOT r = ({}) tuple({})", types, roots);
    if (sharded) lines_ += Format(", sharding={{{}}}", shardings);
    return Format(
        "HloModule m, num_partitions={}\n"
        "sum {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }}\n"
        "second {{ a = f32[] parameter(0)\n ROOT b = f32[] parameter(1) }}\n"
        "less {{ a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), direction=LT }}\n"
        "larger {{ a = f32[] parameter(0)\n i = f32[] parameter(1)\n b = f32[] parameter(2)\n"
        "  j = f32[] parameter(3)\n g = pred[] compare(a, b), direction=GT\n e = pred[] compare(a, b), direction=EQ\n"
        "  l = pred[] compare(i, j), direction=LT\n t = pred[] and(e, l)\n k = pred[] or(g, t)\n"
        "  x = f32[] select(g, a, b)\n y = f32[] select(k, i, j)\n ROOT r = (f32[], f32[]) tuple(x, y) }}\n"
        "ENTRY e {{\n  lo = f32[] constant(-4)\n  hi = f32[] constant(4)\n  zero = f32[] constant(0)\n{}\n}}\n",
        sharded ? 4 : 1, lines_);
  }

 private:
  static std::string Name(std::size_t n) { return Format("v{}", n); }
  std::size_t Any() { return random_() % values_.size(); }

  void Add(SpmdSizes dims, const std::string& what, bool may_be_cut = false) {
    lines_ += Format("  {} = {} {}", Name(values_.size()), TypeOf(dims), what);
    const std::string sharding = RandomSharding(dims);
    if (may_be_cut && sharded_) lines_ += ", sharding=" + sharding;
    lines_ += "\n";
    values_.push_back(std::move(dims));
  }
  void Clamped(SpmdSizes dims, const std::string& what) {
    lines_ += Format("  t{} = {} {}\n", values_.size(), TypeOf(dims), what);
    const std::string from = Format("clamp(lo, t{}, hi)", values_.size());
    Add(std::move(dims), from);
  }

  std::string RandomSharding(const SpmdSizes& dims) {
    const uint32_t wish = random_();
    const std::size_t d = wish / 8 % dims.size(), e = (d + 1) % dims.size();
    const int64_t count = wish % 2 == 0 ? 2 : 4;
    if (wish % 8 == 7 || (is_even_ && dims[d] % count != 0)) return "{replicated}";
    SpmdSizes counts(dims.size(), 1);
    counts[d] = count;
    const bool second = count == 2 && e != d && (!is_even_ || dims[e] % 2 == 0) && wish / 64 % 2 == 0;
    if (second) counts[e] = 2;
    std::string tile;
    for (const int64_t c : counts) tile += (tile.empty() ? "" : ",") + std::to_string(c);
    const bool rest = count == 2 && !second;
    return Format("{{devices=[{}{}]<=[4]{}}}", tile, rest ? ",2" : "", rest ? " last_tile_dim_replicate" : "");
  }

  // Where a slice begins, before or behind the array's ends too.
  std::string Starts(const SpmdSizes& dims) {
    std::string out;
    for (const int64_t d : dims) {
      const std::string name = Format("at{}.{}", values_.size(), lines_.size());
      lines_ += Format("  {} = s32[] constant({})\n", name, static_cast<int64_t>(random_() % (d + 4)) - 2);
      out += ", " + name;
    }
    return out;
  }

  // the places of the largest
  void PlaceOfLargest(std::size_t n, const SpmdSizes& dims) {
    const std::size_t d = random_() % dims.size();
    SpmdSizes rest = dims;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(d));
    if (rest.empty()) return Add(dims, Format("negate({})", Name(n)));
    const std::size_t k = values_.size();
    lines_ += Format("  i{} = {} iota(), iota_dimension={}\n", k, TypeOf(dims), d);
    lines_ += Format(
        "  low{0} = f32[] constant(-inf)\n  m{0} = ({1}, {1}) reduce({2}, i{0}, low{0}, zero), "
        "dimensions={{{3}}}, to_apply=larger\n",
        k, TypeOf(rest), Name(n), d);
    return Add(std::move(rest), Format("get-tuple-element(m{}), index={}", k, random_() % 2));
  }

  // rows written at a place that may be outside
  void Write(std::size_t n, const SpmdSizes& dims) {
    const std::size_t m = Any();
    if (values_[m].size() != dims.size()) return Add(dims, Format("negate({})", Name(n)));
    SpmdSizes sizes = values_[m];
    std::string cut, types;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      sizes[d] = std::min(sizes[d], 1 + static_cast<int64_t>(random_()) % dims[d]);
      if (random_() % 2 == 0) sizes[d] = std::min(values_[m][d], dims[d]);
      cut += Format("{}[0:{}]", cut.empty() ? "" : ", ", sizes[d]);
    }
    const std::size_t k = values_.size();
    lines_ += Format("  up{} = {} slice({}), slice={{{}}}\n", k, TypeOf(sizes), Name(m), cut);
    const std::string at = Starts(dims);
    return Add(dims, Format("dynamic-update-slice({}, up{}{})", Name(n), k, at));
  }

  // a window written, or added, at a known place, which may be outside
  void WriteBox(std::size_t n, const SpmdSizes& dims) {
    const std::size_t m = Any();
    if (values_[m].size() != dims.size()) return Add(dims, Format("negate({})", Name(n)));
    SpmdSizes sizes = values_[m];
    std::string cut, places, all;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      sizes[d] = std::min(sizes[d], random_() % 2 == 0 ? dims[d] : 1 + static_cast<int64_t>(random_()) % dims[d]);
      const int64_t rest = dims[d] - sizes[d],
                    at = random_() % 16 == 0 ? -1 : static_cast<int64_t>(random_()) % (rest + 1);
      const char* comma = d == 0 ? "" : ",";
      cut += Format("{}[0:{}]", comma, sizes[d]);
      places += Format("{}{}", comma, at);
      all += Format("{}{}", comma, d);
    }
    const std::size_t k = values_.size();
    lines_ += Format("  up{0} = {1} slice({2}), slice={{{3}}}\n  at{0} = s32[{4}] constant({{{5}}})\n", k,
                     TypeOf(sizes), Name(m), cut, dims.size(), places);
    return Clamped(dims, Format("scatter({0}, at{1}, up{1}), update_window_dims={{{2}}}, inserted_window_dims={{}}, "
                                "scatter_dims_to_operand_dims={{{2}}}, index_vector_dim=0, to_apply={3}",
                                Name(n), k, all, random_() % 2 == 0 ? "sum" : "second"));
  }

  void Read(std::size_t n, const SpmdSizes& dims) {
    SpmdSizes sizes = dims;
    const std::size_t d = random_() % dims.size();
    sizes[d] = 1 + static_cast<int64_t>(random_()) % dims[d];
    std::string said;
    for (const int64_t size : sizes) said += (said.empty() ? "" : ",") + std::to_string(size);
    const std::string at = Starts(dims);
    return Add(std::move(sizes), Format("dynamic-slice({}{}), dynamic_slice_sizes={{{}}}", Name(n), at, said));
  }

  // rows written by numbers, one of which is outside
  void WriteRows(std::size_t n, const SpmdSizes& dims) {
    if (dims.size() != 2 || dims[0] < 4) return Add(dims, Format("negate({})", Name(n)));
    const std::size_t k = values_.size();
    const bool adds = random_() % 2 == 0;
    lines_ +=
        Format("  i{0} = s32[4,1] constant({{{{{1}}}, {{-3}}, {{{2}}}, {{{3}}}}})\n", k, dims[0] - 1, random_() % 2, 2);
    lines_ += Format("  up{0} = {1} iota(), iota_dimension={2}\n", k, TypeOf({4, dims[1]}), random_() % 2);
    return Clamped(dims, Format("scatter({}, i{}, up{}), update_window_dims={{1}}, inserted_window_dims={{0}}, "
                                "scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply={}",
                                Name(n), k, k, adds ? "sum" : "second"));
  }

  // elements by numbers of all dimensions
  void Elements(std::size_t n, const SpmdSizes& dims) {
    if (dims.size() != 2) return Add(dims, Format("negate({})", Name(n)));
    const std::size_t k = values_.size();
    lines_ += Format("  i{} = s32[4,2] constant({{{{{}, 1}}, {{-2, 0}}, {{0, {}}}, {{1, 99}}}})\n", k,
                     random_() % dims[0], dims[1] - 1);
    return Add({4}, Format("gather({}, i{}), offset_dims={{}}, collapsed_slice_dims={{0,1}}, "
                           "start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1}}",
                           Name(n), k));
  }

  // sums of all before, and of windows with steps
  void SumsBefore(std::size_t n, const SpmdSizes& dims) {
    const std::size_t d = random_() % dims.size();
    std::string size, pad;
    for (std::size_t e = 0; e < dims.size(); ++e) {
      size += Format("{}{}", size.empty() ? "" : "x", e == d ? dims[d] : 1);
      pad += Format("{}{}_0", pad.empty() ? "" : "x", e == d ? dims[d] - 1 : 0);
    }
    return Clamped(dims,
                   Format("reduce-window({}, zero), window={{size={} pad={}}}, to_apply=sum", Name(n), size, pad));
  }

  void Pad(std::size_t n, const SpmdSizes& dims) {
    SpmdSizes padded = dims;
    std::string pad;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      const int64_t low = random_() % 3, high = random_() % 4, between = random_() % 5 == 0;
      padded[d] += low + high + between * (dims[d] - 1);
      if (padded[d] > 64) return Add(dims, Format("abs({})", Name(n)));
      pad += Format("{}{}_{}_{}", pad.empty() ? "" : "x", low, high, between);
    }
    return Add(std::move(padded), Format("pad({}, hi), padding={}", Name(n), pad));
  }

  // turned by some rows
  void Turn(std::size_t n, const SpmdSizes& dims) {
    const std::size_t d = random_() % dims.size();
    if (dims[d] < 2) return Add(dims, Format("negate({})", Name(n)));
    const int64_t by = 1 + static_cast<int64_t>(random_()) % (dims[d] - 1);
    const std::size_t k = values_.size();
    SpmdSizes front = dims, back = dims;
    front[d] = by, back[d] = dims[d] - by;
    std::string of_front, of_back;
    for (std::size_t e = 0; e < dims.size(); ++e) {
      of_front += Format("{}[{}:{}]", e == 0 ? "" : ", ", e == d ? dims[d] - by : 0, dims[e]);
      of_back += Format("{}[0:{}]", e == 0 ? "" : ", ", e == d ? dims[d] - by : dims[e]);
    }
    lines_ += Format("  front{0} = {1} slice({2}), slice={{{3}}}\n  back{0} = {4} slice({2}), slice={{{5}}}\n", k,
                     TypeOf(front), Name(n), of_front, TypeOf(back), of_back);
    return Add(dims, Format("concatenate(front{0}, back{0}), dimensions={{{1}}}", k, d));
  }

  void Slice(std::size_t n, const SpmdSizes& dims) {
    if (dims[0] < 2) return Add(dims, Format("negate({})", Name(n)));
    SpmdSizes half = dims;
    std::string slice;
    const std::size_t d = random_() % 2 == 0 ? 0 : random_() % dims.size();
    const uint32_t form = random_() % 4;  // the first half, every second, any from somewhere
    for (std::size_t e = 0; e < dims.size(); ++e) {
      int64_t from = 0, to = dims[e], step = 1;
      if (e == d && dims[e] > 1) {
        if (form == 0) to = dims[e] / 2;
        else if (form == 1) from = random_() % 2, step = 2;
        else from = static_cast<int64_t>(random_()) % to, step = 1 + random_() % 3;
      }
      half[e] = (to - from + step - 1) / step;
      slice += Format("{}[{}:{}:{}]", slice.empty() ? "" : ", ", from, to, step);
    }
    return Add(std::move(half), Format("slice({}), slice={{{}}}", Name(n), slice));
  }

  void Rows(std::size_t n, const SpmdSizes& dims) {
    if (dims.size() != 2) return Add(dims, Format("negate({})", Name(n)));
    // Rows by numbers, some of which are past the ends.
    lines_ += Format("  i{} = s32[4] constant({{{}, -2, {}, 99}})\n", values_.size(), random_() % dims[0], dims[0] - 1);
    return Add({4, dims[1]},
               Format("gather({}, i{}), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, "
                      "index_vector_dim=1, slice_sizes={{1,{}}}",
                      Name(n), values_.size(), dims[1]));
  }

  void Step() {
    const std::size_t n = Any();
    const SpmdSizes dims = values_[n];
    switch (random_() % 19) {
      case 0: return Add(dims, Format("custom-call({}), custom_call_target=\"Sharding\"", Name(n)), true);
      case 1:
        for (std::size_t m = 0; m < values_.size(); ++m)
          if (m != n && values_[m] == dims) return Clamped(dims, Format("add({}, {})", Name(n), Name(m)));
        return Clamped(dims, Format("multiply({0}, {0})", Name(n)));
      case 2: {
        SpmdSizes turned(dims.rbegin(), dims.rend());
        std::string order;
        for (std::size_t d = dims.size(); d-- > 0;) order += (order.empty() ? "" : ",") + std::to_string(d);
        return Add(std::move(turned), Format("transpose({}), dimensions={{{}}}", Name(n), order));
      }
      case 3:
        for (std::size_t m = 0; m < values_.size(); ++m)
          if (dims.size() == 2 && values_[m].size() == 2 && values_[m][0] == dims[1])
            return Clamped(
                {dims[0], values_[m][1]},
                Format("dot({}, {}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", Name(n), Name(m)));
        [[fallthrough]];
      case 4: {  // a sum over one dimension, spread out again
        if (dims.size() < 2) return Add(dims, Format("negate({})", Name(n)));
        const std::size_t d = random_() % dims.size();
        SpmdSizes rest;
        std::string mapped;
        for (std::size_t k = 0; k < dims.size(); ++k) {
          if (k == d) continue;
          rest.push_back(dims[k]);
          mapped += (mapped.empty() ? "" : ",") + std::to_string(k);
        }
        Clamped(rest, Format("reduce({}, zero), dimensions={{{}}}, to_apply=sum", Name(n), d));
        return Add(dims, Format("broadcast({}), dimensions={{{}}}", Name(values_.size() - 1), mapped));
      }
      case 5:
        if (dims.size() == 3) return Add({dims[0] * dims[1], dims[2]}, Format("reshape({})", Name(n)));
        if (dims.size() == 2 && dims[0] % 2 == 0) return Add({2, dims[0] / 2, dims[1]}, Format("reshape({})", Name(n)));
        return Add(dims, Format("negate({})", Name(n)));
      case 6: return Add(dims, Format("reverse({}), dimensions={{{}}}", Name(n), random_() % dims.size()));
      case 7: return Rows(n, dims);
      case 8: {
        SpmdSizes twice = dims;
        const std::size_t d = random_() % dims.size();
        twice[d] *= 2;
        if (twice[d] > 64) return Add(dims, Format("abs({})", Name(n)));
        return Add(std::move(twice), Format("concatenate({0}, {0}), dimensions={{{1}}}", Name(n), d));
      }
      case 9: return PlaceOfLargest(n, dims);
      case 10: return Write(n, dims);
      case 11: return Read(n, dims);
      case 12: return WriteRows(n, dims);
      case 13: return Elements(n, dims);
      case 14: {
        const std::size_t d = random_() % dims.size();
        return Add(dims, Format("sort({}), dimensions={{{}}}, to_apply=less", Name(n), d));
      }
      case 15: return SumsBefore(n, dims);
      case 16: return Pad(n, dims);
      case 17: return Turn(n, dims);
      case 18: return WriteBox(n, dims);
      default: return Slice(n, dims);
    }
  }

  std::mt19937 random_;
  bool is_even_, sharded_ = false;
  std::string lines_;
  std::vector<SpmdSizes> values_;
};

class SpmdRandom : public Spmd {
 protected:
  // Returns how many results are cut.
  int64_t Compare(uint32_t seeds, bool is_even) {
    int64_t cut = 0;
    for (uint32_t seed = 1; seed <= seeds; ++seed) CompareOne(seed, is_even, cut);
    return cut;
  }
  void CompareOne(uint32_t seed, bool is_even, int64_t& cut) {
    const std::string alone = Maker(seed, is_even).Text(false), sharded = Maker(seed, is_even).Text(true);
    SCOPED_TRACE(Format("seed {}\n{}", seed, sharded));
    auto module = ParseHloText(alone, "test");
    ASSERT_TRUE(module) << module.error().message();
    std::vector<Literal> arguments;
    for (const Instruction* p : (*module)->entry()->parameters())
      arguments.push_back(SmallNumbers(p->shape(), seed + static_cast<uint32_t>(arguments.size())));
    std::vector<std::string> none, shardings;
    const auto want = Run(alone, arguments, &none);
    ASSERT_TRUE(want) << want.error().message();
    const auto got = Run(sharded, arguments, &shardings);
    ASSERT_TRUE(got) << got.error().message();
    for (std::size_t d = 0; d < 4; ++d)
      for (std::size_t r = 0; r < (*got)[d].size(); ++r) {
        const Sharding sharding = *ParseSharding(shardings[r], 4);
        cut += !sharding.IsReplicated();
        EXPECT_EQ((*got)[d][r], *BlockOf((*want)[0][r], sharding, static_cast<int64_t>(d)))
            << "result " << r << " of device " << d << " " << shardings[r];
      }
  }
};

TEST_F(SpmdRandom, GiveWhatOneDeviceGives) { EXPECT_GT(Compare(250, true), 1200); }
TEST_F(SpmdRandom, GiveItInBlocksThatAreNotEqual) { EXPECT_GT(Compare(250, false), 1200); }

// Minus zeros, NaNs and all widths come through, and indices past the ends are those at the ends.
TEST_F(SpmdRandom, RowsOfACutTableAreTheirBits) {
  for (const char* type : {"f32", "bf16", "f64", "s8", "u16", "s64", "pred"})
    for (const char* index : {"s32", "u32", "s64", "u64", "u8"}) {
      const std::string body = Replaced(Replaced(R"(
  table = T[64,3] parameter(0)@A
  n = s32[6] constant({63, 0, 15, 16, 40, 2000000000})
  i = I[6] convert(n)
  ROOT r = T[6,3] gather(table, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,3}
})",
                                                 "T[", std::string(type) + "["),
                                        "I[", std::string(index) + "[");
      const std::string alone = "HloModule m\nENTRY main {" + Replaced(body, "@A", ""),
                        cut = "HloModule m, num_partitions=4\nENTRY main {" +
                              Replaced(body, "@A", ", sharding={devices=[4,1]<=[4]}");
      auto module = ParseHloText(alone, "test");
      ASSERT_TRUE(module) << module.error().message();
      const Shape shape = (*module)->entry()->parameters()[0]->shape();
      std::vector<std::byte> bytes(static_cast<std::size_t>(shape.byte_size()));
      std::mt19937 random(3);
      for (std::byte& b : bytes) b = static_cast<std::byte>(std::string_view(type) == "pred" ? random() % 2 : random());
      if (std::string_view(type) == "f32") bytes[0] = bytes[1] = bytes[2] = std::byte{0}, bytes[3] = std::byte{0x80};
      const std::vector<Literal> arguments = {*Literal::FromBytes(shape, bytes)};
      std::vector<std::string> none;
      const auto want = Run(alone, arguments, &none), got = Run(cut, arguments, &none);
      ASSERT_TRUE(want) << want.error().message();
      ASSERT_TRUE(got) << got.error().message();
      for (const auto& device : *got)
        EXPECT_TRUE(std::ranges::equal(std::as_const(device[0]).bytes(), std::as_const((*want)[0][0]).bytes()))
            << type << " by " << index;
    }
}

}  // namespace
}  // namespace krafla
