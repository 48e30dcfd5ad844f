// SPDX-License-Identifier: Apache-2.0
// What the function of an operator sees: its inputs and attributes, and the builder to write HLO with. A function that
// cannot do a node throws Refusal, and so do the accessors here; Importer::EmitNode catches it, so that nothing thrown
// leaves this folder.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "krafla/xla_builder.h"
#include "onnx/model.h"

namespace krafla::onnx {

class Importer;
struct Scope;

struct Refusal {
  Status status;
};
template <typename... Args>
[[noreturn]] void Refuse(std::format_string<Args...> format, Args&&... args) {
  throw Refusal{Status(StatusCode::kUnimplemented, FormatMessage(format.get(), std::make_format_args(args...)))};
}
template <typename... Args>
[[noreturn]] void Reject(std::format_string<Args...> format, Args&&... args) {
  throw Refusal{Status(StatusCode::kInvalidArgument, FormatMessage(format.get(), std::make_format_args(args...)))};
}
template <typename T>
T Need(Result<T> result) {
  if (!result) throw Refusal{std::move(result).error()};
  return std::move(*result);
}

using Ints = std::vector<int64_t>;
using Outputs = std::vector<XlaOp>;

// Thrown where a node is computed at once, and asks for what is not known or is too large.
struct NotKnown {};

struct Dequantised;

// Of a single number that is not known: the integer that it is made of, and what is added to that.
struct Offset {
  XlaOp of;
  int64_t added = 0;
  bool is_most = false;  // it is that at most
};

// A value of the graph: known while importing, or an op of the program.
struct Value {
  Shape shape;
  std::shared_ptr<const Literal> literal;  // null: not known yet
  XlaOp op;
  bool failed = false;       // what makes it was refused
  bool is_computed = false;  // no weight of the model, but computed while importing
  // Of integers that are not known because they are made of run-time sizes: what they are at least and at most.
  std::shared_ptr<const Literal> least, most;
  std::optional<Offset> offset;                // moving_parts.h
  std::shared_ptr<const Dequantised> made_of;  // where DequantizeLinear makes it
  // Of a sequence, whose length is always known, or of an optional value: one or none. No tensor then.
  std::shared_ptr<const std::vector<Value>> elements;
  bool is_optional = false;
};
// The inputs of a DequantizeLinear without blocks.
struct Dequantised {
  Value value, scale;
  std::optional<Value> zero;
  int64_t axis = 1;
};

class Call {
 public:
  Call(Importer& the_importer, Scope& the_scope, const Node& the_node, int64_t the_opset, XlaBuilder* builder,
       std::vector<const Value*> inputs, int64_t most_elements)
      : importer(the_importer),
        scope(the_scope),
        node(the_node),
        opset(the_opset),
        b(builder),
        inputs_(std::move(inputs)),
        ops_(inputs_.size()),
        most_elements_(most_elements) {}

  static constexpr int64_t kGrowth = 8;  // of most_elements, for what was computed

  Importer& importer;
  Scope& scope;
  const Node& node;
  int64_t opset;
  XlaBuilder* b;

  std::size_t count() const { return inputs_.size(); }
  bool Has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  XlaOp In(std::size_t i);
  const Shape& ShapeOf(std::size_t i) const;
  ElementType TypeOf(std::size_t i) const { return ShapeOf(i).element_type(); }
  const Value& ValueOf(std::size_t i) const;
  const std::vector<const Value*>& values() const { return inputs_; }
  const std::vector<Value>& SequenceOf(std::size_t i) const;
  // What DequantizeLinear makes the input of; null for other inputs, and where the node is computed with at once.
  const Dequantised* MadeOf(std::size_t i) const;
  XlaOp OpOf(const Value& value);
  // Throws where the node is computed with at once: of operators that give something else in every run.
  void LeaveToTheProgram() const {
    if (most_elements_ >= 0) throw NotKnown{};
  }
  bool IsKnown(std::size_t i) const { return Has(i) && inputs_[i]->literal != nullptr; }
  // What has to be known while importing. `what`: "the shape", for the message.
  const Literal& Known(std::size_t i, std::string_view what) const;
  Ints KnownInts(std::size_t i, std::string_view what) const;
  // Sizes that may depend on the data: what they are at most, and whether each is known.
  struct Sizes {
    Ints most;
    std::vector<bool> is_known;
    bool all_known() const { return std::ranges::find(is_known, false) == is_known.end(); }
  };
  Sizes SizesIn(std::size_t i, std::string_view what) const;
  std::vector<double> KnownNumbers(std::size_t i, std::string_view what) const;

