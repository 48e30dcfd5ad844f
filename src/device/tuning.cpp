// SPDX-License-Identifier: Apache-2.0
#include "device/tuning.h"

#include <cstdlib>

#include "base/file.h"
#include "device/tuning_fields.h"
#include "device/vendors.h"

namespace krafla {
namespace {

// Of TuneCpu: products of matrices, convolutions and attention.
void TuneCpuProducts(Tuning& t) {
  t.panel.lanes = 8;
  t.panel.in_subgroups = true;
  t.panel.chained_sums = true;
  t.panel.any_rows = true;
  t.panel.least_idle = 4;
  t.panel.most_block_rows = 16;
  // Twice the rows share what is read of the columns: 768 x 768 x 768 of f32 in 15 ms instead of 19, a convolution of
  // 3x3x64x64 on 56 x 56 in 4.3 instead of 5.6; llvmpipe compiles such a kernel in 140 ms instead of 80.
  t.panel.most_rows = 16;
  t.panel.most_rows_products = 50'000'000;
  // llvmpipe keeps every sum under the mask of lanes at each turn, and moves those that found no register: 256 x 256 x
  // 256 of f32 in 0.96 ms instead of 1.24 of processor time, compiled in 280 ms instead of 270.
  t.panel.turn_products = 512;
  t.panel.turn_least_products = 10'000'000;

  t.dot.shared_tiles = {};
  t.dot.rows_local = 1;
  t.dot.rows_values = 1024;  // what does not fit the registers lies in the first cache
  t.dot.column_slices = 1;
  t.dot.wanted_sums = 0;
  t.dot.row_share = 0;
  t.dot.pack_panels = true;
  t.dot.join_local = 8;

  // What all lanes read is one read.
  t.attention.row_lanes = 8;
  t.attention.group_lanes = 0;
  t.attention.tiles = {};

  t.conv.shared_tiles = {};
  // With few features lanes lie over pixels (conv.blocks): the gradient of a 7x7 window's 3 features from 64 in 4.1 ms
  // of one Sapphire Rapids core instead of 22.6.
  t.conv.least_features = 1;
  t.conv.only_packed_pixels = true;
  t.conv.direct_local = 32;
  t.conv.reorder_products_of_matrices = true;
  t.conv.widen_products = 4;

  // llvmpipe works matrices out element by element.
  t.coop.used = false;
  t.coop.tiles = {{16, 16, 1, 1, 0, 32}, {32, 32, 1, 1, 0, 32}};
  t.coop.flexible_tiles = {{16, 16, 8, 0, 32}};
}

// Of TuneCpu: sorts, running sums and scatters.
void TuneCpuOrders(Tuning& t) {
  t.sort.invocation_chunks = true;
  t.sort.lanes = 8;
  t.sort.item_local = 8;
  t.sort.workgroup_items = 8192;
  t.sort.rank_step = 8;
  t.sort.rank_local = 64;

  t.scan.local = 8;
  t.scan.few_lines = 64;
  t.scan.long_line = 4096;
  t.scan.most_chunk = t.scan.most_totals = 65536;

  t.scatter.atomics = false;
  t.scatter.wanted_invocations = 0;
  t.scatter.words = true;
  t.scatter.in_order_local = 8;
  // A workgroup that takes 32 bytes of each row waits for memory each time. Sums of rows of 128 (bench/cliffs) took 22
  // ms of one Zen 4 core, take 6 with a workgroup that has whole rows, and 12 with four that have rows of their own.
  t.scatter.in_order_places = 16;
  t.scatter.in_order_shares = 4;
}

// Shaders run on the host's cores: a workgroup costs far more than a turn of a loop, memory of a workgroup is memory as
// any other, and an invocation is a lane of the processor's vectors.
void TuneCpu(Tuning& t) {
  // A lane's read is an element of a gather, whose time is that of its elements: one of 64 bits takes what one of 32
  // takes. Measured with llvmpipe on a Zen 5: 1 x 4096 by 4096 x 16384 of f32 in 43 ms instead of 87, of bf16 in 28
  // instead of 58.
  t.memory.words_in_pairs = true;
  t.memory.words_around = true;

  // A workgroup that is one subgroup takes its points in the order in which they lie, which the processor reads ahead
  // of. Of a larger one each subgroup in its turn takes a part of every run of points: with 64 lanes a sum of two
  // arrays of 4 MB took 5 ms of one Zen 4 core instead of 1.2, sums of 100000 rows of 8 (32 lanes) 2.1 instead of 0.4.
  t.loop.local = 8;
  t.loop.workgroup_points = 8192;
  // With llvmpipe on a Sapphire Rapids a million bytes were converted in 0.14 ms instead of 0.32.
  t.loop.turn_cost = 32;
  // There is no memory that is nearer than the first cache. With llvmpipe on one Sapphire Rapids core 4096 x 4096 of
  // f32 were transposed in 177 ms run by run, in 32 tile by tile, and 256 x 256 x 64, backwards, in 28.7 and 3.2.
  t.loop.tile_in_shared_memory = false;
  t.loop.tile_rows = 16;
  t.loop.most_vector_cost = 2147483647;
  // A gather or a scatter of 8 bytes costs what one of a byte does. With llvmpipe on one Zen 4 core 1000 x 1801 pixels
  // were cropped from a picture of bytes in 0.83 ms instead of 5.9, 2048 x 2048 bytes transposed in 1.0 instead of 7.
  t.loop.move_bytes = 32;
  t.loop.move_local = 8;

  t.reduce.wanted_invocations = 256;
  t.reduce.least_split_column = 1024;
  t.reduce.least_column_part = 256;
  t.reduce.odd_columns = true;
  t.reduce.short_row = 16;
  t.reduce.serial_local = 8;
  t.reduce.long_row = int64_t{1} << 17;
  t.reduce.few_rows = 8;
  t.reduce.row_parts = 32;
  t.reduce.subgroup_row = 2147483647;
  t.reduce.subgroup_local = 1;
  t.reduce.workgroup_points = 8192;

  // What lies between the kernels of a block stays in the cache.
  t.rows.block_bytes = int64_t{2} << 20;

  TuneCpuProducts(t);

  TuneCpuOrders(t);

  t.linalg.local = 8;
  t.linalg.workgroup_points = 8192;

  t.loop_nest.one_subgroup = true;
  t.loop_nest.least_lanes = 8;
  t.loop_nest.step_ns = 40;
  t.loop_nest.points_at_once = 1;
  t.loop_nest.point_ns = 0;
  t.loop_nest.operation_ns = 0.3;
  // In times that are estimated as too long as operation_ns is, 0.3 ns where llvmpipe on a Sapphire Rapids took 0.02 to
  // 0.06. A launch takes it 8 to 20 us there. Loops of up to this were 2 to 6 times as fast as one kernel.
  t.loop_nest.launch_ns = 100000;
  // LLVM takes 0.02 to 0.1 ms for a word of such a kernel, and about as long for the words of as many kernels.
  t.loop_nest.most_words = 20000;
  // A turn's counter, mask and jumps cost as much as the few operations of a point.
  t.loop_nest.points_together = 4;

  // A processor manages far more in kernels that are long.
  t.rate.flops_per_ms = 2.5e6;
  t.rate.bytes_per_ms = 5e5;
  t.rate.per_processor = true;
}

// A row overrides fields, by name, for the devices that it applies to. Rows are applied from the first to the last: the
// device's class, then its vendor, then its architecture, as far as the profile tells it. The initializers of Tuning
// are the class GPU, integrated ones included; their rates are those of a small integrated one, which manages more than
// 200 billion operations a second.
struct Row {
  bool (*applies)(const DeviceProfile& profile);
  void (*tune)(Tuning& tuning);
};
constexpr Row kRows[] = {
    {[](const DeviceProfile& p) { return p.is_cpu; }, TuneCpu},
    // LLVM 19 converts floats to integers lane by lane, with three more instructions each to saturate. A comparison of
    // f16 that was widened becomes one of f16, which it makes lane by lane too. Mesa rounds to f16 with branches
    // (src/compiler/nir/nir_lower_fp16_conv.c).
    {[](const DeviceProfile& p) { return p.is_cpu && p.driver_id == kDriverLlvmpipe; },
     [](Tuning& t) { t.conversion.integers_by_addition = t.conversion.halves_by_bits = true; }},
    // Four subgroups of 64 lanes with 64 x 64 sums each read shared memory least.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorAmd; },
     [](Tuning& t) {
       t.coop.tiles = {{128, 128, 2, 2, 64}, {64, 64, 2, 2, 32, 128}, {32, 32, 2, 1, 0, 128}, {32, 32, 1, 1, 0}};
       t.coop.most_constant_offset = 4095;
     }},
    // Intel's matrix units work with the smallest subgroups: 8 lanes on Xe-HPG, 16 on Xe2. Sums of 16 x 32 are all that
    // the 128 registers of a thread hold beside the matrices and what is read for the next step; of 8 x 16, where
    // registers have 8 lanes.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorIntel; },
     [](Tuning& t) {
       t.coop.smallest_subgroup = true;
       t.coop.tiles = {{128, 128, 8, 4, 64}, {64, 64, 4, 2, 32}, {32, 32, 2, 2, 0}, {32, 32, 1, 1, 0}};
       // Scores of a tile and sums of the result are in registers together; rows of 256 spill in all tiles.
       t.attention.tiles = {
           {64, 64, 8, 2, 64}, {64, 32, 8, 2, 64}, {32, 32, 4, 2, 1}, {32, 16, 4, 1, 1}, {16, 16, 2, 1, 0}};
       t.attention.most_tile_depth = 128;
       // A thread's registers hold 128 values of 16 lanes, or 64 where registers have 8.
       t.dot.rows_subgroup = 16;
       t.reduce.most_kept = 32;
       t.conv.direct_written_out = 3;
       t.panel.most_block_rows = 4;
     }},
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorIntel && p.limits.min_subgroup_size == 8; },
     [](Tuning& t) {
       t.coop.tiles = {{64, 64, 8, 4, 32}, {32, 32, 4, 2, 0}, {32, 32, 1, 1, 0}};
       t.attention.tiles = {
           {64, 64, 8, 4, 64}, {64, 32, 8, 4, 64}, {32, 32, 4, 4, 1}, {32, 16, 4, 2, 1}, {16, 16, 2, 2, 0}};
       t.attention.most_tile_depth = 64;
       // With 32 lanes a value takes four registers, and rows spill.
       t.reduce.subgroup = t.attention.group_subgroup = 16;
       t.dot.rows_values = 48;
     }},
    // An invocation has 64 registers, addresses and all.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorArm; },
     [](Tuning& t) {
       t.panel.most_rows = 3;
       t.dot.rows_values = 40;
       t.dot.shared_tiles = {{64, 64, 16, 4, 64}, {32, 32, 16, 4, 0}};
       t.conv.shared_tiles = {{64, 64, 16, 4, 32}, {32, 32, 16, 4, 32}, {16, 16, 16, 4, 0}};
       t.reduce.most_kept = 16;
       t.conv.direct_written_out = 3;
       t.linalg.reflectors = 4;
     }},
    // Honeykrisp has Mesa's vendor id. An invocation has 128 registers; 64 numbers of two rows, as a softmax's gradient
    // keeps, leave too few for what is made of them.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorApple || p.driver_id == kDriverHoneykrisp; },
     [](Tuning& t) { t.reduce.most_kept = 96; }},
    // A workgroup of 256 leaves each invocation of an Adreno 6xx 32 registers of four values.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorQualcomm; },
     [](Tuning& t) { t.loop.most_vector_cost = 64; }},
    // Compilers of Mesa find the addresses of matrices that are the same in every turn only where they were needed
    // before the loop; and NVIDIA's keeps sums that begin as zeros in registers apart, and moves all of them in every
    // turn.
    {[](const DeviceProfile& p) { return p.vendor_id == kVendorIntel || p.vendor_id == kVendorNvidia; },
     [](Tuning& t) { t.coop.first_step_apart = true; }},
};

}  // namespace

