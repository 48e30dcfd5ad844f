// SPDX-License-Identifier: Apache-2.0
// HloModuleProto to Module. Operands stand before their users and computations before their callers, as XLA writes
// them and demands them (HloComputation::CreateFromProto), so neither cycles nor recursion can be read.
#include <unordered_map>

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_proto/instruction_record.h"
#include "hlo_io/hlo_proto/shape_proto.h"
#include "hlo_io/hlo_proto/sharding_proto.h"
#include "hlo_io/hlo_proto/stack_frames.h"

namespace krafla::hlo_proto {
namespace {

class ModuleReader {
 public:
  explicit ModuleReader(const HloProtoLimits& limits) : limits_(limits), constant_budget_(limits.max_constant_bytes) {}

  Result<std::unique_ptr<Module>> Read(Reader reader) {
    namespace f = module_field;
    std::string_view name, entry_name;
    int64_t entry_id = 0;
    std::vector<Reader> computations;
    for (Reader scan = reader; scan.next();) {
      if (scan.tag() == f::kName) name = Bytes(scan);
      else if (scan.tag() == f::kEntryName) entry_name = Bytes(scan);
      else if (scan.tag() == f::kEntryId) entry_id = Int(scan);
      else if (scan.tag() == f::kComputations) computations.push_back(Message(scan));
      else scan.skip();
    }
    module_ = std::make_unique<Module>(std::string(name));
    for (Reader& computation : computations) KRAFLA_TRY(ReadComputation(computation));
    auto it = computations_.find(entry_id);
    Computation* entry = it != computations_.end() ? it->second : nullptr;
    for (const auto& computation : module_->computations())
      if (entry == nullptr && computation->name() == entry_name) entry = computation.get();
    if (entry == nullptr)
      return InvalidArgument("The module has no entry computation '{}' (number {}).", entry_name.substr(0, 60),
                             entry_id);
    module_->set_entry(entry);
    KRAFLA_TRY(ReadHeader(reader));
    return std::move(module_);
  }

 private:
  Result<> ReadHeader(Reader reader) {
    namespace f = module_field;
    while (reader.next()) {
      switch (reader.tag()) {
        case f::kHostProgramShape: {
          KRAFLA_ASSIGN(ProgramShape shape, ReadProgramShape(Message(reader), limits_.max_depth));
          if (shape.parameters.size() != module_->entry()->parameters().size())
            return InvalidArgument("The program shape has {} parameters; the entry computation has {}.",
                                   shape.parameters.size(), module_->entry()->parameters().size());
          module_->entry_layout_parameters = std::move(shape.parameters);
          module_->entry_layout_result = std::move(shape.result);
          break;
        }
        case f::kSchedule: {
          Reader schedule = Message(reader);
          const bool any = schedule.next();
          module_->is_scheduled = module_->has_is_scheduled = any;
          break;
        }
        case f::kInputOutputAlias: {
          Reader aliases = Message(reader);
          while (aliases.next(1)) {
            InputOutputAlias alias;
            Reader entry = Message(aliases);
            while (entry.next()) {
              if (entry.tag() == 1) AppendInts(entry, alias.output_index);
              else if (entry.tag() == 2) alias.parameter = Int(entry);
              else if (entry.tag() == 3) AppendInts(entry, alias.parameter_index);
              else if (entry.tag() == 4) alias.must_alias = Int(entry) == 2;
              else entry.skip();
            }
            module_->input_output_aliases.push_back(std::move(alias));
          }
          break;
        }
        case f::kBufferDonor: {
          Reader donors = Message(reader);
          while (donors.next(1)) {
            BufferDonor donor;
            Reader entry = Message(donors);
            while (entry.next()) {
              if (entry.tag() == 1) donor.parameter = Int(entry);
              else if (entry.tag() == 2) AppendInts(entry, donor.parameter_index);
              else entry.skip();
            }
            module_->buffer_donors.push_back(std::move(donor));
          }
          break;
        }
        case f::kDeviceAssignment: {
          Reader assignment = Message(reader);
          while (assignment.next()) {
            if (assignment.tag() == 1) module_->replica_count = std::max<int64_t>(1, Int(assignment));
            else if (assignment.tag() == 2) module_->num_partitions = std::max<int64_t>(1, Int(assignment));
            else assignment.skip();
          }
          break;
        }
        case f::kFrontendAttributes: {
          std::string text = FrontendAttributesText(Message(reader));
          if (!text.empty()) module_->other_attributes.emplace_back("frontend_attributes", "{" + text + "}");
          break;
        }
        case f::kStackFrameIndex:
          for (auto& table : StackFrameTables(Message(reader))) module_->other_attributes.push_back(std::move(table));
          break;
        default: reader.skip();
      }
    }
    return {};
  }

