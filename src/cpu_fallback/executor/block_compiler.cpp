// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <format>
#include <map>
#include <optional>

#include "base/checked_math.h"
#include "base/work.h"
#include "cpu_fallback/executor/block_program.h"
#include "cpu_fallback/executor/lanes.h"
#include "cpu_fallback/executor/native_planner.h"

namespace krafla::cpu {

using plan::AtomId;
using plan::ElementProgram;
using plan::IndexAtom;
using plan::IndexExpr;
using plan::IndexId;
using plan::IndexTerm;
using plan::kNoNode;
using plan::Node;
using plan::NodeId;
using plan::NodeOp;

namespace {

// Registers hold compute types as they would be stored.
int ComputeWidth(ElementType type) { return StorageBytes(type); }

template <class T>
T& Item(std::vector<T>& v, int i) {
  return v[static_cast<std::size_t>(i)];
}
template <class T>
const T& Item(const std::vector<T>& v, int i) {
  return v[static_cast<std::size_t>(i)];
}

}  // namespace

class BlockCompiler {
 public:
  BlockCompiler(const ElementProgram& program, const BlockProgram::Options& options)
      : program_(program), options_(options), space_(program.space), lanes_(program, options.result_lanes) {
    const TileShape& tile = options.tile;
    if (tile.row_dim >= 0) tile_mask_ |= uint64_t{1} << tile.row_dim;
    if (tile.column_dim >= 0) tile_mask_ |= uint64_t{1} << tile.column_dim;
    if (options.params_are_arrays) tile_mask_ |= kParamBit;
    const std::span<const int64_t> dims = space_.dims();
    int64_t points = 1;
    for (int64_t d : dims) points = CheckedMul(points, d).value_or(INT64_MAX);
    if (options.memory_is_constant && tile.column_dim >= 0 && tile.rows > 1 && tile.columns < BlockProgram::kShortRow &&
        tile.columns == dims[static_cast<std::size_t>(tile.column_dim)] && tile.rows * tile.columns < points)
      whole_dims_ = uint64_t{1} << tile.column_dim;
    out_.tile_ = tile;
    out_.buffer_count_ = program.buffers.size();
  }

  Result<BlockProgram> Run() {
    FindDepends();
    slot_of_.assign(program_.nodes.size(), -1);
    narrow_slot_of_.assign(program_.nodes.size(), {-1, -1});
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) KRAFLA_TRY(LowerForms(static_cast<NodeId>(i)));
    for (const plan::Store& store : program_.stores) KRAFLA_TRY(LowerStore(store));
    for (std::size_t i = 0; i < program_.results.size(); ++i) {
      const NodeId r = program_.results[i];
      const ElementType lane = i < options_.result_lanes.size() ? options_.result_lanes[i] : ElementType::kInvalid;
      const bool is_narrow = lane != ElementType::kInvalid;
      out_.results_.push_back(is_narrow ? NarrowSlot(r, StorageBytes(lane)) : Item(slot_of_, r));
      out_.result_types_.push_back(is_narrow ? lane : Item(program_.nodes, r).type);
    }
    if (options_.is_for_routine) out_.keys_ = keys_;
    else NativePlanner(out_, keys_, options_.elements, options_.runs).Run();
    FindDirectStores();
    PlaceSlots();
    return std::move(out_);
  }

 private:
  using Step = BlockProgram::Step;
  static constexpr uint64_t kParamBit = uint64_t{1} << 63, kTileBit = uint64_t{1} << 62;

