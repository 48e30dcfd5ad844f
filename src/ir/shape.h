// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/shape.h"  // IWYU pragma: export
