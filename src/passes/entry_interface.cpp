// SPDX-License-Identifier: Apache-2.0
#include "passes/entry_interface.h"

#include <algorithm>
#include <cstring>

#include "ir/packed_elements.h"

namespace krafla {

namespace {

// Copies the elements that both arrays have.
void CopyLeadingPart(const Literal& from, Literal& to) {
  const Shape &source = from.shape(), &target = to.shape();
  const int64_t rank = source.rank();
  const auto element = static_cast<std::size_t>(StorageBytes(source.element_type()));
  if (source.element_count() == 0 || target.element_count() == 0) return;
  const Dims source_strides = RowMajorStrides(source.dims()), target_strides = RowMajorStrides(target.dims());
  Dims rows;
  for (int64_t d = 0; d + 1 < rank; ++d) rows.push_back(std::min(source.dim(d), target.dim(d)));
  const int64_t run = rank == 0 ? 1 : std::min(source.dim(rank - 1), target.dim(rank - 1));
  Dims at(rows.size(), 0);
  do {
    int64_t read = 0, write = 0;
    for (std::size_t d = 0; d < rows.size(); ++d) {
      read += at[d] * source_strides[d];
      write += at[d] * target_strides[d];
    }
    std::memcpy(to.bytes().data() + static_cast<std::size_t>(write) * element,
                from.bytes().data() + static_cast<std::size_t>(read) * element,
                static_cast<std::size_t>(run) * element);
  } while (NextIndex(at, rows));
}

bool FitsBound(const Shape& got, const Shape& bound) {
  if (got.element_type() != bound.element_type() || got.rank() != bound.rank()) return false;
  for (int64_t d = 0; d < bound.rank(); ++d)
    if (bound.IsDynamicDim(d) ? got.dim(d) > bound.dim(d) : got.dim(d) != bound.dim(d)) return false;
  return true;
}

int64_t SizeCount(const std::vector<Shape>& leaves) {
  int64_t out = 0;
  for (const Shape& leaf : leaves)
    for (int64_t d = 0; d < leaf.rank(); ++d) out += leaf.IsDynamicDim(d);
  return out;
}

}  // namespace

EntryInterface EntryInterface::Of(const Module& module) {
  EntryInterface out;
  if (module.entry() == nullptr || module.entry()->root() == nullptr) return out;
  // What the header says of layouts is what the caller was promised.
  const std::vector<Shape>& promised = module.entry_layout_parameters;
  auto parameters = module.entry()->parameters();
  auto choose = [](const Shape& own, const Shape& header) { return Shape::Compatible(own, header) ? header : own; };
  for (std::size_t n = 0; n < parameters.size(); ++n) {
    if (parameters[n] == nullptr) return {};
    const Shape& own = parameters[n]->shape();
    const Shape shape = module.entry_layout_result && n < promised.size() ? choose(own, promised[n]) : own;
    for (const Shape* leaf : TupleLeaves(shape)) out.arguments.push_back(*leaf);
  }
  const Shape& own = module.entry()->root()->shape();
  const Shape shape = module.entry_layout_result ? choose(own, *module.entry_layout_result) : own;
  for (const Shape* leaf : TupleLeaves(shape)) out.results.push_back(*leaf);
  return out;
}

void EntryInterface::ApplyLayouts(std::vector<Shape>& argument_leaves, std::vector<Shape>& result_leaves) const {
  const auto apply = [this](const std::vector<Shape>& from, std::vector<Shape>& to) {
    for (std::size_t n = 0; n < std::min(from.size(), to.size()); ++n) {
      if (has_own_transposes) to[n].ClearLayout();
      else if (from[n].IsArray() && from[n].rank() == to[n].rank())
        KRAFLA_CHECK(to[n].SetLayout(from[n].layout()).has_value());
    }
  };
  apply(arguments, argument_leaves);
  apply(results, result_leaves);
}

PackedEdges PackedEdges::Of(const Module& module) {
  PackedEdges out;
  const auto is_packable = [](const Shape& s) { return IsPackable(s); };
  for (const Instruction* p : module.entry()->parameters())
    for (const Shape* leaf : TupleLeaves(p->shape())) out.arguments.push_back(*leaf);
  for (const Shape* leaf : TupleLeaves(module.entry()->root()->shape())) out.results.push_back(*leaf);
  if (std::ranges::none_of(out.arguments, is_packable) && std::ranges::none_of(out.results, is_packable)) return {};
  return out;
}

bool EntryInterface::IsDynamic() const {
  auto dynamic = [](const Shape& s) { return s.IsDynamic(); };
  return std::ranges::any_of(arguments, dynamic) || std::ranges::any_of(results, dynamic);
}

std::size_t EntryInterface::padded_argument_count() const {
  return arguments.size() + static_cast<std::size_t>(SizeCount(arguments));
}
std::size_t EntryInterface::padded_result_count() const {
  return results.size() + static_cast<std::size_t>(SizeCount(results));
}

Result<std::vector<const Literal*>> PadArguments(const EntryInterface& interface,
                                                 std::span<const Literal* const> arguments,
                                                 std::vector<Literal>& made) {
  const std::vector<Shape>& bounds = interface.arguments;
  if (arguments.size() != bounds.size())
    return InvalidArgument("The module takes {} arguments, {} were given.", bounds.size(), arguments.size());
  made.clear();
  made.reserve(interface.padded_argument_count());  // pointers into it stay valid
  std::vector<const Literal*> out(arguments.begin(), arguments.end());
  for (std::size_t a = 0; a < arguments.size(); ++a) {
    const Shape& got = arguments[a]->shape();
    if (!bounds[a].IsDynamic()) continue;
    if (!FitsBound(got, bounds[a]))
      return InvalidArgument("Argument {} is {}, the module takes {}.", a, got.ToString(false),
                             bounds[a].ToString(false));
    if (got.dims() == bounds[a].dims()) continue;
    KRAFLA_ASSIGN(Literal padded, Literal::Create(bounds[a].WithStaticDims()));
    CopyLeadingPart(*arguments[a], padded);
    made.push_back(std::move(padded));
    out[a] = &made.back();
  }
  for (std::size_t a = 0; a < arguments.size(); ++a)
    for (int64_t d = 0; d < bounds[a].rank(); ++d) {
      if (!bounds[a].IsDynamicDim(d)) continue;
      KRAFLA_ASSIGN(Literal size, Literal::Create(Shape::MakeScalar(ElementType::kS32)));
      size.data<int32_t>()[0] = static_cast<int32_t>(arguments[a]->shape().dim(d));
      made.push_back(std::move(size));
      out.push_back(&made.back());
    }
  return out;
}

Result<std::vector<Literal>> CutResults(const EntryInterface& interface, std::vector<Literal> padded) {
  const std::vector<Shape>& bounds = interface.results;
  if (padded.size() != interface.padded_result_count())
    return Internal("The program returned {} results where {} and their sizes were expected.", padded.size(),
                    bounds.size());
  std::size_t next = bounds.size();
  for (std::size_t r = 0; r < bounds.size(); ++r) {
    if (!bounds[r].IsDynamic()) continue;
    Dims dims = bounds[r].dims();
    for (int64_t d = 0; d < bounds[r].rank(); ++d)
      if (bounds[r].IsDynamicDim(d))
        dims[static_cast<std::size_t>(d)] = std::clamp<int64_t>(padded[next++].data<int32_t>()[0], 0, bounds[r].dim(d));
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(bounds[r].element_type(), dims));
    KRAFLA_ASSIGN(Literal part, Literal::CreateUninitialized(shape));
    CopyLeadingPart(padded[r], part);
    padded[r] = std::move(part);
  }
  padded.resize(bounds.size());
  return padded;
}

}  // namespace krafla
