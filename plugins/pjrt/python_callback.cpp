// SPDX-License-Identifier: Apache-2.0
#include "plugins/pjrt/python_callback.h"

#include <atomic>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "krafla/custom_call.h"
#include "krafla/element_type.h"
#include "plugins/pjrt/python_callback_calls.h"
#include "plugins/pjrt/strided_copy.h"

namespace krafla::pjrt {
namespace {

constexpr size_t kErrorCapacity = 8192;

std::atomic<KraflaPythonCallback> callback{nullptr};

// The arrays of a call, and what their descriptions point to. Tokens carry nothing and are left out.
struct Arrays {
  std::vector<KraflaHostArray> arrays;
  std::deque<std::vector<int64_t>> dims;
  std::deque<std::string> types;

  void Add(const Shape& shape, const std::byte* data, size_t bytes) {
    if (!shape.IsArray()) return;
    auto& d = dims.emplace_back();
    for (int64_t k = 0; k < shape.rank(); ++k) d.push_back(shape.dim(k));
    const auto& type = types.emplace_back(ElementTypeName(shape.element_type()));
    // Operands are const to the other side by agreement.
    arrays.push_back({const_cast<std::byte*>(data), bytes, d.data(), d.size(), type.c_str()});
  }
  void AddLeaves(Literal& literal) {
    if (!literal.shape().IsTuple()) return Add(literal.shape(), literal.bytes().data(), literal.bytes().size());
    for (Literal& element : literal.elements()) AddLeaves(element);
  }
};

// The host's element types leave the upper bits of a number of less than a byte as they like: ml_dtypes gives zeros.
void NormalizeLeaves(Literal& literal) {
  if (literal.shape().IsArray()) Normalize(literal.shape().element_type(), literal.bytes());
  if (!literal.shape().IsTuple()) return;
  for (Literal& element : literal.elements()) NormalizeLeaves(element);
}

Result<> Call(const CustomCallFrame& frame) {
  const KraflaPythonCallback function = callback.load();
  if (function == nullptr) return Unavailable("The Python package that the program calls is not loaded.");
  Arrays operands, results;
  for (const Literal* operand : frame.operands) {
    if (operand->shape().IsTuple()) return InvalidArgument("A Python callback takes arrays, not tuples.");
    operands.Add(operand->shape(), operand->bytes().data(), operand->bytes().size());
  }
  results.AddLeaves(*frame.result);
  std::string error(kErrorCapacity, '\0');
  const int status = function(frame.config.data(), frame.config.size(), operands.arrays.data(), operands.arrays.size(),
                              results.arrays.data(), results.arrays.size(), error.data(), error.size());
  if (status == 0) {
    NormalizeLeaves(*frame.result);
    return {};
  }
  error.resize(error.find('\0') == std::string::npos ? error.size() : error.find('\0'));
  return Internal("Python callback error: {}", error);
}

}  // namespace

bool CallsUserFunction(const Module& module) {
  for (const std::unique_ptr<Computation>& computation : module.computations()) {
    for (const std::unique_ptr<Instruction>& i : computation->instructions()) {
      if (i->opcode() != Opcode::kCustomCall || i->attr<CustomCallAttributes>().target != kPythonCallbackTarget)
        continue;
      std::string_view config = i->metadata().backend_config;
      if (config.starts_with('"')) config.remove_prefix(1);  // as HLO text has it
      if (!config.starts_with("name:")) return true;
    }
  }
  return false;
}

}  // namespace krafla::pjrt

void krafla_set_python_callback(KraflaPythonCallback function) {
  using namespace krafla;
  pjrt::callback.store(function);
  CustomCallRegistry& registry = CustomCallRegistry::Global();
  // Already there after the second call: that is fine.
  const std::string target(pjrt::kPythonCallbackTarget);
  if (registry.FindFunction(target) == nullptr) (void)registry.AddFunction(target, pjrt::Call);
}
