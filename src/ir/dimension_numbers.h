// SPDX-License-Identifier: Apache-2.0
// The dimension numbers of gather and scatter with their numbers in XLA's protos and the names that HLO text and
// StableHLO share, listed once for all readers and writers. Those above 4, the batching dimensions, came later and may
// be missing. `Self` is const for writers.
#pragma once

#include <concepts>
#include <type_traits>

#include "ir/attributes.h"

namespace krafla {

template <typename Self, typename Visitor>
  requires std::same_as<std::remove_const_t<Self>, GatherAttributes>
void VisitDimensionNumbers(Self& a, Visitor&& v) {
  v(1, "offset_dims", a.offset_dims);
  v(2, "collapsed_slice_dims", a.collapsed_slice_dims);
  v(3, "start_index_map", a.start_index_map);
  v(4, "index_vector_dim", a.index_vector_dim);
  v(5, "operand_batching_dims", a.operand_batching_dims);
  v(6, "start_indices_batching_dims", a.start_indices_batching_dims);
}

template <typename Self, typename Visitor>
  requires std::same_as<std::remove_const_t<Self>, ScatterAttributes>
void VisitDimensionNumbers(Self& a, Visitor&& v) {
  v(1, "update_window_dims", a.update_window_dims);
  v(2, "inserted_window_dims", a.inserted_window_dims);
  v(3, "scatter_dims_to_operand_dims", a.scatter_dims_to_operand_dims);
  v(4, "index_vector_dim", a.index_vector_dim);
  v(5, "input_batching_dims", a.input_batching_dims);
  v(6, "scatter_indices_batching_dims", a.scatter_indices_batching_dims);
}

// Whether a field that is visited is the list of dimensions, not the one number.
template <typename Field>
constexpr bool kIsDimensionList = std::same_as<std::remove_cvref_t<Field>, Dims>;

}  // namespace krafla