  const Attribute* Find(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t otherwise) const;
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name, double otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  std::optional<Ints> List(std::string_view name) const;
  std::optional<std::vector<float>> Floats(std::string_view name) const;
  bool Wants(std::size_t output) const { return output < node.outputs.size() && !node.outputs[output].empty(); }
  // Axes as attribute (until an opset) or as input.
  std::optional<Ints> Axes(std::size_t input) const;

 private:
  std::vector<const Value*> inputs_;
  std::vector<XlaOp> ops_;
  int64_t most_elements_;  // of a weight that is computed with at once; -1: the node goes into the program
};

// --- what operators are made of (arithmetic.cpp) -----------------------------------------------------------------

// A value that is known, and one that is an op of the program.
Value OfLiteral(Result<Literal> literal);
Value OfFlag(bool flag);
Value OfOp(XlaOp op);

// The shape of a valid op; throws the builder's error otherwise.
Shape ShapeOf(XlaOp x);
Shape TupleOf(const Outputs& ops);  // of them together
inline ElementType TypeOf(XlaOp x) { return ShapeOf(x).element_type(); }
inline int64_t RankOf(XlaOp x) { return ShapeOf(x).rank(); }
// From -most to most: the least number of all has no absolute value.
inline bool IsWithin(int64_t number, int64_t most) { return number >= -most && number <= most; }
// Of -rank .. rank - 1.
int64_t Axis(int64_t axis, int64_t rank);
Ints DimsOf(const Shape& shape);
inline Ints DimsOf(XlaOp x) { return DimsOf(ShapeOf(x)); }
Ints Range(int64_t first, int64_t last);
int64_t Volume(std::span<const int64_t> dims);
Shape MakeShape(ElementType type, std::span<const int64_t> dims);
// Arrays with dimensions of run-time sizes: these sizes, one a dimension, uninitialized where it has none; the array as
// large as it can be, without them; and one that has got them.
Outputs SizesOf(XlaOp x);
XlaOp WholeOf(XlaOp x);
XlaOp WithSizes(XlaOp x, const Outputs& sizes);
// As large as it can be along `axis`, with `fill`, a scalar, behind the run-time size, if there is one.
XlaOp FilledBehind(XlaOp x, int64_t axis, XlaOp fill);
// A reshape under which dimensions of run-time sizes stay; of those that are joined or split the size would be unknown.
XlaOp Reshaped(XlaOp x, std::span<const int64_t> dims);
// NumPy's rule, in both directions.
Ints BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b);
XlaOp BroadcastTo(XlaOp x, std::span<const int64_t> dims);
// Both under their common dimensions.
void Meet(XlaOp& a, XlaOp& b);
// A vector along `axis` of an array of `rank`.
XlaOp AlongAxis(XlaOp vector, std::span<const int64_t> dims, int64_t axis);
XlaOp Zero(XlaBuilder* b, ElementType type);
XlaOp Number(XlaBuilder* b, ElementType type, double value);
XlaOp Like(XlaOp x, double value);  // a scalar of its type
XlaOp Filled(XlaBuilder* b, ElementType type, std::span<const int64_t> dims, double value);
XlaOp Lowest(XlaBuilder* b, ElementType type);
XlaOp Highest(XlaBuilder* b, ElementType type);
XlaOp IntList(XlaBuilder* b, std::span<const int64_t> values);  // s64[n]
XlaOp Convert(XlaOp x, ElementType type);
bool IsSmallFloat(ElementType type);  // sums of it are made in f32
XlaComputation Adder(ElementType type);
XlaComputation Multiplier(ElementType type);
XlaComputation Larger(ElementType type);
XlaComputation Smaller(ElementType type);
XlaComputation Combiner(const std::string& reduction, ElementType type);  // of ScatterND's attribute (ops_index.cpp)
// into[m] with values[n] at the places at[n]; what is out of range goes nowhere. `unique`: no place comes twice.
XlaOp PutAt(XlaOp into, XlaOp at, XlaOp values, bool unique);
// The parts of a state after the last turn of a loop. Both functions are called once, with the parts as ops of a
// builder of their own: `goes_on` gives whether there is a turn, `turn` what the parts become.
Outputs LoopOver(const Outputs& init, const std::function<XlaOp(const Outputs&)>& goes_on,
                 const std::function<Outputs(const Outputs&)>& turn);
