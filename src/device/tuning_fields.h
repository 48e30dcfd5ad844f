// SPDX-License-Identifier: Apache-2.0
// The fields of Tuning with their names and what they may be, listed once for the reader and for tests.
#pragma once

#include "device/json_fields.h"
#include "device/tuning.h"

namespace krafla {

// Of workgroups: what the kernels' trees and masks are written for.
inline constexpr FieldRange kLocalRange{1, 1024, true};
inline constexpr FieldRange kCountRange{0, 2147483647};
inline constexpr FieldRange kPositiveRange{1, 2147483647};
inline constexpr FieldRange kTimeRange{0, 1e9};

template <Is<SharedTile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("rows", x.rows, FieldRange{4, 256, true});
  v("columns", x.columns, FieldRange{4, 256, true});
  v("depth", x.depth, FieldRange{4, 64, true});
  v("thread_rows", x.thread_rows, FieldRange{4, 16, true});
  v("least_tiles", x.least_tiles, kCountRange);
}

template <Is<MatrixTile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("rows", x.rows, FieldRange{4, 256, true});
  v("columns", x.columns, FieldRange{4, 256, true});
  v("subgroup_rows", x.subgroup_rows, FieldRange{1, 16, true});
  v("subgroup_columns", x.subgroup_columns, FieldRange{1, 16, true});
  v("least_tiles", x.least_tiles, kCountRange);
  v("depth_bytes", x.depth_bytes, FieldRange{16, 256, true});
}

template <Is<FlexibleTile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("rows", x.rows, FieldRange{8, 512, true});
  v("columns", x.columns, FieldRange{8, 512, true});
  v("lanes", x.lanes, kLocalRange);
  v("least_tiles", x.least_tiles, kCountRange);
  v("depth_bytes", x.depth_bytes, FieldRange{16, 256, true});
}

template <Is<RowTile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("rows", x.rows, FieldRange{4, 256, true});
  v("keys", x.keys, FieldRange{8, 256, true});
  v("subgroup_rows", x.subgroup_rows, FieldRange{1, 16, true});
  v("subgroup_columns", x.subgroup_columns, FieldRange{1, 16, true});
  v("least_tiles", x.least_tiles, kCountRange);
}

template <Is<MemoryTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("words_in_pairs", x.words_in_pairs);
  v("words_around", x.words_around);
}

template <Is<ConversionTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("integers_by_addition", x.integers_by_addition);
  v("halves_by_bits", x.halves_by_bits);
}

template <Is<LoopTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("local", x.local, kLocalRange);
  v("workgroup_points", x.workgroup_points, FieldRange{0, 65536});
  v("least_workgroups", x.least_workgroups, kPositiveRange);
  v("turn_cost", x.turn_cost, FieldRange{0, 1000});
  v("tile_rows", x.tile_rows, FieldRange{1, 128, true});
  v("tile_columns", x.tile_columns, FieldRange{1, 128, true});
  v("tile_in_shared_memory", x.tile_in_shared_memory);
  v("least_tiles", x.least_tiles, kPositiveRange);
  v("most_vector_cost", x.most_vector_cost, kCountRange);
  v("move_bytes", x.move_bytes, FieldRange{0, 64});
  v("move_local", x.move_local, kLocalRange);
}

template <Is<ReduceTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("wanted_invocations", x.wanted_invocations, kCountRange);
  v("least_split_column", x.least_split_column, kPositiveRange);
  v("least_column_part", x.least_column_part, kPositiveRange);
  v("odd_columns", x.odd_columns);
  v("short_row", x.short_row, kCountRange);
  v("serial_local", x.serial_local, kLocalRange);
  v("long_row", x.long_row, kPositiveRange);
  v("few_rows", x.few_rows, kCountRange);
  v("row_parts", x.row_parts, kCountRange);
  v("subgroup_row", x.subgroup_row, kCountRange);
  v("subgroup", x.subgroup, FieldRange{0, 128});
  v("most_kept", x.most_kept, kCountRange);
  v("subgroup_local", x.subgroup_local, kLocalRange);
  v("workgroup_local", x.workgroup_local, kLocalRange);
  v("serial_join_rows", x.serial_join_rows, kCountRange);
  v("join_local", x.join_local, kLocalRange);
  v("workgroup_points", x.workgroup_points, FieldRange{0, 65536});
  v("least_workgroups", x.least_workgroups, kPositiveRange);
}

