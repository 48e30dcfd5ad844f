// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/literal.h"  // IWYU pragma: export