  Result<> ReadComputation(Reader reader) {
    namespace f = computation_field;
    std::string_view name, thread;
    int64_t id = 0, root_id = 0, count = 0;
    for (Reader scan = reader; scan.next();) {
      if (scan.tag() == f::kName) name = Bytes(scan);
      else if (scan.tag() == f::kId) id = Int(scan);
      else if (scan.tag() == f::kRootId) root_id = Int(scan);
      else if (scan.tag() == f::kExecutionThread) thread = Bytes(scan);
      else count += scan.tag() == f::kInstructions ? 1 : 0, scan.skip();
    }
    if (count > limits_.max_instructions - instruction_count_)
      return ResourceExhausted("The module has more than the limit of {} instructions.", limits_.max_instructions);
    instruction_count_ += count;
    if (computations_.contains(id)) return InvalidArgument("The number {} of computation '{}' stands twice.", id, name);
    Computation* computation = module_->AddComputation(name);
    if (thread != "main") computation->set_execution_thread(std::string(thread));
    std::unordered_map<int64_t, Instruction*> made;
    while (reader.next(f::kInstructions)) {
      auto record = ReadInstruction(Message(reader), limits_.max_depth);
      auto added =
          record ? AddInstruction(computation, *record, count, made) : Result<>(Failure(std::move(record).error()));
      if (!added)
        return Failure(std::move(added).error().WithContext(Format("while reading instruction {} of computation '{}'",
                                                                   made.size(), computation->name().substr(0, 60))));
    }
    auto root = made.find(root_id);
    if (root == made.end())
      return InvalidArgument("Computation '{}' has no instruction of the number {} that its root has.",
                             computation->name().substr(0, 60), root_id);
    computation->set_root(root->second);
    for (std::size_t i = 0; i < computation->parameters().size(); ++i)
      if (computation->parameters()[i] == nullptr)
        return InvalidArgument("Computation '{}' has no parameter {}.", computation->name().substr(0, 60), i);
    computations_.emplace(id, computation);
    return {};
  }

  Result<> AddInstruction(Computation* computation, const InstructionRecord& r, int64_t count,
                          std::unordered_map<int64_t, Instruction*>& made) {
    std::optional<Opcode> opcode = OpcodeFromName(r.opcode);
    if (!opcode)
      return Unimplemented("Instruction '{}' has the unknown opcode '{}'.", r.name.substr(0, 60),
                           r.opcode.substr(0, 60));
    if (!r.shape.IsArray() && !r.shape.IsTuple() && !r.shape.IsToken() &&
        r.shape.element_type() != ElementType::kOpaque)
      return InvalidArgument("Instruction '{}' has no shape.", r.name.substr(0, 60));
    auto find = [&](int64_t id) -> Result<Instruction*> {
      auto it = made.find(id);
      if (it == made.end())
        return InvalidArgument("Instruction '{}' uses the number {}, which no instruction before it has.",
                               r.name.substr(0, 60), id);
      return it->second;
    };
    std::vector<Instruction*> operands, before;
    for (int64_t id : r.operands) {
      KRAFLA_ASSIGN(Instruction * operand, find(id));
      operands.push_back(operand);
    }
    for (int64_t id : r.control_predecessors) {
      KRAFLA_ASSIGN(Instruction * one, find(id));
      before.push_back(one);
    }
    KRAFLA_ASSIGN(std::vector<Computation*> called, Called(*opcode, r));
    const OpInfo& info = GetOpInfo(*opcode);
    if (info.arity >= 0 && static_cast<std::size_t>(info.arity) != operands.size())
      return InvalidArgument("{} takes {} operands; instruction '{}' has {}.", info.name, info.arity,
                             r.name.substr(0, 60), operands.size());
    if (*opcode == Opcode::kParameter) {
      if (r.parameter_number < 0 || r.parameter_number >= count)
        return InvalidArgument("Parameter number {} is not below the {} instructions of its computation.",
                               r.parameter_number, count);
      auto have = computation->parameters();
      if (static_cast<std::size_t>(r.parameter_number) < have.size() &&
          have[static_cast<std::size_t>(r.parameter_number)] != nullptr)
        return InvalidArgument("Parameter number {} is given twice.", r.parameter_number);
    }
    std::shared_ptr<const Literal> literal;
    if (r.literal) {
      KRAFLA_ASSIGN(Literal value, ReadLiteral(*r.literal, limits_.max_depth, constant_budget_));
      literal = std::make_shared<const Literal>(std::move(value));
    }
    if (*opcode == Opcode::kConstant) {
      if (!literal) return InvalidArgument("Constant '{}' has no literal.", r.name.substr(0, 60));
      if (!Shape::Compatible(literal->shape(), r.shape))
        return InvalidArgument("Constant '{}' of shape {} has a literal of another shape.", r.name.substr(0, 60),
                               r.shape.ToString(false).substr(0, 60));
    }
    KRAFLA_ASSIGN(Attributes attributes, BuildAttributes(*opcode, r, operands, std::move(literal)));
    Instruction* out =
        computation->Add(*opcode, r.shape, std::move(operands), std::move(attributes), std::move(called), r.name);
    out->set_metadata(BuildMetadata(*opcode, r));
    for (Instruction* one : before) out->AddControlPredecessor(one);
    if (!made.emplace(r.id, out).second)
      return InvalidArgument("The number {} of instruction '{}' stands twice.", r.id, r.name.substr(0, 60));
    return {};
  }

