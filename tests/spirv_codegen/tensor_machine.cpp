// SPDX-License-Identifier: Apache-2.0
#include "tensor_machine.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <format>
#include <map>
#include <memory>
#include <stdexcept>

#include "spirv/unified1/spirv.hpp11"

// Instructions that the machine does not know are one case.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wswitch-enum"

namespace krafla::spirv::testing {
namespace machine {
namespace {

using spv::Op;
using Id = uint32_t;

struct Instruction {
  Op op;
  Id type = 0, result = 0;
  std::vector<uint32_t> in;  // what follows type and result
};

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> at;  // of u32 and s32 the number modulo 2^32
};
struct Layout {
  uint32_t mode = 0, extent[2] = {}, stride[2] = {}, offset[2] = {}, span[2] = {};
};
struct Pointer {
  spv::StorageClass storage = spv::StorageClass::Function;
  Id variable = 0, pointee = 0;
  int64_t byte = 0;
};
struct Val {
  std::array<uint64_t, 4> lane{};
  Pointer pointer;
  Layout layout;
  std::shared_ptr<const Matrix> matrix;
};

// What an instruction gives.
enum class Form { kNothing, kType, kValue };
Form FormOf(Op op) {
  switch (op) {
    case Op::OpCapability:
    case Op::OpExtension:
    case Op::OpMemoryModel:
    case Op::OpEntryPoint:
    case Op::OpExecutionMode:
    case Op::OpName:
    case Op::OpDecorate:
    case Op::OpMemberDecorate:
    case Op::OpFunctionEnd:
    case Op::OpStore:
    case Op::OpControlBarrier:
    case Op::OpSelectionMerge:
    case Op::OpLoopMerge:
    case Op::OpBranch:
    case Op::OpBranchConditional:
    case Op::OpReturn:
    case Op::OpReturnValue: return Form::kNothing;
    case Op::OpTypeVoid:
    case Op::OpTypeBool:
    case Op::OpTypeInt:
    case Op::OpTypeFloat:
    case Op::OpTypeVector:
    case Op::OpTypeArray:
    case Op::OpTypeRuntimeArray:
    case Op::OpTypeStruct:
    case Op::OpTypePointer:
    case Op::OpTypeFunction:
    case Op::OpTypeCooperativeMatrixKHR:
    case Op::OpTypeTensorLayoutNV:
    case Op::OpTypeTensorViewNV:
    case Op::OpExtInstImport:
    case Op::OpLabel: return Form::kType;
    default: return Form::kValue;
  }
}

[[noreturn]] void Fail(const std::string& what) { throw std::runtime_error(what); }

float HalfToFloat(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float magnitude = exponent == 0    ? std::ldexp(static_cast<float>(fraction), -24)
                          : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                           : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

class Machine {
 public:
  Machine(const std::vector<uint32_t>& words, std::vector<Bytes*> bindings) : bindings_(std::move(bindings)) {
    for (std::size_t at = 5; at < words.size();) {
      const std::size_t count = words[at] >> 16;
      Instruction i;
      i.op = static_cast<Op>(words[at] & 0xffff);
      const Form form = FormOf(i.op);
      std::size_t next = at + 1;
      if (form == Form::kValue) i.type = words[next++];
      if (form != Form::kNothing) i.result = words[next++];
      i.in.assign(words.begin() + static_cast<std::ptrdiff_t>(next),
                  words.begin() + static_cast<std::ptrdiff_t>(at + count));
      at += count;
      Note(i);
      code_.push_back(std::move(i));
    }
    globals_.resize(words[3]);
    is_global_.resize(words[3]);
    for (const Instruction& i : code_) {
      if (i.op == Op::OpFunction) break;
      if (i.result == 0) continue;
      is_global_[i.result] = true;
      Global(i);
    }
  }

  void Run(std::array<uint32_t, 3> grid) {
    for (group_[2] = 0; group_[2] < grid[2]; ++group_[2])
      for (group_[1] = 0; group_[1] < grid[1]; ++group_[1])
        for (group_[0] = 0; group_[0] < grid[0]; ++group_[0]) RunGroup();
  }

 private:
  struct Thread {
    std::vector<Val> values;
    std::map<Id, Val> variables;
    std::size_t at = 0;
    Id block = 0, from = 0;
    uint32_t number = 0;
    bool done = false;
    Val returned;
  };

  void Note(const Instruction& i) {
    if (i.result != 0) definition_[i.result] = code_.size();
    if (i.op == Op::OpLabel) label_[i.result] = code_.size();
    if (i.op == Op::OpDecorate && i.in[1] == static_cast<uint32_t>(spv::Decoration::Binding))
      binding_[i.in[0]] = i.in[2];
    if (i.op == Op::OpDecorate && i.in[1] == static_cast<uint32_t>(spv::Decoration::BuiltIn))
      builtin_[i.in[0]] = i.in[2];
    if (i.op == Op::OpEntryPoint) main_ = i.in[1];
    if (i.op == Op::OpExecutionMode && i.in[1] == static_cast<uint32_t>(spv::ExecutionMode::LocalSize))
      local_ = i.in[2];
  }
  void Global(const Instruction& i) {
    Val& out = globals_[i.result];
    if (i.op == Op::OpConstant || i.op == Op::OpConstantTrue) {
      out.lane[0] = i.op == Op::OpConstant ? i.in[0] : 1;
    } else if (i.op == Op::OpConstantComposite) {
      const Instruction& type = Def(i.type);
      if (type.op == Op::OpTypeCooperativeMatrixKHR) {
        if (globals_[i.in[0]].lane[0] != 0) Fail("a constant matrix that is not zero");
        out.matrix = std::make_shared<Matrix>(MatrixOf(i.type));
      } else {
        for (std::size_t n = 0; n < i.in.size(); ++n) out.lane[n] = globals_[i.in[n]].lane[0];
      }
    } else if (i.op == Op::OpVariable) {
      const auto storage = static_cast<spv::StorageClass>(i.in[0]);
      out.pointer = {storage, i.result, Def(i.type).in[1], 0};
      if (storage == spv::StorageClass::Workgroup)
        shared_[i.result].resize(static_cast<std::size_t>(SizeOf(Def(i.type).in[1])));
    }
  }

  const Instruction& Def(Id id) const { return code_[definition_.at(id)]; }
  uint64_t Constant(Id id) const { return globals_[id].lane[0]; }
  int64_t SizeOf(Id type) const {
    const Instruction& t = Def(type);
    if (t.op == Op::OpTypeInt || t.op == Op::OpTypeFloat) return t.in[0] / 8;
    if (t.op == Op::OpTypeVector) return SizeOf(t.in[0]) * t.in[1];
    if (t.op == Op::OpTypeArray) return SizeOf(t.in[0]) * static_cast<int64_t>(Constant(t.in[1]));
    Fail(std::format("the size of a type {}", static_cast<uint32_t>(t.op)));
  }
  Matrix MatrixOf(Id type) const {
    const Instruction& t = Def(type);
    if (Constant(t.in[1]) != static_cast<uint64_t>(spv::Scope::Workgroup)) Fail("a matrix of another scope");
    Matrix out{static_cast<int64_t>(Constant(t.in[2])), static_cast<int64_t>(Constant(t.in[3])), {}};
    out.at.resize(static_cast<std::size_t>(out.rows * out.columns));
    return out;
  }
  uint64_t Mask(Id type) const {
    const Instruction& t = Def(type);
    if (t.op == Op::OpTypeVector) return Mask(t.in[0]);
    if (t.op == Op::OpTypeBool) return 1;
    return t.in[0] >= 64 ? ~uint64_t{0} : (uint64_t{1} << t.in[0]) - 1;
  }
  std::size_t Lanes(Id type) const { return Def(type).op == Op::OpTypeVector ? Def(type).in[1] : 1; }

  // ---- Memory
  uint8_t* BytesAt(const Pointer& p, int64_t size, bool writes) {
    Bytes* bytes = nullptr;
    if (p.storage == spv::StorageClass::Workgroup) bytes = &shared_.at(p.variable);
    if (p.storage == spv::StorageClass::StorageBuffer) bytes = bindings_.at(binding_.at(p.variable));
    if (bytes == nullptr) Fail("an access to other memory");
    // Buffers may be read and written up to a multiple of 16 bytes.
    if (p.storage == spv::StorageClass::StorageBuffer) bytes->resize((bytes->size() + 15) / 16 * 16);
    if (p.byte < 0 || p.byte + size > static_cast<int64_t>(bytes->size())) Fail("an access past the end");
    if (p.storage == spv::StorageClass::Workgroup) {
      std::vector<bool>& written = written_[p.variable];
      written.resize(bytes->size());
      for (int64_t b = p.byte; b < p.byte + size; ++b) {
        if (writes) written[static_cast<std::size_t>(b)] = true;
        else if (!written[static_cast<std::size_t>(b)]) Fail("shared memory is read before it is written");
      }
    }
    return bytes->data() + p.byte;
  }
  Val Load(Thread& t, const Pointer& p, Id type) {
    if (p.storage == spv::StorageClass::Function) return t.variables.at(p.variable);
    Val out;
    if (p.storage == spv::StorageClass::Input) {
      const auto which = static_cast<spv::BuiltIn>(builtin_.at(p.variable));
      if (which == spv::BuiltIn::WorkgroupId) out.lane = {group_[0], group_[1], group_[2], 0};
      else if (which == spv::BuiltIn::LocalInvocationIndex) out.lane[0] = t.number;
      else Fail("a built-in");
      return out;
    }
    const std::size_t lanes = Lanes(type);
    const int64_t size = SizeOf(type) / static_cast<int64_t>(lanes);
    const uint8_t* from = BytesAt(p, SizeOf(type), false);
    for (std::size_t n = 0; n < lanes; ++n)
      std::memcpy(&out.lane[n], from + static_cast<int64_t>(n) * size, static_cast<std::size_t>(size));
    return out;
  }
  void Store(Thread& t, const Pointer& p, const Val& value) {
    if (p.storage == spv::StorageClass::Function) {
      t.variables[p.variable] = value;
      return;
    }
    const std::size_t lanes = Lanes(p.pointee);
    const int64_t size = SizeOf(p.pointee) / static_cast<int64_t>(lanes);
    uint8_t* to = BytesAt(p, SizeOf(p.pointee), true);
    for (std::size_t n = 0; n < lanes; ++n)
      std::memcpy(to + static_cast<int64_t>(n) * size, &value.lane[n], static_cast<std::size_t>(size));
  }
  Pointer Chain(const Thread& t, const Instruction& i) {
    Pointer out = Get(t, i.in[0]).pointer;
    for (std::size_t n = 1; n < i.in.size(); ++n) {
      const Instruction& type = Def(out.pointee);
      const auto index = static_cast<int64_t>(Get(t, i.in[n]).lane[0]);
      if (type.op == Op::OpTypeStruct) {
        if (index != 0) Fail("a member that is not the first");
      } else {
        out.byte += index * SizeOf(type.in[0]);
      }
      out.pointee = type.in[0];
    }
    return out;
  }

  const Val& Get(const Thread& t, Id id) const { return is_global_[id] ? globals_[id] : t.values[id]; }

  // ---- Matrices
  double Component(Id matrix_type, const uint8_t* from) const {
    const Instruction& c = Def(Def(matrix_type).in[0]);
    if (c.op == Op::OpTypeFloat && c.in[0] == 16) {
      uint16_t bits;
      std::memcpy(&bits, from, 2);
      if (c.in.size() > 1) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);  // bfloat16
      return HalfToFloat(bits);
    }
    if (c.op == Op::OpTypeInt && c.in[0] == 8) return *from;
    Fail("a component");
  }
  int64_t ComponentBytes(Id matrix_type) const { return Def(Def(matrix_type).in[0]).in[0] / 8; }

  // matrixCoordToTensorElement(WithView) of the extension, for layouts of two dimensions, blocks of one element, and
  // views that change the order of the dimensions and nothing else.
  Val LoadTensor(const Thread& t, const Instruction& i) {
    const Pointer base = Get(t, i.in[0]).pointer;
    if (base.byte % 16 != 0) Fail("a tensor that does not begin at 16 bytes");
    const Matrix& before = *Get(t, i.in[1]).matrix;
    const Layout& l = Get(t, i.in[2]).layout;
    std::size_t next = 3;
    if ((i.in[next] & static_cast<uint32_t>(spv::MemoryAccessMask::Aligned)) != 0) ++next;
    ++next;
    const bool has_view = (i.in[next] & static_cast<uint32_t>(spv::TensorAddressingOperandsMask::TensorView)) != 0;
    bool turned = false;
    if (has_view) {
      const Instruction& view = Def(view_type_.at(i.in[next + 1]));
      turned = Constant(view.in[2]) == 1 && Constant(view.in[3]) == 0;
      if (Constant(view.in[1]) != 0 || !turned) Fail("a view");
    }
    if (l.stride[0] < uint64_t{l.stride[1]} * l.extent[1]) Fail("strides that are not nested");
    Matrix out = MatrixOf(i.type);
    if (out.rows * out.columns != int64_t{l.span[0]} * l.span[1]) Fail("a slice of another size");
    for (int64_t row = 0; row < out.rows; ++row) {
      for (int64_t column = 0; column < out.columns; ++column) {
        uint64_t index = static_cast<uint64_t>(row * out.columns + column);
        if (turned) {
          const uint64_t view0 = index % l.span[0], view1 = index / l.span[0] % l.span[1];
          index = view0 * l.span[1] + view1;
        }
        const int64_t span[2] = {static_cast<int64_t>(index / l.span[1] % l.span[0]),
                                 static_cast<int64_t>(index % l.span[1])};
        int64_t element = 0;
        bool inside = true;
        for (int d = 0; d < 2; ++d) {
          const int64_t c = span[d] + static_cast<int32_t>(l.offset[d]);
          inside = inside && c >= 0 && c < int64_t{l.extent[d]};
          element += c * l.stride[d];
        }
        double& to = out.at[static_cast<std::size_t>(row * out.columns + column)];
        if (inside) {
          Pointer at = base;
          at.byte += element * ComponentBytes(i.type);
          to = Component(i.type, BytesAt(at, ComponentBytes(i.type), false));
        } else if (l.mode == static_cast<uint32_t>(spv::TensorClampMode::Constant)) {
          to = 0;
        } else {
          Fail("an undefined access of a tensor");
        }
      }
    }
    if (before.rows != out.rows || before.columns != out.columns) Fail("an object of another size");
    Val value;
    value.matrix = std::make_shared<Matrix>(std::move(out));
    return value;
  }

  Val MultiplyAdd(const Thread& t, const Instruction& i) {
    const Matrix &a = *Get(t, i.in[0]).matrix, &b = *Get(t, i.in[1]).matrix;
    Matrix out = *Get(t, i.in[2]).matrix;
    if (a.rows != out.rows || b.columns != out.columns || a.columns != b.rows) Fail("matrices that do not fit");
    const uint32_t which = i.in.size() > 3 ? i.in[3] : 0;
    const bool whole = Def(Def(i.type).in[0]).op == Op::OpTypeInt;
    const auto number = [&](double v, uint32_t bit) { return (which & bit) != 0 ? static_cast<int8_t>(v) : v; };
    for (int64_t r = 0; r < out.rows; ++r) {
      for (int64_t k = 0; k < a.columns; ++k) {
        const double x = number(a.at[static_cast<std::size_t>(r * a.columns + k)], 1);
        for (int64_t c = 0; c < out.columns; ++c)
          out.at[static_cast<std::size_t>(r * out.columns + c)] +=
              x * number(b.at[static_cast<std::size_t>(k * b.columns + c)], 2);
      }
    }
    if (whole)
      for (double& v : out.at) v = static_cast<double>(static_cast<uint32_t>(static_cast<int64_t>(v)));
    Val value;
    value.matrix = std::make_shared<Matrix>(std::move(out));
    return value;
  }

  Val ForEachElement(const Thread& t, const Instruction& i) {
    const Matrix& m = *Get(t, i.in[0]).matrix;
    const bool whole = Def(Def(i.type).in[0]).op == Op::OpTypeInt;
    Matrix out = m;
    for (int time = 0; time < 2; ++time) {
      for (int64_t n = 0; n < m.rows * m.columns; ++n) {
        const int64_t at = time == 0 ? n : m.rows * m.columns - 1 - n;
        std::vector<Val> arguments(3);
        arguments[0].lane[0] = static_cast<uint64_t>(at / m.columns);
        arguments[1].lane[0] = static_cast<uint64_t>(at % m.columns);
        const double v = m.at[static_cast<std::size_t>(at)];
        arguments[2].lane[0] = whole ? static_cast<uint32_t>(v) : std::bit_cast<uint32_t>(static_cast<float>(v));
        for (std::size_t p = 2; p < i.in.size(); ++p) arguments.push_back(Get(t, i.in[p]));
        const auto got = static_cast<uint32_t>(Call(i.in[1], arguments).lane[0]);
        out.at[static_cast<std::size_t>(at)] = whole ? got : static_cast<double>(std::bit_cast<float>(got));
      }
    }
    Val value;
    value.matrix = std::make_shared<Matrix>(std::move(out));
    return value;
  }
  Val Call(Id function, const std::vector<Val>& arguments) {
    Thread t;
    t.values.resize(globals_.size());
    t.at = definition_.at(function) + 1;
    for (const Val& a : arguments) t.values[code_[t.at++].result] = a;
    while (!t.done) {
      if (IsCollective(code_[t.at].op)) Fail("a function waits for others");
      Step(t);
    }
    return t.returned;
  }

  // ---- Threads
  static bool IsCollective(Op op) {
    return op == Op::OpControlBarrier || op == Op::OpCooperativeMatrixLoadTensorNV ||
           op == Op::OpCooperativeMatrixMulAddKHR || op == Op::OpCooperativeMatrixPerElementOpNV;
  }
  void RunGroup() {
    for (auto& [id, bytes] : shared_) std::fill(bytes.begin(), bytes.end(), uint8_t{0xcd});
    written_.clear();
    std::vector<Thread> threads(local_);
    for (uint32_t n = 0; n < local_; ++n) {
      threads[n].values.resize(globals_.size());
      threads[n].number = n;
      threads[n].at = definition_.at(main_) + 1;
    }
    while (true) {
      for (Thread& t : threads)
        while (!t.done && !IsCollective(code_[t.at].op)) Step(t);
      std::size_t done = 0;
      for (const Thread& t : threads) {
        done += t.done ? 1 : 0;
        if (t.done != threads[0].done || t.at != threads[0].at) Fail("invocations part at what all have to reach");
      }
      if (done == threads.size()) return;
      const Instruction& i = code_[threads[0].at];
      Val value;
      if (i.op == Op::OpCooperativeMatrixLoadTensorNV) value = LoadTensor(threads[0], i);
      if (i.op == Op::OpCooperativeMatrixMulAddKHR) value = MultiplyAdd(threads[0], i);
      if (i.op == Op::OpCooperativeMatrixPerElementOpNV) value = ForEachElement(threads[0], i);
      for (Thread& t : threads) {
        if (i.result != 0) t.values[i.result] = value;
        ++t.at;
      }
    }
  }
  void Jump(Thread& t, Id label) {
    t.from = t.block;
    t.block = label;
    t.at = label_.at(label) + 1;
    // Phis read what was there before any of them.
    std::vector<std::pair<Id, Val>> phis;
    for (; code_[t.at].op == Op::OpPhi; ++t.at) {
      const Instruction& phi = code_[t.at];
      for (std::size_t n = 0; n < phi.in.size(); n += 2)
        if (phi.in[n + 1] == t.from) phis.emplace_back(phi.result, Get(t, phi.in[n]));
    }
    for (auto& [id, value] : phis) t.values[id] = std::move(value);
  }

  void Step(Thread& t) {
    const Instruction& i = code_[t.at++];
    switch (i.op) {
      case Op::OpLabel: t.block = i.result; return;
      case Op::OpSelectionMerge:
      case Op::OpLoopMerge: return;
      case Op::OpBranch: Jump(t, i.in[0]); return;
      case Op::OpBranchConditional: Jump(t, i.in[Get(t, i.in[0]).lane[0] != 0 ? 1 : 2]); return;
      case Op::OpReturn: t.done = true; return;
      case Op::OpReturnValue:
        t.returned = Get(t, i.in[0]);
        t.done = true;
        return;
      case Op::OpVariable:
        t.values[i.result].pointer = {spv::StorageClass::Function, i.result, Def(i.type).in[1], 0};
        return;
      case Op::OpStore: Store(t, Get(t, i.in[0]).pointer, Get(t, i.in[1])); return;
      default: t.values[i.result] = Compute(t, i);
    }
  }

  Val Compute(Thread& t, const Instruction& i) {
    Val out;
    const auto in = [&](std::size_t n) -> const Val& { return Get(t, i.in[n]); };
    switch (i.op) {
      case Op::OpLoad: return Load(t, in(0).pointer, i.type);
      case Op::OpAccessChain: out.pointer = Chain(t, i); return out;
      case Op::OpCreateTensorLayoutNV: out.layout.mode = static_cast<uint32_t>(Constant(Def(i.type).in[1])); return out;
      case Op::OpCreateTensorViewNV: view_type_[i.result] = i.type; return out;
      case Op::OpTensorLayoutSetDimensionNV:
        out = in(0);
        for (std::size_t d = 0; d < 2; ++d)
          out.layout.extent[d] = out.layout.span[d] = static_cast<uint32_t>(in(d + 1).lane[0]);
        return out;
      case Op::OpTensorLayoutSetStrideNV:
        out = in(0);
        for (std::size_t d = 0; d < 2; ++d) out.layout.stride[d] = static_cast<uint32_t>(in(d + 1).lane[0]);
        return out;
      case Op::OpTensorLayoutSliceNV:
        out = in(0);
        for (std::size_t d = 0; d < 2; ++d) {
          out.layout.offset[d] += static_cast<uint32_t>(in(2 * d + 1).lane[0]);
          out.layout.span[d] = static_cast<uint32_t>(in(2 * d + 2).lane[0]);
        }
        return out;
      case Op::OpCompositeExtract: out.lane[0] = in(0).lane[i.in[1]]; return out;
      case Op::OpCompositeConstruct:
        for (std::size_t n = 0; n < i.in.size(); ++n) out.lane[n] = in(n).lane[0];
        return out;
      case Op::OpVectorShuffle:
        for (std::size_t n = 2; n < i.in.size(); ++n) {
          const std::size_t first = Lanes(Def(i.in[0]).type);
          out.lane[n - 2] = i.in[n] < first ? in(0).lane[i.in[n]] : in(1).lane[i.in[n] - first];
        }
        return out;
      case Op::OpBitcast:
      case Op::OpUConvert:
      case Op::OpCopyObject: return in(0);
      case Op::OpSelect:
        for (std::size_t n = 0; n < 4; ++n) out.lane[n] = in(0).lane[0] != 0 ? in(1).lane[n] : in(2).lane[n];
        return out;
      default: break;
    }
    for (std::size_t n = 0; n < Lanes(i.type); ++n) {
      const uint64_t x = in(0).lane[n], y = i.in.size() > 1 ? in(1).lane[n] : 0;
      out.lane[n] = Binary(i.op, x, y) & Mask(i.type);
    }
    return out;
  }
  static uint64_t Binary(Op op, uint64_t x, uint64_t y) {
    switch (op) {
      case Op::OpIAdd: return x + y;
      case Op::OpISub: return x - y;
      case Op::OpIMul: return x * y;
      case Op::OpUDiv: return x / y;
      case Op::OpUMod: return x % y;
      case Op::OpBitwiseAnd:
      case Op::OpLogicalAnd: return x & y;
      case Op::OpBitwiseOr:
      case Op::OpLogicalOr: return x | y;
      case Op::OpBitwiseXor: return x ^ y;
      case Op::OpShiftLeftLogical: return x << y;
      case Op::OpShiftRightLogical: return x >> y;
      case Op::OpLogicalNot: return x ^ 1;
      case Op::OpULessThan: return x < y;
      case Op::OpULessThanEqual: return x <= y;
      case Op::OpUGreaterThan: return x > y;
      case Op::OpUGreaterThanEqual: return x >= y;
      case Op::OpIEqual: return x == y;
      case Op::OpINotEqual: return x != y;
      default: Fail(std::format("an instruction {}", static_cast<uint32_t>(op)));
    }
  }

  std::vector<Bytes*> bindings_;
  std::vector<Instruction> code_;
  std::map<Id, std::size_t> definition_, label_;
  std::map<Id, uint32_t> binding_, builtin_;
  std::map<Id, Id> view_type_;
  std::map<Id, Bytes> shared_;
  std::map<Id, std::vector<bool>> written_;
  std::vector<Val> globals_;
  std::vector<bool> is_global_;
  std::array<uint32_t, 3> group_{};
  Id main_ = 0;
  uint32_t local_ = 1;
};

}  // namespace
}  // namespace machine

std::string RunModule(const std::vector<uint32_t>& words, std::array<uint32_t, 3> grid, std::vector<Bytes*> bindings) {
  try {
    machine::Machine(words, std::move(bindings)).Run(grid);
  } catch (const std::exception& e) { return e.what(); }
  return "";
}

}  // namespace krafla::spirv::testing

#pragma GCC diagnostic pop
