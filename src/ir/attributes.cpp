// SPDX-License-Identifier: Apache-2.0
#include "ir/attributes.h"

namespace krafla {

Attributes::Attributes() noexcept = default;
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;

bool operator==(const Attributes& a, const Attributes& b) {
  return static_cast<const AnyAttributes&>(a) == static_cast<const AnyAttributes&>(b);
}

}  // namespace krafla
