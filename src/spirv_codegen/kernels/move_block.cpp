// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/move_block.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "base/checked_math.h"
#include "plan/reindex.h"
#include "spirv_codegen/block_lowering.h"
#include "spirv_codegen/kernels/loop_tile.h"

namespace krafla::spirv {
namespace {

using plan::IndexId;
constexpr int64_t kLeastRowBytes = 24;  // of a row of the result that has blocks of its own
constexpr int64_t kLineBytes = 64;      // of a line of memory
constexpr int64_t kLeastRun = 8;        // blocks in a run of elements that are not bytes, there too
constexpr int64_t kLeastTurned = 8;     // rows of words that are turned over, where time goes to memory
// Words of a row that are read where rows are shifted. 2047 x 1999 bytes were transposed in 1.0 ms of one Zen 4 core by
// five of them, in 1.4 by two; elements of two bytes, whose squares are smaller, gain nothing by more than three.
constexpr int64_t kShiftedWords = 5, kShiftedWordsOfPairs = 3;
constexpr int64_t kMostTileBytes = 64;  // of a tile: a square of words of bytes

InlineVector<int64_t, PointGroup::kPoints> Counted(int64_t points, int64_t rows, bool by_rows) {
  InlineVector<int64_t, PointGroup::kPoints> out;
  for (int64_t k = 0; k < rows; ++k)
    for (int64_t i = 0; i < points; ++i) out.push_back(by_rows ? k : i);
  return out;
}

// Whether what is stored is computed, as it is in most programs: those need no closer look.
bool Calculates(const plan::ElementProgram& program) {
  std::vector<bool> seen(program.nodes.size());
  std::vector<plan::NodeId> open;
  const auto look = [&](plan::NodeId id) {
    if (!seen[static_cast<std::size_t>(id)]) open.push_back(id);
    seen[static_cast<std::size_t>(id)] = true;
  };
  for (const plan::Store& s : program.stores) look(s.node);
  while (!open.empty()) {
    const plan::Node& n = program.nodes[static_cast<std::size_t>(open.back())];
    open.pop_back();
    if (n.op == plan::NodeOp::kConstant || n.op == plan::NodeOp::kLoad) continue;
    if (!MoveIndices::MayMove(n)) return true;
    for (std::size_t i = n.op == plan::NodeOp::kHlo && n.opcode == Opcode::kSelect ? 1 : 0; i < 3; ++i)
      if (n.operands[i] != plan::kNoNode) look(n.operands[i]);
  }
  return false;
}

}  // namespace

MoveIndices IndicesOf(const MoveBlock& block) {
  const plan::ElementProgram& program = *block.program;
  // The blocks of a row that has its own begin anywhere in it. Of tiles the last rows, and columns, are taken twice
  // where some are left over.
  const auto multiple = [&](int dim, int64_t count) {
    return block.form == MoveForm::kRows || (block.form == MoveForm::kShift && dim == block.inner) ||
                   (block.across >= 0 && Extent(program, dim) % count != 0)
               ? 1
               : count;
  };
  std::vector<PointGroup::Along> along = {
      {block.inner, {multiple(block.inner, block.points), Counted(block.points, block.rows, false)}}};
  if (block.across >= 0)
    along.push_back({block.across, {multiple(block.across, block.rows), Counted(block.points, block.rows, true)}});
  MoveIndices out(program, *block.limits, std::move(along), block.element_bytes, block.form == MoveForm::kFlat);
  out.SetLine(block.points);
  return out;
}

bool StoresWords(const MoveBlock& block, MoveIndices& indices) {
  const bool anywhere = block.form == MoveForm::kRows || block.form == MoveForm::kShift;
  for (const plan::Store& s : block.program->stores) {
    const WordLayout layout = LayoutOfStore(s, block.points, block.word_bytes);
    const int per_word = layout.word_bytes / layout.element_bytes;
    if (per_word == 0) return false;
    const std::optional<MoveIndices::Step> step = indices.Of(s.index);
    if (!step || step->in_runs) return false;
    const auto& at = step->offsets.at;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const bool begins = static_cast<int64_t>(i) % block.points == 0;
      if (!begins && at[i] != at[i - 1] + 1) return false;
      if (begins && !anywhere && (at[i] % per_word != 0)) return false;
    }
    if (!anywhere && step->offsets.multiple % per_word != 0) return false;
  }
  return true;
}

bool LieApart(std::span<const int64_t> offsets, int element_bytes) {
  const auto [low, high] = std::ranges::minmax(offsets);
  const std::ptrdiff_t steps = std::ssize(offsets) - 1;
  return element_bytes > 1 && steps > 0 && high - low >= 2 * steps;
}

