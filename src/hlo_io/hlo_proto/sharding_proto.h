// SPDX-License-Identifier: Apache-2.0
// What the IR keeps as text: shardings, metadata, frontend attributes, tables of stack frames.
#pragma once

#include <string>

#include "hlo_io/hlo_proto/wire.h"

namespace krafla::hlo_proto {

// "{devices=[2,1]<=[2]}", "{{replicated}, {maximal device=0}}".
Result<std::string> ShardingText(Reader reader, int depth);
Result<> WriteSharding(Writer writer, std::string_view text);

// "op_name=\"jit(f)/add\" source_file=\"a.py\" source_line=3"
std::string MetadataText(Reader reader);
void WriteMetadata(Writer writer, std::string_view text);

// "a=\"1\",b=\"2\""; keys in the order of the bytes.
std::string FrontendAttributesText(Reader reader);
void WriteFrontendAttributes(Writer writer, std::string_view text);

}  // namespace krafla::hlo_proto
