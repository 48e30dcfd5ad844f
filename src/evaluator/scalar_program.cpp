// SPDX-License-Identifier: Apache-2.0
#include "evaluator/scalar_program.h"

#include <algorithm>
#include <cstring>

namespace krafla::evaluator {

class ProgramCompiler {
 public:
  explicit ProgramCompiler(ScalarProgram& program) : program_(program) {}

  // What an instruction gives: one register, or several for a tuple.
  using Registers = std::vector<int>;

  bool Inline(const Computation& computation, const std::vector<Registers>& arguments, Registers& result, int depth) {
    if (depth > 16) return false;
    std::unordered_map<const Instruction*, Registers> values;
    for (const auto& owned : computation.instructions()) {
      const Instruction& i = *owned;
      // Calls within calls could make a small module a huge program.
      if (++visited_ > 4096) return false;
      if (i.opcode() == Opcode::kParameter) {
        auto number = static_cast<std::size_t>(i.attr<ParameterAttributes>().number);
        if (number >= arguments.size()) return false;
        values[&i] = arguments[number];
        continue;
      }
      if (i.opcode() == Opcode::kTuple) {
        Registers all;
        for (Instruction* o : i.operands()) {
          if (o->shape().IsTuple()) return false;
          all.push_back(values[o].at(0));
        }
        values[&i] = std::move(all);
        continue;
      }
      if (i.opcode() == Opcode::kGetTupleElement) {
        const Registers& all = values[i.operand(0)];
        auto index = static_cast<std::size_t>(i.attr<TupleIndexAttributes>().index);
        if (index >= all.size()) return false;
        values[&i] = {all[index]};
        continue;
      }
      if (i.opcode() == Opcode::kCall || i.opcode() == Opcode::kFusion) {
        std::vector<Registers> inner;
        for (Instruction* o : i.operands()) inner.push_back(values[o]);
        Registers out;
        if (!Inline(*i.called(0), inner, out, depth + 1)) return false;
        values[&i] = std::move(out);
        continue;
      }
      // Not rank 0 but one element: reshape and broadcast of [1] and the like.
      if (!i.shape().IsArray() || i.shape().element_count() != 1 || i.shape().IsDynamic()) return false;
      if (i.opcode() == Opcode::kConstant) {
        values[&i] = {Constant(i.literal())};
        continue;
      }
      if (i.opcode() == Opcode::kReshape || i.opcode() == Opcode::kBroadcast || i.opcode() == Opcode::kCopy ||
          i.opcode() == Opcode::kBitcast || i.opcode() == Opcode::kTranspose ||
          i.opcode() == Opcode::kOptimizationBarrier) {
        const Shape& from = i.operand(0)->shape();
        if (!from.IsArray() || from.element_count() != 1 || from.element_type() != i.shape().element_type())
          return false;
        values[&i] = values[i.operand(0)];
        continue;
      }
      if (i.opcode() == Opcode::kBitcastConvert) {
        if (StorageBytes(i.operand(0)->shape().element_type()) != StorageBytes(i.shape().element_type()) ||
            BitWidth(i.operand(0)->shape().element_type()) != BitWidth(i.shape().element_type()) ||
            BitWidth(i.shape().element_type()) < 8)
          return false;
        values[&i] = values[i.operand(0)];
        continue;
      }
      if (!IsElementwise(i.opcode()) || i.operand_count() > BlockOp::kMaxArity) return false;
      ScalarProgram::Code code;
      for (std::size_t o = 0; o < i.operand_count(); ++o) {
        if (!i.operand(o)->shape().IsArray() || values[i.operand(o)].size() != 1) return false;
        code.in[o] = values[i.operand(o)][0];
      }
      Result<BlockOp> op = MakeBlockOp(i);
      if (!op) return false;  // the graph gives the error
      code.op = *op;
      code.out = NewRegister(StorageBytes(i.shape().element_type()));
      program_.code_.push_back(code);
      values[&i] = {code.out};
    }
    result = values[computation.root()];
    return !result.empty();
  }

  int NewRegister(int bytes) {
    program_.storage_.emplace_back(static_cast<std::size_t>(bytes) * ScalarProgram::kBlock);
    program_.registers_.push_back(program_.storage_.back().data());
    return static_cast<int>(program_.registers_.size()) - 1;
  }

  int Constant(const Literal& literal) {
    int out = NewRegister(StorageBytes(literal.shape().element_type()));
    std::byte* to = program_.storage_.back().data();
    for (int64_t k = 0; k < ScalarProgram::kBlock; ++k)
      std::memcpy(to + static_cast<std::size_t>(k) * literal.bytes().size(), literal.bytes().data(),
                  literal.bytes().size());
    return out;
  }

