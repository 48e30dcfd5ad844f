// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "cpu_fallback/executor/kernel_families.h"

namespace krafla::cpu {

namespace {

using plan::ElementProgram;
using plan::Node;
using plan::NodeOp;

// About 24 KiB of registers: they share the L1 cache with what loads bring in.
int64_t TileElements(const ElementProgram& program) {
  // Integers of a byte or two are mostly computed in lanes of that width.
  const auto bytes_of = [](const Node& n) {
    const bool is_narrow = IsIntegral(n.storage) && plan::IsNarrow(n.storage);
    return static_cast<int64_t>(StorageBytes(is_narrow ? n.storage : n.type));
  };
  int64_t bytes = 0, widest = 1;
  for (const Node& n : program.nodes) {
    if (n.op != NodeOp::kHlo && n.op != NodeOp::kLoad) continue;
    bytes += bytes_of(n);
    widest = std::max(widest, bytes_of(n));
  }
  for (const plan::Store& s : program.stores) widest = std::max<int64_t>(widest, StorageBytes(s.storage));
  // Registers are reused; long programs rarely keep more than a dozen alive.
  bytes = std::min(bytes + 2 * widest, 12 * widest);
  return std::clamp<int64_t>(24 * 1024 / bytes / 64 * 64, 512, 8192);
}

// Nanoseconds for a tile, roughly.
double TileTime(const ElementProgram& program, double elements) {
  double time = 0;
  for (const Node& n : program.nodes) {
    switch (n.op) {
      case NodeOp::kConstant:
      case NodeOp::kParam:
      case NodeOp::kBitcast: break;
      case NodeOp::kLoad: time += 5 + 0.1 * elements; break;
      case NodeOp::kHlo:
        time += 5 + (GetOpInfo(n.opcode).lowering == Lowering::kFormula ? 0.6 : 0.05) * elements;
        break;
      case NodeOp::kIndex:
      case NodeOp::kCompare:
      case NodeOp::kConvert:
      case NodeOp::kRound:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: time += 5 + 0.08 * elements; break;
    }
  }
  return time + static_cast<double>(program.stores.size()) * (5 + 0.1 * elements);
}

class LoopKernelRun final : public CpuKernel {
 public:
  LoopKernelRun(LoopRunner runner, int threads) : runner_(std::move(runner)) {
    scratch_bytes_ = runner_.scratch_bytes(threads);
  }
  Result<> Run(std::span<std::byte* const> bindings, ThreadPool& pool, std::byte* scratch) const override {
    runner_.Run(bindings, pool, scratch);
    return {};
  }
  bool AppendTo(TapeBuilder& tape, std::span<const plan::Slice> bindings) const override {
    return runner_.AppendTo(tape, bindings);
  }

 private:
  LoopRunner runner_;
};

}  // namespace

Result<LoopRunner> LoopRunner::Make(ElementProgram program) {
  LoopRunner out;
  for (int64_t d : program.space.dims())
    if (d == 0) return out;  // no tiles
  MakeAffine(program);
  KRAFLA_ASSIGN(out.rows_, RowGather::Make(program));
  if (out.rows_) return out;
  const TileShape tile = ChooseTile(program, {.max_elements = TileElements(program)});
  KRAFLA_ASSIGN(out.program_, BlockProgram::Compile(program, {.tile = tile}));
  out.grid_ = TileGrid(program.space.dims(), tile);
  if (out.grid_.count() == 1) out.grid_.Seek(0, out.only_);
  // A thread should have work for about 10 us before another one is woken.
  const double time = TileTime(program, static_cast<double>(tile.rows * tile.columns));
  out.grain_ = std::max<int64_t>(1, static_cast<int64_t>(10000 / time));
  return out;
}

void LoopRunner::Run(std::span<std::byte* const> buffers, ThreadPool& pool, std::byte* scratch) const {
  if (rows_) return rows_->Run(buffers, pool, scratch);
  if (grid_.count() == 1) {
    program_.Start(scratch, buffers);
    program_.RunTile(scratch, only_.origin, only_.rows, only_.columns);
    return;
  }
  pool.ParallelFor(grid_.count(), grain_, [&](int64_t begin, int64_t end, int worker) {
    std::byte* memory = scratch + worker * program_.frame_bytes();
    program_.Start(memory, buffers);
    TileGrid::Tile tile;
    grid_.Seek(begin, tile);
    for (int64_t i = begin; i < end; ++i, grid_.Next(tile))
      program_.RunTile(memory, tile.origin, tile.rows, tile.columns);
  });
}

bool LoopRunner::AppendTo(TapeBuilder& tape, std::span<const plan::Slice> buffers) const {
  if (rows_ || grid_.count() != 1) return false;
  return program_.AppendTo(tape, buffers, only_.rows, only_.columns);
}

KernelResult MakeLoopKernel(const plan::KernelPlan&, const plan::LoopKernel& body, const CpuKernelOptions& options) {
  KRAFLA_ASSIGN(LoopRunner runner, LoopRunner::Make(body.program));
  return std::make_unique<LoopKernelRun>(std::move(runner), options.threads);
}

}  // namespace krafla::cpu
