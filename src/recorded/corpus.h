// SPDX-License-Identifier: Apache-2.0
// Recorded cases: a corpus folder (manifest.json, data.bin, *.hlo) or a model folder (module.hlo, inputs.npz,
// outputs.npz, meta.json). tests/models/README.md describes model folders; find_cases.cpp and read_arrays.cpp read
// both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

// How one output is compared; never looser than the manifest says.
struct Tolerance {
  enum class Kind { kBits, kExact, kUlp, kClose } kind = Kind::kBits;
  int64_t ulp = 0;
  double atol = 0, rtol = 0;
  double share = 0;  // this share of the elements may be outside (edges of a fractal)
};

struct RecordedCase {
  std::string name;              // "sort/s8_lt_4x7_d1" or "mlp-tiny"
  std::string module_path;       // what to compile
  std::string module_path_spmd;  // per-device program of a multi-device model, or empty
  int64_t replicas = 1, partitions = 1;
  bool is_model = false;
  std::string op, dtype;  // corpus only
  std::vector<std::string> tags, opcodes;
  // The places of arrays; these are read on request.
  std::string folder;
  std::string manifest_json;  // the case's own line, or meta.json
};

// Per device (one entry for most cases) the flattened leaves.
struct RecordedArrays {
  std::vector<std::vector<Literal>> inputs;
  std::vector<std::vector<Literal>> outputs;
  std::vector<std::vector<std::optional<Literal>>> alt_outputs;  // also right, element by element
  std::vector<Tolerance> tolerances;                             // one an output
  // Run-time extents of bounded outputs: per output, per dimension (-1: static); empty when all are static.
  std::vector<std::vector<int64_t>> dynamic_dims;
  std::vector<std::vector<Literal>> infeed, outfeed;  // items of arrays
  std::vector<std::pair<int64_t, Literal>> send_to_host, recv_from_host;
};

// Every case under `path` (a model folder, a corpus family folder, or any folder above such), sorted by name.
// The files of a case that hold its module, by the ends of their names; krafla: compiled ahead of time.
inline constexpr const char* kModuleForms[] = {"hlo", "pb", "mlir", "mlirbc", "krafla"};

// `form`: which of a case's files to compile; cases without it are left out and counted.
struct CaseList {
  std::vector<RecordedCase> cases;
  int64_t without_form = 0;
};
Result<CaseList> FindCases(const std::string& path, const std::string& form = "hlo");

// What to read of a model, whose arrays may be large: the arguments, what to compare with, or both. The arrays of other
// cases are read whole.
enum class RecordedPart { kAll, kInputs, kExpected };

// `parameters`, `results`: the leaf shapes of the module's entry, to tell bf16 from its u16 stand-in in npz files.
Result<RecordedArrays> ReadArrays(const RecordedCase& c, const std::vector<Shape>& parameters,
                                  const std::vector<Shape>& results, RecordedPart part = RecordedPart::kAll);

struct Comparison {
  bool passed = false;
  std::string reason;  // of the first mismatch: output, index, got, expected
  double max_abs = 0, max_rel = 0, max_ulp = 0;
};
// `got` against `expected` (and `alt`, element by element), under `tolerance`.
Comparison Compare(const Literal& got, const Literal& expected, const Literal* alt, const Tolerance& tolerance);

}  // namespace krafla
