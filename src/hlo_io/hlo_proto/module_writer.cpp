// SPDX-License-Identifier: Apache-2.0
// Module to HloModuleProto. Numbers are as XLA's: of an instruction the number of its computation above its own.
#include <unordered_map>
#include <unordered_set>

#include "hlo_io/hlo_proto/fields.h"
#include "hlo_io/hlo_proto/hlo_proto.h"
#include "hlo_io/hlo_proto/instruction_writer.h"
#include "hlo_io/hlo_proto/shape_proto.h"
#include "hlo_io/hlo_proto/sharding_proto.h"
#include "hlo_io/hlo_proto/stack_frames.h"

namespace krafla::hlo_proto {
namespace {

// Computations before their callers, without recursion in this code either.
std::vector<const Computation*> CalleesFirst(const Module& module) {
  std::vector<const Computation*> out;
  std::unordered_set<const Computation*> seen;
  struct Frame {
    const Computation* computation;
    std::size_t instruction = 0, call = 0;
  };
  for (const auto& owned : module.computations()) {
    if (!seen.insert(owned.get()).second) continue;
    std::vector<Frame> stack{{owned.get()}};
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const auto& instructions = frame.computation->instructions();
      if (frame.instruction == instructions.size()) {
        out.push_back(frame.computation);
        stack.pop_back();
      } else if (frame.call == instructions[frame.instruction]->called().size()) {
        ++frame.instruction;
        frame.call = 0;
      } else {
        const Computation* callee = instructions[frame.instruction]->called(frame.call++);
        if (seen.insert(callee).second) stack.push_back({callee});
      }
    }
  }
  return out;
}

class ModuleWriter {
 public:
  ModuleWriter(const Module& module, bool unique_names) : module_(module), unique_names_(unique_names) {}

  Result<std::string> Write() {
    namespace f = module_field;
    std::string bytes;
    Writer writer(bytes);
    WriteString(writer, f::kName, module_.name());
    WriteString(writer, f::kEntryName, module_.entry()->name());
    const std::vector<const Computation*> order = CalleesFirst(module_);
    for (const Computation* c : order) computation_ids_.emplace(c, static_cast<int64_t>(computation_ids_.size()) + 1);
    for (const Computation* c : order) {
      auto written = WriteComputation(Writer(writer, f::kComputations), *c);
      if (!written)
        return Failure(std::move(written).error().WithContext(Format("while writing computation '{}'", c->name())));
    }
    writer.add_int64(f::kEntryId, computation_ids_.at(module_.entry()));
    KRAFLA_TRY(WriteProgramShape(Writer(writer, f::kHostProgramShape)));
    if (module_.is_scheduled) WriteSchedule(Writer(writer, f::kSchedule), order);
    WriteAliases(writer);
    if (module_.replica_count != 1 || module_.num_partitions != 1)
      WriteDeviceAssignment(Writer(writer, f::kDeviceAssignment));
    WriteStackFrames(writer, f::kStackFrameIndex, module_.other_attributes);
    for (const auto& [key, value] : module_.other_attributes)
      if (key == "frontend_attributes" && value.size() >= 2)
        WriteFrontendAttributes(Writer(writer, f::kFrontendAttributes),
                                std::string_view(value).substr(1, value.size() - 2));
    return bytes;
  }

 private:
  Result<> WriteProgramShape(Writer writer) {
    if (module_.entry_layout_result) {
      for (const Shape& s : module_.entry_layout_parameters) KRAFLA_TRY(WriteShape(Writer(writer, 1), s));
      KRAFLA_TRY(WriteShape(Writer(writer, 2), *module_.entry_layout_result));
    } else {
      for (const Instruction* p : module_.entry()->parameters()) KRAFLA_TRY(WriteShape(Writer(writer, 1), p->shape()));
      KRAFLA_TRY(WriteShape(Writer(writer, 2), module_.entry()->root()->shape()));
    }
    // XLA refuses a program shape with fewer names than parameters.
    for (const Instruction* p : module_.entry()->parameters()) writer.add_string(3, p->name());
    return {};
  }

  void WriteAliases(Writer& writer) {
    if (!module_.input_output_aliases.empty()) {
      Writer aliases(writer, module_field::kInputOutputAlias);
      for (const InputOutputAlias& alias : module_.input_output_aliases) {
        Writer entry(aliases, 1);
        WriteInts(entry, 1, alias.output_index);
        entry.add_int64(2, alias.parameter);
        WriteInts(entry, 3, alias.parameter_index);
        entry.add_int32(4, alias.must_alias ? 2 : 1);
      }
    }
    if (!module_.buffer_donors.empty()) {
      Writer donors(writer, module_field::kBufferDonor);
      for (const BufferDonor& donor : module_.buffer_donors) {
        Writer entry(donors, 1);
        entry.add_int64(1, donor.parameter);
        WriteInts(entry, 2, donor.parameter_index);
      }
    }
  }