  Result<std::vector<Computation*>> Called(Opcode opcode, const InstructionRecord& r) {
    std::vector<Computation*> out;
    for (int64_t id : r.called) {
      auto it = computations_.find(id);
      if (it == computations_.end())
        return InvalidArgument("Instruction '{}' calls the number {}, which no computation before its own has.",
                               r.name.substr(0, 60), id);
      out.push_back(it->second);
    }
    if (opcode == Opcode::kWhile) {  // the proto has the body first
      if (out.size() != 2)
        return InvalidArgument("While '{}' calls {} computations, not two.", r.name.substr(0, 60), out.size());
      std::swap(out[0], out[1]);
    }
    // An async-start alone holds its computation; the others reach it through their operand.
    if (opcode == Opcode::kAsyncUpdate || opcode == Opcode::kAsyncDone) out.clear();
    return out;
  }

  HloProtoLimits limits_;
  std::unique_ptr<Module> module_;
  std::unordered_map<int64_t, Computation*> computations_;
  int64_t instruction_count_ = 0, constant_budget_;
};

// Both a name of an entry and computations: a HloProto has neither in these fields.
bool IsModule(Reader reader) {
  bool entry = false, computations = false;
  while (reader.next()) {
    const bool bytes = reader.wire_type() == protozero::pbf_wire_type::length_delimited;
    entry |= bytes && reader.tag() == module_field::kEntryName;
    computations |= bytes && reader.tag() == module_field::kComputations;
    reader.skip();
  }
  return entry && computations;
}

}  // namespace
}  // namespace krafla::hlo_proto

namespace krafla {

Result<std::unique_ptr<Module>> ParseHloProto(std::span<const std::byte> bytes, std::string_view file,
                                              const HloProtoLimits& limits) {
  using hlo_proto::Reader;
  auto read = [&]() -> Result<std::unique_ptr<Module>> {
    try {
      Reader reader(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      // HloProto.hlo_module and HloSnapshot.hlo are both field 1.
      for (int level = 0; level < 2 && !hlo_proto::IsModule(reader); ++level) {
        Reader outer = reader;
        if (!outer.next(1) || outer.wire_type() != protozero::pbf_wire_type::length_delimited)
          return InvalidArgument("The bytes are no HloModuleProto: it has no computations.");
        reader = outer.get_message();
      }
      return hlo_proto::ModuleReader(limits).Read(reader);
    } catch (const protozero::exception& e) {
      return InvalidArgument("The bytes are no HloModuleProto: {}.", e.what());
    }
  };
  auto out = read();
  if (!out) return Failure(std::move(out).error().WithContext(Format("while reading {}", file)));
  return out;
}

bool LooksLikeHloProto(std::string_view bytes) {
  // Field 1, length-delimited; then a short name, or a whole module. Text begins with a letter or a blank, and no text
  // has a tag byte as its second line's length.
  if (bytes.size() < 4 || bytes[0] != '\n') return false;
  const auto length = static_cast<unsigned char>(bytes[1]);
  if (length >= 0x80) return true;
  const std::size_t next = std::size_t{2} + length;
  return next < bytes.size() && (bytes[next] == 0x12 || bytes[next] == 0x1a);
}

}  // namespace krafla
