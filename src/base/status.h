// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/status.h"  // IWYU pragma: export