  // Devices in the order of XLA's default: replica r of partition p is device r * partitions + p.
  void WriteDeviceAssignment(Writer writer) {
    writer.add_int64(1, module_.replica_count);
    writer.add_int64(2, module_.num_partitions);
    for (int64_t p = 0; p < std::min<int64_t>(module_.num_partitions, 1 << 16); ++p) {
      Writer devices(writer, 3);
      std::vector<int64_t> ids;
      for (int64_t r = 0; r < std::min<int64_t>(module_.replica_count, 1 << 16); ++r)
        ids.push_back(r * module_.num_partitions + p);
      WriteInts(devices, 1, ids);
    }
  }

  void WriteSchedule(Writer writer, std::span<const Computation* const> order) {
    for (const Computation* c : order) {
      Writer entry(writer, 1);
      entry.add_int64(1, computation_ids_.at(c));
      Writer sequence(entry, 2);
      std::vector<int64_t> ids;
      for (const auto& i : c->instructions()) ids.push_back(instruction_ids_.at(i.get()));
      WriteInts(sequence, 1, ids);
    }
  }

  Result<> WriteComputation(Writer writer, const Computation& c) {
    namespace f = computation_field;
    const int64_t id = computation_ids_.at(&c);
    WriteString(writer, f::kName, c.name());
    int64_t number = 0;
    for (const auto& i : c.instructions()) instruction_ids_.emplace(i.get(), (id << 32) + ++number);
    for (const auto& i : c.instructions()) KRAFLA_TRY(WriteInstruction(Writer(writer, f::kInstructions), *i));
    {
      Writer shape(writer, f::kProgramShape);
      for (const Instruction* p : c.parameters()) KRAFLA_TRY(WriteShape(Writer(shape, 1), p->shape()));
      KRAFLA_TRY(WriteShape(Writer(shape, 2), c.root()->shape()));
      for (const Instruction* p : c.parameters()) shape.add_string(3, p->name());
    }
    writer.add_int64(f::kId, id);
    writer.add_int64(f::kRootId, instruction_ids_.at(c.root()));
    WriteString(writer, f::kExecutionThread, c.execution_thread().empty() ? "main" : c.execution_thread());
    return {};
  }

  // XLA's reader wants names that no other instruction of the module has; here they are their computation's own.
  std::string UniqueName(const Instruction& i) {
    std::string name(i.name());
    if (!unique_names_) return name;
    for (int n = i.id(); !names_.insert(name).second; ++n) name = Format("{}.{}", i.name(), n);
    return name;
  }

  Result<> WriteInstruction(Writer writer, const Instruction& i) {
    namespace f = instruction_field;
    WriteString(writer, f::kName, UniqueName(i));
    WriteString(writer, f::kOpcode, OpcodeName(i.opcode()));
    KRAFLA_TRY(WriteShape(Writer(writer, f::kShape), i.shape()));
    writer.add_int64(f::kId, instruction_ids_.at(&i));
    auto ids = [&](const auto& list) {
      std::vector<int64_t> out;
      for (const Instruction* one : list) out.push_back(instruction_ids_.at(one));
      return out;
    };
    WriteInts(writer, f::kOperandIds, ids(i.operands()));
    WriteInts(writer, f::kControlPredecessorIds, ids(i.control_predecessors()));
    std::vector<int64_t> called;
    for (const Computation* c : i.called()) called.push_back(computation_ids_.at(c));
    if (i.opcode() == Opcode::kWhile && called.size() == 2) std::swap(called[0], called[1]);  // the body comes first
    if (i.opcode() == Opcode::kAsyncUpdate || i.opcode() == Opcode::kAsyncDone) {
      // XLA repeats the computation on every link of the chain.
      const Instruction* start = &i;
      while (start->opcode() != Opcode::kAsyncStart && start->operand_count() > 0) start = start->operand(0);
      for (const Computation* c : start->called()) called.push_back(computation_ids_.at(c));
    }
    WriteInts(writer, f::kCalledComputationIds, called);
    return WriteAttributes(writer, i);
  }

  const Module& module_;
  const bool unique_names_;
  std::unordered_map<const Computation*, int64_t> computation_ids_;
  std::unordered_map<const Instruction*, int64_t> instruction_ids_;
  std::unordered_set<std::string> names_;  // of instructions
};

}  // namespace
}  // namespace krafla::hlo_proto

namespace krafla {

Result<std::string> SerializeHloProto(const Module& module, bool unique_names) {
  std::unique_ptr<Module> sorted = module.Clone();
  for (const auto& computation : sorted->computations()) KRAFLA_TRY(computation->SortTopologically());
  return hlo_proto::ModuleWriter(*sorted, unique_names).Write();
}

}  // namespace krafla
