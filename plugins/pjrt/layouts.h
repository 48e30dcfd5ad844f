// SPDX-License-Identifier: Apache-2.0
// Layouts as the extension Layouts hands them out: XLA's text of an order of dimensions, "{1,0}".
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "krafla/shape.h"
#include "plugins/pjrt/abi/pjrt_types.h"

struct PJRT_Layouts_MemoryLayout {
  std::string text;
};

namespace krafla::pjrt {

std::unique_ptr<PJRT_Layouts_MemoryLayout> LayoutOf(const Shape& shape);

// Those of a program's arguments or results; they live as long as it.
class LayoutList {
 public:
  void Add(const Shape& shape);
  PJRT_Layouts_MemoryLayout** data() const { return const_cast<PJRT_Layouts_MemoryLayout**>(pointers_.data()); }
  std::size_t size() const { return pointers_.size(); }

 private:
  std::vector<std::unique_ptr<PJRT_Layouts_MemoryLayout>> layouts_;
  std::vector<PJRT_Layouts_MemoryLayout*> pointers_;
};

// The extension; what follows it in the chain is set by who links it.
PJRT_Layouts_Extension* LayoutsExtension();

}  // namespace krafla::pjrt
