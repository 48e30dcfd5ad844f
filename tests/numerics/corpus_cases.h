// SPDX-License-Identifier: Apache-2.0
// Test only: the arrays of a conformance corpus family (KRAFLA_CORPUS), and its comparison rules.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace krafla::corpus_test {

struct Array {
  std::string type;  // "f32"
  std::vector<int64_t> dims;
  std::string bytes;
  template <class T>
  std::vector<T> As() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(static_cast<void*>(values.data()), bytes.data(), values.size() * sizeof(T));
    return values;
  }
};

struct Case {
  std::string name, op, text;
  nlohmann::json tolerance;
  std::vector<Array> inputs, outputs, alternatives;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Array ReadArray(const nlohmann::json& entry, const std::string& data) {
  Array array;
  const std::string shape = entry[0];
  const auto open = shape.find('[');
  array.type = shape.substr(0, open);
  std::string dims = shape.substr(open + 1, shape.size() - open - 2);
  for (std::size_t at = 0; at < dims.size();) {
    const auto comma = std::min(dims.find(',', at), dims.size());
    array.dims.push_back(std::stoll(dims.substr(at, comma - at)));
    at = comma + 1;
  }
  array.bytes = data.substr(entry[1].get<std::size_t>(), entry[2].get<std::size_t>());
  return array;
}

// Empty where KRAFLA_CORPUS is not set. The folder holds ops/, or is it.
inline std::vector<Case> ReadFamily(const std::string& family) {
  std::vector<Case> cases;
  const char* root = std::getenv("KRAFLA_CORPUS");
  if (root == nullptr) return cases;
  std::string folder = std::string(root) + "/ops/" + family + "/";
  std::string text = ReadFile(folder + "manifest.json");
  if (text.empty()) {
    folder = std::string(root) + "/" + family + "/";
    text = ReadFile(folder + "manifest.json");
  }
  if (text.empty()) return cases;
  const std::string data = ReadFile(folder + "data.bin");
  const nlohmann::json manifest = nlohmann::json::parse(text);
  for (const auto& entry : manifest["cases"]) {
    if (entry.contains("replicas") || entry.contains("infeed")) continue;
    Case c;
    c.name = entry["name"];
    c.op = entry["op"];
    c.text = ReadFile(folder + c.name + ".hlo");
    c.tolerance = entry["tol"].is_array() ? entry["tol"][0] : entry["tol"];
    for (const auto& a : entry["inputs"]) c.inputs.push_back(ReadArray(a, data));
    for (const auto& a : entry["outputs"]) c.outputs.push_back(ReadArray(a, data));
    if (entry.contains("alt_outputs")) {
      for (const auto& a : entry["alt_outputs"]) c.alternatives.push_back(ReadArray(a, data));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

template <class T>
int64_t OrderedBits(T x) {
  using S = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const S bits = std::bit_cast<S>(x);
  return bits < 0 ? std::numeric_limits<S>::min() - static_cast<int64_t>(bits) : bits;
}

template <class T>
bool Matches(T got, T want, const nlohmann::json& tolerance) {
  const std::string kind = tolerance["kind"];
  if (kind == "bits") return std::memcmp(&got, &want, sizeof(T)) == 0;
  if (got != got || want != want) return got != got && want != want;
  if (kind == "exact") return got == want && std::signbit(got) == std::signbit(want);
  if (got == want) return true;
  if (std::isinf(got) || std::isinf(want)) {
    if (kind != "ulp") return false;
  }
  const double difference = std::abs(static_cast<double>(got) - static_cast<double>(want));
  const double atol = tolerance.value("atol", 0.0);
  if (kind == "close") return difference <= atol + tolerance.value("rtol", 0.0) * std::abs(static_cast<double>(want));
  if (difference <= atol) return true;
  const int64_t apart = OrderedBits(got) - OrderedBits(want);
  return std::abs(static_cast<double>(apart)) <= tolerance["ulp"].get<double>();
}
template <class T>
bool Matches(std::complex<T> got, std::complex<T> want, const nlohmann::json& tolerance) {
  const std::string kind = tolerance["kind"];
  if (kind != "close") {
    return Matches(got.real(), want.real(), tolerance) && Matches(got.imag(), want.imag(), tolerance);
  }
  const auto is_nan = [](std::complex<T> z) { return z.real() != z.real() || z.imag() != z.imag(); };
  const auto is_inf = [](std::complex<T> z) { return std::isinf(z.real()) || std::isinf(z.imag()); };
  if (is_nan(want) || is_nan(got)) return is_nan(want) && is_nan(got);
  if (is_inf(want) || is_inf(got)) return is_inf(want) && is_inf(got);
  const std::complex<double> difference(static_cast<double>(got.real()) - static_cast<double>(want.real()),
                                        static_cast<double>(got.imag()) - static_cast<double>(want.imag()));
  const double size = std::abs(std::complex<double>(want));
  return std::abs(difference) <= tolerance.value("atol", 0.0) + tolerance.value("rtol", 0.0) * size;
}

}  // namespace krafla::corpus_test
