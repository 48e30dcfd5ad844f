// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/aligned_bytes.h"  // IWYU pragma: export
