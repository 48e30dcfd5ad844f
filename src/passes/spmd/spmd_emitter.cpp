// SPDX-License-Identifier: Apache-2.0
#include "passes/spmd/spmd_emitter.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "ir/builder.h"

namespace krafla::spmd {

std::vector<int64_t> Places(std::span<const Split> splits, const Region* region, int64_t devices) {
  std::vector<int64_t> out(static_cast<std::size_t>(devices), 0);
  auto add = [&](const Split& s) {
    if (s.whole()) return;
    // Renumbered as it goes, so that no product of counts grows past the devices.
    std::map<std::pair<int64_t, int32_t>, int64_t> numbers;
    for (int64_t d = 0; d < devices; ++d) {
      int64_t& place = out[static_cast<std::size_t>(d)];
      place = numbers.emplace(std::pair{place, s.of(d)}, static_cast<int64_t>(numbers.size())).first->second;
    }
  };
  if (region != nullptr)
    for (const Split& s : region->splits) add(s);
  for (const Split& s : splits) add(s);
  return out;
}

namespace {

std::vector<int64_t> CountEach(const std::vector<int64_t>& places) {
  std::vector<int64_t> out;
  for (int64_t p : places) {
    if (static_cast<std::size_t>(p) >= out.size()) out.resize(static_cast<std::size_t>(p) + 1, 0);
    ++out[static_cast<std::size_t>(p)];
  }
  return out;
}

}  // namespace

const Region* Deepest(const Region* a, const Region* b) { return DepthOf(a) >= DepthOf(b) ? a : b; }

bool Value::IsWhole() const {
  return std::ranges::all_of(dims, [](const Split& s) { return s.whole(); });
}
int64_t Value::blocks() const {
  int64_t out = 1;
  for (const Split& s : dims) out *= s.count;
  return out;
}

std::vector<Split> WholeDims(int64_t rank) { return std::vector<Split>(static_cast<std::size_t>(rank)); }

Result<Shape> BlockShape(const Shape& shape, std::span<const Split> dims) {
  Dims local = shape.dims();
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (local[d] > int64_t{1} << 62)
      return Unimplemented("A dimension of {} elements is too large to partition.", local[d]);
    local[d] = BlockSize(local[d], dims[d]);
  }
  KRAFLA_ASSIGN(Shape out, Shape::MakeArray(shape.element_type(), local));
  KRAFLA_TRY(out.SetLayout(shape.layout()));
  return out;
}

void SetSizes(Value& value, const Shape& shape) {
  if (!value.is_tuple) {
    if (shape.IsArray()) value.sizes = shape.dims();
    return;
  }
  for (std::size_t n = 0; n < value.elements.size() && shape.IsTuple() && n < shape.tuple_elements().size(); ++n)
    SetSizes(value.elements[n], shape.tuple_elements()[n]);
}

std::vector<Split> Together(std::span<const Split> dims, std::span<const Split> unreduced) {
  std::vector<Split> out(dims.begin(), dims.end());
  out.insert(out.end(), unreduced.begin(), unreduced.end());
  return out;
}

Result<Value> ForElements(Value tuple, const std::function<Result<Value>(Value)>& change) {
  for (Value& e : tuple.elements) {
    const Instruction* before = e.local;
    KRAFLA_ASSIGN(e, change(std::move(e)));
    if (e.local == nullptr || e.local != before) tuple.local = nullptr;
  }
  return tuple;
}

void Leaves(Value& value, std::vector<Value*>& out) {
  if (!value.is_tuple) {
    out.push_back(&value);
    return;
  }
  value.local = nullptr;
  for (Value& e : value.elements) Leaves(e, out);
}

const Region* RegionOf(const Value& value) {
  if (!value.is_tuple) return value.region;
  const Region* out = nullptr;
  for (const Value& e : value.elements) out = Deepest(out, RegionOf(e));
  return out;
}

bool Covers(std::span<const Split> dims, const Region* region, int64_t devices) {
  int64_t blocks = 1;
  for (const Split& s : dims) {
    if (s.count > devices / blocks) return false;
    blocks *= s.count;
  }
  if (blocks == 1) return true;
  const std::vector<int64_t> regions = Places({}, region, devices), places = Places(dims, region, devices);
  const std::vector<int64_t> in_region = CountEach(regions), in_place = CountEach(places);
  if (in_place.size() != in_region.size() * static_cast<std::size_t>(blocks)) return false;
  for (std::size_t d = 0; d < places.size(); ++d)
    if (in_place[static_cast<std::size_t>(places[d])] * blocks != in_region[static_cast<std::size_t>(regions[d])])
      return false;
  return true;
}