 private:
  ScalarProgram& program_;
  int visited_ = 0;
};

std::unique_ptr<ScalarProgram> ScalarProgram::Compile(const Computation& computation) {
  auto program = std::unique_ptr<ScalarProgram>(new ScalarProgram());
  std::vector<ProgramCompiler::Registers> arguments;
  for (const Instruction* p : computation.parameters()) {
    if (p == nullptr || !p->shape().IsArray() || p->shape().element_count() != 1 || p->shape().IsDynamic())
      return nullptr;
    program->registers_.push_back(nullptr);
    arguments.push_back({static_cast<int>(program->registers_.size()) - 1});
  }
  program->parameter_count_ = arguments.size();
  ProgramCompiler compiler(*program);
  if (!compiler.Inline(computation, arguments, program->outputs_, 0)) return nullptr;
  // Among several results, one that is a parameter is copied: its array may be where another result is written.
  for (int& output : program->outputs_) {
    if (program->outputs_.size() == 1 || static_cast<std::size_t>(output) >= program->parameter_count_) continue;
    const ElementType type = computation.parameters()[static_cast<std::size_t>(output)]->shape().element_type();
    Code copy;
    copy.op = MakeConvert(type, type);
    copy.in[0] = output;
    copy.out = output = compiler.NewRegister(StorageBytes(type));
    program->code_.push_back(copy);
  }
  return program;
}

void ScalarProgram::Run(const void* const* in, int64_t n) {
  for (std::size_t p = 0; p < parameter_count_; ++p) registers_[p] = in[p];
  for (const Code& code : code_) {
    const void* operands[BlockOp::kMaxArity];
    for (int o = 0; o < code.op.arity; ++o) operands[o] = registers_[static_cast<std::size_t>(code.in[o])];
    code.op.Run(operands, const_cast<void*>(registers_[static_cast<std::size_t>(code.out)]), n);
  }
}

ScalarFunction::ScalarFunction(Context& context, const Computation& computation)
    : context_(context), computation_(computation) {
  auto [at, fresh] = context.programs.try_emplace(&computation);
  if (fresh) at->second = ScalarProgram::Compile(computation);
  program_ = at->second.get();
  for (const Instruction* p : computation.parameters())
    parameter_bytes_.push_back(StorageBytes(p->shape().element_type()));
  const Shape& root = computation.root()->shape();
  if (root.IsTuple()) {
    for (const Shape& e : root.tuple_elements()) output_bytes_.push_back(StorageBytes(e.element_type()));
  } else {
    output_bytes_.push_back(StorageBytes(root.element_type()));
  }
}

Result<> ScalarFunction::Run(std::span<const void* const> in, std::span<void* const> out, int64_t n) {
  constexpr std::size_t kInline = 16;
  if (program_ != nullptr) {
    const void* fixed[kInline];
    std::vector<const void*> heap;
    const void** operands = fixed;
    if (in.size() > kInline) {
      heap.resize(in.size());
      operands = heap.data();
    }
    for (int64_t at = 0; at < n; at += ScalarProgram::kBlock) {
      const int64_t count = std::min(ScalarProgram::kBlock, n - at);
      if (poll_.Ends(count * cost())) return CheckInterrupted();
      for (std::size_t p = 0; p < in.size(); ++p)
        operands[p] = static_cast<const std::byte*>(in[p]) + at * parameter_bytes_[p];
      program_->Run(operands, count);
      if (out.size() == 1) {
        std::memmove(static_cast<std::byte*>(out[0]) + at * output_bytes_[0], program_->output(0),
                     static_cast<std::size_t>(count * output_bytes_[0]));
        continue;
      }
      for (std::size_t r = 0; r < out.size(); ++r)
        std::memcpy(static_cast<std::byte*>(out[r]) + at * output_bytes_[r], program_->output(r),
                    static_cast<std::size_t>(count * output_bytes_[r]));
    }
    return {};
  }
  for (int64_t k = 0; k < n; ++k) {
    std::vector<Value> arguments;
    for (std::size_t p = 0; p < in.size(); ++p) {
      const Shape& shape = computation_.parameters()[p]->shape();
      KRAFLA_ASSIGN(Literal scalar,
                    Literal::FromBytes(shape, {static_cast<const std::byte*>(in[p]) + k * parameter_bytes_[p],
                                               static_cast<std::size_t>(parameter_bytes_[p])}));
      arguments.push_back(Value::Own(std::move(scalar)));
    }
    KRAFLA_ASSIGN(Value result, RunComputation(context_, computation_, std::move(arguments)));
    for (std::size_t r = 0; r < out.size(); ++r) {
      const Value& leaf = result.is_tuple() ? result.elements()[r] : result;
      if (static_cast<int64_t>(leaf.array().bytes().size()) != output_bytes_[r])
        return InvalidArgument("Computation '{}' does not return scalars.", computation_.name());
      std::memcpy(static_cast<std::byte*>(out[r]) + k * output_bytes_[r], leaf.array().bytes().data(),
                  static_cast<std::size_t>(output_bytes_[r]));
    }
  }
  return {};
}

std::optional<Opcode> AsSimpleBinary(const Computation& computation) {
  const Instruction* root = computation.root();
  auto parameters = computation.parameters();
  if (root == nullptr || parameters.size() != 2 || root->operand_count() != 2) return std::nullopt;
  if (!IsElementwise(root->opcode()) || root->opcode() == Opcode::kCompare || root->opcode() == Opcode::kComplex ||
      root->opcode() == Opcode::kStochasticConvert)
    return std::nullopt;
  const Instruction *a = root->operand(0), *b = root->operand(1);
  if (a->shape().element_type() != root->shape().element_type() ||
      b->shape().element_type() != root->shape().element_type())
    return std::nullopt;
  if (a == parameters[0] && b == parameters[1]) return root->opcode();
  if (a == parameters[1] && b == parameters[0] && HasTrait(root->opcode(), op_trait::kCommutative))
    return root->opcode();
  return std::nullopt;
}

bool ReturnsParameter(const Computation& computation, int64_t number) {
  const Instruction* root = computation.root();
  return root != nullptr && root->opcode() == Opcode::kParameter && root->attr<ParameterAttributes>().number == number;
}

}  // namespace krafla::evaluator
