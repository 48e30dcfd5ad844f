// SPDX-License-Identifier: Apache-2.0
#include "plan/point_loop.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/checked_math.h"
#include "plan/reindex.h"
#include "plan/slice_extent.h"

namespace krafla::plan {
namespace {

// The elements of a point in one array, of each of which a program and a cell is made.
constexpr int64_t kMostTogether = 16;
constexpr std::size_t kMostCells = 64;
constexpr int64_t kMostAlone = 500;  // nodes of a loop of one point
constexpr std::ptrdiff_t kMostArrays = 256;

// The elements that an index reaches from the points of a program: stride * point + offset.
struct Reach {
  int64_t stride = 0;
  std::optional<int64_t> offset;  // nothing: it depends on values, or on what else the space has
  IndexExpr rest;                 // without the points' terms
};
// Nothing where points are not `stride` apart from their neighbours.
std::optional<Reach> ReachOf(const IndexSpace& space, IndexId index) {
  Reach out;
  const Dims& dims = space.dims();
  int64_t inner = 1;
  bool first = true;
  for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
    const int64_t size = dims[static_cast<std::size_t>(d)];
    if (size == 1) continue;
    const IndexSpace::Affine along = space.StrideAlong(index, d);
    if (!along.affine || along.stride % inner != 0) return std::nullopt;
    if (!first && along.stride != out.stride * inner) return std::nullopt;
    if (first) out.stride = along.stride;
    first = false;
    inner *= size;
  }
  out.rest.constant = space.expr(index).constant;
  for (const IndexTerm& t : space.expr(index).terms)
    if (space.atom(t.atom).kind != IndexAtom::Kind::kIter) out.rest.terms.push_back(t);
  if (out.rest.terms.empty()) out.offset = out.rest.constant;
  return out;
}

// A step that computes: programs over the points, or over nothing.
struct Leaf {
  bool is_scalar = false;
  std::vector<ElementProgram> programs;  // their buffers are numbered as the memory
};

class PointLoopFinder {
 public:
  PointLoopFinder(const ProgramPlan& plan, int64_t most_nodes) : plan_(plan), most_nodes_(most_nodes) {}

  Result<PointProgram> Find(const WhileStep& loop) {
    KRAFLA_TRY(Collect(loop));
    KRAFLA_TRY(CountElements());
    KRAFLA_TRY(CheckOverlaps());
    // Small arrays whose elements meet are scalars, all of them one point's.
    sizes_.insert(1);
    for (const int64_t points : sizes_)
      if (auto found = TryPoints(loop, points)) return std::move(*found);
    return Unimplemented("The points of the loop's arrays meet.");
  }

 private:
  struct Array {
    PointLoop::Memory memory;
    bool is_typed = false, written = false, read = false;
    // For the points that are tried:
    std::optional<int64_t> stride;
    bool in_place = false, must_have_cells = false;
    std::set<int64_t> offsets;
  };

  // ---- What the loop touches