bool SamePlaces(std::span<const Split> a, std::span<const Split> b, int64_t devices) {
  return Places(a, nullptr, devices) == Places(b, nullptr, devices);
}

void Emitter::SayOrigin(Instruction* made) const {
  if (origin_ == nullptr) return;
  made->set_location(origin_->location());
  if (origin_->metadata().metadata.empty()) return;
  InstructionMetadata metadata;
  metadata.metadata = origin_->metadata().metadata;
  made->set_metadata(std::move(metadata));
}

Result<Instruction*> Emitter::Infer(Opcode opcode, std::vector<Instruction*> operands, Attributes attributes,
                                    std::vector<Computation*> called) {
  KRAFLA_ASSIGN(Instruction * made,
                AddInferred(out_, opcode, std::move(operands), std::move(attributes), std::move(called)));
  SayOrigin(made);
  return made;
}

Instruction* Emitter::Clone(const Instruction& like, Shape shape, std::vector<Instruction*> operands) {
  Instruction* made = out_.Add(like.opcode(), std::move(shape), std::move(operands), like.attributes(),
                               {like.called().begin(), like.called().end()}, like.name());
  made->set_location(like.location());
  InstructionMetadata metadata = like.metadata();
  metadata.sharding.clear();
  made->set_metadata(std::move(metadata));
  return made;
}

// Groups of the devices that differ in `along` only, in its order. Where several devices have the
// same blocks, each group has one of them.
Result<CollectiveAttributes> Emitter::Groups(const Split& along, std::span<const Split> others, const Region* region) {
  const int64_t devices = module_.num_partitions;
  const std::vector<int64_t> places = Places(others, region, devices);
  std::map<int64_t, std::vector<std::vector<int64_t>>> members;  // by place, then by block
  for (int64_t d = 0; d < devices; ++d) {
    auto& blocks = members[places[static_cast<std::size_t>(d)]];
    blocks.resize(static_cast<std::size_t>(along.count));
    blocks[static_cast<std::size_t>(along.of(d))].push_back(d);
  }
  CollectiveAttributes out;
  out.channel_id = channels_.next++;
  out.use_global_device_ids = true;
  for (int64_t replica = 0; replica < module_.replica_count; ++replica)
    for (const auto& [place, blocks] : members) {
      for (const auto& copies : blocks)
        if (copies.size() != blocks[0].size())
          return InvalidArgument(
              "The shardings of a program leave {} devices with one block of an array and {} with "
              "another.",
              blocks[0].size(), copies.size());
      for (std::size_t copy = 0; copy < blocks[0].size(); ++copy) {
        std::vector<int64_t> group;
        for (const auto& copies : blocks) group.push_back(replica * devices + copies[copy]);
        out.replica_groups.push_back(std::move(group));
      }
    }
  return out;
}

Result<Instruction*> Emitter::AllGather(Instruction* local, CollectiveAttributes attributes) {
  KRAFLA_ASSIGN(Shape shape, [&]() -> Result<Shape> {
    Dims dims = local->shape().dims();
    // A dimension of the whole program, but for padding.
    dims[static_cast<std::size_t>(*attributes.dimension)] *= std::ssize(attributes.replica_groups[0]);
    return Shape::MakeArray(local->shape().element_type(), dims);
  }());
  Instruction* made = out_.Add(Opcode::kAllGather, std::move(shape), {local}, std::move(attributes));
  SayOrigin(made);
  return made;
}

Result<Instruction*> Emitter::Gather(Instruction* local, int64_t d, const Split& along, std::span<const Split> others,
                                     const Region* region) {
  KRAFLA_ASSIGN(CollectiveAttributes attributes, Groups(along, others, region));
  attributes.dimension = d;
  channels_.gathers.push_back(*attributes.channel_id);
  return AllGather(local, std::move(attributes));
}

Result<Instruction*> Emitter::SideBySide(const Value& value, const Split& along) {
  KRAFLA_ASSIGN(CollectiveAttributes attributes, Groups(along, value.dims, value.region));
  attributes.dimension = 0;
  Dims dims{1};
  for (const int64_t d : value.local->shape().dims()) dims.push_back(d);
  KRAFLA_ASSIGN(Instruction * one, AddReshape(out_, value.local, dims));
  return AllGather(one, std::move(attributes));
}

