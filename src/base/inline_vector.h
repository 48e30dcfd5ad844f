// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/inline_vector.h"  // IWYU pragma: export