template <Is<PanelTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("lanes", x.lanes, FieldRange{1, 256, true});
  v("in_subgroups", x.in_subgroups);
  v("chained_sums", x.chained_sums);
  v("any_rows", x.any_rows);
  v("most_rows", x.most_rows, FieldRange{1, 32});
  v("most_rows_products", x.most_rows_products, kCountRange);
  v("least_idle", x.least_idle, FieldRange{1, 1024});
  v("most_block_rows", x.most_block_rows, FieldRange{1, 16});
  v("turn_products", x.turn_products, kCountRange);
  v("turn_least_products", x.turn_least_products, kCountRange);
  v("pack_local", x.pack_local, kLocalRange);
  v("most_packed_bytes", x.most_packed_bytes, kCountRange);
}

template <Is<AttentionTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("row_lanes", x.row_lanes, FieldRange{0, 1024});
  v("most_depth", x.most_depth, kPositiveRange);
  v("least_rows", x.least_rows, kPositiveRange);
  v("rows_at_once", x.rows_at_once, FieldRange{1, 8, true});
  v("narrow_rows_at_once", x.narrow_rows_at_once, FieldRange{1, 8, true});
  v("keys_at_once", x.keys_at_once, FieldRange{4, 64, true});
  v("widen_rows", x.widen_rows, kPositiveRange);
  v("group_lanes", x.group_lanes, FieldRange{0, 1024});
  v("group_subgroup", x.group_subgroup, FieldRange{0, 128});
  v("most_group_rows", x.most_group_rows, kCountRange);
  v("most_group_bytes", x.most_group_bytes, kCountRange);
  v("tiles", x.tiles);
  v("most_tile_depth", x.most_tile_depth, kPositiveRange);
  v("wanted_tiles", x.wanted_tiles, kCountRange);
  v("lone_keys", x.lone_keys, kCountRange);
  v("finite_lanes", x.finite_lanes, kLocalRange);
}

template <Is<RowsTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("block_bytes", x.block_bytes, kPositiveRange);
  v("most_blocks", x.most_blocks, kPositiveRange);
}

template <Is<DotTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("shared_tiles", x.shared_tiles);
  v("least_tile_side", x.least_tile_side, FieldRange{8, 2147483647});
  v("least_tile_depth", x.least_tile_depth, kPositiveRange);
  v("most_rows", x.most_rows, FieldRange{0, 4});
  v("rows_local", x.rows_local, kLocalRange);
  v("rows_subgroup", x.rows_subgroup, FieldRange{0, 128});
  v("rows_values", x.rows_values, FieldRange{1, 1024});
  v("column_rows", x.column_rows, FieldRange{0, 8});
  v("column_lanes", x.column_lanes, FieldRange{1, 64, true});
  v("column_slices", x.column_slices, FieldRange{1, 64, true});
  v("wanted_invocations", x.wanted_invocations, kPositiveRange);
  v("row_share", x.row_share, FieldRange{0, 16});
  v("wanted_sums", x.wanted_sums, kCountRange);
  v("least_part", x.least_part, kPositiveRange);
  v("most_parts", x.most_parts, FieldRange{1, 4096});
  v("pack_panels", x.pack_panels);
  v("pack_rows", x.pack_rows, kPositiveRange);
  v("pack_elements", x.pack_elements, kPositiveRange);
  v("pack_rows_scattered", x.pack_rows_scattered, kPositiveRange);
  v("pack_elements_scattered", x.pack_elements_scattered, kPositiveRange);
  v("join_local", x.join_local, kLocalRange);
}

template <Is<ConvTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("shared_tiles", x.shared_tiles);
  v("least_features", x.least_features, kPositiveRange);
  v("least_depth", x.least_depth, kPositiveRange);
  v("only_packed_pixels", x.only_packed_pixels);
  v("pack_rows", x.pack_rows, kPositiveRange);
  v("pack_elements", x.pack_elements, kPositiveRange);
  v("direct_local", x.direct_local, kLocalRange);
  v("direct_written_out", x.direct_written_out, FieldRange{1, 9});
  v("direct_part", x.direct_part, kPositiveRange);
  v("reorder_products", x.reorder_products, kTimeRange);
  v("reorder_products_of_matrices", x.reorder_products_of_matrices);
  v("reorder_features", x.reorder_features, kCountRange);
  v("widen_products", x.widen_products, kTimeRange);
}

