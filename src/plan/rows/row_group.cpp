// SPDX-License-Identifier: Apache-2.0
#include "plan/rows/row_group.h"

#include <algorithm>

#include "plan/rows/row_sums.h"

namespace krafla::plan {
namespace {

// How much larger blocks are that add to sums, as long as they are no larger than this.
constexpr int64_t kSumBlocks = 4, kMostSumBlock = int64_t{8} << 20;

std::size_t GroupAt(int64_t i) { return static_cast<std::size_t>(i); }

}  // namespace

DigitMember IntoDigits(const RowChain::Member& member, const Dims& digits) {
  // Rows that one step of a digit goes on by.
  Dims unit(digits.size(), 1);
  for (std::size_t d = digits.size(); d-- > 1;) unit[d - 1] = unit[d] * digits[d];
  DigitMember out{member.kernel, {}};
  std::vector<int64_t> units = member.units;
  for (std::size_t f = 0; f < units.size(); ++f) {
    const int64_t extent = (*FreeDims(out.kernel))[f];
    if (units[f] == 0) {
      out.digits.push_back(-1);
      continue;
    }
    std::size_t digit = 0;
    while (unit[digit] * digits[digit] != units[f] * extent) ++digit;
    out.digits.push_back(static_cast<int>(digit));
    if (extent == digits[digit]) continue;
    const int64_t inner = extent / digits[digit];
    out.kernel = SplitFree(out.kernel, static_cast<int>(f), inner);
    units.insert(units.begin() + static_cast<std::ptrdiff_t>(f) + 1, units[f]);
    units[f] *= inner;
  }
  return out;
}

RowBlocks ChooseBlocks(const RowChain& chain, int64_t row_bytes, const RowGroupOptions& options) {
  const Dims digits = chain.Digits();
  const bool has_dot = std::ranges::any_of(
      chain.members(), [](const auto& m) { return std::holds_alternative<DotKernel>(m.kernel.body); });
  // Each block reads and writes all sums that it adds to, so that there should be fewer of them.
  const bool has_sums = std::ranges::any_of(chain.members(), &RowChainMember::is_sum);
  const int64_t bytes = has_sums
                            ? std::max(options.block_bytes, std::min(kSumBlocks * options.block_bytes, kMostSumBlock))
                            : options.block_bytes;
  const int64_t wanted = std::max({bytes / std::max<int64_t>(row_bytes, 1), has_dot ? options.few_rows : 1,
                                   chain.rows() / std::max<int64_t>(options.most_blocks, 1)});
  RowBlocks out{digits.size() - 1, 1, 1};
  while (out.digit > 0 && out.rows * digits[out.digit] <= wanted) out.rows *= digits[out.digit--];
  const int64_t extent = digits[out.digit];
  const int64_t most = std::clamp<int64_t>(wanted / out.rows, 1, extent);
  out.part = most;
  // A divisor, if there is one that is not much smaller, or else what leaves a block of much the same size.
  for (int64_t part = most, left_over = 0; part > most / 2; --part) {
    const int64_t left = extent % part;
    if (left == 0) {
      out.part = part;
      break;
    }
    if (2 * left >= part && left_over == 0) out.part = part, left_over = left;
  }
  out.rows *= out.part;
  return out;
}

bool IsSharedEnough(const RowChain& chain, const RowBlocks& blocks, int64_t row_bytes, const RowGroupOptions& options) {
  // What lies between the kernels is neither written to memory nor read from there.
  const int64_t saved = SaturatedMultiply(2 * blocks.rows, row_bytes);
  const Dims digits = chain.Digits();
  for (const RowChain::Member& m : chain.members()) {
    const auto* dot = std::get_if<DotKernel>(&m.kernel.body);
    if (dot == nullptr) continue;
    const DigitMember member = IntoDigits(m, digits);
    if (m.is_sum) continue;
    const auto& split = std::get<DotKernel>(member.kernel.body);
    // Rows that share one right operand: in the whole, and in a block.
    int64_t in_all = 1, in_block = 1;
    const Dims free = *FreeDims(member.kernel);
    for (std::size_t f = 0; f < free.size(); ++f) {
      const bool is_shared = f >= split.batch.size() || split.rhs_batch_strides[f] == 0;
      if (!is_shared) continue;
      in_all *= free[f];
      const int digit = member.digits[f];
      if (digit < 0 || GroupAt(digit) > blocks.digit) in_block *= free[f];
      else if (GroupAt(digit) == blocks.digit) in_block *= blocks.part;
    }
    if (in_block >= in_all || in_block >= options.many_rows) continue;
    const int64_t bytes = SaturatedMultiply(dot->n * StorageBytes(dot->rhs_type), dot->k);
    if (in_block < options.few_rows || (bytes > options.shared_bytes && bytes > saved)) return false;
  }
  return true;
}

DigitDim DimOfDigit(const RowChain::Member& member, const Dims& digits, std::size_t digit) {
  DigitMember in_digits = IntoDigits(member, digits);
  const auto found = std::ranges::find(in_digits.digits, static_cast<int>(digit));
  if (found == in_digits.digits.end()) return {};
  return {std::move(in_digits.kernel), static_cast<int>(found - in_digits.digits.begin())};
}

std::optional<BlockKernels> TakeBlocks(std::span<const RowChain::Member> members, const Dims& digits, std::size_t digit,
                                       int64_t begin, int64_t extent, int64_t part) {
  BlockKernels out;
  out.grid = Dims(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(digit));
  out.grid.push_back(extent / part);
  out.first_row = begin;
  for (std::size_t d = digit + 1; d < digits.size(); ++d) out.first_row *= digits[d];
  for (const RowChain::Member& m : members) {
    DigitMember member = IntoDigits(m, digits);
    for (std::size_t f = 0; f < member.digits.size(); ++f) {
      if (member.digits[f] != static_cast<int>(digit)) continue;
      member.kernel =
          SplitFree(NarrowFree(member.kernel, static_cast<int>(f), begin, extent), static_cast<int>(f), part);
      member.digits.insert(member.digits.begin() + static_cast<std::ptrdiff_t>(f) + 1, -1);
      break;
    }
    std::vector<int> grid_of;
    for (int d : member.digits) grid_of.push_back(d <= static_cast<int>(digit) ? d : -1);
    std::optional<BlockKernel> block = TakeBlock(member.kernel, grid_of, out.grid);
    if (!block || (m.is_sum && !AddRowsTogether(block->kernel))) return std::nullopt;
    out.kernels.push_back(std::move(*block));
  }
  return out;
}

}  // namespace krafla::plan
