// SPDX-License-Identifier: Apache-2.0
// Files that are no modules of any form that krafla reads, but that people take for models.
#pragma once

#include <string_view>

namespace krafla {

struct OtherFormat {
  std::string_view what;    // "an ONNX model"; empty: not known
  std::string_view advice;  // a sentence, without its full stop
};
// By the bytes alone.
OtherFormat RecognizeOther(std::string_view bytes);

}  // namespace krafla
