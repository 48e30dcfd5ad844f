// SPDX-License-Identifier: Apache-2.0
#define VMA_IMPLEMENTATION
#include "vk_runtime/vma.h"
