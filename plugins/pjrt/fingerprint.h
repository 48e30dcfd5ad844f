// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace krafla::pjrt {

// 32 hexadecimal digits that differ where any of the texts does. No protection against who makes collisions.
std::string Fingerprint(std::initializer_list<std::string_view> texts);

}  // namespace krafla::pjrt