namespace {

// What it costs that the elements of a load lie in many lines of memory, or in a long stretch of them: lanes then read
// lines in an order that no processor foresees. Nothing where words gain nothing, because most elements lie alone.
std::optional<double> CostOfLines(std::vector<int64_t> offsets, int element_bytes, double reads) {
  std::ranges::sort(offsets);
  double stretches = 1;
  int64_t begin = offsets[0];
  bool is_long = false;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if ((offsets[i] - offsets[i - 1]) * element_bytes > kLineBytes) ++stretches, begin = offsets[i];
    is_long = is_long || (offsets[i] - begin) * element_bytes >= kLineBytes;
  }
  if (stretches > 4 && element_bytes > 1) return std::nullopt;
  if (stretches == 1 && LieApart(offsets, element_bytes)) return std::nullopt;
  return (stretches > 4 ? 2 * stretches : 0) + (is_long ? 4 * reads : 0);
}

// How often an element is moved where the blocks do not divide the dimension.
double Excess(const plan::ElementProgram& program, int dim, int64_t count) {
  return static_cast<double>(RoundUp(Extent(program, dim), count)) / static_cast<double>(Extent(program, dim));
}

// What a point of the block costs, in instructions; nothing where the loop is faster without words.
std::optional<double> CostOf(const plan::ElementProgram& program, const MoveBlock& block, MoveIndices& indices) {
  // Time goes to memory where arrays fit no cache. Elements of a word or two gain there where they are turned over, and
  // lose a little as they are taken in blocks.
  const bool is_large = Product(program.space.dims()) * block.element_bytes > kLargeBytes;
  const bool is_turned = block.form == MoveForm::kTile && Extent(program, block.across) >= kLeastTurned &&
                         Extent(program, block.inner) >= kLeastTurned;
  if (is_large && block.element_bytes >= 4 && !is_turned) return std::nullopt;
  const int64_t run = indices.starts().length;
  if (is_large && block.element_bytes > 1 && run != 0 && run < kLeastRun * block.points) return std::nullopt;
  double reads = 0, parts = 0, runs = 0, lines = 0;
  for (const plan::NodeId id : indices.loads()) {
    const MoveIndices::Step step = *indices.Of(program.nodes[static_cast<std::size_t>(id)].index);
    const auto& at = step.offsets.at;
    std::vector<int64_t> offsets;
    bool is_line = true, is_back = true;
    for (std::size_t i = 0; i < at.size(); ++i) {
      offsets.push_back(at[i] - at[0]);
      is_line = is_line && offsets[i] == static_cast<int64_t>(i);
      is_back = is_back && offsets[i] == -static_cast<int64_t>(i);
    }
    const int64_t multiple = step.in_runs ? 1 : step.offsets.multiple;
    const auto own = static_cast<double>(ElementWords::ReadsOf(multiple, at[0], offsets, block.per_word()));
    reads += own;
    if (!is_line && block.per_word() > 1)
      parts += static_cast<double>(is_back || block.rows == block.per_word() ? at.size() / 2 : at.size());
    if (step.in_runs) runs += 1;
    if (block.form == MoveForm::kRows && LieApart(offsets, block.element_bytes)) return std::nullopt;
    if (block.form != MoveForm::kFlat) continue;
    const std::optional<double> of_lines = CostOfLines(std::move(offsets), block.element_bytes, own);
    if (!of_lines) return std::nullopt;
    lines += *of_lines;
  }
  const auto all = static_cast<double>(block.stored() * block.rows);
  const double words = all / block.per_word();
  double cost = 2 * reads + 2 * words * static_cast<double>(program.stores.size()) + 2 * parts + lines + 12;
  if (runs > 0)
    cost += (2 * reads + 8 * words) * static_cast<double>(block.points) / static_cast<double>(indices.starts().length);
  if (block.form == MoveForm::kRows) {
    const auto row = static_cast<double>(Extent(program, block.inner));
    // Ends of rows, and what is left of the last block of each.
    cost += 30 * 2 * all / row;
    cost *= (row + all / 2) / row;
  }
  if (block.form == MoveForm::kShift) cost += 6 * words * static_cast<double>(program.stores.size());
  if (block.across >= 0)
    cost *= Excess(program, block.inner, block.stored()) * Excess(program, block.across, block.rows);
  // The stores of all lanes together should go to as few lines as they can, where they have to wait for memory.
  if (block.form == MoveForm::kFlat && is_large && block.points * block.element_bytes > 16) cost *= 2;
  return cost / all;
}

// Takes the block if it can be made and costs less.
void Consider(MoveBlock block, std::optional<MoveBlock>& best) {
  if (block.all() % block.per_word() != 0 || block.points % block.per_word() != 0) return;
  MoveIndices indices = IndicesOf(block);
  if (!StoresWords(block, indices) || !indices.CanMove()) return;
  block.starts = indices.starts();
  const std::optional<double> cost = CostOf(*block.program, block, indices);
  if (!cost) return;
  block.cost = *cost;
  if (!best || block.cost < best->cost) best = std::move(block);
}

