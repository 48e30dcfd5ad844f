// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "cases.h"

namespace krafla::testing {
namespace {
constexpr double kFew = 4e-7;  // a few units in the last place of f32
constexpr double kNaN = NAN, kInf = INFINITY;
}  // namespace

std::vector<OpCase> ElementwiseCases() {
  return {
      {"Abs", [](Program& p) { Abs(p.F({-1, 2, -3})); }, {1, 2, 3}},
      {"Abs complex", [](Program& p) { Abs(p.C({{3, 4}})); }, {5}, kFew},
      {"Add", [](Program& p) { Add(p.F({1, 2}), p.F({10, 20})); }, {11, 22}},
      {"And", [](Program& p) { And(p.I({6, 5}), p.I({3, 4})); }, {2, 4}},
      {"And of three", [](Program& p) { And(p.I({7}), p.I({6}), p.I({3})); }, {2}},
      {"BitcastConvertType", [](Program& p) { BitcastConvertType(p.F({1}), U32); }, {0x3f800000}},
      {"BitcastConvertType narrower",
       [](Program& p) { BitcastConvertType(p.In<uint32_t>({0x01020304}), U8); },
       {4, 3, 2, 1}},
      {"BitcastConvertType wider",
       [](Program& p) { BitcastConvertType(p.In<uint8_t>({1, 2, 0, 0}, {1, 4}), U32); },
       {513}},
      {"Ceil", [](Program& p) { Ceil(p.F({1.2F, -1.2F})); }, {2, -1}},
      {"Clamp", [](Program& p) { Clamp(p.F({0, 0, 0}), p.F({-1, 0.5F, 2}), p.F({1, 1, 1})); }, {0, 0.5, 1}},
      {"Clamp by scalars",
       [](Program& p) { Clamp(p.Scalar<float>(0), p.F({-1, 0.5F, 2}), p.Scalar<float>(1)); },
       {0, 0.5, 1}},
      {"Clz", [](Program& p) { Clz(p.I({1, 0, -1})); }, {31, 32, 0}},
      {"Compare", [](Program& p) { Compare(p.F({1, 2}), p.F({2, 2}), ComparisonDirection::kLt); }, {1, 0}},
      {"Compare typed",
       [](Program& p) { Compare(p.I({1, -2}), p.I({2, 2}), {}, ComparisonDirection::kGe, ComparisonType::kSigned); },
       {0, 0}},
      {"Eq", [](Program& p) { Eq(p.F({1, NAN}), p.F({1, NAN})); }, {1, 0}},
      {"Ne", [](Program& p) { Ne(p.F({1, NAN}), p.F({1, NAN})); }, {0, 1}},
      {"Ge", [](Program& p) { Ge(p.I({1, 2, 3}), p.I({2, 2, 2})); }, {0, 1, 1}},
      {"Gt", [](Program& p) { Gt(p.I({1, 2, 3}), p.I({2, 2, 2})); }, {0, 0, 1}},
      {"Le", [](Program& p) { Le(p.I({1, 2, 3}), p.I({2, 2, 2})); }, {1, 1, 0}},
      {"Lt", [](Program& p) { Lt(p.I({1, 2, 3}), p.I({2, 2, 2})); }, {1, 0, 0}},
      {"EqTotalOrder", [](Program& p) { EqTotalOrder(p.F({-0.0F, NAN}), p.F({0, NAN})); }, {0, 1}},
      {"NeTotalOrder", [](Program& p) { NeTotalOrder(p.F({-0.0F, 1}), p.F({0, 1})); }, {1, 0}},
      {"GeTotalOrder", [](Program& p) { GeTotalOrder(p.F({-0.0F, NAN}), p.F({0, INFINITY})); }, {0, 1}},
      {"GtTotalOrder", [](Program& p) { GtTotalOrder(p.F({0, NAN}), p.F({-0.0F, INFINITY})); }, {1, 1}},
      {"LeTotalOrder", [](Program& p) { LeTotalOrder(p.F({-0.0F, NAN}), p.F({0, INFINITY})); }, {1, 0}},
      {"LtTotalOrder", [](Program& p) { LtTotalOrder(p.F({-0.0F, 1}), p.F({0, 1})); }, {1, 0}},
      {"LtTotalOrder of integers", [](Program& p) { LtTotalOrder(p.I({-1, 1}), p.I({0, 1})); }, {1, 0}},
      {"Complex", [](Program& p) { Complex(p.F({1, 2}), p.F({3, 4})); }, {1, 3, 2, 4}},
      {"Conj", [](Program& p) { Conj(p.C({{1, 2}})); }, {1, -2}},
      {"ConvertElementType",
       [](Program& p) { ConvertElementType(p.F({1.9F, -1.9F, 3e9F}), S32); },
       {1, -1, 2147483647}},
      {"ConvertElementType same", [](Program& p) { ConvertElementType(p.F({1.5F}), F32); }, {1.5}},
      {"Div", [](Program& p) { Div(p.I({7, -7, 1}), p.I({2, 2, 0})); }, {3, -3, -1}},
      {"Exp highest",
       [](Program& p) { Exp(p.F({1}), ResultAccuracy{ResultAccuracy::HIGHEST, {}}); },
       {std::exp(1.0)},
       kFew},
      {"Exp within a tolerance",
       [](Program& p) {
         Exp(p.F({1}), ResultAccuracy{ResultAccuracy::DEFAULT, ResultAccuracy::Tolerance{0, 1e-5, 3}});
       },
       {std::exp(1.0)},
       kFew},
      {"Floor", [](Program& p) { Floor(p.F({1.8F, -1.2F})); }, {1, -2}},
      {"Imag", [](Program& p) { Imag(p.C({{1, 2}})); }, {2}},
      {"IsFinite", [](Program& p) { IsFinite(p.F({1, INFINITY, NAN})); }, {1, 0, 0}},
      {"Max", [](Program& p) { Max(p.F({1, NAN}), p.F({2, 0})); }, {2, kNaN}},
      {"Min", [](Program& p) { Min(p.F({1, 5}), p.F({2, 0})); }, {1, 0}},
      {"Mul", [](Program& p) { Mul(p.F({3, 4}), p.F({5, 6})); }, {15, 24}},
      {"Mulhi", [](Program& p) { Mulhi(p.In<uint32_t>({0x80000000}), p.In<uint32_t>({6})); }, {3}},
      {"Neg", [](Program& p) { Neg(p.I({1, -2})); }, {-1, 2}},
      {"Not", [](Program& p) { Not(p.I({0, 5})); }, {-1, -6}},
      {"Or", [](Program& p) { Or(p.I({6}), p.I({1})); }, {7}},
      {"Or of four", [](Program& p) { Or(p.I({1}), p.I({2}), p.I({4}), p.I({8})); }, {15}},
      {"PopulationCount", [](Program& p) { PopulationCount(p.I({7, -1})); }, {3, 32}},
      {"Real", [](Program& p) { Real(p.C({{1, 2}})); }, {1}},
      {"ReducePrecision", [](Program& p) { ReducePrecision(p.F({1.001F}), 8, 7); }, {1}},
      {"Rem", [](Program& p) { Rem(p.I({7, -7, 5}), p.I({3, 3, 0})); }, {1, -1, 5}},
      {"Round", [](Program& p) { Round(p.F({2.5F, -2.5F})); }, {3, -3}},
      {"RoundNearestAfz", [](Program& p) { RoundNearestAfz(p.F({0.5F})); }, {1}},
      {"RoundNearestEven", [](Program& p) { RoundNearestEven(p.F({2.5F, 3.5F})); }, {2, 4}},
      {"Select", [](Program& p) { Select(p.In<bool>({true, false}), p.F({1, 2}), p.F({3, 4})); }, {1, 4}},
      {"Select by a scalar", [](Program& p) { Select(p.Scalar<bool>(false), p.F({1, 2}), p.F({3, 4})); }, {3, 4}},
      {"Select of scalars",
       [](Program& p) { Select(p.In<bool>({true, false}), p.Scalar<float>(1), p.F({3, 4})); },
       {1, 4}},
      {"ShiftLeft", [](Program& p) { ShiftLeft(p.I({1, 1}), p.I({4, 40})); }, {16, 0}},
      {"ShiftRightArithmetic", [](Program& p) { ShiftRightArithmetic(p.I({-8}), p.I({1})); }, {-4}},
      {"ShiftRightLogical", [](Program& p) { ShiftRightLogical(p.I({-8}), p.I({1})); }, {2147483644}},
      {"Sign", [](Program& p) { Sign(p.F({-2, 0, 3})); }, {-1, 0, 1}},
      {"Square", [](Program& p) { Square(p.F({3})); }, {9}},
      {"StochasticConvertType",
       [](Program& p) { StochasticConvertType(p.F({2, 3}), p.In<uint32_t>({0, 0}), S32); },
       {2, 3}},
      {"Sub", [](Program& p) { Sub(p.I({1}), p.I({2})); }, {-1}},
      {"Xor", [](Program& p) { Xor(p.I({6}), p.I({3})); }, {5}},
      {"Map",
       [](Program& p) {
         XlaComputation f = AddF();
         XlaOp x = p.F({1, 2});
         Map(&p, {x, p.F({5, 6})}, f, {0});
       },
       {6, 8}},
      {"operators",
       [](Program& p) {
         XlaOp x = p.I({12}), y = p.I({5});
         XlaOp a = -x + y * x - x / y + x % y;            // -12 + 60 - 2 + 2
         a + ((x & y) | (x ^ y)) + (x << y) + (~x >> y);  // 48 + 13 + 384 + -1
       },
       {444}},
      {"operator>> of unsigned", [](Program& p) { p.In<uint32_t>({0x80000000}) >> p.In<uint32_t>({31}); }, {1}},

      // Broadcasting: the examples of https://openxla.org/xla/broadcasting.
      {"scalar", [](Program& p) { Add(p.F({1, 2, 3, 4}, {2, 2}), p.Scalar<float>(7)); }, {8, 9, 10, 11}},
      {"scalar on the left", [](Program& p) { Sub(p.Scalar<float>(7), p.F({1, 2})); }, {6, 5}},
      {"vector to rows",
       [](Program& p) { Add(p.F({1, 2, 3, 4, 5, 6}, {2, 3}), p.F({7, 8, 9}), {1}); },
       {8, 10, 12, 11, 13, 15}},
      {"vector to columns",
       [](Program& p) { Add(p.F({1, 2, 3, 4, 5, 6}, {2, 3}), p.F({7, 8}), {0}); },
       {8, 9, 10, 12, 13, 14}},
      {"smaller on the left",
       [](Program& p) { Sub(p.F({7, 8}), p.F({1, 2, 3, 4, 5, 6}, {2, 3}), {0}); },
       {6, 5, 4, 4, 3, 2}},
      {"degenerate on the right",
       [](Program& p) { Add(p.F({1, 2, 3, 4}, {2, 2}), p.F({10, 20}, {2, 1})); },
       {11, 12, 23, 24}},
      {"degenerate on both",
       [](Program& p) { Add(p.F({1, 2}, {2, 1}), p.F({10, 20, 30}, {1, 3})); },
       {11, 21, 31, 12, 22, 32}},
      {"in a dimension, then degenerate",
       [](Program& p) { Add(p.F({1, 2, 3, 4}, {2, 2}), p.F({10}, {1}), {1}); },
       {11, 12, 13, 14}},
      {"larger is degenerate",
       [](Program& p) { Add(p.F({1, 2}, {2, 1}), p.F({10, 20, 30}), {1}); },
       {11, 21, 31, 12, 22, 32}},
      {"identity dimensions", [](Program& p) { Add(p.F({1, 2}), p.F({3, 4}), {0}); }, {4, 6}},
      {"comparison by a scalar", [](Program& p) { Gt(p.I({1, 5}), p.Scalar<int32_t>(2)); }, {0, 1}},
  };
}

}  // namespace krafla::testing