template <Is<MatrixTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("used", x.used);
  v("tiles", x.tiles);
  v("most_constant_offset", x.most_constant_offset, kCountRange);
  v("first_step_apart", x.first_step_apart);
  v("smallest_subgroup", x.smallest_subgroup);
  v("flexible", x.flexible);
  v("flexible_tiles", x.flexible_tiles);
}

template <Is<SortTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("invocation_chunks", x.invocation_chunks);
  // 16 counters of each lane fit the 16 KiB that every device has.
  v("lanes", x.lanes, FieldRange{4, 128, true});
  v("item_local", x.item_local, kLocalRange);
  v("workgroup_items", x.workgroup_items, FieldRange{0, 65536});
  v("merge_local", x.merge_local, kLocalRange);
  v("rank_step", x.rank_step, kLocalRange);
  v("rank_local", x.rank_local, kLocalRange);
  v("rank_row", x.rank_row, FieldRange{1, 65536});
  v("rank_kept", x.rank_kept, FieldRange{1, 65536});
  v("whole_row", x.whole_row, FieldRange{1, 65536});
  v("whole_row_of_many", x.whole_row_of_many, FieldRange{1, 65536});
  v("many_rows", x.many_rows, kCountRange);
  v("least_chunk", x.least_chunk, FieldRange{1, 65536});
  v("most_chunks", x.most_chunks, FieldRange{1, 65536});
  v("wanted_chunks", x.wanted_chunks, FieldRange{1, 65536});
  v("invocation_chunk", x.invocation_chunk, FieldRange{1, 1048576});
}

template <Is<ScanTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("local", x.local, kLocalRange);
  v("few_lines", x.few_lines, kCountRange);
  v("long_line", x.long_line, kCountRange);
  v("least_chunk", x.least_chunk, FieldRange{1, 65536});
  v("most_chunk", x.most_chunk, FieldRange{1, 65536});
  v("most_totals", x.most_totals, FieldRange{2, 65536});
}

template <Is<ScatterTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("apart_local", x.apart_local, kLocalRange);
  v("atomics", x.atomics);
  v("shares_local", x.shares_local, kLocalRange);
  v("wanted_invocations", x.wanted_invocations, FieldRange{0, 1 << 24});
  v("least_part", x.least_part, kPositiveRange);
  v("words", x.words);
  v("in_order_local", x.in_order_local, kLocalRange);
  v("in_order_places", x.in_order_places, FieldRange{1, 64});
  v("in_order_shares", x.in_order_shares, FieldRange{1, 64});
}

template <Is<FftTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("local", x.local, kLocalRange);
}

template <Is<LinalgTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("local", x.local, FieldRange{1, 256, true});
  v("reflectors", x.reflectors, FieldRange{1, 16});
  v("workgroup_points", x.workgroup_points, FieldRange{0, 65536});
  v("invocation_numbers", x.invocation_numbers, FieldRange{0, 4096});
  v("block", x.block, FieldRange{8, 64, true});
}

template <Is<LoopNestTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("one_subgroup", x.one_subgroup);
  v("least_lanes", x.least_lanes, kLocalRange);
  v("most_lanes", x.most_lanes, kLocalRange);
  v("most_step_ns", x.most_step_ns, kTimeRange);
  v("launch_ns", x.launch_ns, kTimeRange);
  v("step_ns", x.step_ns, FieldRange{1, 1e9});
  v("points_at_once", x.points_at_once, kPositiveRange);
  v("point_ns", x.point_ns, kTimeRange);
  v("operation_ns", x.operation_ns, kTimeRange);
  v("most_nodes", x.most_nodes, FieldRange{0, 100000});
  v("most_words", x.most_words, FieldRange{0, 1000000});
  v("points_together", x.points_together, FieldRange{1, 16});
}

template <Is<RateTuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("flops_per_ms", x.flops_per_ms, FieldRange{1, 1e15});
  v("bytes_per_ms", x.bytes_per_ms, FieldRange{1, 1e15});
  v("per_processor", x.per_processor);
}

template <Is<Tuning> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("memory", x.memory);
  v("conversion", x.conversion);
  v("loop", x.loop);
  v("reduce", x.reduce);
  v("panel", x.panel);
  v("dot", x.dot);
  v("rows", x.rows);
  v("attention", x.attention);
  v("conv", x.conv);
  v("coop", x.coop);
  v("sort", x.sort);
  v("scan", x.scan);
  v("scatter", x.scatter);
  v("fft", x.fft);
  v("linalg", x.linalg);
  v("loop_nest", x.loop_nest);
  v("rate", x.rate);
}

}  // namespace krafla