enum class Fold : uint8_t { kSum, kProduct, kMax, kMin };
XlaOp ReduceBy(Fold fold, XlaOp x, std::span<const int64_t> axes, bool keep_dims);
XlaOp MeanOf(XlaOp x, std::span<const int64_t> axes, bool keep_dims);
XlaOp SoftmaxOver(XlaOp x, int64_t axis, bool log);
XlaOp SoftmaxOf(XlaOp x, int64_t axis, int64_t opset, bool log);  // as Softmax of that opset (ops_reduce.cpp)
XlaOp AveragePoolOf(Call& c, XlaOp x);                            // as the node's attributes say (ops_conv.cpp)
XlaOp ThroughU8(XlaOp x);                                         // f32 to u8 as DynamicQuantizeLinear does, and back
XlaOp MatMulOf(XlaOp a, XlaOp b, std::optional<ElementType> sum_type = std::nullopt);  // NumPy's matmul
// As the node's attributes say (ops_conv.cpp). `fill`: what lies around x; zeros.
XlaOp ConvolutionOf(Call& c, XlaOp x, XlaOp w, std::optional<ElementType> type, XlaOp fill = XlaOp());
XlaOp TransposeTo(XlaOp x, std::span<const int64_t> permutation);
XlaOp MoveAxis(XlaOp x, int64_t from, int64_t to);
// Elements along `axis` at known places.
XlaOp TakeAt(XlaOp x, int64_t axis, std::span<const int64_t> places);
// Elements of `x` along `axis` at `indices` (of any rank, within range); as NumPy's take.
XlaOp TakeAlong(XlaOp x, XlaOp indices, int64_t axis);
// x[indices[..., 0], indices[..., 1], ...]: the last dimension of `indices` is as long as x's rank.
XlaOp TakePoints(XlaOp x, XlaOp indices);
// Negative indices count from the end.
XlaOp WrapIndices(XlaOp indices, int64_t size);
XlaOp PadWith(XlaOp x, XlaOp value, std::span<const std::pair<int64_t, int64_t>> padding);
XlaOp ClampTo(XlaOp x, double low, double high);
XlaOp FromLiteral(XlaBuilder* b, Literal literal);
XlaOp FromNumbers(XlaBuilder* b, ElementType type, const std::vector<double>& values, std::span<const int64_t> dims);
// The numbers of a literal of any real type.
std::vector<double> NumbersOf(const Literal& literal);
Ints IntsOf(const Literal& literal);
XlaOp ActivationOf(std::string_view name, double alpha, double beta, XlaOp x);
// The activation that the attribute of com.microsoft's fused operators names, if it names one, with its numbers.
XlaOp FusedActivation(Call& c, XlaOp x, std::optional<double> alpha, std::optional<double> beta);

#define KRAFLA_ONNX_OP(domain, op, first, last, function, sizes) Outputs function(Call& c);
#define KRAFLA_ONNX_VALUE_OP(domain, op, first, last, function, sizes) std::vector<Value> function(Call& c);
#include "onnx/onnx_ops.def"
#undef KRAFLA_ONNX_OP
#undef KRAFLA_ONNX_VALUE_OP

}  // namespace krafla::onnx
