// SPDX-License-Identifier: Apache-2.0
// Where and how the entry's arrays lie: mhlo.memory_kind and mhlo.layout_mode of arguments and results (JAX's
// MemoryKind and Layout). XLA's HLO says both in the layouts of the entry, and so does the module.
#include <charconv>
#include <optional>

#include "hlo_io/stablehlo/converter.h"
#include "hlo_io/stablehlo/words.h"
#include "ir/custom_call.h"

namespace krafla::stablehlo {
namespace {

constexpr std::string_view kHostSpace = "S(5)";
constexpr int kLongestChain = 256;

// "{0,1}".
Result<Dims> OrderIn(std::string_view text, int64_t rank) {
  const Failure wrong = InvalidArgument("The layout '{}' is not an order of {} dimensions.", text.substr(0, 80), rank);
  if (!text.starts_with('{') || !text.ends_with('}')) return wrong;
  std::string_view rest = text.substr(1, text.size() - 2);
  if (rest.find(':') != std::string_view::npos)
    return Unimplemented("Layouts can only be orders of dimensions; '{}' has more than that.", text.substr(0, 80));
  Dims out;
  uint64_t seen = 0;
  while (!rest.empty()) {
    int64_t d = -1;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), d);
    if (error != std::errc() || d < 0 || d >= rank || ((seen >> d) & 1)) return wrong;
    seen |= uint64_t{1} << d;
    out.push_back(d);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.starts_with(',') && rest.size() > 1) rest.remove_prefix(1);
    else if (!rest.empty()) return wrong;
  }
  if (out.ssize() != rank) return wrong;
  return out;
}

// The operand whose elements lie as the instruction's; null where there is none.
const Instruction* LiesLike(const Instruction& i) {
  const bool moves_nothing =
      IsElementwise(i.opcode()) || i.opcode() == Opcode::kCopy || CustomCallTargetOf(i) == CustomCallTarget::kSharding;
  if (!moves_nothing) return nullptr;
  for (const Instruction* operand : i.operands())
    if (Shape::SameDims(operand->shape(), i.shape()) && !operand->IsConstant() &&
        operand->opcode() != Opcode::kBroadcast)
      return operand;
  return nullptr;
}

// The layout that the instruction has whatever its operands' are; null for most.
const Layout* OwnLayout(const Instruction& i, std::span<const Shape> parameters) {
  if (i.opcode() == Opcode::kParameter)
    return &parameters[static_cast<std::size_t>(i.attr<ParameterAttributes>().number)].layout();
  if (CustomCallTargetOf(i) == CustomCallTarget::kLayoutConstraint) return &i.shape().layout();
  return nullptr;
}

// The order in which a result costs nothing: that of the parameter, or of the value constrained to a layout, that it
// is, elementwise operations and transposes aside. Row-major for any other.
Dims FreeOrder(const Instruction& result, std::span<const Shape> parameters) {
  Dims from;  // dimension d of the result is dimension from[d] of `at`
  for (int64_t d = 0; d < result.shape().rank(); ++d) from.push_back(d);
  const Instruction* at = &result;
  for (int step = 0; at != nullptr && step < kLongestChain; ++step) {
    if (at->opcode() == Opcode::kTranspose) {
      const Dims& dims = at->attr<DimensionsAttributes>().dimensions;
      for (int64_t& d : from) d = dims[static_cast<std::size_t>(d)];
      at = at->operand(0);
    } else if (const Layout* own = OwnLayout(*at, parameters); own != nullptr) {
      Dims order;
      for (int64_t d : own->minor_to_major)
        for (int64_t r = 0; r < from.ssize(); ++r)
          if (from[static_cast<std::size_t>(r)] == d) order.push_back(r);
      return order;
    } else {
      at = LiesLike(*at);
    }
  }
  return Layout::RowMajor(result.shape().rank()).minor_to_major;
}

// Some other order than row-major, "auto" among them; none for what says nothing.
struct Wish {
  bool automatic = false;
  std::optional<Dims> order;
};
Result<Wish> WishOf(const Attribute* mode, const Shape& shape) {
  Wish out;
  if (mode == nullptr || !shape.IsArray() || mode->text == "default") return out;
  if (mode->text == "auto") {
    out.automatic = true;
    return out;
  }
  KRAFLA_ASSIGN(out.order, OrderIn(mode->text, shape.rank()));
  return out;
}

}  // namespace

Result<> Converter::EntryLayouts(const Op& func) {
  AttributeRef arguments = func.Find("arg_attrs"), results = func.Find("res_attrs");
  const Computation& entry = *module_->entry();
  bool any = false;
  std::vector<Shape> parameters;
  for (const Instruction* p : entry.parameters()) parameters.push_back(p->shape());
  for (std::size_t p = 0; arguments != nullptr && p < arguments->elements.size() && p < parameters.size(); ++p) {
    KRAFLA_ASSIGN(const Wish wish, WishOf(Entry(arguments->elements[p], "mhlo.layout_mode"), parameters[p]));
    if (!wish.order) continue;  // left to us, arguments are row-major
    KRAFLA_TRY(parameters[p].SetLayout({*wish.order, {}}));
    any |= !parameters[p].layout().IsRowMajor();
  }
  const Instruction& root = *entry.root();
  const bool tuple = root.shape().IsTuple();
  std::vector<Shape> leaves = tuple ? root.shape().tuple_elements() : std::vector<Shape>{root.shape()};
  for (std::size_t r = 0; results != nullptr && r < results->elements.size() && r < leaves.size(); ++r) {
    if (!leaves[r].IsArray()) continue;
    // The root may be constrained to another layout than it is to have outside.
    Layout layout = Layout::RowMajor(leaves[r].rank());
    any |= layout != leaves[r].layout();
    KRAFLA_ASSIGN(const Wish wish, WishOf(Entry(results->elements[r], "mhlo.layout_mode"), leaves[r]));
    if (wish.order) layout.minor_to_major = *wish.order;
    if (wish.automatic && root.opcode() == Opcode::kTuple)
      layout.minor_to_major = FreeOrder(*root.operand(r), parameters);
    if (wish.automatic && !tuple) layout.minor_to_major = FreeOrder(root, parameters);
    // Results that are to be left in the host's memory.
    const Attribute* kind = Entry(results->elements[r], "mhlo.memory_kind");
    if (kind != nullptr && kind->text.ends_with("_host")) layout.tail = kHostSpace;
    any |= layout != Layout::RowMajor(leaves[r].rank());
    KRAFLA_TRY(leaves[r].SetLayout(std::move(layout)));
  }
  if (!any) return {};
  if (tuple) {
    KRAFLA_ASSIGN(module_->entry_layout_result, Shape::MakeTuple(std::move(leaves)));
  } else {
    module_->entry_layout_result = leaves[0];
  }
  module_->entry_layout_parameters = std::move(parameters);
  return {};
}

}  // namespace krafla::stablehlo
