// SPDX-License-Identifier: Apache-2.0
// Running sums of floats whose error does not grow with the length: blocks of a few steps are summed by themselves and
// added to the sum of all blocks before, which is kept with what its roundings have lost (Knuth's sum of two numbers).
#pragma once

#include <cstdint>

namespace krafla::cpu {

// Of `lanes` lines beside each other. T: float or double.
template <class T>
class RunningSum {
 public:
  static constexpr int64_t kBlockSteps = 32;
  // Elements of memory that it needs.
  static int64_t MemoryElements(int64_t lanes) { return 2 * lanes; }

  // `start`: what each line begins with.
  RunningSum(T* memory, const T* start, int64_t lanes);

  // values[s * step + lane], s < steps <= kBlockSteps, become their running sums. Only the last block has fewer steps.
  void AddBlock(T* values, int64_t steps, int64_t step);

 private:
  T *sum_, *lost_;  // of all blocks so far
  int64_t lanes_;
};

extern template class RunningSum<float>;
extern template class RunningSum<double>;

}  // namespace krafla::cpu
