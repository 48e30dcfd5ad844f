// SPDX-License-Identifier: Apache-2.0
#include "krafla/literal.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "base/host_memory.h"

namespace krafla {

Result<Literal> Literal::Make(const Shape& shape, bool zeroed) {
  Literal out;
  out.shape_ = shape;
  for (const Shape& e : shape.tuple_elements()) {
    KRAFLA_ASSIGN(Literal child, Make(e, zeroed));
    out.elements_.push_back(std::move(child));
  }
  if (!shape.IsArray()) return out;
  try {
    out.bytes_ = AlignedBytes(static_cast<std::size_t>(shape.byte_size()), zeroed);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("The host has no memory for {} ({} bytes; this process may have {} in all).",
                             shape.ToString(false), shape.byte_size(), HostMemoryLimit());
  }
  return out;
}

Result<Literal> Literal::Create(const Shape& shape) { return Make(shape, true); }
Result<Literal> Literal::CreateUninitialized(const Shape& shape) { return Make(shape, false); }

Result<Literal> Literal::FromBytes(const Shape& shape, std::span<const std::byte> bytes) {
  if (!shape.IsArray()) return InvalidArgument("{} holds no bytes.", shape.ToString(false));
  if (static_cast<int64_t>(bytes.size()) != shape.byte_size())
    return InvalidArgument("{} takes {} bytes, {} were given.", shape.ToString(false), shape.byte_size(), bytes.size());
  KRAFLA_ASSIGN(Literal out, CreateUninitialized(shape));
  if (!bytes.empty()) std::memcpy(out.bytes_.data(), bytes.data(), bytes.size());
  return out;
}

Result<Literal> Literal::Borrowed(const Shape& shape, std::span<const std::byte> bytes,
                                  std::shared_ptr<const void> owner) {
  if (!shape.IsArray()) return InvalidArgument("{} holds no bytes.", shape.ToString(false));
  if (static_cast<int64_t>(bytes.size()) != shape.byte_size())
    return InvalidArgument("{} takes {} bytes, {} were given.", shape.ToString(false), shape.byte_size(), bytes.size());
  if (owner == nullptr) return InvalidArgument("The owner of borrowed bytes is a null pointer.");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % AlignedBytes::kAlignment != 0)
    return InvalidArgument("Borrowed bytes must begin at a multiple of {}.", AlignedBytes::kAlignment);
  Literal out;
  out.shape_ = shape;
  out.bytes_ = AlignedBytes::Borrowed(bytes, std::move(owner));
  return out;
}

Result<Literal> Literal::MakeTuple(std::vector<Literal> elements) {
  std::vector<Shape> shapes;
  for (const Literal& e : elements) shapes.push_back(e.shape());
  Literal out;
  KRAFLA_ASSIGN(out.shape_, Shape::MakeTuple(std::move(shapes)));
  out.elements_ = std::move(elements);
  return out;
}

std::vector<const Literal*> Literal::ArrayLeaves() const {
  std::vector<const Literal*> out, stack = {this};
  while (!stack.empty()) {
    const Literal* l = stack.back();
    stack.pop_back();
    if (l->shape_.IsArray()) out.push_back(l);
    for (auto it = l->elements_.rbegin(); it != l->elements_.rend(); ++it) stack.push_back(&*it);
  }
  return out;
}

Result<Literal> Literal::Reshaped(const Shape& shape) && {
  if (!shape_.IsArray() || !shape.IsArray() || shape.byte_size() != shape_.byte_size())
    return InvalidArgument("{} cannot be viewed as {}.", shape_.ToString(false), shape.ToString(false));
  shape_ = shape;
  return std::move(*this);
}

// A friend does not take its class's visibility with it.
[[gnu::visibility("default")]] bool operator==(const Literal& a, const Literal& b) {
  if (!Shape::Compatible(a.shape_, b.shape_) || a.bytes_.size() != b.bytes_.size()) return false;
  if (a.bytes_.size() > 0 && std::memcmp(a.bytes_.data(), b.bytes_.data(), a.bytes_.size()) != 0) return false;
  return a.elements_ == b.elements_;
}

}  // namespace krafla
