// SPDX-License-Identifier: Apache-2.0
#include "api/op_sharding.h"

#include "hlo_io/hlo_proto/shape_proto.h"
#include "hlo_io/hlo_proto/sharding_proto.h"

namespace krafla {

Result<std::string> SerializeOpSharding(std::string_view text) {
  std::string out;
  KRAFLA_TRY(hlo_proto::WriteSharding(hlo_proto::Writer(out), text));
  return out;
}

Result<std::string> ParseOpSharding(std::string_view bytes) {
  constexpr int kMostNested = 16;  // tuples of tuples
  try {
    return hlo_proto::ShardingText(hlo_proto::Reader(bytes.data(), bytes.size()), kMostNested);
  } catch (const protozero::exception& e) { return InvalidArgument("The bytes are no OpSharding: {}.", e.what()); }
}

Result<std::string> SerializeShape(const Shape& shape) {
  std::string out;
  KRAFLA_TRY(hlo_proto::WriteShape(hlo_proto::Writer(out), shape));
  return out;
}

}  // namespace krafla
