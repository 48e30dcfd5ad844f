// SPDX-License-Identifier: Apache-2.0
// The sorts of Highway that are not built (CMakeLists.txt beside this file), for linkers that want every name that
// vqsort.cc has, also in functions that nobody calls.
#include "hwy/contrib/sort/vqsort.h"

namespace hwy {

#define KRAFLA_ABSENT_SORT(Key, Order) \
  void VQSort(Key*, size_t, Order) { HWY_ABORT("VQSort of " #Key " is not in this build."); }
#define KRAFLA_ABSENT_SORTS(Key)         \
  KRAFLA_ABSENT_SORT(Key, SortAscending) \
  KRAFLA_ABSENT_SORT(Key, SortDescending)

KRAFLA_ABSENT_SORTS(uint16_t)
KRAFLA_ABSENT_SORTS(uint32_t)
KRAFLA_ABSENT_SORT(uint64_t, SortDescending)
KRAFLA_ABSENT_SORTS(int16_t)
KRAFLA_ABSENT_SORTS(int32_t)
KRAFLA_ABSENT_SORTS(int64_t)
KRAFLA_ABSENT_SORTS(float16_t)
KRAFLA_ABSENT_SORTS(float)
KRAFLA_ABSENT_SORTS(double)
KRAFLA_ABSENT_SORT(uint128_t, SortDescending)
KRAFLA_ABSENT_SORTS(K64V64)
KRAFLA_ABSENT_SORTS(K32V32)

}  // namespace hwy
