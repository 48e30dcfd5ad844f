/* SPDX-License-Identifier: Apache-2.0 */
/* krafla's version, for C and C++. The build reads it from here. */
#pragma once

#define KRAFLA_VERSION_MAJOR 0
#define KRAFLA_VERSION_MINOR 1
#define KRAFLA_VERSION_PATCH 0
#define KRAFLA_VERSION_STRING "0.1.0"
