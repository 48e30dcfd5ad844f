// SPDX-License-Identifier: Apache-2.0
// A network of two layers made with the builder: relu(x w1 + b1) w2 + b2, then softmax.
#include "example.h"

using namespace krafla;

XlaOp Dense(XlaOp x, XlaOp weights, XlaOp bias) { return Add(Dot(x, weights), bias, {1}); }

XlaOp Softmax(XlaOp x) {
  XlaBuilder* b = x.builder();
  XlaOp largest = Reduce(x, ConstantR0<float>(b, -INFINITY), Scalars(F32, Max), {1});
  XlaOp e = Exp(Sub(x, largest, {0}));
  XlaOp sum = Reduce(e, ConstantR0<float>(b, 0), Scalars(F32, Add), {1});
  return Div(e, sum, {0});
}

int main(int argc, char** argv) {
  constexpr int64_t kBatch = 4, kIn = 8, kHidden = 16, kOut = 3;
  XlaBuilder b("mlp");
  XlaOp x = Parameter(&b, 0, ShapeUtil::MakeShape(F32, {kBatch, kIn}), "x");
  XlaOp w1 = Parameter(&b, 1, ShapeUtil::MakeShape(F32, {kIn, kHidden}), "w1");
  XlaOp b1 = Parameter(&b, 2, ShapeUtil::MakeShape(F32, {kHidden}), "b1");
  XlaOp w2 = Parameter(&b, 3, ShapeUtil::MakeShape(F32, {kHidden, kOut}), "w2");
  XlaOp b2 = Parameter(&b, 4, ShapeUtil::MakeShape(F32, {kOut}), "b2");
  XlaOp hidden = Max(Dense(x, w1, b1), ConstantR0<float>(&b, 0));
  Softmax(Dense(hidden, w2, b2));
  XlaComputation mlp = Must(b.Build());

  std::vector<Literal> arguments;
  for (const Shape& s : Must(mlp.GetProgramShape()).parameters) {
    Literal a = Must(Literal::Create(s));
    int i = 0;
    for (float& v : a.data<float>()) v = std::sin(static_cast<float>(i++));
    arguments.push_back(std::move(a));
  }
  LocalClient client = ClientFor(argc, argv);
  LocalExecutable executable = Must(client.Compile(mlp));
  Literal result = Must(executable.Run(arguments));
  std::printf("%s\n%s\n", ToString(result).c_str(), executable.report().placement.c_str());
  for (int64_t row = 0; row < kBatch; ++row) {
    float sum = 0;
    for (int64_t i = 0; i < kOut; ++i) sum += Must(LiteralUtil::Get<float>(result, {row, i}));
    Expect(std::abs(sum - 1) < 1e-5F, "each row of a softmax adds up to 1");
  }
}
