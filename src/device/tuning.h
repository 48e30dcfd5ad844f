// SPDX-License-Identifier: Apache-2.0
// What the code generator chooses by because it is faster, and never because it is right: which variants of a kernel a
// device gets, their tiles, the sizes of their workgroups and the thresholds between them. The members' initializers
// are the table's row for GPUs; tuning.cpp has the other rows. docs/tuning.md lists all fields with their values.
//
// Bounds on what one workgroup does (docs/decisions/0013-long-kernels.md) and everything that a result's bits depend on
// (wide_sum.h) are no tuning.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "device/device_profile.h"

namespace krafla {

// A product's tile in shared memory, of which an invocation holds thread_rows x 4 sums.
struct SharedTile {
  int rows = 64, columns = 64, depth = 16;  // elements
  int thread_rows = 4;                      // elements
  // Taken where the problem has so many tiles, which fill the device; 0: also where the tile is mostly edge.
  int64_t least_tiles = 0;
  bool operator==(const SharedTile&) const = default;
};

// A product's tile of cooperative matrices, which the subgroups of a workgroup share.
struct MatrixTile {
  int rows = 32, columns = 32;                  // elements
  int subgroup_rows = 1, subgroup_columns = 1;  // how the workgroup's subgroups lie over the tile
  int64_t least_tiles = 0;                      // as in SharedTile
  int64_t depth_bytes = 64;                     // bytes of the depth that are staged at once
  bool operator==(const MatrixTile&) const = default;
};

// A product's tile of matrices of any size, which a workgroup has, or a subgroup, where matrices are of subgroups only.
struct FlexibleTile {
  int rows = 64, columns = 64;  // elements
  uint32_t lanes = 128;         // invocations of the workgroup that shares the matrices
  int64_t least_tiles = 0;      // as in SharedTile
  int64_t depth_bytes = 128;    // bytes of the depth that are multiplied at once
  bool operator==(const FlexibleTile&) const = default;
};

// A workgroup's tile of attention, which its subgroups share; more of them, where there are more rows than lanes.
struct RowTile {
  int rows = 16, keys = 16;                     // keys: of a turn
  int subgroup_rows = 1, subgroup_columns = 1;  // how the subgroups lie over both products
  int64_t least_tiles = 0;                      // as in MatrixTile
  bool operator==(const RowTile&) const = default;
};

// Sizes of workgroups are in invocations, and at most what the device allows.

// How kernels read and write buffers.
struct MemoryTuning {
  bool words_in_pairs = false;  // vectors of 32-bit words as 64-bit words, where the device has those
  // Four neighbours of 1 or 2 bytes that a product reads from any place as the words that hold them; else one by one.
  bool words_around = false;
  bool operator==(const MemoryTuning&) const = default;
};

// How floats become integers and halves, where the bits are the same either way.
struct ConversionTuning {
  bool integers_by_addition = false;  // the sum with a number whose last bit is a one's place has the integer's bits
  bool halves_by_bits = false;        // f32 is rounded to f16 by arithmetic on its bits; f16 is widened so to compare
  bool operator==(const ConversionTuning&) const = default;
};

// loop.scalar, loop.vec4, loop.tile, loop.move
struct LoopTuning {
  uint32_t local = 256;          // size of a workgroup; at least one subgroup
  int64_t workgroup_points = 0;  // points that a workgroup takes by turns at the most; 0: an invocation takes one item
  int64_t least_workgroups = 8;  // workgroups that are left when they take turns
  double turn_cost = 0;          // additions that a turn costs: points of far fewer are taken in one turn
  int64_t tile_rows = 32;        // points of a tile across the order of stores, at the most; 1: no `loop.tile`
  int64_t tile_columns = 32;     // points of a tile along it, at the most
  bool tile_in_shared_memory = true;  // what lies across is read by way of shared memory; else only tile by tile
  int64_t least_tiles = 32;           // taken where there are so many tiles, which fill the device
  // An invocation takes four points where one costs at most so many additions: of more, four fill its registers.
  int64_t most_vector_cost = 128;
  int64_t move_bytes = 0;   // bytes that an invocation of `loop.move` moves at once, roughly; 0: no `loop.move`
  uint32_t move_local = 8;  // size of a workgroup of it
  bool operator==(const LoopTuning&) const = default;
};

struct ReduceTuning {
  int64_t wanted_invocations = 16384;  // invocations that fill the device: columns are split until there are so many
  int64_t least_split_column = 256;    // elements of a column that is split for that
  int64_t least_column_part = 64;      // elements of a part of it
  bool odd_columns = false;            // four columns at a time also where fours do not divide them
  int64_t short_row = 32;              // elements of a row that one invocation takes, at the most
  uint32_t serial_local = 64;          // size of a workgroup of `reduce.serial` and `reduce.column.vec4`; as `loop`
  int64_t long_row = 4096;             // elements of a part of a row; rows of eight times as many are split ...
  int64_t few_rows = 256;              // ... where there are fewer rows than this
  int64_t row_parts = 512;             // parts of all rows together
  int64_t subgroup_row = 4096;         // elements of a row that one subgroup takes, at the most
  uint32_t subgroup = 0;               // size of its subgroups; 0: the device's default
  int64_t most_kept = 256;             // values of a row that drivers may keep for an invocation from stage to stage
  uint32_t subgroup_local = 128;       // size of a workgroup of `reduce.subgroup_row`; at least one subgroup
  uint32_t workgroup_local = 256;      // size of a workgroup of `reduce.workgroup_row`, at the most
  int64_t serial_join_rows = 1024;     // rows from which on one invocation adds up the parts of a row
  uint32_t join_local = 64;            // size of a workgroup that does, and of one whose values fit no shared memory
  int64_t workgroup_points = 0;        // as of `loop`
  int64_t least_workgroups = 8;        // as of `loop`
  bool operator==(const ReduceTuning&) const = default;
};

// Products of matrices in registers, of dots and convolutions.
struct PanelTuning {
  uint32_t lanes = 32;                           // size of a workgroup; its invocations lie along the columns
  bool in_subgroups = false;                     // a workgroup is one subgroup, where the size of those is fixed
  bool chained_sums = false;                     // sums in chains: more exact, with three times the registers between
  bool any_rows = false;                         // panels of the number of rows that leaves the fewest over
  int64_t most_rows = 8;                         // rows of a panel, at the most; more than 8 only ...
  int64_t most_rows_products = 0;                // ... for this many products, as their code is long
  int64_t least_idle = 16;                       // lanes lie over blocks where columns fill one of so many, or fewer
  int64_t most_block_rows = 8;                   // rows of a block then, at the most
  int64_t turn_products = 0;                     // of an invocation in a turn of the depth, 4 to 16 deep ...
  int64_t turn_least_products = 0;               // ... for so many products of all, as the code is long; else 4 deep
  uint32_t pack_local = 64;                      // size of a workgroup that copies an operand into panels
  int64_t most_packed_bytes = int64_t{1} << 28;  // bytes of the copy
  bool operator==(const PanelTuning&) const = default;
};

struct DotTuning {
  // tiles of `dot.tile`, in order of preference
  std::vector<SharedTile> shared_tiles = {{128, 64, 16, 8, 64}, {64, 64, 16, 4, 64}, {32, 32, 16, 4, 0}};
  int64_t least_tile_side = 16;                        // rows, and columns, from which on those are taken
  int64_t least_tile_depth = 8;                        // elements of the depth from which on they are
  int64_t most_rows = 4;                               // rows, or columns, of `dot.rows`
  uint32_t rows_local = 64;                            // size of a workgroup of `dot.rows`; at least one subgroup
  uint32_t rows_subgroup = 0;                          // size of its subgroups; 0: the device's default
  int64_t rows_values = 80;                            // values of a lane of it at once, as far as sums can be fewer
  int64_t column_rows = 8;                             // rows of `dot.columns`, at the most
  uint32_t column_lanes = 8;                           // invocations along the columns, four columns each
  uint32_t column_slices = 32;                         // invocations along the depth; 1: no `dot.columns`
  int64_t wanted_invocations = 16384;                  // that fill the device: fewer are split along the depth
  int64_t wanted_sums = int64_t{1} << 17;              // that fill the device: the depth of fewer is split ...
  int64_t least_part = 256;                            // ... into parts of so much at the least ...
  int64_t most_parts = 128;                            // ... and of this number at the most; of convolutions too
  bool pack_panels = false;                            // `dot.packed_panel` is faster than `dot.panel` ...
  int64_t pack_rows = 32;                              // ... from so many rows on, if b lies well for reading in place
  int64_t pack_elements = int64_t{1} << 16;            // ... from so many elements of b on, then
  int64_t pack_rows_scattered = 8;                     // ... from so many rows on, if it does not
  int64_t pack_elements_scattered = int64_t{1} << 10;  // ... from so many elements of b on, then
  uint32_t join_local = 64;                            // size of a workgroup of `join`
  // Rows before a product that its workgroups compute for themselves: what all of them read for that, at the most, as a
  // share of what the product moves. They have it from the caches. 0: rows are launches of their own.
  double row_share = 1;
  bool operator==(const DotTuning&) const = default;
};

// Row groups (plan::RowGroupStep): the kernels of one block after the other.
struct RowsTuning {
  int64_t block_bytes =
      int64_t{32} << 20;       // bytes of the arrays of a block: enough for its launches to fill the device
  int64_t most_blocks = 1024;  // blocks of a group, at the most: more are made larger
  bool operator==(const RowsTuning&) const = default;
};

// Attention as one kernel: `attention.rows`, whose invocations take a row each, `attention.group`, of which a workgroup
// does, and `attention.tiles`, of which a workgroup takes many by cooperative matrices.
struct AttentionTuning {
  uint32_t row_lanes = 0;           // size of a workgroup of `attention.rows`; 0: none
  int64_t most_depth = 128;         // elements of a row of the queries, and of the result, at the most
  int64_t least_rows = 4;           // rows that share keys and values, from which on the lanes are filled
  int64_t rows_at_once = 2;         // rows of an invocation ...
  int64_t narrow_rows_at_once = 4;  // ... where keys or values are converted for all of them
  int64_t keys_at_once = 4;         // keys of a turn
  int64_t widen_rows = 64;          // rows that read narrow keys and values, from which on these are converted before
  uint32_t group_lanes = 256;       // size of a workgroup of `attention.group`; 0: none
  uint32_t group_subgroup = 0;      // size of its subgroups; 0: as the device has them
  int64_t most_group_rows = 256;    // rows in all ...
  int64_t most_group_bytes = int64_t{512} << 10;  // ... and keys and values that one of them reads, at the most
  // tiles of `attention.tiles`, in order of preference; none: no such kernel
  std::vector<RowTile> tiles = {
      {64, 64, 2, 2, 64}, {64, 32, 2, 2, 64}, {32, 32, 2, 1, 1}, {32, 16, 2, 1, 1}, {16, 16, 1, 1, 0}};
  int64_t most_tile_depth = 256;  // elements of a row of the queries, and of the result, at the most
  // Workgroups that fill the device: where tiles are fewer, three launches are faster ...
  int64_t wanted_tiles = 48;
  int64_t lone_keys = 2048;     // ... for more keys than this, which each workgroup goes through twice
  uint32_t finite_lanes = 256;  // size of a workgroup of `attention.finite` before it
  bool operator==(const AttentionTuning&) const = default;
};

struct ConvTuning {
  // tiles of `conv.tile`, in order of preference
  std::vector<SharedTile> shared_tiles = {
      {128, 64, 16, 8, 64}, {64, 64, 16, 4, 32}, {32, 32, 16, 4, 32}, {16, 16, 16, 4, 0}};
  int64_t least_features = 8;       // output features of a group, below which `conv.direct` is taken
  int64_t least_depth = 16;         // elements of window and input features, below which `conv.direct` is taken
  bool only_packed_pixels = false;  // with channels first, a product of matrices only where pixels can be packed
  int64_t pack_rows = 32;           // pixels from which on a kernel is packed ...
  int64_t pack_elements = int64_t{1} << 16;   // ... that has so many elements
  uint32_t direct_local = 64;                 // size of a workgroup of `conv.direct`
  int64_t direct_written_out = 9;             // elements of a small window that it has written out
  int64_t direct_part = 64;                   // its depth in a part, as dot.least_part
  double reorder_products = 16;               // products for each element moved, from which on `conv.reorder` pays
  bool reorder_products_of_matrices = false;  // `conv.reorder` also before what is a product of matrices as it lies ...
  int64_t reorder_features = 8;               // ... from so many input features of a group on
  // products for each element moved, from which on narrow ones are made wide first; 0: never
  double widen_products = 0;
  bool operator==(const ConvTuning&) const = default;
};

// dot.coop, conv.coop, dot.coop2, conv.coop2
struct MatrixTuning {
  bool used = true;  // cooperative matrices are faster; else they are taken with `--enable coopmat` only
  // tiles, in order of preference
  std::vector<MatrixTile> tiles = {
      {128, 128, 4, 2, 64}, {64, 64, 2, 2, 32, 128}, {32, 32, 2, 1, 0, 128}, {32, 32, 1, 1, 0}};
  int64_t most_constant_offset = int64_t{1} << 20;  // bytes that a load adds to an address by itself, at the most
  bool first_step_apart = false;   // the first step is multiplied before the loop: sums and addresses are there then
  bool smallest_subgroup = false;  // subgroups of the smallest size that the device has
  // matrices of a workgroup, of any size, are faster than those of subgroups; else they are taken with `--enable
  // coopmat2` only
  bool flexible = false;
  // tiles of these, in order of preference
  std::vector<FlexibleTile> flexible_tiles = {{128, 256, 256, 192}, {128, 128, 256, 64}, {64, 64, 128, 0}};
  bool operator==(const MatrixTuning&) const = default;
};

struct SortTuning {
  bool invocation_chunks = false;     // one invocation has a chunk, and counts in scratch; else a workgroup has one
  uint32_t lanes = 128;               // size of a workgroup that counts and places
  uint32_t item_local = 64;           // size of a workgroup of other kernels of the sort by digits
  int64_t workgroup_items = 0;        // elements whose keys a workgroup makes by turns; 0: an invocation makes one
  uint32_t merge_local = 64;          // size of a workgroup of the merge sort
  uint32_t rank_step = 32;            // workgroups of `sort.rank` are multiples of so many invocations ...
  uint32_t rank_local = 256;          // ... up to so many
  int64_t rank_row = 256;             // elements of a row that is sorted by rank, at the most
  int64_t rank_kept = 1024;           // elements that a top-k keeps and sorts by rank, at the most
  int64_t whole_row = 4096;           // elements of a row that is one workgroup's chunk, at the most
  int64_t whole_row_of_many = 16384;  // the same where there are many rows
  int64_t many_rows = 32;             // rows that are many
  int64_t least_chunk = 2048;         // elements of a workgroup's chunk of a longer row, at the least
  int64_t most_chunks = 4096;         // chunks of a row, of workgroups
  int64_t wanted_chunks = 64;         // chunks of all rows together, of invocations
  int64_t invocation_chunk = 8192;    // elements of an invocation's chunk, at the least
  bool operator==(const SortTuning&) const = default;
};

struct ScanTuning {
  uint32_t local = 64;       // size of a workgroup
  int64_t few_lines = 4096;  // below so many lines they are cut into chunks ...
  int64_t long_line = 512;   // ... from so many elements on
  int64_t least_chunk = 16;  // elements of a chunk, at the least ...
  int64_t most_chunk = 32;   // ... and at the most
  int64_t most_totals = 32;  // totals of chunks that one invocation goes through: of more there are totals again
  bool operator==(const ScanTuning&) const = default;
};

struct ScatterTuning {
  uint32_t apart_local = 64;    // size of a workgroup of `scatter.apart` and `scatter.atomic`
  bool atomics = true;          // atomic operations in the place of an order, where the result is the same
  uint32_t shares_local = 256;  // size of a workgroup of `scatter.shares`, and the updates that it looks at together
  int64_t wanted_invocations = 32768;  // of it, which the operand's rows are shared out to; 0: no `scatter.shares`
  int64_t least_part = 256;            // updates of a part, where places are too few for all invocations
  bool words = false;                  // rows of elements that lie side by side are taken by words of 8 bytes
  uint32_t in_order_local = 64;        // size of a workgroup of `scatter.in_order`, and of `scatter.words`
  int64_t in_order_places = 1;         // elements of the window that an invocation of it takes, at the most
  int64_t in_order_shares = 1;         // workgroups that share the operand where rows are long, at the most
  bool operator==(const ScatterTuning&) const = default;
};

// fft.radixN
struct FftTuning {
  uint32_t local = 64;  // size of a workgroup
  bool operator==(const FftTuning&) const = default;
};

// cholesky.*, lu.*, qr.*, linalg.*
struct LinalgTuning {
  uint32_t local = 64;              // size of a workgroup
  int64_t invocation_numbers = 64;  // numbers of a matrix that one invocation works on, at the most
  int64_t block = 32;               // columns of a block, at the most
  int64_t reflectors = 8;           // reflectors of a block of a QR decomposition
  int64_t workgroup_points = 0;     // elements that a workgroup copies by turns; 0: an invocation copies one
  bool operator==(const LinalgTuning&) const = default;
};

// while.workgroup, and what its steps are estimated to take.
struct LoopNestTuning {
  bool one_subgroup = false;    // the workgroup is a subgroup, whatever there is to do; else it is as large as the work
  uint32_t least_lanes = 32;    // size of the workgroup, at the least
  uint32_t most_lanes = 256;    // size of the workgroup, at the most
  double most_step_ns = 25000;  // nanoseconds of a step, above which a launch of its own costs less ...
  double launch_ns = 0;         // ... unless the turn takes less than so many nanoseconds for each of its launches
  double step_ns = 1000;        // nanoseconds of a step with nothing to do
  int64_t points_at_once = 256;  // points of a step that take the time of one
  double point_ns = 200;         // nanoseconds of a point
  double operation_ns = 4;       // nanoseconds of an operation at a point
  int64_t most_nodes = 6000;     // operations of the kernel that are written out
  int64_t most_words = 16000;    // words of its code: drivers take long to compile more
  int64_t points_together = 1;   // points of an invocation, where points never meet (plan/point_loop.h)
  bool operator==(const LoopNestTuning&) const = default;
};

// For cutting submissions before any has been measured: rather too slow than too fast.
struct RateTuning {
  double flops_per_ms = 2e8;   // operations in a millisecond
  double bytes_per_ms = 2e7;   // bytes read and written in a millisecond
  bool per_processor = false;  // that is what each of the host's processors does
  bool operator==(const RateTuning&) const = default;
};

struct Tuning {
  MemoryTuning memory;
  ConversionTuning conversion;
  LoopTuning loop;
  ReduceTuning reduce;
  PanelTuning panel;
  DotTuning dot;
  RowsTuning rows;
  AttentionTuning attention;
  ConvTuning conv;
  MatrixTuning coop;
  SortTuning sort;
  ScanTuning scan;
  ScatterTuning scatter;
  FftTuning fft;
  LinalgTuning linalg;
  LoopNestTuning loop_nest;
  RateTuning rate;
  bool operator==(const Tuning&) const = default;
};

// The table's rows for the device, one over the other.
Tuning TuningFor(const DeviceProfile& profile);

// Overrides the fields that `json` names: {"dot": {"most_rows": 2}}. A list is replaced as a whole. An unknown name, a
// wrong type and a value out of range are INVALID_ARGUMENT, and leave `tuning` as it was.
Result<> OverrideTuning(std::string_view json, Tuning& tuning);

// TuningFor, and over it the file that the environment variable KRAFLA_TUNING names, if there is one.
Result<Tuning> TuningAskedFor(const DeviceProfile& profile);

}  // namespace krafla