Result<Instruction*> Emitter::Send(Instruction* local, const Split& along, std::span<const Split> others,
                                   const Region* region, std::span<const std::pair<int64_t, int64_t>> blocks) {
  KRAFLA_ASSIGN(const CollectiveAttributes groups, Groups(along, others, region));
  CollectiveAttributes attributes;
  attributes.channel_id = groups.channel_id;
  for (const std::vector<int64_t>& group : groups.replica_groups) {
    if (group[0] >= module_.num_partitions) break;  // of another replica: pairs are of partitions, in each
    for (const auto& [from, to] : blocks)
      attributes.source_target_pairs.emplace_back(group[static_cast<std::size_t>(from)],
                                                  group[static_cast<std::size_t>(to)]);
  }
  return Infer(Opcode::kCollectivePermute, {local}, std::move(attributes));
}

Result<Instruction*> Emitter::Shift(Instruction* local, const Split& along, std::span<const Split> others,
                                    const Region* region, bool forward) {
  std::vector<std::pair<int64_t, int64_t>> blocks;
  for (int64_t b = 0; b + 1 < along.count; ++b) blocks.emplace_back(forward ? b : b + 1, forward ? b + 1 : b);
  return Send(local, along, others, region, blocks);
}

Result<Instruction*> Emitter::Sum(Instruction* partial, const Split& along, std::span<const Split> dims,
                                  const Region* region, Computation* computation) {
  if (computation == nullptr)
    computation = AddBinaryComputation(module_, Opcode::kAdd, Shape::MakeScalar(partial->shape().element_type()));
  KRAFLA_ASSIGN(CollectiveAttributes attributes, Groups(along, dims, region));
  KRAFLA_ASSIGN(Instruction * made, Infer(Opcode::kAllReduce, {partial}, std::move(attributes), {computation}));
  sums_.push_back({made, along});
  return made;
}

// Where this device's block begins.
Result<Instruction*> Emitter::Offset(const Split& split, int64_t block_size) {
  for (const KnownOffset& known : offsets_)
    if (known.block_size == block_size && known.split == split) return known.offset;
  if (split.count > std::numeric_limits<int32_t>::max() / std::max<int64_t>(block_size, 1))
    return Unimplemented("A dimension of {} elements that is cut into {} blocks is too large to partition.",
                         block_size * split.count, split.count);
  std::vector<int64_t> starts;
  for (int64_t b = 0; b < split.count; ++b) starts.push_back(b * block_size);
  KRAFLA_ASSIGN(Instruction * offset, NumberOf(split, starts));
  offsets_.push_back({split, block_size, offset});
  return offset;
}

// One of a table, by the number of the partition.
Result<Instruction*> Emitter::NumberOf(const Split& split, std::span<const int64_t> of_block) {
  if (partition_id_ == nullptr) { KRAFLA_ASSIGN(partition_id_, Infer(Opcode::kPartitionId, {})); }
  const int64_t devices = module_.num_partitions;
  std::vector<int32_t> numbers;
  for (int64_t d = 0; d < devices; ++d)
    numbers.push_back(static_cast<int32_t>(of_block[static_cast<std::size_t>(split.of(d))]));
  KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{devices}));
  KRAFLA_ASSIGN(Literal table, Literal::FromBytes(shape, std::as_bytes(std::span(numbers))));
  Instruction* constant = AddConstant(out_, std::move(table));
  KRAFLA_ASSIGN(Instruction * one,
                Infer(Opcode::kDynamicSlice, {constant, partition_id_}, DynamicSliceAttributes{Dims{1}}));
  return AddReshape(out_, one, Dims{});
}

Result<Value> Emitter::Settle(Value value) {
  if (value.is_tuple) return ForElements(std::move(value), [this](Value e) { return Settle(std::move(e)); });
  if (value.unreduced.empty()) return value;
  Split along;
  for (const Split& s : value.unreduced) along = Combine(along, s);
  KRAFLA_ASSIGN(value.local, Sum(value.local, along, value.dims, value.region));
  value.unreduced.clear();
  return value;
}

