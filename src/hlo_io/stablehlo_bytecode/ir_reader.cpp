// SPDX-License-Identifier: Apache-2.0
// The IR section: operations in blocks in regions. Values are numbered by scope: a region that is isolated from above
// begins its own, another continues that of the region around it.
#include <unordered_map>

#include "hlo_io/stablehlo_bytecode/entries.h"
#include "hlo_io/stablehlo_bytecode/ir_mask.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "hlo_io/stablehlo_bytecode/vhlo_ops.h"

namespace krafla::stablehlo {
namespace {

// "all_reduce_v2" as its name and version.
std::pair<std::string_view, int> SplitVersion(std::string_view name) {
  const std::size_t at = name.rfind("_v");
  if (at == std::string_view::npos || at + 3 != name.size() || name[at + 2] < '1' || name[at + 2] > '9')
    return {name, 0};
  return {name.substr(0, at), name[at + 2] - '0'};
}

const VhloOp* FindVhlo(std::string_view name) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string, const VhloOp*>();
    for (const VhloOp& op : kVhloOps) map->emplace(Format("{}_v{}", op.name, op.version), &op);
    return map;
  }();
  auto it = by_name->find(std::string(name));
  return it == by_name->end() ? nullptr : it->second;
}

// Attributes of the operations of other dialects that programs have; "?" after the optional ones.
std::string_view OtherAttributes(std::string_view name) {
  if (name == "builtin.module") return "sym_name?,sym_visibility?";
  if (name == "sdy.mesh") return "mesh,sym_name";
  if (name == "sdy.manual_computation") return "in_shardings,manual_axes,out_shardings";
  if (name == "sdy.sharding_constraint" || name == "sdy.reshard") return "sharding";
  if (name == "sdy.sharding_group") return "group_id";
  if (name == "sdy.constant") return "value";
  if (name == "sdy.all_gather") return "gathering_axes,out_sharding";
  if (name == "sdy.all_slice") return "out_sharding,slicing_axes";
  if (name == "sdy.all_to_all" || name == "sdy.collective_permute") return "out_sharding";
  return "";
}

class IrReader {
 public:
  IrReader(const Container& container, Tree& tree) : container_(container), tree_(tree), entries_(container, tree) {}

  Result<> Read() {
    ByteStream s(container_.ir);
    const uint64_t head = s.Varint();
    if (head != 2) return InvalidArgument("The bytecode holds {} operations at its top, not one module.", head >> 1);
    Scope scope;
    KRAFLA_ASSIGN(tree_.module, ReadOp(s, scope, 0));
    if (s.failed() || !s.AtEnd())
      return InvalidArgument("The IR section of the bytecode has bytes missing or left over.");
    if (tree_.module.name != "module")
      return InvalidArgument("The bytecode holds '{}', not a module.", tree_.module.name);
    return {};
  }

 private:
  // Values by their number in the scope; `next` is where the innermost region goes on.
  struct Scope {
    std::vector<ValueId> values;
    std::vector<std::size_t> next;
  };

  Failure Damaged() const { return InvalidArgument("The IR section of the bytecode is damaged or cut short."); }

  Result<ValueId> Define(Scope& scope, TypeRef type) {
    if (scope.next.empty() || scope.next.back() >= scope.values.size()) return Damaged();
    const auto id = static_cast<ValueId>(tree_.values.size());
    tree_.values.push_back(type);
    scope.values[scope.next.back()++] = id;
    return id;
  }

  // The order of a value's uses: a hint that nothing here needs.
  void SkipUseOrders(ByteStream& s, std::size_t values) {
    const std::size_t count = values == 1 ? 1 : s.Count();
    for (std::size_t i = 0; i < count && !s.failed(); ++i) {
      if (values != 1) s.Varint();
      const uint64_t packed = s.Varint();
      for (uint64_t n = packed >> 1; n > 0 && !s.failed(); --n) s.Varint();
    }
  }

