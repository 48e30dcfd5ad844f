// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "krafla/element_type.h"  // IWYU pragma: export