Result<Value> Emitter::Unsettle(Value value, const std::vector<Split>& along) {
  Split all;
  for (const Split& s : along) all = Combine(all, s);
  KRAFLA_ASSIGN(Instruction * place, Offset(all, 1));
  Instruction* zero = AddScalarConstant(out_, ElementType::kS32, 0);
  KRAFLA_ASSIGN(Instruction * first, Infer(Opcode::kCompare, {place, zero}, CompareAttributes{}));
  const Shape& shape = value.local->shape();
  KRAFLA_ASSIGN(Instruction * everywhere, AddBroadcastScalar(out_, first, shape.dims()));
  KRAFLA_ASSIGN(Instruction * zero_element, Zero(shape.element_type()));
  KRAFLA_ASSIGN(Instruction * zeros, AddBroadcastScalar(out_, zero_element, shape.dims()));
  KRAFLA_ASSIGN(value.local, Infer(Opcode::kSelect, {everywhere, value.local, zeros}));
  value.unreduced = along;
  return value;
}

Result<Value> Emitter::BlocksAsParts(Value value, std::size_t d, const std::vector<Split>& along) {
  const Shape& block = value.local->shape();
  const Split split = value.dims[d];
  const int64_t size = value.size(d);
  Dims dims = block.dims();
  dims[d] *= split.count;
  KRAFLA_ASSIGN(Instruction * zero, Zero(block.element_type()));
  KRAFLA_ASSIGN(Instruction * zeros, AddBroadcastScalar(out_, zero, dims));
  std::vector<Instruction*> operands{zeros, value.local};
  for (std::size_t e = 0; e < dims.size(); ++e) {
    Instruction* start = nullptr;
    if (e == d) {
      KRAFLA_ASSIGN(start, Offset(split, block.dim(static_cast<int64_t>(d))));
    } else {
      start = AddScalarConstant(out_, ElementType::kS32, 0);
    }
    operands.push_back(start);
  }
  KRAFLA_ASSIGN(value.local, Infer(Opcode::kDynamicUpdateSlice, std::move(operands)));
  KRAFLA_ASSIGN(value.local, FirstRows(value.local, d, size));
  value.dims[d] = Split();
  value.unreduced = along;
  return value;
}

Result<Value> Emitter::ReshardTo(Value value, std::span<const Split> dims, const std::vector<Split>& unreduced) {
  if (!(value.unreduced == unreduced)) { KRAFLA_ASSIGN(value, Settle(std::move(value))); }
  for (std::size_t d = 0; value.unreduced.empty() && !unreduced.empty() && d < value.dims.size(); ++d)
    if (dims[d].whole() && !value.dims[d].whole() &&
        SamePlaces(std::span(&value.dims[d], 1), unreduced, module_.num_partitions)) {
      KRAFLA_ASSIGN(value, BlocksAsParts(std::move(value), d, unreduced));
    }
  KRAFLA_ASSIGN(value, Reshard(std::move(value), dims));
  if (value.unreduced.empty() && !unreduced.empty()) return Unsettle(std::move(value), unreduced);
  return value;
}

Result<Value> Emitter::Whole(Value value) {
  if (value.is_tuple) return ForElements(std::move(value), [this](Value e) { return Whole(std::move(e)); });
  KRAFLA_ASSIGN(value, Settle(std::move(value)));
  if (!value.IsArray() || value.IsWhole()) return value;
  const std::vector<Split> whole = WholeDims(static_cast<int64_t>(value.dims.size()));
  return Reshard(std::move(value), whole);
}

Result<Instruction*> Emitter::Broadcast(Instruction* value, int64_t device) {
  CollectiveAttributes attributes;
  attributes.channel_id = channels_.next++;
  std::vector<int64_t> group{device};
  for (int64_t d = 0; d < module_.num_partitions; ++d)
    if (d != device) group.push_back(d);
  attributes.replica_groups.push_back(std::move(group));
  return Infer(Opcode::kCollectiveBroadcast, {value}, std::move(attributes));
}

Result<Instruction*> Emitter::Zero(ElementType type) {
  KRAFLA_ASSIGN(Literal zero, Literal::Create(Shape::MakeScalar(type)));
  return AddConstant(out_, std::move(zero));
}

Result<Instruction*> Emitter::FirstRows(Instruction* value, std::size_t d, int64_t count) {
  const Dims& dims = value->shape().dims();
  if (dims[d] == count) return value;
  SliceAttributes slice{Dims(dims.size(), 0), dims, Dims(dims.size(), 1)};
  slice.limits[d] = count;
  return Infer(Opcode::kSlice, {value}, std::move(slice));
}