Tuning TuningFor(const DeviceProfile& profile) {
  Tuning out;
  for (const Row& row : kRows)
    if (row.applies(profile)) row.tune(out);
  return out;
}

Result<> OverrideTuning(std::string_view json, Tuning& tuning) {
  Tuning out = tuning;
  KRAFLA_TRY(JsonReader("tuning").Read(json, out));
  for (const auto* tiles : {&out.dot.shared_tiles, &out.conv.shared_tiles})
    for (const SharedTile& tile : *tiles)
      if (tile.thread_rows > tile.rows)
        return InvalidArgument("A shared tile of a tuning has {} rows, fewer than the {} of an invocation.", tile.rows,
                               tile.thread_rows);
  tuning = std::move(out);
  return {};
}

Result<Tuning> TuningAskedFor(const DeviceProfile& profile) {
  Tuning out = TuningFor(profile);
  const char* path = std::getenv("KRAFLA_TUNING");
  if (path == nullptr || *path == 0) return out;
  auto read = [&]() -> Result<> {
    KRAFLA_ASSIGN(const std::string text, ReadFile(path));
    return OverrideTuning(text, out);
  };
  if (auto done = read(); !done)
    return Failure(std::move(done).error().WithContext(Format("while reading '{}', which KRAFLA_TUNING names", path)));
  return out;
}

}  // namespace krafla
