// SPDX-License-Identifier: Apache-2.0
// The inverse of ir_reader.cpp and container.cpp: operations, and the file around them.
#include <algorithm>
#include <unordered_map>

#include "hlo_io/stablehlo_bytecode/entry_writer.h"
#include "hlo_io/stablehlo_bytecode/ir_mask.h"
#include "hlo_io/stablehlo_bytecode/stablehlo_bytecode.h"
#include "hlo_io/stablehlo_bytecode/vhlo_ops.h"

namespace krafla::stablehlo {
namespace {

constexpr uint64_t kFormatVersion = 6;  // of MLIR's bytecode

// A list that is empty says what older versions of an operation say by not having it.
bool SaysNothing(const Attribute& a) { return a.kind == Attribute::Kind::kDense && !a.splat && a.bytes.empty(); }

// Whether this version of the operation has all that is said.
bool HoldsAll(const VhloOp& version, const Op& op) {
  if (version.variadic_since != 0 && version.version < version.variadic_since && op.operands.size() != 1) return false;
  const std::vector<std::string_view> names = SplitNames(version.attributes);
  for (const auto& [key, value] : op.attributes)
    if (!SaysNothing(*value) && std::ranges::find(names, key) == names.end()) return false;
  return true;
}

// The oldest version that has all that `op` says; null: there is none.
const VhloOp* OldestOf(const Op& op) {
  const auto* found =
      std::ranges::find_if(kVhloOps, [&](const VhloOp& v) { return v.name == op.name && HoldsAll(v, op); });
  return found == std::ranges::end(kVhloOps) ? nullptr : found;
}
// The versions of an operation lie one behind the other.
const VhloOp* NewestOf(const VhloOp* version) {
  while (version + 1 != std::ranges::end(kVhloOps) && version[1].name == version->name) ++version;
  return version;
}

bool HasOlderInside(const Op& op) {
  for (const Region& region : op.regions)
    for (const Op& inner : region.ops) {
      const VhloOp* version = OldestOf(inner);
      if ((version != nullptr && version != NewestOf(version)) || HasOlderInside(inner)) return true;
    }
  return false;
}

class IrWriter {
 public:
  explicit IrWriter(const Tree& tree) : entries_(tree), tree_(tree) {}

  Result<std::string> Write() {
    // The first strings are the dialects' names.
    const uint64_t dialects[] = {entries_.String("builtin"), entries_.String("vhlo")};
    ByteSink ir;
    ir.Varint(1 << 1);  // one operation, no arguments
    KRAFLA_TRY(PutModule(ir));
    ByteSink names;
    names.Varint(std::size(dialects));
    for (uint64_t name : dialects) names.Varint(name << 1);  // without a version of its own
    names.Varint(op_names_[0].size() + op_names_[1].size());
    for (std::size_t dialect = 0; dialect < std::size(dialects); ++dialect) {
      names.Varint(dialect);
      names.Varint(op_names_[dialect].size());
      for (uint64_t name : op_names_[dialect]) names.Varint((name << 1) | 1);  // known to its dialect
    }
    ByteSink properties;
    properties.Varint(properties_.size());
    for (const std::string& bytes : properties_) {
      properties.Varint(bytes.size());
      properties.Bytes(bytes);
    }
    ByteSink file;
    file.Bytes("ML\xefR");
    file.Varint(kFormatVersion);
    file.Bytes(Format("StableHLO_v1.{}.0", entries_.minor()));
    file.Byte(0);
    file.Section(kDialectSection, names.bytes());
    file.Section(kOffsetSection, entries_.Offsets());
    file.Section(kEntrySection, entries_.Entries());
    file.Section(kIrSection, ir.bytes());
    file.Section(kStringSection, entries_.Strings());
    file.Section(kPropertiesSection, properties.bytes());
    return file.Take();
  }

 private:
  // The numbers of the operations of builtin, which is one, come before those of VHLO.
  uint64_t OpNumber(std::string_view vhlo_name) {
    const uint64_t name = entries_.String(vhlo_name);
    const auto [at, is_new] = op_numbers_.emplace(name, 1 + op_names_[1].size());
    if (is_new) op_names_[1].push_back(name);
    return at->second;
  }

  uint64_t PropertiesNumber(std::string bytes) {
    const auto [at, is_new] = property_numbers_.emplace(bytes, properties_.size());
    if (is_new) properties_.push_back(std::move(bytes));
    return at->second;
  }

  Result<> PutModule(ByteSink& sink) {
    const Op& module = tree_.module;
    op_names_[0].push_back(entries_.String("module"));
    KRAFLA_ASSIGN(const uint64_t said, entries_.Dictionary(module.discardable, WrittenDialect::kBuiltin));
    sink.Varint(0);
    sink.Byte(kHasAttributes | kHasProperties | kHasRegions);
    sink.Varint(entries_.Location(""));
    sink.Varint(said);
    ByteSink properties;  // its name and its visibility, which may be missing
    AttributeRef name = module.Find("sym_name");
    properties.Varint(name == nullptr ? 0 : (entries_.BuiltinString(name->text) << 1) | 1);
    properties.Varint(0);
    sink.Varint(PropertiesNumber(properties.Take()));
    return PutRegions(sink, module, /*isolated=*/true);
  }

