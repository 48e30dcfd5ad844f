// SPDX-License-Identifier: Apache-2.0
#include "api/op_sharding.h"

#include "hlo_io/hlo_proto/sharding_proto.h"

namespace krafla {

Result<std::string> SerializeOpSharding(std::string_view text) {
  std::string out;
  KRAFLA_TRY(hlo_proto::WriteSharding(hlo_proto::Writer(out), text));
  return out;
}

}  // namespace krafla
