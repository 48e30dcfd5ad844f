// SPDX-License-Identifier: Apache-2.0
// Masks of attention that tests share: HLO that makes x of the scores w, both f32[H,G,T,S], for sizes put in the place
// of these letters.
#pragma once

#include <string_view>

namespace krafla::testing {

inline constexpr std::string_view kCausal = R"(
  row = s32[T,S] iota(), iota_dimension=0
  column = s32[T,S] iota(), iota_dimension=1
  keep = pred[T,S] compare(row, column), direction=GE
  keeps = pred[H,G,T,S] broadcast(keep), dimensions={2,3}
  low = f32[] constant(-1e30)
  lows = f32[H,G,T,S] broadcast(low), dimensions={}
  x = f32[H,G,T,S] select(keeps, w, lows))";
inline constexpr std::string_view kWindow = R"(
  row = s32[T,S] iota(), iota_dimension=0
  column = s32[T,S] iota(), iota_dimension=1
  future = pred[T,S] compare(column, row), direction=GT
  width = s32[] constant(9)
  widths = s32[T,S] broadcast(width), dimensions={}
  first = s32[T,S] subtract(row, widths)
  past = pred[T,S] compare(column, first), direction=LE
  masked = pred[T,S] or(future, past)
  masks = pred[H,G,T,S] broadcast(masked), dimensions={2,3}
  low = f32[] constant(-inf)
  lows = f32[H,G,T,S] broadcast(low), dimensions={}
  x = f32[H,G,T,S] select(masks, lows, w))";
// Up to pos, s32[].
inline constexpr std::string_view kPosition = R"(
  column = s32[S] iota(), iota_dimension=0
  positions = s32[S] broadcast(pos), dimensions={}
  keep = pred[S] compare(column, positions), direction=LE
  keeps = pred[H,G,T,S] broadcast(keep), dimensions={3}
  low = f32[] constant(-3.4028235e+38)
  lows = f32[H,G,T,S] broadcast(low), dimensions={}
  x = f32[H,G,T,S] select(keeps, w, lows))";

// The same added, as a bias that is the lowest number where it hides.
inline constexpr std::string_view kAddedPosition = R"(
  column = s32[S] iota(), iota_dimension=0
  positions = s32[S] broadcast(pos), dimensions={}
  keep = pred[S] compare(column, positions), direction=LE
  low = f32[] constant(-1e30)
  lows = f32[S] broadcast(low), dimensions={}
  nothing = f32[] constant(0)
  nothings = f32[S] broadcast(nothing), dimensions={}
  bias = f32[S] select(keep, nothings, lows)
  biases = f32[H,G,T,S] broadcast(bias), dimensions={3}
  x = f32[H,G,T,S] add(w, biases))";
// The last 200 columns up to pos.
inline constexpr std::string_view kPositionWindow = R"(
  column = s32[S] iota(), iota_dimension=0
  positions = s32[S] broadcast(pos), dimensions={}
  past = pred[S] compare(column, positions), direction=LE
  width = s32[] constant(200)
  first = s32[] subtract(pos, width)
  firsts = s32[S] broadcast(first), dimensions={}
  near = pred[S] compare(column, firsts), direction=GT
  keep = pred[S] and(past, near)
  keeps = pred[H,G,T,S] broadcast(keep), dimensions={3}
  low = f32[] constant(-inf)
  lows = f32[H,G,T,S] broadcast(low), dimensions={}
  x = f32[H,G,T,S] select(keeps, w, lows))";

}  // namespace krafla::testing
