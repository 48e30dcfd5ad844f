// SPDX-License-Identifier: Apache-2.0
// The custom calls that recorded cases use and that whoever checks them has to provide.
#pragma once

#include "krafla/status.h"

namespace krafla::cli {

// corpus.add_one: f32 -> the same plus one; corpus.swap: (a, b) -> the tuple (b, a). Once a process.
Result<> RegisterTestCalls();

}  // namespace krafla::cli
