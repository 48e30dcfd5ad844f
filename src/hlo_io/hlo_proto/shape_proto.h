// SPDX-License-Identifier: Apache-2.0
// ShapeProto, ProgramShapeProto and LiteralProto.
#pragma once

#include "hlo_io/hlo_proto/wire.h"
#include "krafla/literal.h"

namespace krafla::hlo_proto {

// `depth`: levels of nesting still allowed.
Result<Shape> ReadShape(Reader reader, int depth);
Result<> WriteShape(Writer writer, const Shape& shape);

struct ProgramShape {
  std::vector<Shape> parameters;
  Shape result;
};
Result<ProgramShape> ReadProgramShape(Reader reader, int depth);

// `budget`: bytes that literals may still take; what this one takes is subtracted.
Result<Literal> ReadLiteral(Reader reader, int depth, int64_t& budget);
Result<> WriteLiteral(Writer writer, const Literal& literal);

}  // namespace krafla::hlo_proto
