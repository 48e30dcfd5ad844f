// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/native_code.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cpu_fallback/native/routine.h"
#include "cpu_fallback/native/x86_emitter.h"

namespace krafla::cpu::native {

Result<NativeCodeWish> NativeCodeAskedFor() {
  const char* text = std::getenv("KRAFLA_JIT");
  const std::string_view wish = text == nullptr ? "" : text;
  if (wish.empty() || wish == "1") return NativeCodeWish{};
  if (wish == "0") return NativeCodeWish{.use = NativeUse::kNever};
  if (wish == "always") return NativeCodeWish{.use = NativeUse::kAlways};
  if (wish == "avx2") return NativeCodeWish{.use = NativeUse::kAlways, .avx2_only = true};
  return InvalidArgument("KRAFLA_JIT is '{}'; say 0 for no native code, 1 for where it pays, always, or avx2.", wish);
}

namespace {

std::atomic<int64_t> compiled_count, shared_count, refused_count, call_count;

std::atomic<NativeUse>& Use() {
  static std::atomic<NativeUse> use = NativeCodeAskedFor().value_or(NativeCodeWish{}).use;
  return use;
}

#ifdef KRAFLA_HAVE_JIT
std::atomic<bool>& Narrow() {
  static std::atomic<bool> narrow = NativeCodeAskedFor().value_or(NativeCodeWish{}).avx2_only;
  return narrow;
}
X86Target Target() { return HasTarget(X86Target::kAvx512) && !Narrow() ? X86Target::kAvx512 : X86Target::kAvx2; }

// Code by what it was made of. What nobody holds any more is dropped when the table has doubled since the last look.
template <class Code>
class CodeTable {
 public:
  std::shared_ptr<const Code> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto it = codes_.find(key);
    return it == codes_.end() ? nullptr : it->second.lock();
  }
  void Put(std::string key, const std::shared_ptr<const Code>& code) {
    const std::lock_guard lock(mutex_);
    codes_[std::move(key)] = code;
    if (codes_.size() < limit_) return;
    std::erase_if(codes_, [](const auto& item) { return item.second.expired(); });
    limit_ = std::max<std::size_t>(256, 2 * codes_.size());
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<const Code>> codes_;
  std::size_t limit_ = 256;
};
template <class Code>
CodeTable<Code>& Codes() {
  static auto* table = new CodeTable<Code>;
  return *table;
}
#endif

}  // namespace

NativeCounts CountsOfNativeCode() {
  return {compiled_count.load(), shared_count.load(), refused_count.load(), call_count.load()};
}
void UseNativeCode(NativeUse use) { Use() = use; }

std::string Routine::Key() const {
  std::string key;
  const auto put = [&](auto value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  put(base_count);
  for (const RoutineItem& i : items) {
    put(i.kind);
    put(i.number);
    put(i.count);
    put(i.base);
    put(i.offset);
  }
  for (const LaneGraph& g : blocks) key += g.Key();
  return key;
}

#ifdef KRAFLA_HAVE_JIT
NativeUse UseOfNativeCode() { return HasTarget(Target()) ? Use().load() : NativeUse::kNever; }
void UseNarrowVectors(bool narrow) { Narrow() = narrow; }
bool CanCompile(const LaneGraph& graph) { return CanEmit(Target(), graph); }
std::shared_ptr<const NativeCode> Compile(const LaneGraph& graph) {
  const X86Target target = Target();
  std::string key = graph.Key();
  key.push_back(static_cast<char>(target));
  if (auto known = Codes<NativeCode>().Find(key)) {
    ++shared_count;
    return known;
  }
  std::unique_ptr<ExecutableMemory> memory = ExecutableMemory::Make(Emit(target, graph));
  if (memory == nullptr) {
    ++refused_count;
    return nullptr;
  }
  ++compiled_count;
  auto code = std::make_shared<const NativeCode>(std::move(memory));
  Codes<NativeCode>().Put(std::move(key), code);
  return code;
}

int RoutineBytes() { return VectorBytes(Target()); }
bool CanHave(const LaneGraph& graph, const LaneNode& node) { return CanEmit(Target(), graph, node); }
bool HasAvx512Code() { return HasNativeCode() && Target() == X86Target::kAvx512; }
bool HasByteShuffles() { return HasAvx512Code() && HasAvx512Vbmi(); }
bool HasHalfArithmetic() { return HasAvx512Code() && HasAvx512Fp16(); }
std::shared_ptr<const RoutineCode> Compile(const Routine& routine) {
  const X86Target target = Target();
  for (const LaneGraph& g : routine.blocks)
    if (!CanEmit(target, g)) return nullptr;
  call_count += std::ranges::count(routine.items, RoutineItem::Kind::kCall, &RoutineItem::kind);
  std::string key = routine.Key();
  key.push_back(static_cast<char>(target));
  if (auto known = Codes<RoutineCode>().Find(key)) {
    ++shared_count;
    return known;
  }
  const std::vector<std::byte> bytes = Emit(target, routine);
  std::unique_ptr<ExecutableMemory> memory = bytes.empty() ? nullptr : ExecutableMemory::Make(bytes);
  if (memory == nullptr) {
    ++refused_count;
    return nullptr;
  }
  ++compiled_count;
  auto code = std::make_shared<const RoutineCode>(std::move(memory));
  Codes<RoutineCode>().Put(std::move(key), code);
  return code;
}
#else
int RoutineBytes() { return 64; }
bool CanHave(const LaneGraph&, const LaneNode&) { return false; }
bool HasAvx512Code() { return false; }
bool HasByteShuffles() { return false; }
bool HasHalfArithmetic() { return false; }
std::shared_ptr<const RoutineCode> Compile(const Routine&) { return nullptr; }
NativeUse UseOfNativeCode() { return NativeUse::kNever; }
void UseNarrowVectors(bool) {}
bool CanCompile(const LaneGraph&) { return false; }
std::shared_ptr<const NativeCode> Compile(const LaneGraph&) { return nullptr; }
#endif

}  // namespace krafla::cpu::native