  // Which dimensions a node varies with, found anew: the params' are the caller's.
  void FindDepends() {
    depends_.assign(program_.nodes.size(), 0);
    expr_depends_.assign(space_.expr_count(), std::nullopt);
    for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
      const Node& n = program_.nodes[i];
      uint64_t d = 0;
      for (NodeId o : n.operands)
        if (o != kNoNode) d |= Item(depends_, o);
      if (n.mask != kNoNode) d |= Item(depends_, n.mask);
      if (n.op == NodeOp::kLoad || n.op == NodeOp::kIndex) {
        d |= Depends(n.index);
        // Offsets are made anew in every tile.
        if (whole_dims_ != 0 && !SplitExpr(space_.expr(n.index)).varying.empty()) d |= kTileBit;
      }
      // A param comes with each tile, so nothing made from it is known when the launch starts.
      if (n.op == NodeOp::kParam)
        d |= kParamBit | (options_.params_are_arrays ? 0 : options_.param_depends.value_or(n.depends));
      depends_[i] = d;
    }
  }
  uint64_t AtomDepends(const IndexAtom& a) const {
    switch (a.kind) {
      case IndexAtom::Kind::kIter: return uint64_t{1} << a.iter;
      case IndexAtom::Kind::kFloorDiv:
      case IndexAtom::Kind::kMod: return Depends(a.expr);
      case IndexAtom::Kind::kValue: return Item(depends_, a.node);
    }
    return 0;
  }
  // Expressions share their parts: each is looked at once. (A node's indices are made of nodes before it, so what is
  // remembered is complete.)
  uint64_t Depends(IndexId id) const {
    std::optional<uint64_t>& known = expr_depends_[static_cast<std::size_t>(id)];
    if (known) return *known;
    CountWork(1);
    uint64_t d = 0;
    for (const IndexTerm& t : space_.expr(id).terms) d |= AtomDepends(space_.atom(t.atom));
    known = d;
    return d;
  }
  bool Varies(uint64_t depends) const { return (depends & tile_mask_) != 0; }

  int NewSlot(int width, bool is_uniform) {
    out_.slots_.push_back({width, is_uniform, -1});
    fixed_.push_back(false);
    return static_cast<int>(out_.slots_.size()) - 1;
  }
  // Steps of values that are the same in all tiles run once a launch.
  bool IsOfLaunch(uint64_t depends) const { return (depends & ~whole_dims_) == 0; }
  std::vector<Step>& StepsFor(uint64_t depends) { return IsOfLaunch(depends) ? out_.launch_steps_ : out_.tile_steps_; }
  void MarkFixed(int slot, uint64_t depends) {
    if (IsOfLaunch(depends)) fixed_[static_cast<std::size_t>(slot)] = true;
  }

  // The part of `id` that is the same throughout a tile, with the tile's origin for the iterators.
  int UniformAddress(const IndexExpr& e) {
    BlockProgram::Address address{.constant = e.constant, .terms = {}};
    for (const IndexTerm& t : e.terms) {
      const IndexAtom& a = space_.atom(t.atom);
      if (a.kind == IndexAtom::Kind::kIter) {
        // Tiles that are as long as a dimension begin at 0.
        if (((whole_dims_ >> a.iter) & 1) != 0) continue;
        address.terms.push_back({BlockProgram::Term::Kind::kIter, a.iter, t.coefficient});
      } else if (!Varies(AtomDepends(a))) {
        if (a.kind == IndexAtom::Kind::kValue) {
          address.terms.push_back({BlockProgram::Term::Kind::kValue, Item(slot_of_, a.node), t.coefficient});
        } else {
          address.terms.push_back({BlockProgram::Term::Kind::kDivision, UniformDivision(t.atom), t.coefficient});
        }
      }
    }
    out_.addresses_.push_back(std::move(address));
    return static_cast<int>(out_.addresses_.size()) - 1;
  }

  // The slot of a quotient or remainder that is the same throughout a tile, made once for all that use it.
  int UniformDivision(AtomId id) {
    if (auto it = division_slots_.find(id); it != division_slots_.end()) return it->second;
    const IndexAtom& a = space_.atom(id);
    const uint64_t depends = AtomDepends(a);
    int dividend = UniformAddress(space_.expr(a.expr));
    int out = NewSlot(8, true);
    MarkFixed(out, depends);
    StepsFor(depends).push_back(
        {.kind = a.kind == IndexAtom::Kind::kMod ? Step::Kind::kUniformModulus : Step::Kind::kUniformDivide,
         .is_uniform = true,
         .out = out,
         .bits = static_cast<uint64_t>(a.divisor),
         .address = dividend});
    division_slots_.emplace(id, out);
    return out;
  }

  struct Split {
    int64_t row_stride = 0, column_stride = 0;
    std::vector<IndexTerm> varying;  // not affine within a tile
  };
  Split SplitExpr(const IndexExpr& e) const {
    Split split;
    for (const IndexTerm& t : e.terms) {
      const IndexAtom& a = space_.atom(t.atom);
      if (a.kind == IndexAtom::Kind::kIter) {
        if (a.iter == options_.tile.row_dim) split.row_stride += t.coefficient;
        if (a.iter == options_.tile.column_dim) split.column_stride += t.coefficient;
      } else if (Varies(AtomDepends(a))) {
        split.varying.push_back(t);
      }
    }
    return split;
  }

  // An s32 array of the parts of `e` that vary in a way that is not affine; with `whole`, of all of `e`.
  Result<int> OffsetsSlot(const IndexExpr& e, bool whole) {
    const Split split = SplitExpr(e);
    int sum = -1;
    const uint64_t depends = tile_mask_ | kTileBit;  // made anew in every tile
    if (whole) {
      sum = NewSlot(4, false);
      Step ramp{.kind = Step::Kind::kRamp,
                .out = sum,
                .address = UniformAddress(e),
                .row_stride = split.row_stride,
                .column_stride = split.column_stride};
      StepsFor(depends).push_back(ramp);
    } else if (split.row_stride != 0 || split.column_stride != 0) {
      sum = NewSlot(4, false);
      out_.addresses_.push_back({});
      Step ramp{.kind = Step::Kind::kRamp,
                .out = sum,
                .address = static_cast<int>(out_.addresses_.size()) - 1,
                .row_stride = split.row_stride,
                .column_stride = split.column_stride};
      StepsFor(depends).push_back(ramp);
    }
    for (const IndexTerm& t : split.varying) {
      KRAFLA_ASSIGN(int value, AtomSlot(t.atom));
      if (t.coefficient == 1 && sum < 0) {
        sum = value;
        continue;
      }
      int next = NewSlot(4, false);
      Step step{.kind = Step::Kind::kMulAdd,
                .out = next,
                .in = {value, sum, -1},
                .bits = static_cast<uint64_t>(t.coefficient)};
      StepsFor(depends).push_back(step);
      sum = next;
    }
    return sum;
  }
  Result<int> AtomSlot(AtomId id) {
    const IndexAtom& a = space_.atom(id);
    if (a.kind == IndexAtom::Kind::kValue) return Item(slot_of_, a.node);
    if (auto it = atom_slots_.find(id); it != atom_slots_.end()) return it->second;
    const auto range = space_.RangeOf(a.expr);
    if (range.hi > INT32_MAX || a.divisor > INT32_MAX)
      return Unimplemented("An index of up to {} does not fit the 32 bits that computed indices have.", range.hi);
    KRAFLA_ASSIGN(int dividend, OffsetsSlot(space_.expr(a.expr), /*whole=*/true));
    int out = NewSlot(4, false);
    Step step{.kind = a.kind == IndexAtom::Kind::kMod ? Step::Kind::kModulus : Step::Kind::kDivide,
              .out = out,
              .in = {dividend, -1, -1},
              .bits = static_cast<uint64_t>(a.divisor)};
    out_.tile_steps_.push_back(step);
    atom_slots_.emplace(id, out);
    return out;
  }

  Result<BlockProgram::Access> LowerAccess(int buffer, ElementType storage, IndexId index, NodeId mask) {
    const IndexExpr& e = space_.expr(index);
    BlockProgram::Access access{.buffer = buffer, .width = StorageBytes(storage), .storage = storage};
    access.address = UniformAddress(e);
    const Split split = SplitExpr(e);
    access.row_stride = split.row_stride;
    access.column_stride = split.column_stride;
    if (!split.varying.empty()) {
      const auto range = space_.RangeOf(index);
      if (range.hi - range.lo > INT32_MAX)
        return Unimplemented("An access over {} elements does not fit the 32 bits that computed indices have.",
                             range.hi - range.lo);
      KRAFLA_ASSIGN(access.offsets, OffsetsSlot(e, /*whole=*/false));
    }
    if (mask != kNoNode) {
      access.mask = Item(slot_of_, mask);
      access.mask_is_uniform = !Varies(Item(depends_, mask));
    }
    access.converted_width = ComputeWidth(plan::ComputeType(storage));
    return access;
  }

  // A uniform value of a node, in slot `from`, as an array.
  int SpreadSlot(NodeId node, int from) {
    if (auto it = spread_.find(from); it != spread_.end()) return it->second;
    const int width = Item(out_.slots_, from).width;
    int out = NewSlot(width, false);
    uint64_t depends = Item(depends_, node);
    const bool launch = IsOfLaunch(depends);
    Step step{.kind = Step::Kind::kSpread, .out = out, .in = {from, -1, -1}, .width = width};
    (launch ? out_.launch_steps_ : out_.tile_steps_).push_back(step);
    if (launch) fixed_[static_cast<std::size_t>(out)] = true;
    spread_.emplace(from, out);
    return out;
  }

  int& NarrowSlot(NodeId id, int width) { return narrow_slot_of_[static_cast<std::size_t>(id)][width == 1 ? 0 : 1]; }

  Result<> LowerForms(NodeId id) {
    if (lanes_.NeedsWide(id)) KRAFLA_TRY(LowerNode(id));
    for (int width : {1, 2})
      if (lanes_.NeedsNarrow(id, width)) KRAFLA_TRY(LowerNarrow(id, width));
    return {};
  }

  // The low bits of a node.
  Result<> LowerNarrow(NodeId id, int width) {
    const Node& n = Item(program_.nodes, id);
    const bool varies = Varies(Item(depends_, id));
    Lanes::Form form = lanes_.FormOf(id, width);
    if (lanes_.NeedsWide(id) && form.kind != Lanes::Form::Kind::kLoad && form.kind != Lanes::Form::Kind::kConstant)
      form = {};
    int& slot = NarrowSlot(id, width);
    switch (form.kind) {
      case Lanes::Form::Kind::kConstant: slot = ConstantSlot(n.bits, width); return {};
      case Lanes::Form::Kind::kLoad: return LowerLoad(id, width, nullptr, slot);
      case Lanes::Form::Kind::kSame:
        slot = Item(program_.nodes, form.from).type == ElementType::kPred ? Item(slot_of_, form.from)
                                                                          : NarrowSlot(form.from, width);
        return {};
      case Lanes::Form::Kind::kTruncate:
      case Lanes::Form::Kind::kConvert: {
        const NodeId from = form.kind == Lanes::Form::Kind::kConvert ? form.from : id;
        const ElementType type = form.kind == Lanes::Form::Kind::kConvert ? form.type
                                 : width == 1                             ? ElementType::kU8
                                                                          : ElementType::kU16;
        const ElementType operand = Item(program_.nodes, from).type;
        Step step{.kind = Step::Kind::kOp, .is_uniform = !varies, .in = {Item(slot_of_, from), -1, -1}};
        const BlockKey key{.op = NodeOp::kConvert, .type = type, .operand = operand};
        step.fn = FindBlockFn(key);
        step.key = AddKey(key);
        if (step.fn == nullptr)
          return Unimplemented("The CPU's block interpreter has no loop from {} to {}.", ElementTypeName(operand),
                               ElementTypeName(type));
        PushOp(step, id, width, slot);
        return {};
      }
      case Lanes::Form::Kind::kOp: break;
    }
    std::array<int, 3> in = {-1, -1, -1};
    const bool is_select = n.opcode == Opcode::kSelect;
    for (std::size_t i = 0; i < 3; ++i) {
      if (n.operands[i] == kNoNode) continue;
      in[i] = is_select && i == 0 ? Item(slot_of_, n.operands[i]) : NarrowSlot(n.operands[i], width);
    }
    return LowerOp(id, {.op = n.op, .opcode = n.opcode, .type = form.type, .operand = form.type}, in, width, slot);
  }

  int ConstantSlot(uint64_t bits, int width) {
    const int slot = NewSlot(width, true);
    fixed_.back() = true;
    out_.launch_steps_.push_back(
        {.kind = Step::Kind::kConstant, .is_uniform = true, .out = slot, .bits = bits, .width = width});
    return slot;
  }

  Result<> LowerLoad(NodeId id, int width, ConvertFn convert, int& slot) {
    const Node& n = Item(program_.nodes, id);
    const uint64_t depends = Item(depends_, id);
    const bool varies = Varies(depends);
    KRAFLA_ASSIGN(BlockProgram::Access access, LowerAccess(n.buffer, n.storage, n.index, n.mask));
    access.convert = convert;
    access.converted_width = width;
    slot = NewSlot(width, !varies);
    MarkFixed(slot, depends);
    out_.accesses_.push_back(access);
    Step step{.kind = Step::Kind::kLoad,
              .is_uniform = !varies,
              .out = slot,
              .access = static_cast<int>(out_.accesses_.size()) - 1};
    StepsFor(depends).push_back(step);
    return {};
  }

  Result<> LowerNode(NodeId id) {
    const Node& n = Item(program_.nodes, id);
    const uint64_t depends = Item(depends_, id);
    const bool varies = Varies(depends);
    int& slot = Item(slot_of_, id);
    switch (n.op) {
      case NodeOp::kConstant: slot = ConstantSlot(n.bits, ComputeWidth(n.type)); return {};
      case NodeOp::kParam: {
        slot = NewSlot(ComputeWidth(n.type), !varies);
        param_slot_.push_back(slot);
        out_.tile_steps_.push_back({.kind = Step::Kind::kParam, .is_uniform = !varies, .out = slot, .bits = n.bits});
        return {};
      }
      case NodeOp::kIndex: {
        const IndexExpr& e = space_.expr(n.index);
        const Split split = SplitExpr(e);
        if (!split.varying.empty()) {
          KRAFLA_ASSIGN(slot, OffsetsSlot(e, /*whole=*/true));
          return {};
        }
        slot = NewSlot(4, !varies);
        MarkFixed(slot, depends);
        StepsFor(depends).push_back({.kind = Step::Kind::kRamp,
                                     .is_uniform = !varies,
                                     .out = slot,
                                     .address = UniformAddress(e),
                                     .row_stride = split.row_stride,
                                     .column_stride = split.column_stride});
        return {};
      }
      case NodeOp::kLoad: return LowerLoad(id, ComputeWidth(n.type), FindWiden(n.storage), slot);
      case NodeOp::kBitcast: slot = Item(slot_of_, n.operands[0]); return {};
      case NodeOp::kConvert:
        // Between s32 and u32 the bits stay.
        if (IsIntegral(n.type) && IsIntegral(Item(program_.nodes, n.operands[0]).type) &&
            BitWidth(n.type) == BitWidth(Item(program_.nodes, n.operands[0]).type)) {
          slot = Item(slot_of_, n.operands[0]);
          return {};
        }
        break;
      case NodeOp::kHlo:
      case NodeOp::kCompare:
      case NodeOp::kRound:
      case NodeOp::kWrap:
      case NodeOp::kEncode:
      case NodeOp::kDecode:
      case NodeOp::kReducePrecision: break;
    }
    const bool is_select = n.op == NodeOp::kHlo && n.opcode == Opcode::kSelect;
    const ElementType read = lanes_.ReadType(id);
    BlockKey key{.op = n.op,
                 .opcode = n.opcode,
                 .type = n.type,
                 .operand = Item(program_.nodes, n.operands[is_select ? 1 : 0]).type,
                 .storage = n.storage,
                 .direction = n.direction,
                 .total_order = n.total_order};
    if (read != ElementType::kInvalid) key.operand = read;
    std::array<int, 3> in = {-1, -1, -1};
    for (std::size_t i = 0; i < 3; ++i) {
      const NodeId o = n.operands[i];
      if (o != kNoNode) in[i] = read == ElementType::kInvalid ? Item(slot_of_, o) : NarrowSlot(o, StorageBytes(read));
    }
    return LowerOp(id, key, in, ComputeWidth(n.type), slot);
  }

  // An op of node `id`, on operands in slots `in`, whose value of `width` bytes goes to `slot`.
  Result<> LowerOp(NodeId id, BlockKey key, std::array<int, 3> in, int width, int& slot) {
    const Node& n = Item(program_.nodes, id);
    const bool varies = Varies(Item(depends_, id));
    Step step{.kind = Step::Kind::kOp, .is_uniform = !varies, .in = in, .bits = n.bits};
    for (unsigned i = 0; i < 3; ++i) {
      NodeId o = n.operands[i];
      if (o != kNoNode && varies && !Varies(Item(depends_, o))) key.uniform |= 1u << i;
    }
    step.key = AddKey(key);
    step.fn = FindBlockFn(key);
    if (step.fn == nullptr && key.uniform != 0) {
      // Second best: fewer uniform operands.
      for (unsigned i = 0; i < 3; ++i)
        if ((key.uniform >> i) & 1) step.in[i] = SpreadSlot(n.operands[i], in[i]);
      key.uniform = 0;
      step.fn = FindBlockFn(key);
    }
    if (!varies || out_.tile_.rows * out_.tile_.columns == 1) {
      BlockKey single = key;
      single.uniform = 0;
      step.scalar = FindScalarOp(single);
    } else if (out_.tile_.rows * out_.tile_.columns * width <= kSmallBytes) {
      step.small = FindSmallOp(key);
    }
    if (step.fn == nullptr) {
      return Unimplemented("The CPU's block interpreter has no loop for {} of {}.",
                           n.op == NodeOp::kHlo ? OpcodeName(n.opcode) : std::string_view("a conversion or comparison"),
                           ElementTypeName(key.operand));
    }
    PushOp(step, id, width, slot);
    return {};
  }
  int AddKey(const BlockKey& key) {
    keys_.push_back(key);
    return static_cast<int>(keys_.size()) - 1;
  }
  void PushOp(Step& step, NodeId id, int width, int& slot) {
    const uint64_t depends = Item(depends_, id);
    slot = step.out = NewSlot(width, !Varies(depends));
    MarkFixed(slot, depends);
    StepsFor(depends).push_back(step);
  }

  Result<> LowerStore(const plan::Store& store) {
    KRAFLA_ASSIGN(BlockProgram::Access access, LowerAccess(store.buffer, store.storage, store.index, store.mask));
    const NodeId source = lanes_.SourceOf(store);
    int value = Item(slot_of_, source);
    access.convert = source == store.node ? FindNarrow(store.storage) : FindRoundNarrow(store.storage);
    access.rounds = source != store.node;
    if (const int width = StorageBytes(store.storage);
        width < 4 && lanes_.NeedsNarrow(store.node, width) && IsIntegral(store.storage)) {
      value = NarrowSlot(store.node, width);
      access.convert = nullptr;
    }
    const bool value_varies = Varies(Item(depends_, store.node));
    const bool store_varies = value_varies || access.row_stride != 0 || access.column_stride != 0 ||
                              access.offsets >= 0 || (access.mask >= 0 && !access.mask_is_uniform);
    Step step{.kind = Step::Kind::kStore, .is_uniform = !store_varies};
    step.in[0] = store_varies && !value_varies ? SpreadSlot(store.node, value) : value;
    out_.accesses_.push_back(access);
    step.access = static_cast<int>(out_.accesses_.size()) - 1;
    out_.tile_steps_.push_back(step);
    return {};
  }

  // An op whose result is stored as it is may write into the buffer itself, when nothing after it still has to read
  // memory that the write could change.
  void FindDirectStores() {
    std::vector<bool> from_memory(out_.slots_.size(), false);
    for (const Step& s : out_.tile_steps_)
      if (s.kind == Step::Kind::kParam ||
          (s.kind == Step::Kind::kLoad && Item(out_.accesses_, s.access).convert == nullptr))
        from_memory[static_cast<std::size_t>(s.out)] = true;
    auto& steps = out_.tile_steps_;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& store = steps[i];
      if (store.kind != Step::Kind::kStore || store.is_uniform) continue;
      const BlockProgram::Access& access = Item(out_.accesses_, store.access);
      if (access.convert != nullptr || access.mask >= 0 || access.offsets >= 0) continue;
      for (std::size_t j = 0; j < i; ++j) {
        Step& op = steps[j];
        const bool makes = op.kind == Step::Kind::kOp || op.kind == Step::Kind::kLoad;
        if (!makes || op.out != store.in[0] || op.direct_store >= 0) continue;
        bool safe = true;
        for (std::size_t k = j + 1; k < steps.size(); ++k) {
          const Step& later = steps[k];
          if (k == i) continue;
          if (later.kind == Step::Kind::kLoad || later.kind == Step::Kind::kNative) safe = false;
          out_.ForEachInput(later, [&](int in) {
            if (from_memory[static_cast<std::size_t>(in)]) safe = false;
          });
        }
        // Where it goes to must be known by then.
        for (const BlockProgram::Term& t : Item(out_.addresses_, access.address).terms)
          if (t.kind != BlockProgram::Term::Kind::kIter)
            for (std::size_t k = j; k < steps.size(); ++k)
              if (steps[k].out == t.number) safe = false;
        if (!safe) continue;
        op.direct_store = store.access;
        op.moves = op.kind == Step::Kind::kLoad && CanMove(op, access);
      }
    }
  }

  // Whether elements that are loaded and stored alone go from one place to the other at once. Of a transposition, each
  // of whose lines is written in pieces, only where those are whole vectors.
  bool CanMove(const Step& load, const BlockProgram::Access& to) const {
    const BlockProgram::Access& from = Item(out_.accesses_, load.access);
    if (from.convert != nullptr || from.mask >= 0 || from.offsets >= 0 || from.width != to.width ||
        load.direct_store >= 64)
      return false;
    if (to.column_stride != 1 && (from.column_stride != 1 || to.row_stride != 1)) return false;
    const bool is_transposed = from.column_stride != 1 || to.column_stride != 1;
    if (is_transposed && from.width < 4) return false;
    // The same array may lie there, each element at its place; else the two are different.
    if (from.buffer == to.buffer) return false;
    int uses = 0;
    for (const Step& s : out_.tile_steps_) out_.ForEachInput(s, [&](int slot) { uses += slot == load.out ? 1 : 0; });
    for (int slot : out_.results_) uses += slot == load.out ? 1 : 0;
    for (const BlockProgram::Address& address : out_.addresses_)
      for (const BlockProgram::Term& t : address.terms)
        uses += t.kind != BlockProgram::Term::Kind::kIter && t.number == load.out ? 1 : 0;
    return uses == 1;
  }

  // Registers: arrays are shared by values that do not live at the same time.
  void PlaceSlots() {
    auto& slots = out_.slots_;
    const int64_t elements = out_.tile_.rows * out_.tile_.columns;
    int64_t size = RoundUp(static_cast<int64_t>(1 + slots.size() + out_.buffer_count_) * 8, 64);
    auto take = [&](int64_t bytes) {
      int64_t at = size;
      size += RoundUp(bytes, 64);
      return at;
    };
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].is_uniform) {
        slots[i].offset = size;
        size += 16;
      }
    }
    size = RoundUp(size, 64);
    std::vector<bool> is_made(slots.size(), false);
    for (const Step& s : out_.launch_steps_)
      out_.ForEachOutput(s, [&](int slot) { is_made[static_cast<std::size_t>(slot)] = true; });
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (!slots[i].is_uniform && fixed_[i] && is_made[i]) slots[i].offset = take(elements * slots[i].width);
    out_.kept_bytes_ = size;
    size = 0;

    std::vector<int> last_use(slots.size(), -1);
    const auto& steps = out_.tile_steps_;
    auto use = [&](int slot, std::size_t at) {
      if (slot >= 0) Item(last_use, slot) = static_cast<int>(at);
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      out_.ForEachInput(steps[i], [&](int slot) { use(slot, i); });
      out_.ForEachOutput(steps[i], [&](int slot) { use(slot, i); });
    }
    for (int r : out_.results_) Item(last_use, r) = static_cast<int>(steps.size());
    std::map<int, std::vector<int64_t>> free_registers;  // by width
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto release = [&](int slot) {
        if (slot < 0 || Item(slots, slot).is_uniform || fixed_[static_cast<std::size_t>(slot)]) return;
        if (Item(last_use, slot) != static_cast<int>(i) || Item(slots, slot).offset < 0) return;
        auto& list = free_registers[Item(slots, slot).width];
        if (std::find(list.begin(), list.end(), Item(slots, slot).offset) == list.end())
          list.push_back(Item(slots, slot).offset);
      };
      const auto place = [&](int out) {
        if (Item(slots, out).is_uniform || Item(slots, out).offset >= 0 || steps[i].kind == Step::Kind::kParam) return;
        auto& list = free_registers[Item(slots, out).width];
        Item(slots, out).is_kept = false;
        if (list.empty()) {
          Item(slots, out).offset = take(elements * Item(slots, out).width);
        } else {
          Item(slots, out).offset = list.back();
          list.pop_back();
        }
      };
      // A load fills its register before it is done with its mask and its offsets.
      const bool reads_late = steps[i].access >= 0;
      if (!reads_late) out_.ForEachInput(steps[i], release);
      else release(steps[i].in[0]);
      out_.ForEachOutput(steps[i], place);
      if (reads_late) {
        release(Item(out_.accesses_, steps[i].access).mask);
        release(Item(out_.accesses_, steps[i].access).offsets);
      }
      out_.ForEachOutput(steps[i], [&](int out) {
        if (steps[i].kind != Step::Kind::kParam) release(out);
      });
    }
    if (NeedsStaging()) out_.staging_offset_ = take(elements * 8);
    out_.frame_bytes_ = out_.kept_bytes_ + size;
  }
  // Loads and stores of the tape, too, that convert.
  bool NeedsStaging() const {
    for (const std::vector<Step>* steps : {&out_.launch_steps_, &out_.tile_steps_})
      for (const Step& s : *steps)
        if (s.access >= 0 && Item(out_.accesses_, s.access).convert != nullptr) return true;
    return false;
  }

  const ElementProgram& program_;
  const BlockProgram::Options& options_;
  const plan::IndexSpace& space_;
  const Lanes lanes_;
  uint64_t tile_mask_ = 0;
  // A short dimension that each tile has all of: what varies with nothing else, as the factors of three channels, is
  // the same in all tiles, and laid out for a whole one once a launch.
  uint64_t whole_dims_ = 0;
  BlockProgram out_;
  std::vector<uint64_t> depends_;
  mutable std::vector<std::optional<uint64_t>> expr_depends_;
  std::vector<int> slot_of_;
  std::vector<std::array<int, 2>> narrow_slot_of_;  // of 1 and of 2 bytes
  std::vector<bool> fixed_;                         // slots that keep their register throughout
  std::vector<int> param_slot_;
  std::vector<BlockKey> keys_;
  std::map<int, int> spread_;
  std::map<AtomId, int> atom_slots_, division_slots_;
};

Result<BlockProgram> BlockProgram::Compile(const ElementProgram& program, const Options& options) {
  return BlockCompiler(program, options).Run();
}

}  // namespace krafla::cpu
