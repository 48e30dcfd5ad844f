// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/native/native_code.h"

#include <algorithm>
#include <array>
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

NativeCode::NativeCode(std::unique_ptr<ExecutableMemory> memory, const LaneGraph& graph, int multiple)
    : memory_(std::move(memory)),
      function_(reinterpret_cast<LaneFunction>(reinterpret_cast<std::uintptr_t>(memory_->address()))),
      multiple_(multiple) {
  if (multiple == 1) return;
  for (const LaneStream& s : graph.streams) streams_.push_back({s.kind, s.width});
  for (const LaneNode& n : graph.nodes)
    if (n.op == LaneOp::kRamp) streams_[n.bits >> 32].step = static_cast<int32_t>(static_cast<uint32_t>(n.bits));
  for (const LaneStore& s : graph.stores) streams_[static_cast<std::size_t>(s.stream)].is_output = true;
}

// The base of a ramp is a number, not a place in memory.
static std::byte* Moved(std::byte* base, int64_t by) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + static_cast<std::uintptr_t>(by));
}

// The last vector of a row is put together elsewhere.
void NativeCode::RunParts(const StreamArgument* streams, int64_t rows, int64_t columns) const {
  constexpr std::size_t kMaxStreams = 64, kVectorBytes = 32;
  alignas(kVectorBytes) std::array<std::byte, kMaxStreams * kVectorBytes> staging{};
  std::array<StreamArgument, kMaxStreams> row, rest;
  const int64_t whole = columns / multiple_ * multiple_, count = columns - whole;
  for (int64_t r = 0; r < rows; ++r) {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const Stream& stream = streams_[s];
      row[s] = {Moved(streams[s].base, r * streams[s].row_stride), 0};
      rest[s] = row[s];
      switch (stream.kind) {
        case LaneStream::Kind::kUniform:
        case LaneStream::Kind::kRow:
        case LaneStream::Kind::kGather: break;
        case LaneStream::Kind::kRamp: rest[s].base = Moved(rest[s].base, whole * stream.step); break;
        case LaneStream::Kind::kDense:
        case LaneStream::Kind::kStrided:
        case LaneStream::Kind::kInterleaved:
        case LaneStream::Kind::kShortRows: {  // dense ones alone (CanEmit)
          rest[s].base = staging.data() + s * kVectorBytes;
          if (!stream.is_output)
            std::memcpy(rest[s].base, row[s].base + whole * stream.width,
                        static_cast<std::size_t>(count * stream.width));
          break;
        }
      }
    }
    if (whole > 0) function_(row.data(), 1, whole);
    function_(rest.data(), 1, multiple_);
    for (std::size_t s = 0; s < streams_.size(); ++s)
      if (streams_[s].is_output)
        std::memcpy(row[s].base + whole * streams_[s].width, rest[s].base,
                    static_cast<std::size_t>(count * streams_[s].width));
  }
}

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
bool CanCompile(const LaneGraph& graph) {
  return CanEmit(Target(), graph) && (TakesAnyLength(Target()) || graph.streams.size() <= 64);
}
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
  auto code =
      std::make_shared<const NativeCode>(std::move(memory), graph, TakesAnyLength(target) ? 1 : LanesOf(target, graph));
  Codes<NativeCode>().Put(std::move(key), code);
  return code;
}

bool HasRoutines() { return HasNativeCode() && Target() == X86Target::kAvx512; }
bool HasByteShuffles() { return HasRoutines() && HasAvx512Vbmi(); }
std::shared_ptr<const RoutineCode> Compile(const Routine& routine) {
  for (const LaneGraph& g : routine.blocks)
    if (!CanEmit(X86Target::kAvx512, g)) return nullptr;
  call_count += std::ranges::count(routine.items, RoutineItem::Kind::kCall, &RoutineItem::kind);
  std::string key = routine.Key();
  if (auto known = Codes<RoutineCode>().Find(key)) {
    ++shared_count;
    return known;
  }
  const std::vector<std::byte> bytes = Emit(routine);
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
bool HasRoutines() { return false; }
bool HasByteShuffles() { return false; }
std::shared_ptr<const RoutineCode> Compile(const Routine&) { return nullptr; }
NativeUse UseOfNativeCode() { return NativeUse::kNever; }
void UseNarrowVectors(bool) {}
bool CanCompile(const LaneGraph&) { return false; }
std::shared_ptr<const NativeCode> Compile(const LaneGraph&) { return nullptr; }
#endif

}  // namespace krafla::cpu::native