  Result<> Collect(const WhileStep& loop) {
    if (!loop.trip_count) {
      Touch(loop.predicate, ElementType::kPred, false);
      KRAFLA_TRY(Collect(*loop.condition));
    }
    return Collect(*loop.body);
  }
  Result<> Collect(const StepList& list) {
    for (const Step& step : list.steps) {
      if (const auto* launch = std::get_if<LaunchStep>(&step)) {
        KRAFLA_TRY(CollectLaunch(*launch));
      } else if (const auto* copy = std::get_if<CopyStep>(&step)) {
        Touch(copy->from, std::nullopt, false);
        Touch(copy->to, std::nullopt, true);
        copies_.push_back(copy);
      } else if (const auto* inner = std::get_if<WhileStep>(&step)) {
        if (!inner->trip_count) return Unimplemented("How often a loop within the loop turns is not known.");
        KRAFLA_TRY(Collect(*inner));
      } else if (const auto* branch = std::get_if<ConditionalStep>(&step)) {
        Touch(branch->index, branch->index_is_pred ? ElementType::kPred : ElementType::kS32, false);
        for (const auto& b : branch->branches) KRAFLA_TRY(Collect(*b));
      } else if (const auto* call = std::get_if<CallStep>(&step)) {
        KRAFLA_TRY(Collect(plan_.callees[static_cast<std::size_t>(call->callee)]));
      } else {
        return Unimplemented("The loop has a step that is more than a launch or a copy.");
      }
      if (++nodes_ > most_nodes_) return Unimplemented("The loop has more operations than one kernel takes.");
    }
    return {};
  }
  Result<> CollectLaunch(const LaunchStep& launch) {
    const KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch.kernel)];
    const auto* loop = std::get_if<LoopKernel>(&kernel.body);
    if (loop == nullptr) return Unimplemented("A step of the loop is a kernel of the family '{}'.", FamilyName(kernel));
    for (std::size_t n = 0; n < launch.bindings.size(); ++n) {
      const Binding& binding = kernel.bindings[n];
      if (binding.read) Touch(launch.bindings[n], binding.storage, false);
      if (binding.written) Touch(launch.bindings[n], binding.storage, true);
      if (binding.element_count * StorageBytes(binding.storage) > launch.bindings[n].size) mixed_ = true;
    }
    const Dims& dims = loop->program.space.dims();
    for (std::size_t a = 0; a < dims.size(); ++a) {
      int64_t size = 1;
      for (std::size_t b = a; b < dims.size(); ++b) {
        size *= dims[b];
        if (size > 1) sizes_.insert(size);
      }
    }
    nodes_ += std::ssize(loop->program.nodes);
    return {};
  }
  int NumberOf(const Slice& slice) const {
    return static_cast<int>(std::ranges::find(arrays_, slice, [](const Array& a) { return a.memory.slice; }) -
                            arrays_.begin());
  }
  void Touch(const Slice& slice, std::optional<ElementType> storage, bool written) {
    const int number = NumberOf(slice);
    if (number == std::ssize(arrays_)) arrays_.emplace_back().memory.slice = slice;
    Array& array = arrays_[static_cast<std::size_t>(number)];
    (written ? array.written : array.read) = true;
    if (!storage) return;
    if (array.is_typed && StorageBytes(array.memory.storage) != StorageBytes(*storage)) mixed_ = true;
    array.memory.storage = *storage;
    array.is_typed = true;
  }
  // A copy moves elements of the size that one of its ends has.
  Result<> CountElements() {
    for (bool again = true; std::exchange(again, false);)
      for (const CopyStep* copy : copies_) {
        Array &from = ArrayOf(copy->from), &to = ArrayOf(copy->to);
        if (from.is_typed == to.is_typed) continue;
        (from.is_typed ? to : from).memory.storage = (from.is_typed ? from : to).memory.storage;
        from.is_typed = to.is_typed = again = true;
      }
    for (Array& a : arrays_) a.memory.element_count = a.memory.slice.size / StorageBytes(a.memory.storage);
    for (const CopyStep* copy : copies_)
      mixed_ =
          mixed_ || StorageBytes(ArrayOf(copy->from).memory.storage) != StorageBytes(ArrayOf(copy->to).memory.storage);
    if (mixed_) return Unimplemented("An array of the loop is read as elements of several sizes.");
    return {};
  }
  // Values that share bytes would have to be seen as both.
  Result<> CheckOverlaps() {
    if (std::ssize(arrays_) > kMostArrays) return Unimplemented("The loop has more arrays than one kernel takes.");
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Array &a = arrays_[i], &b = arrays_[j];
        if ((a.written || b.written) && ShareBytes(plan_, a.memory.slice, b.memory.slice))
          return Unimplemented("Arrays of the loop share bytes.");
      }
    return {};
  }
  bool Overlap(const Array& a, const Array& b) const {
    return ExtentOf(plan_, a.memory.slice).Overlaps(ExtentOf(plan_, b.memory.slice));
  }
  Array& ArrayOf(const Slice& slice) { return arrays_[static_cast<std::size_t>(NumberOf(slice))]; }

  // ---- The points

  std::optional<PointProgram> TryPoints(const WhileStep& loop, int64_t points) {
    points_ = points;
    leaves_.clear();
    nodes_ = 0;
    for (Array& a : arrays_) a.stride.reset(), a.in_place = a.must_have_cells = false, a.offsets.clear();
    if (!loop.trip_count && (!IsScalar(loop.predicate) || !LookAt(*loop.condition))) return std::nullopt;
    if (!LookAt(*loop.body) || !LookAtCopies()) return std::nullopt;
    // One invocation that does all is not for much work: a workgroup shares it out.
    const bool all_scalar = std::ranges::all_of(leaves_, [](const auto& leaf) { return leaf.second.is_scalar; });
    if (points == 1 ? nodes_ > kMostAlone : all_scalar) return std::nullopt;
    if (!ChooseCells()) return std::nullopt;
    PointProgram out;
    if (!loop.trip_count) out.condition = std::make_unique<PointSteps>(StepsOf(*loop.condition));
    out.body = std::make_unique<PointSteps>(StepsOf(*loop.body));
    out.loop.points = points;
    for (const Array& a : arrays_) out.loop.memory.push_back(a.memory);
    out.loop.cells = std::move(cells_);
    return out;
  }

  // Whether all steps keep to their points; their programs are kept.
  bool LookAt(const StepList& list) {
    for (const Step& step : list.steps) {
      bool good = true;
      if (const auto* launch = std::get_if<LaunchStep>(&step)) {
        good = leaves_.contains(launch) || LookAtLaunch(*launch);
      } else if (const auto* inner = std::get_if<WhileStep>(&step)) {
        good = LookAt(*inner->body);
      } else if (const auto* branch = std::get_if<ConditionalStep>(&step)) {
        good = IsScalar(branch->index);
        for (const auto& b : branch->branches) good = good && LookAt(*b);
      } else if (const auto* call = std::get_if<CallStep>(&step)) {
        good = LookAt(plan_.callees[static_cast<std::size_t>(call->callee)]);
      }
      if (!good) return false;
    }
    return true;
  }
  // Whether a slice of one element can be the same for all points.
  bool IsScalar(const Slice& slice) {
    Array& array = ArrayOf(slice);
    if (array.stride.value_or(0) != 0) return false;
    array.stride = 0;
    array.offsets.insert(0);
    return array.must_have_cells = true;
  }

  bool LookAtLaunch(const LaunchStep& launch) {
    const KernelPlan& kernel = plan_.kernels[static_cast<std::size_t>(launch.kernel)];
    ElementProgram program = std::get<LoopKernel>(kernel.body).program;
    RenumberBuffers(program, [&](int b) { return NumberOf(launch.bindings[static_cast<std::size_t>(b)]); });
    const Dims& dims = program.space.dims();
    const int64_t total = Product(dims);
    if (total == 0 || total / points_ > kMostTogether) return false;
    // Of the dimensions that may be the points, the outermost that agree with what other steps do.
    for (std::size_t first = 0; first < dims.size(); ++first) {
      int64_t size = 1;
      for (std::size_t last = first + 1; last <= dims.size() && size < points_; ++last) {
        size *= dims[last - 1];
        if (size != points_ || dims[first] == 1) continue;
        if (Take(&launch, program, first, last)) return true;
      }
    }
    return total <= kMostTogether && Take(&launch, program, 0, 0);
  }

  // Takes dimensions [first, last) of the program for the points (none: it is one of scalars), if its accesses allow
  // that. The others are written out.
  bool Take(const void* step, const ElementProgram& program, std::size_t first, std::size_t last) {
    const Dims& dims = program.space.dims();
    Leaf leaf;
    leaf.is_scalar = first == last;
    const std::span<const int64_t> own = dims.span().subspan(first, last - first);
    const int64_t together = Product(dims) / (leaf.is_scalar ? 1 : points_);
    for (int64_t n = 0; n < together; ++n) {
      std::vector<DimImage> images(dims.size());
      int64_t rest = n;
      for (std::size_t d = dims.size(); d-- > 0;) {
        if (d >= first && d < last) {
          images[d] = DimImage::Of(static_cast<int>(d - first));
        } else {
          images[d].constant = rest % dims[d];
          rest /= dims[d];
        }
      }
      leaf.programs.push_back(Specialize(program, own, images));
      nodes_ += std::ssize(leaf.programs.back().nodes);
    }
    if (nodes_ > most_nodes_) return false;
    const std::vector<Array> before = arrays_;
    for (const ElementProgram& p : leaf.programs)
      if (!Follow(p, leaf.is_scalar)) {
        arrays_ = before;
        return false;
      }
    leaves_.emplace(step, std::move(leaf));
    return true;
  }
  bool Follow(const ElementProgram& program, bool is_scalar) {
    for (const Node& n : program.nodes)
      if (n.op == NodeOp::kLoad && !FollowAccess(program.space, n.index, n.buffer, is_scalar, false, n.mask != kNoNode))
        return false;
    return std::ranges::all_of(program.stores, [&](const Store& s) {
      return FollowAccess(program.space, s.index, s.buffer, is_scalar, true, false);
    });
  }
  bool FollowAccess(const IndexSpace& space, IndexId index, int number, bool is_scalar, bool stores, bool masked) {
    Array& array = arrays_[static_cast<std::size_t>(number)];
    const std::optional<Reach> reach = ReachOf(space, index);
    if (!array.written) {
      // What nobody writes may be read by anyone.
      const bool cell = reach && reach->offset && !masked && reach->stride >= 0 && IsWithin(array, *reach) &&
                        (!array.stride || *array.stride == reach->stride);
      if (!cell) array.in_place = true;
      else array.stride = reach->stride, array.offsets.insert(*reach->offset);
      return true;
    }
    if (!reach || reach->stride < 0 || (is_scalar && reach->stride != 0)) return false;
    if (array.stride && *array.stride != reach->stride) return false;
    if (reach->stride == 0 && stores && !is_scalar) return false;  // all points would store to one place
    array.stride = reach->stride;
    if (reach->offset) {
      if (!IsWithin(array, *reach) || !IsOwn(reach->stride, *reach->offset)) return false;
      array.offsets.insert(*reach->offset);
      return true;
    }
    if (!IsOwnInPlace(array, *reach)) return false;
    array.in_place = true;
    return true;
  }
  bool IsWithin(const Array& array, const Reach& reach) const {
    return *reach.offset >= 0 && *reach.offset + reach.stride * (points_ - 1) < array.memory.element_count;
  }
  // Whether the element is the point's own: no other one's, whatever its offset.
  bool IsOwn(int64_t stride, int64_t offset) const { return stride == 0 || offset / stride % points_ == 0; }
  // The same where the offset is a value: what is added to a point's first element keeps to its own.
  bool IsOwnInPlace(const Array& array, const Reach& reach) const {
    if (reach.stride == 0) return true;  // of scalars; who may read them is asked at the end
    const int64_t all = reach.stride * points_;
    return array.memory.element_count % all == 0 && reach.rest.constant >= 0 &&
           IsOwn(reach.stride, reach.rest.constant) &&
           std::ranges::all_of(reach.rest.terms, [&](const IndexTerm& t) { return t.coefficient % all == 0; });
  }

  // Copies go from element to element, whichever these are.
  bool LookAtCopies() {
    for (bool again = true; std::exchange(again, false);)
      for (const CopyStep* copy : copies_) {
        Array &from = ArrayOf(copy->from), &to = ArrayOf(copy->to);
        if (to.stride && !from.stride && from.written) from.stride = to.stride, again = true;
        if (from.stride && !to.stride) to.stride = from.stride, again = true;
      }
    for (const CopyStep* copy : copies_) {
      const Array& to = ArrayOf(copy->to);
      const int64_t count = to.memory.element_count;
      const int64_t stride = to.stride ? *to.stride : count % points_ == 0 ? 1 : 0;
      if (!LookAtCopy(*copy, stride)) return false;
    }
    return true;
  }
  bool LookAtCopy(const CopyStep& copy, int64_t stride) {
    const int from = NumberOf(copy.from), to = NumberOf(copy.to);
    const ElementType bits = UnsignedOf(arrays_[static_cast<std::size_t>(to)].memory.storage);
    const int64_t count = arrays_[static_cast<std::size_t>(to)].memory.element_count, all = stride * points_;
    if (stride != 0 && count % all != 0) return false;
    if (count / (stride == 0 ? 1 : points_) > kMostTogether) return false;
    Leaf leaf;
    leaf.is_scalar = stride == 0;
    const int64_t dims[] = {points_};
    for (int64_t outer = 0; outer < (stride == 0 ? count : count / all); ++outer)
      for (int64_t inner = 0; inner < (stride == 0 ? 1 : stride); ++inner) {
        ProgramBuilder builder(leaf.is_scalar ? std::span<const int64_t>() : std::span<const int64_t>(dims));
        IndexSpace& space = builder.space();
        const IndexId at = stride == 0 ? space.Constant(outer)
                                       : space.AddConstant(space.Mul(space.Iter(0), stride), outer * all + inner);
        for (int b = 0; b < std::ssize(arrays_); ++b) builder.AddBuffer(bits, 1, b == to);
        builder.AddStore({to, at, builder.Load(from, bits, at), bits, kNoNode});
        leaf.programs.push_back(std::move(builder).Finish());
        if (!Follow(leaf.programs.back(), leaf.is_scalar)) return false;
      }
    leaves_.emplace(&copy, std::move(leaf));
    return true;
  }
  static ElementType UnsignedOf(ElementType type) {
    switch (StorageBytes(type)) {
      case 1: return ElementType::kU8;
      case 2: return ElementType::kU16;
      case 4: return ElementType::kU32;
      default: return ElementType::kU64;
    }
  }

  // ---- Cells

  bool ChooseCells() {
    cells_.clear();
    cell_of_.clear();
    for (int number = 0; number < std::ssize(arrays_); ++number) {
      Array& a = arrays_[static_cast<std::size_t>(number)];
      if (!a.in_place && !a.written && std::ssize(a.offsets) > kMostTogether) a.in_place = true;
      // Scalars lie in memory only if nothing in the loop reads them, and arrays only if they share no bytes with what
      // another point may be at.
      if (a.in_place && (a.must_have_cells || (a.written && a.stride == 0 && a.read))) return false;
      if (a.in_place && a.written)
        for (const Array& b : arrays_)
          if (&a != &b && Overlap(a, b)) return false;
      a.memory.read_in_place = a.in_place && a.read;
      a.memory.written_in_place = a.in_place && a.written;
      if (a.in_place) continue;
      for (const int64_t offset : a.offsets) {
        cell_of_[{number, offset}] = static_cast<int>(cells_.size());
        cells_.push_back({number, a.stride.value_or(0), offset, a.written});
      }
    }
    return cells_.size() <= kMostCells;
  }

  // ---- The steps with their cells

  int BufferAt(const IndexSpace& space, int number, IndexId index) const {
    const Array& array = arrays_[static_cast<std::size_t>(number)];
    if (array.in_place) return number;
    return static_cast<int>(arrays_.size()) + cell_of_.at({number, *ReachOf(space, index)->offset});
  }
  PointLoop::Compute ComputeOf(const ElementProgram& of, bool is_scalar) const {
    PointLoop::Compute out{of, is_scalar};
    const auto rename = [&](int& buffer, IndexId& index) {
      const int number = buffer;
      buffer = BufferAt(out.program.space, number, index);
      if (buffer != number) index = 0;
    };
    for (Node& n : out.program.nodes)
      if (n.op == NodeOp::kLoad) rename(n.buffer, n.index);
    for (Store& s : out.program.stores) rename(s.buffer, s.index);
    return out;
  }
  PointSteps StepsOf(const StepList& list) const {
    PointSteps out;
    for (const Step& step : list.steps) {
      if (const auto* inner = std::get_if<WhileStep>(&step)) {
        PointWhile made;
        made.body = std::make_unique<PointSteps>(StepsOf(*inner->body));
        made.trip_count = inner->trip_count;
        out.steps.emplace_back(std::move(made));
      } else if (const auto* branch = std::get_if<ConditionalStep>(&step)) {
        PointConditional made;
        made.index = branch->index;
        made.index_is_pred = branch->index_is_pred;
        for (const auto& b : branch->branches) made.branches.push_back(std::make_unique<PointSteps>(StepsOf(*b)));
        out.steps.emplace_back(std::move(made));
      } else if (const auto* call = std::get_if<CallStep>(&step)) {
        PointSteps made = StepsOf(plan_.callees[static_cast<std::size_t>(call->callee)]);
        std::ranges::move(made.steps, std::back_inserter(out.steps));
      } else {
        const auto* launch = std::get_if<LaunchStep>(&step);
        const Leaf& leaf = leaves_.at(launch != nullptr ? static_cast<const void*>(launch) : &std::get<CopyStep>(step));
        for (const ElementProgram& p : leaf.programs) out.steps.emplace_back(ComputeOf(p, leaf.is_scalar));
      }
    }
    return out;
  }

  const ProgramPlan& plan_;
  const int64_t most_nodes_;
  int64_t nodes_ = 0, points_ = 1;
  bool mixed_ = false;  // one slice, elements of several sizes
  std::vector<Array> arrays_;
  std::vector<const CopyStep*> copies_;
  std::set<int64_t, std::greater<>> sizes_;  // that the points may have in number
  std::map<const void*, Leaf> leaves_;       // of launches and copies
  std::vector<PointLoop::Cell> cells_;
  std::map<std::pair<int, int64_t>, int> cell_of_;  // by array and offset
};

}  // namespace

int PointLoop::CellOf(const Slice& slice) const {
  const auto found = std::ranges::find_if(
      cells, [&](const Cell& c) { return memory[static_cast<std::size_t>(c.memory)].slice == slice; });
  KRAFLA_CHECK(found != cells.end());
  return static_cast<int>(memory.size() + static_cast<std::size_t>(found - cells.begin()));
}

Result<PointProgram> FindPointLoop(const ProgramPlan& plan, const WhileStep& loop, int64_t most_nodes) {
  return PointLoopFinder(plan, most_nodes).Find(loop);
}

}  // namespace krafla::plan