  // The oldest version that there can be. StableHLO's reader (jaxlib 0.10.2) refuses operations of older versions in
  // the regions of one that is of an older version itself, so that such a one is of its newest.
  Result<const VhloOp*> VersionOf(const Op& op) {
    if (const VhloOp* oldest = OldestOf(op)) {
      const VhloOp* newest = NewestOf(oldest);
      return oldest != newest && HasOlderInside(op) ? newest : oldest;
    }
    if (std::ranges::contains(kVhloOps, op.name, &VhloOp::name))
      return Unimplemented("No version of VHLO's '{}' has all the attributes that it has here.", op.name);
    return Unimplemented("VHLO, which StableHLO bytecode is made of, has no operation '{}'; StableHLO text has.",
                         op.name);
  }

  Result<> PutOp(ByteSink& sink, const Op& op) {
    KRAFLA_ASSIGN(const VhloOp* version, VersionOf(op));
    entries_.Need(version->since);
    // A dictionary for a configuration came later than the operation.
    if (AttributeRef config = op.Find("backend_config");
        config != nullptr && config->kind == Attribute::Kind::kDictionary)
      entries_.Need(3);
    sink.Varint(OpNumber(Format("{}_v{}", version->name, version->version)));
    int mask = 0;
    if (!op.discardable.empty()) mask |= kHasAttributes;
    if (!version->attributes.empty()) mask |= kHasProperties;
    if (!op.results.empty()) mask |= kHasResults;
    if (!op.operands.empty()) mask |= kHasOperands;
    if (!op.regions.empty()) mask |= kHasRegions;
    sink.Byte(static_cast<uint8_t>(mask));
    sink.Varint(entries_.Location(op.op_name));
    if (!op.discardable.empty()) {
      KRAFLA_ASSIGN(const uint64_t said, entries_.Dictionary(op.discardable, WrittenDialect::kVhlo));
      sink.Varint(said);
    }
    if (!version->attributes.empty()) {
      ByteSink properties;
      for (std::string_view key : SplitNames(version->attributes)) {
        AttributeRef value = op.Find(key);
        if (value == nullptr) return Internal("'{}' is written without its attribute '{}'.", op.name, key);
        KRAFLA_ASSIGN(const uint64_t number, entries_.Attribute(*value, key));
        properties.Varint(number);
      }
      sink.Varint(PropertiesNumber(properties.Take()));
    }
    if (!op.results.empty()) {
      sink.Varint(op.results.size());
      for (ValueId result : op.results) {
        KRAFLA_ASSIGN(const uint64_t type, entries_.TypeOfValue(result));
        sink.Varint(type);
        numbers_[result] = next_++;
      }
    }
    if (!op.operands.empty()) {
      sink.Varint(op.operands.size());
      for (ValueId operand : op.operands) sink.Varint(numbers_.at(operand));
    }
    if (op.regions.empty()) return {};
    return PutRegions(sink, op, op.name == "func");
  }

  // The numbers of values begin anew in a region that is isolated. In any other they go on behind all that the region
  // around it has, those that it defines later too.
  Result<> PutRegions(ByteSink& sink, const Op& op, bool isolated) {
    sink.Varint((op.regions.size() << 1) | (isolated ? 1 : 0));
    ByteSink own;
    ByteSink& to = isolated ? own : sink;
    for (const Region& region : op.regions) {
      const uint64_t reserved = reserved_;
      if (isolated) reserved_ = 0;
      KRAFLA_TRY(PutRegion(to, region));
      reserved_ = reserved;
    }
    if (isolated) sink.Section(kIrSection, own.bytes());
    return {};
  }

  Result<> PutRegion(ByteSink& sink, const Region& region) {
    std::size_t values = region.arguments.size();
    for (const Op& op : region.ops) values += op.results.size();
    const uint64_t outer = next_;
    next_ = reserved_;
    reserved_ += values;
    sink.Varint(1);  // block
    sink.Varint(values);
    const bool has_arguments = !region.arguments.empty();
    sink.Varint((region.ops.size() << 1) | (has_arguments ? 1 : 0));
    if (has_arguments) {
      sink.Varint(region.arguments.size());
      for (ValueId argument : region.arguments) {
        KRAFLA_ASSIGN(const uint64_t type, entries_.TypeOfValue(argument));
        const auto name = tree_.names.find(argument);
        sink.Varint((type << 1) | 1);  // with a location
        sink.Varint(entries_.Location(name != tree_.names.end() ? name->second : std::string()));
        numbers_[argument] = next_++;
      }
      sink.Byte(0);  // no order of uses
    }
    for (const Op& op : region.ops) {
      auto put = PutOp(sink, op);
      if (!put) return Failure(std::move(put).error().WithContext(Format("in operation '{}'", op.name)));
    }
    next_ = outer;
    return {};
  }

  EntryWriter entries_;
  const Tree& tree_;
  std::vector<uint64_t> op_names_[2];
  std::unordered_map<uint64_t, uint64_t> op_numbers_;
  std::vector<std::string> properties_;
  std::unordered_map<std::string, uint64_t> property_numbers_;
  std::unordered_map<ValueId, uint64_t> numbers_;
  uint64_t next_ = 0, reserved_ = 0;  // the next number of the region, and the first behind those of all around
};

}  // namespace

Result<std::string> WriteBytecode(const Tree& tree) { return IrWriter(tree).Write(); }

}  // namespace krafla::stablehlo