  Result<Op> ReadOp(ByteStream& s, Scope& scope, int depth) {
    if (depth > kMaxRegionDepth)
      return InvalidArgument("Regions lie within others deeper than the limit of {}.", kMaxRegionDepth);
    const uint64_t name_index = s.Varint();
    const uint8_t mask = s.Byte();
    const uint64_t location = s.Varint();
    if (s.failed() || name_index >= container_.op_names.size() || (mask & 0x80) != 0) return Damaged();
    const Container::OpName& full = container_.op_names[name_index];
    Op op;
    entries_.Location(location, &op.location, &op.op_name);
    std::vector<std::string_view> names;
    bool optional = false;
    if (full.dialect == Dialect::kVhlo) {
      const VhloOp* known = FindVhlo(full.name);
      if (known == nullptr)
        return Unimplemented("The operation 'vhlo.{}' is not known to this version, which reads VHLO up to 1.20.",
                             full.name.substr(0, 60));
      op.name = SplitVersion(full.name).first;
      names = SplitNames(known->attributes);
    } else {
      op.name = Format("{}.{}", full.dialect_name, full.name);
      names = SplitNames(OtherAttributes(op.name));
      optional = op.name == "builtin.module";
      if (optional) op.name = "module";
    }
    auto context = [&](Result<> result) -> Result<> {
      if (result) return result;
      return Failure(std::move(result).error().WithContext(Format("in operation '{}'", op.name)));
    };
    KRAFLA_TRY(context(ReadAttributes(s, mask, names, optional, full.dialect, op)));
    if ((mask & kHasResults) != 0) {
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) {
        KRAFLA_ASSIGN(TypeRef type, entries_.TypeAt(s.Varint()));
        KRAFLA_ASSIGN(ValueId id, Define(scope, type));
        op.results.push_back(id);
      }
    }
    if ((mask & kHasOperands) != 0) {
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) {
        const uint64_t number = s.Varint();
        // Values come before their uses in every program that is not a graph region.
        if (number >= scope.values.size() || scope.values[number] < 0)
          return InvalidArgument("Operation '{}' uses value {}, which is not defined before it.", op.name, number);
        op.operands.push_back(scope.values[number]);
      }
    }
    if ((mask & kHasSuccessors) != 0)
      return Unimplemented("Operation '{}' has successor blocks; StableHLO has none.", op.name);
    if ((mask & kHasUseOrders) != 0) SkipUseOrders(s, op.results.size());
    if ((mask & kHasRegions) != 0) {
      const uint64_t packed = s.Varint();
      const bool isolated = (packed & 1) != 0;
      ByteStream nested;
      ByteStream* from = &s;
      if (isolated && container_.version >= 2) {
        uint8_t id = 0;
        std::string_view body;
        if (!ReadSection(s, &id, &body) || id != kIrSection) return Damaged();
        nested = ByteStream(body);
        from = &nested;
      }
      if ((packed >> 1) > from->left()) return Damaged();
      for (uint64_t i = 0; i < packed >> 1; ++i) {
        Scope own;
        KRAFLA_ASSIGN(Region region, ReadRegion(*from, isolated ? own : scope, depth + 1));
        op.regions.push_back(std::move(region));
      }
      if (from == &nested && (nested.failed() || !nested.AtEnd())) return Damaged();
    }
    if (s.failed()) return Damaged();
    return op;
  }

  Result<> ReadAttributes(ByteStream& s, uint8_t mask, std::span<const std::string_view> names, bool optional,
                          Dialect dialect, Op& op) {
    if ((mask & kHasAttributes) != 0) {
      KRAFLA_ASSIGN(AttributeRef dictionary, entries_.AttributeAt(s.Varint()));
      if (dictionary->kind != Attribute::Kind::kDictionary) return InvalidArgument("Its attributes are no dictionary.");
      op.discardable = dictionary->entries;
      // Before properties (bytecode version 5) the inherent attributes stand here too.
      for (const auto& entry : dictionary->entries)
        for (std::string_view name : names)
          if (entry.first == name || entry.first + "?" == name) op.attributes.push_back(entry);
    }
    if ((mask & kHasProperties) == 0) return {};
    const uint64_t index = s.Varint();
    if (index >= container_.properties.size()) return Damaged();
    ByteStream p(container_.properties[index]);
    for (std::string_view name : names) {
      uint64_t at = p.Varint();
      if (optional) {
        if ((at & 1) == 0) continue;
        at >>= 1;
        name.remove_suffix(1);
      }
      auto value = entries_.AttributeAt(at);
      if (!value && dialect == Dialect::kVhlo)
        return Failure(std::move(value).error().WithContext(Format("in attribute '{}'", name)));
      if (value) op.attributes.emplace_back(std::string(name), *value);
    }
    if (dialect == Dialect::kVhlo && (p.failed() || !p.AtEnd()))
      return InvalidArgument("Its properties have bytes missing or left over.");
    return {};
  }

  Result<Region> ReadRegion(ByteStream& s, Scope& scope, int depth) {
    Region out;
    const uint64_t blocks = s.Varint();
    if (blocks == 0) return out;
    if (blocks != 1) return Unimplemented("A region has {} blocks; StableHLO has one.", blocks);
    const std::size_t values = s.Count();
    const std::size_t begin = scope.values.size();
    scope.values.resize(begin + values, -1);
    scope.next.push_back(begin);
    const uint64_t head = s.Varint();
    if ((head & 1) != 0) {
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) {
        uint64_t type = s.Varint();
        bool located = true;
        if (container_.version >= 4) {
          located = (type & 1) != 0;
          type >>= 1;
        }
        std::string place, name;
        if (located) entries_.Location(s.Varint(), &place, &name);
        KRAFLA_ASSIGN(TypeRef found, entries_.TypeAt(type));
        KRAFLA_ASSIGN(ValueId id, Define(scope, found));
        if (!name.empty()) tree_.names.emplace(id, std::move(name));
        out.arguments.push_back(id);
      }
      if (container_.version >= 3 && (s.Byte() & kHasUseOrders) != 0) SkipUseOrders(s, count);
    }
    if ((head >> 1) > s.left()) return Damaged();
    out.ops.reserve(static_cast<std::size_t>(head >> 1));
    for (uint64_t i = 0; i < head >> 1; ++i) {
      KRAFLA_ASSIGN(Op op, ReadOp(s, scope, depth));
      out.ops.push_back(std::move(op));
    }
    if (scope.next.back() != begin + values) return Damaged();
    scope.next.pop_back();
    scope.values.resize(begin);
    return out;
  }

  const Container& container_;
  Tree& tree_;
  Entries entries_;
};

}  // namespace

Result<std::unique_ptr<Tree>> ReadBytecode(std::string_view bytes) {
  KRAFLA_ASSIGN(Container container, ReadContainer(bytes));
  auto tree = std::make_unique<Tree>();
  KRAFLA_TRY(IrReader(container, *tree).Read());
  return tree;
}

}  // namespace krafla::stablehlo