Result<Value> Emitter::Masked(Value value, std::span<const std::size_t> which, Instruction* fill) {
  const Dims dims = value.local->shape().dims();
  Instruction* mask = nullptr;
  for (const std::size_t d : which) {
    if (!value.IsPadded(d)) continue;
    if (dims[d] > std::numeric_limits<int32_t>::max())
      return Unimplemented("A block of {} elements is too large to be padded.", dims[d]);
    // Rows of the block that are the array's.
    std::vector<int64_t> rows;
    for (int64_t b = 0; b < value.dims[d].count; ++b)
      rows.push_back(std::clamp<int64_t>(value.size(d) - b * dims[d], 0, dims[d]));
    KRAFLA_ASSIGN(Instruction * end, NumberOf(value.dims[d], rows));
    KRAFLA_ASSIGN(Shape shape, Shape::MakeArray(ElementType::kS32, Dims{dims[d]}));
    Instruction* row = out_.Add(Opcode::kIota, std::move(shape), {}, IotaAttributes{0});
    KRAFLA_ASSIGN(end, AddBroadcastScalar(out_, end, row->shape().dims()));
    KRAFLA_ASSIGN(Instruction * one, Infer(Opcode::kCompare, {row, end}, CompareAttributes{ComparisonDirection::kLt}));
    KRAFLA_ASSIGN(one, AddBroadcast(out_, one, dims, Dims{static_cast<int64_t>(d)}));
    if (mask != nullptr) { KRAFLA_ASSIGN(one, Infer(Opcode::kAnd, {mask, one})); }
    mask = one;
  }
  if (mask == nullptr) return value;
  KRAFLA_ASSIGN(fill, AddBroadcastScalar(out_, fill, dims));
  KRAFLA_ASSIGN(value.local, Infer(Opcode::kSelect, {mask, value.local, fill}));
  return value;
}

Result<Value> Emitter::MaskedWithZeros(Value value, std::span<const std::size_t> which) {
  if (zeros_behind_.contains(value.local) ||
      std::ranges::none_of(which, [&](std::size_t d) { return value.IsPadded(d); }))
    return value;
  KRAFLA_ASSIGN(Instruction * zero, Zero(value.local->shape().element_type()));
  return Masked(std::move(value), which, zero);
}

Result<Instruction*> Emitter::Pad(Instruction* value, std::size_t d, int64_t low, int64_t high) {
  const std::size_t rank = value->shape().dims().size();
  PadAttributes attributes{Dims(rank, 0), Dims(rank, 0), Dims(rank, 0)};
  attributes.low[d] = low;
  attributes.high[d] = high;
  KRAFLA_ASSIGN(Instruction * padding, Zero(value->shape().element_type()));
  return Infer(Opcode::kPad, {value, padding}, std::move(attributes));
}

Result<Instruction*> Emitter::RowsFrom(Instruction* value, std::size_t d, Instruction* start, int64_t count) {
  Dims sizes = value->shape().dims();
  sizes[d] = count;
  std::vector<Instruction*> operands{value};
  for (std::size_t e = 0; e < sizes.size(); ++e)
    operands.push_back(e == d ? start : AddScalarConstant(out_, ElementType::kS32, 0));
  return Infer(Opcode::kDynamicSlice, std::move(operands), DynamicSliceAttributes{std::move(sizes)});
}

Result<Instruction*> Emitter::Materialize(const Value& value) {
  if (!value.is_tuple || value.local != nullptr) return value.local;
  std::vector<Instruction*> elements;
  for (const Value& e : value.elements) {
    KRAFLA_ASSIGN(Instruction * one, Materialize(e));
    elements.push_back(one);
  }
  return AddTuple(out_, std::move(elements));
}

Result<Value> Emitter::TakeApart(Instruction* instruction, const Value& like) {
  Value out = like;
  out.local = nullptr;
  if (!like.is_tuple) {
    out.local = instruction;
    return out;
  }
  for (std::size_t i = 0; i < out.elements.size(); ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(out_, instruction, static_cast<int64_t>(i)));
    KRAFLA_ASSIGN(out.elements[i], TakeApart(element, like.elements[i]));
  }
  return out;
}

Result<Value> Emitter::TakeApartWhole(Instruction* instruction, const Region* region) {
  Value out;
  out.region = region;
  out.local = instruction;
  if (!instruction->shape().IsTuple()) {
    if (instruction->shape().IsArray()) out.dims = WholeDims(instruction->shape().rank());
    return out;
  }
  out.is_tuple = true;
  const auto count = static_cast<int64_t>(instruction->shape().tuple_elements().size());
  for (int64_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(Instruction * element, AddGetTupleElement(out_, instruction, i));
    KRAFLA_ASSIGN(Value one, TakeApartWhole(element, region));
    out.elements.push_back(std::move(one));
  }
  return out;
}

}  // namespace krafla::spmd
