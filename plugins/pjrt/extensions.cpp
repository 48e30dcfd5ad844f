// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/functions.h"

namespace krafla::pjrt {

PJRT_Extension_Base* Extensions() { return nullptr; }

}  // namespace krafla::pjrt
