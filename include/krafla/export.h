// SPDX-License-Identifier: Apache-2.0
// What lies between the two is seen outside of the shared library, whose other symbols are hidden.
#pragma once

#if defined(__GNUC__)
#define KRAFLA_EXPORT_BEGIN _Pragma("GCC visibility push(default)")
#define KRAFLA_EXPORT_END _Pragma("GCC visibility pop")
#else
#define KRAFLA_EXPORT_BEGIN
#define KRAFLA_EXPORT_END
#endif