void ConsiderTiles(const LoopProblem& p, const MoveBlock& like, std::optional<MoveBlock>& best) {
  const plan::ElementProgram& program = *like.program;
  const auto is_read = [&](const plan::Store& s, const plan::Node& n) {
    return n.op == plan::NodeOp::kLoad && n.buffer == s.buffer;
  };
  // Rows that are taken twice must not be read behind the first time.
  for (const plan::Store& s : program.stores)
    for (const plan::Node& n : program.nodes)
      if (is_read(s, n)) return;
  for (int d = 0; d < p.inner; ++d) {
    const bool reads_along = std::ranges::any_of(program.nodes, [&](const plan::Node& n) {
      if (n.op != plan::NodeOp::kLoad) return false;
      const auto stride = program.space.StrideAlong(n.index, d);
      return stride.affine && std::abs(stride.stride) == 1;
    });
    const int64_t extent = Extent(program, d);
    if (!reads_along || extent < 2) continue;
    for (const int64_t rows : {int64_t{like.per_word()}, extent, int64_t{4}}) {
      if (rows < 2 || rows > extent || rows > 8) continue;
      for (int64_t points = like.per_word(); points * rows * like.element_bytes <= kMostTileBytes; points *= 2) {
        MoveBlock block = like;
        block.form = MoveForm::kTile;
        block.inner = p.inner, block.across = d;
        block.points = points, block.rows = rows;
        const int64_t columns = Extent(program, p.inner);
        if (columns % points == 0 || (like.per_word() == 1 && columns >= points)) Consider(block, best);
      }
    }
    if (MoveBlock block = like; like.element_bytes < 4 && extent >= like.per_word()) {
      block.form = MoveForm::kShift;
      block.inner = p.inner, block.across = d;
      block.rows = like.per_word();
      block.points = (like.element_bytes == 1 ? kShiftedWords : kShiftedWordsOfPairs) * like.per_word();
      if (Extent(program, p.inner) >= block.points) Consider(block, best);
    }
  }
}

}  // namespace

int WordBytes(const Target& target, int element_bytes) {
  // A descriptor ends with the array's last word of four bytes.
  const DeviceFeatures& features = target.profile.features;
  const bool pairs =
      target.tuning.memory.words_in_pairs && features.int64 && (features.buffer_device_address || element_bytes == 8);
  return pairs ? 8 : 4;
}

MoveBlock BlockOf(plan::ElementProgram program) {
  MoveBlock out;
  out.limits = std::make_shared<const Limits>(FindLimits(program));
  out.program = std::make_shared<const plan::ElementProgram>(std::move(program));
  return out;
}

std::optional<MoveBlock> FindMoveBlock(const LoopProblem& p) {
  const LoopTuning& tuning = p.target.tuning.loop;
  if (tuning.move_bytes == 0 || p.program.stores.empty() || p.inner < 0 || p.points < 2 ||
      p.points > std::numeric_limits<int32_t>::max() || Calculates(p.program))
    return std::nullopt;
  MoveBlock like;
  like.element_bytes = StorageBytes(p.program.stores[0].storage);
  like.word_bytes = WordBytes(p.target, like.element_bytes);
  const bool pairs = like.word_bytes == 8;
  if (like.element_bytes > like.word_bytes) return std::nullopt;
  const auto of = [&](plan::ElementProgram program) {
    MoveBlock block = BlockOf(std::move(program));
    block.element_bytes = like.element_bytes, block.word_bytes = like.word_bytes;
    return block;
  };
  const MoveBlock flat = of(plan::Flattened(p.program));
  like = of(p.program);
  const int64_t bytes = tuning.move_bytes;
  std::optional<MoveBlock> best;
  const auto consider_flat = [&](int64_t points, int word_bytes) {
    if (points < 2) return;
    MoveBlock block = flat;
    block.points = points, block.word_bytes = word_bytes;
    if (points <= p.points && block.per_word() > 0) Consider(block, best);
  };
  for (const int64_t eighths : {8, 12, 6, 4, 3, 2, 1})
    consider_flat(eighths * bytes / 8 / like.element_bytes, like.word_bytes);
  // Runs of three, as those of pixels, have at most one end in four elements.
  if (like.element_bytes < 4) consider_flat(4, 4);
  ConsiderTiles(p, like, best);
  if (MoveBlock words = like; like.element_bytes == 4 && pairs) {
    words.word_bytes = 4;
    ConsiderTiles(p, words, best);
  }
  if (!best && p.program.stores.size() == 1 && Extent(p.program, p.inner) * like.element_bytes >= kLeastRowBytes) {
    MoveBlock block = like;
    block.form = MoveForm::kRows;
    block.inner = p.inner;
    block.points = bytes / like.element_bytes;
    while (block.points > block.per_word() && block.points * 4 > Extent(p.program, p.inner)) block.points /= 2;
    Consider(block, best);
  }
  return best;
}

}  // namespace krafla::spirv
