// SPDX-License-Identifier: Apache-2.0
// What of a program calls Python back.
#pragma once

#include <string_view>

#include "api/client.h"

namespace krafla::pjrt {

// The custom call behind jax.pure_callback and its kin (python_callback.h).
inline constexpr std::string_view kPythonCallbackTarget = "krafla_python_callback";

// Whether the program calls a function that the caller wrote. Host functions that the package itself brings, LAPACK's
// among them, have a name instead ("name:eigh:..."): they report failure in their results, as on every back end.
bool CallsUserFunction(const Module& module);

}  // namespace krafla::pjrt
