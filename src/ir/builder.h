// SPDX-License-Identifier: Apache-2.0
// Adds instructions whose shapes follow from their operands: for passes, importers and tests.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/shape_rules.h"
#include "krafla/status.h"

namespace krafla {

// What callers of `computation` see. Every parameter and the root must be there.
ComputationSignature SignatureOf(const Computation& computation);

// The shape that an instruction of `computation` would have. `declared`: see ShapeRuleInput.
Result<Shape> InferShape(const Computation& computation, Opcode opcode, std::span<Instruction* const> operands,
                         const Attributes& attributes, std::span<Computation* const> called = {},
                         const Shape* declared = nullptr);

// Adds an instruction with its inferred shape (in `declared`'s layout, where that is given and agrees). Errors: those
// of the shape rule, and a `declared` that is not what follows from the operands.
Result<Instruction*> AddInferred(Computation& computation, Opcode opcode, std::vector<Instruction*> operands,
                                 Attributes attributes = {}, std::vector<Computation*> called = {},
                                 const Shape* declared = nullptr, std::string_view name = {});

// A computation of two values of `shape` with one binary instruction, which gives one of it.
Computation* AddBinaryComputation(Module& module, Opcode opcode, const Shape& shape);

Instruction* AddParameter(Computation& computation, int64_t number, Shape shape, std::string_view name = {});
Instruction* AddConstant(Computation& computation, Literal literal, std::string_view name = {});

// `value` in `type`: rounded to nearest even, saturated for integers (NaN is 0); complex numbers get it as their real
// part. `type` must have elements.
Literal ScalarLiteral(ElementType type, double value);
Instruction* AddScalarConstant(Computation& computation, ElementType type, double value);

// `scalar` over an array of dimensions `dims`.
Result<Instruction*> AddBroadcastScalar(Computation& computation, Instruction* scalar, std::span<const int64_t> dims);
Result<Instruction*> AddBroadcast(Computation& computation, Instruction* operand, std::span<const int64_t> dims,
                                  Dims dimensions);
Result<Instruction*> AddReshape(Computation& computation, Instruction* operand, std::span<const int64_t> dims);
Result<Instruction*> AddTranspose(Computation& computation, Instruction* operand, Dims permutation);
// `operand` itself where it has the type already.
Result<Instruction*> AddConvert(Computation& computation, Instruction* operand, ElementType type);
Result<Instruction*> AddTuple(Computation& computation, std::vector<Instruction*> elements);
Result<Instruction*> AddGetTupleElement(Computation& computation, Instruction* operand, int64_t index);

}  // namespace krafla
