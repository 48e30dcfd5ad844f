// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/native_code.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cpu_fallback/native/x86_emitter.h"

namespace krafla::cpu::native {

namespace {

std::atomic<int64_t> compiled_count, shared_count, refused_count;

NativeUse AskedFor() {
  const char* text = std::getenv("KRAFLA_JIT");
  const std::string_view wish = text == nullptr ? "1" : text;
  return wish == "0" ? NativeUse::kNever : wish == "always" ? NativeUse::kAlways : NativeUse::kWorthwhile;
}
std::atomic<NativeUse>& Use() {
  static std::atomic<NativeUse> use = AskedFor();
  return use;
}

#ifdef KRAFLA_HAVE_JIT
// Code by its graph. What nobody holds any more is dropped when the table has doubled since the last look.
class CodeTable {
 public:
  std::shared_ptr<const NativeCode> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = codes_.find(key);
    return it == codes_.end() ? nullptr : it->second.lock();
  }
  void Put(std::string key, const std::shared_ptr<const NativeCode>& code) {
    const std::lock_guard lock(mutex_);
    codes_[std::move(key)] = code;
    if (codes_.size() < limit_) return;
    std::erase_if(codes_, [](const auto& item) { return item.second.expired(); });
    limit_ = std::max<std::size_t>(256, 2 * codes_.size());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const NativeCode>> codes_;
  std::size_t limit_ = 256;
};
CodeTable& Codes() {
  static CodeTable* table = new CodeTable;
  return *table;
}
#endif

}  // namespace

NativeCounts CountsOfNativeCode() { return {compiled_count.load(), shared_count.load(), refused_count.load()}; }
void UseNativeCode(NativeUse use) { Use() = use; }

#ifdef KRAFLA_HAVE_JIT
NativeUse UseOfNativeCode() { return HasTarget(X86Target::kAvx512) ? Use().load() : NativeUse::kNever; }
bool CanCompile(const LaneGraph& graph) { return CanEmit(X86Target::kAvx512, graph); }
std::shared_ptr<const NativeCode> Compile(const LaneGraph& graph) {
  std::string key = graph.Key();
  if (auto known = Codes().Find(key)) {
    ++shared_count;
    return known;
  }
  std::unique_ptr<ExecutableMemory> memory = ExecutableMemory::Make(Emit(X86Target::kAvx512, graph));
  if (memory == nullptr) {
    ++refused_count;
    return nullptr;
  }
  ++compiled_count;
  auto code = std::make_shared<const NativeCode>(std::move(memory));
  Codes().Put(std::move(key), code);
  return code;
}
#else
NativeUse UseOfNativeCode() { return NativeUse::kNever; }
bool CanCompile(const LaneGraph&) { return false; }
std::shared_ptr<const NativeCode> Compile(const LaneGraph&) { return nullptr; }
#endif

}  // namespace krafla::cpu::native
