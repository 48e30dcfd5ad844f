// SPDX-License-Identifier: Apache-2.0
// Host functions that live in Python: the custom call `krafla_python_callback` hands its arrays to one C function,
// which the Python package sets (python/jax_plugins/krafla/_host_callback.py has the same declarations in ctypes).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "krafla/export.h"

KRAFLA_EXPORT_BEGIN
extern "C" {

// A dense row-major array in host memory, valid for the time of the call.
struct KraflaHostArray {
  void* data;
  size_t bytes;
  const int64_t* dims;
  size_t rank;
  const char* type;  // HLO's name of the element type: "f32", "pred", ... types below 8 bits have a byte an element
};

// `config` is the call's backend_config. Fills `results`; anything but 0 is a failure, with its zero-terminated text in
// `error`. Takes whatever lock it needs: it is called without any.
typedef int (*KraflaPythonCallback)(const char* config, size_t config_size, const KraflaHostArray* operands,
                                    size_t num_operands, KraflaHostArray* results, size_t num_results, char* error,
                                    size_t error_capacity);

// From then on programs that call `krafla_python_callback` compile. Null: every such call fails.
void krafla_set_python_callback(KraflaPythonCallback callback);
}
KRAFLA_EXPORT_END
