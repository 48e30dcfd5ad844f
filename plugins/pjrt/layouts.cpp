// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/layouts.h"

#include "plugins/pjrt/buffer.h"
#include "plugins/pjrt/entry.h"
#include "plugins/pjrt/program.h"

// The text belongs to the layout.
struct PJRT_Layouts_SerializedLayout {};

namespace krafla::pjrt {

std::unique_ptr<PJRT_Layouts_MemoryLayout> LayoutOf(const Shape& shape) {
  auto out = std::make_unique<PJRT_Layouts_MemoryLayout>();
  out->text = "{";
  if (shape.IsArray())
    for (int64_t d : shape.layout().minor_to_major) out->text += Format("{}{}", out->text.size() > 1 ? "," : "", d);
  out->text += "}";
  return out;
}

void LayoutList::Add(const Shape& shape) { pointers_.push_back(layouts_.emplace_back(LayoutOf(shape)).get()); }

namespace {

Result<> Destroy(PJRT_Layouts_MemoryLayout_Destroy_Args& args) {
  delete args.layout;
  return {};
}

Result<> Serialize(PJRT_Layouts_MemoryLayout_Serialize_Args& args) {
  args.serialized_bytes = args.layout->text.data();
  args.serialized_bytes_size = args.layout->text.size();
  args.serialized_layout = nullptr;
  args.serialized_layout_deleter = [](PJRT_Layouts_SerializedLayout*) {};
  return {};
}

// Row-major, whatever the type.
Result<PJRT_Layouts_MemoryLayout*> Default(std::size_t rank) {
  const Dims ones(rank, 1);
  KRAFLA_ASSIGN(const Shape shape, Shape::MakeArray(ElementType::kF32, ones));
  return LayoutOf(shape).release();
}
Result<> ClientDefault(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args& args) {
  KRAFLA_ASSIGN(args.layout, Default(args.num_dims));
  return {};
}
Result<> TopologyDefault(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args& args) {
  KRAFLA_ASSIGN(args.layout, Default(args.num_dims));
  return {};
}

Result<> OfBuffer(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args& args) {
  args.layout = LayoutOf(args.buffer->shape()).release();
  return {};
}

Result<> OfParameters(PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args& args) {
  const LayoutList& list = args.executable->program->parameter_layouts();
  args.num_parameters = list.size();
  args.layouts = list.data();
  return {};
}
Result<> OfOutputs(PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args& args) {
  const LayoutList& list = args.executable->program->result_layouts();
  args.num_outputs = list.size();
  args.layouts = list.data();
  return {};
}

}  // namespace

PJRT_Layouts_Extension* LayoutsExtension() {
  static PJRT_Layouts_Extension extension = [] {
    PJRT_Layouts_Extension out = {};
    out.base.struct_size = sizeof(PJRT_Layouts_Extension);
    out.base.type = kPjrtLayoutsExtension;
// A function, and the last field of its arguments that it needs.
#define KRAFLA_PJRT_FILL(name, last, function)                                                     \
  out.name = [](name##_Args* args) -> PJRT_Error* {                                                \
    return Enter(#name, args, offsetof(name##_Args, last) + sizeof(name##_Args::last), &function); \
  };
    KRAFLA_PJRT_FILL(PJRT_Layouts_MemoryLayout_Destroy, layout, Destroy)
    KRAFLA_PJRT_FILL(PJRT_Layouts_MemoryLayout_Serialize, serialized_layout_deleter, Serialize)
    KRAFLA_PJRT_FILL(PJRT_Layouts_PJRT_Client_GetDefaultLayout, layout, ClientDefault)
    KRAFLA_PJRT_FILL(PJRT_Layouts_PJRT_Buffer_MemoryLayout, layout, OfBuffer)
    KRAFLA_PJRT_FILL(PJRT_Layouts_PJRT_Topology_GetDefaultLayout, layout, TopologyDefault)
    KRAFLA_PJRT_FILL(PJRT_Layouts_PJRT_Executable_GetOutputLayouts, layouts, OfOutputs)
    KRAFLA_PJRT_FILL(PJRT_Layouts_PJRT_Executable_GetParameterLayouts, layouts, OfParameters)
#undef KRAFLA_PJRT_FILL
    return out;
  }();
  return &extension;
}

}  // namespace krafla::pjrt
