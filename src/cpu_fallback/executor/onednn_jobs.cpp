// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/onednn_jobs.h"

#ifdef KRAFLA_HAVE_ONEDNN

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>
#include <vector>

#include "base/checked_math.h"
#include "base/interruption.h"

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
// Of the OpenMP library that oneDNN is linked with.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int);
#elif DNNL_CPU_RUNTIME != DNNL_RUNTIME_SEQ
#error "oneDNN is used where it is built with OpenMP or without threads."
#endif

namespace krafla::cpu::onednn {

using dnnl::memory;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

std::optional<memory::data_type> DataTypeOf(ElementType type) {
  if (type == ElementType::kF32) return memory::data_type::f32;
  if (type == ElementType::kF16) return memory::data_type::f16;
  if (type == ElementType::kBF16) return memory::data_type::bf16;
  if (type == ElementType::kS8) return memory::data_type::s8;
  if (type == ElementType::kU8) return memory::data_type::u8;
  if (type == ElementType::kS32) return memory::data_type::s32;
  return std::nullopt;
}

int IrregularDim(const TensorView& view) {
  std::vector<std::size_t> order;
  for (std::size_t d = 0; d < view.dims.size(); ++d) {
    if (view.dims[d] == 1) continue;
    if (view.strides[d] < 0) return static_cast<int>(d);
    order.push_back(d);
  }
  std::ranges::sort(order, {}, [&](std::size_t d) { return view.strides[d]; });
  for (std::size_t i = 0; i + 1 < order.size(); ++i)
    if (view.strides[order[i]] * view.dims[order[i]] > view.strides[order[i + 1]]) return static_cast<int>(order[i]);
  return -1;
}

memory::dims DenseStrides(const TensorView& view) {
  memory::dims strides(view.strides.begin(), view.strides.end());
  for (std::size_t d = view.dims.size(); d-- > 0;) {
    if (view.dims[d] != 1) continue;
    if (d + 1 < view.dims.size()) {
      strides[d] = view.dims[d + 1] * strides[d + 1];
      continue;
    }
    const auto before = std::find_if(view.dims.rbegin(), view.dims.rend(), [](int64_t size) { return size != 1; });
    strides[d] = before == view.dims.rend() ? 1 : view.strides[static_cast<std::size_t>(view.dims.rend() - before) - 1];
  }
  return strides;
}

std::optional<memory::desc> Describe(const TensorView& view) {
  const std::optional<memory::data_type> type = DataTypeOf(view.type);
  if (!type || IrregularDim(view) >= 0) return std::nullopt;
  return memory::desc(memory::dims(view.dims.begin(), view.dims.end()), *type, DenseStrides(view));
}

bool MultipliesS8Exactly() {
  using enum dnnl::cpu_isa;
  constexpr std::array kWithout = {isa_default, sse41, avx, avx2, avx512_core};
  return std::ranges::find(kWithout, dnnl::get_effective_cpu_isa()) == kWithout.end();
}

bool IsFast(const dnnl::primitive_desc_base& primitive) {
  const std::string_view implementation = primitive.impl_info_str();
  return implementation.find("ref") == std::string_view::npos && implementation.find("naive") == std::string_view::npos;
}

dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

dnnl::primitive_attr AddingToResult() {
  dnnl::post_ops sum;
  sum.append_sum();
  dnnl::primitive_attr attributes = UserScratchpad();
  attributes.set_post_ops(sum);
  return attributes;
}

double ElementsOf(const TensorView& view) {
  double out = 1;
  for (int64_t d : view.dims) out *= static_cast<double>(d);
  return out;
}

#if DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
// Settings of the calling thread alone (OpenMP 5.2, 2.4).
OneThread::OneThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneThread::~OneThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}
#else
OneThread::OneThread() : before_(1) {}
OneThread::~OneThread() = default;
#endif

void Jobs::Step::AddMemory(int argument, const memory::desc& desc, Place place) {
  arguments[count] = argument;
  descs[count] = desc;
  places[count++] = place;
}

Place Jobs::Take(int64_t bytes) {
  const int64_t at = taken_;
  taken_ += RoundUp(bytes, 64);
  return {Place::Array::kScratch, at};
}

Place Jobs::TakeFor(const Place& source, int64_t bytes) {
  if (!keeps_b_ || source.array != Place::Array::kB) return Take(bytes);
  const int64_t at = kept_;
  kept_ += RoundUp(bytes, 64);
  return {Place::Array::kKept, at};
}

void Jobs::Add(Phase phase, Step step, double nanoseconds, int64_t scratchpad_bytes, bool after_last) {
  PhaseJobs& to = phases_[static_cast<std::size_t>(phase)];
  if (!after_last) to.jobs.emplace_back();
  step.number = step_count_++;
  const Place* const places = step.places;
  reads_b_ |= phase != Phase::kKeep && std::any_of(places, places + step.count,
                                                   [](const Place& place) { return place.array == Place::Array::kB; });
  to.jobs.back().push_back(std::move(step));
  to.nanoseconds += nanoseconds;
  scratchpad_bytes_ = std::max(scratchpad_bytes_, scratchpad_bytes);
}

namespace {

// oneDNN 3.7.2 copies between equal layouts as if there were no gaps in them ("jit_direct_copy", found on processors
// without AVX-512, where kernels of convolutions stay as they are). One dimension more, of one element and another
// stride in each, makes them different.
void TellApart(memory::desc& from, Place& from_place, memory::desc& to, Place& to_place) {
  const auto elements = [](const memory::desc& d) {
    int64_t out = 1;
    for (const memory::dim extent : d.get_dims()) out *= extent;
    return out;
  };
  const auto bytes = [](const memory::desc& d) {
    return static_cast<int64_t>(memory::data_type_size(d.get_data_type()));
  };
  const bool has_gaps = static_cast<int64_t>(from.get_size()) != elements(from) * bytes(from);
  if (!has_gaps || from.get_inner_nblks() != 0 || to.get_inner_nblks() != 0 ||
      from.get_data_type() != to.get_data_type() || from.get_strides() != to.get_strides() ||
      from.get_ndims() == DNNL_MAX_NDIMS)
    return;
  const auto with_one_more = [&](memory::desc& d, Place& place, memory::dim stride) {
    place.offset += d.get_submemory_offset() * bytes(d);
    memory::dims dims = d.get_dims(), strides = d.get_strides();
    dims.insert(dims.begin(), 1);
    strides.insert(strides.begin(), stride);
    d = memory::desc(dims, d.get_data_type(), strides);
  };
  const auto size = static_cast<memory::dim>(from.get_size());
  with_one_more(from, from_place, size);
  with_one_more(to, to_place, 2 * size);
}

}  // namespace

void Jobs::AddMove(Phase phase, memory::desc from, Place from_place, memory::desc to, Place to_place) {
  TellApart(from, from_place, to, to_place);
  const dnnl::reorder::primitive_desc d(Engine(), from, Engine(), to, UserScratchpad());
  Step step;
  step.primitive = dnnl::reorder(d);
  step.scratchpad = d.scratchpad_desc();
  step.AddMemory(DNNL_ARG_FROM, from, from_place);
  step.AddMemory(DNNL_ARG_TO, to, to_place);
  if (to_place.array == Place::Array::kKept) phase = Phase::kKeep;
  Add(phase, std::move(step), static_cast<double>(from.get_size() + to.get_size()) / kBytesPerNanosecond,
      static_cast<int64_t>(d.scratchpad_desc().get_size()));
}

namespace {

// The elements that lie in one block along `dim`.
int64_t BlockAlong(const memory::desc& desc, int dim) {
  int64_t out = 1;
  const memory::dims sizes = desc.get_inner_blks(), dims = desc.get_inner_idxs();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (dims[i] == dim) out *= sizes[i];
  return out;
}

}  // namespace

void Jobs::AddMoves(Phase phase, const memory::desc& from, Place from_place, const memory::desc& to, Place to_place,
                    int dim, int threads) {
  constexpr std::size_t kOneMoveBytes = 256 * 1024;
  const memory::dims dims = from.get_dims();
  const int64_t extent = dims[static_cast<std::size_t>(dim)];
  const int64_t unit = BlockAlong(from, dim) * BlockAlong(to, dim);
  int64_t parts = std::min<int64_t>(2 * threads, static_cast<int64_t>(from.get_size() / kOneMoveBytes) + 1);
  parts = std::min(parts, extent / unit);
  if (threads == 1 || parts < 2) return AddMove(phase, from, from_place, to, to_place);
  const int64_t step = RoundUp(CeilDiv(extent, parts), unit);
  std::vector<std::pair<memory::desc, memory::desc>> pieces;
  for (int64_t begin = 0; begin < extent; begin += step) {
    memory::dims part = dims, offsets(dims.size(), 0);
    part[static_cast<std::size_t>(dim)] = std::min(step, extent - begin);
    offsets[static_cast<std::size_t>(dim)] = begin;
    memory::desc a = from.submemory_desc(part, offsets, /*allow_empty=*/true);
    memory::desc b = to.submemory_desc(part, offsets, /*allow_empty=*/true);
    // A layout that cannot be cut there.
    if (!a || !b) return AddMove(phase, from, from_place, to, to_place);
    pieces.emplace_back(std::move(a), std::move(b));
  }
  for (const auto& [a, b] : pieces) AddMove(phase, a, from_place, b, to_place);
}

void Jobs::Clear() {
  for (PhaseJobs& p : phases_) p = {};
  taken_ = scratchpad_bytes_ = kept_ = 0;
  reads_b_ = false;
  step_count_ = 0;
}

void Jobs::Finish(int threads) {
  scratchpad_bytes_ = RoundUp(scratchpad_bytes_, 64);
  std::size_t most = 1;
  for (const PhaseJobs& p : phases_) most = std::max(most, p.jobs.size());
  scratch_bytes_ = taken_ + scratchpad_bytes_ * std::min<int64_t>(threads, most > 1 ? threads : 1);
  spare_.clear();
  spare_.push_back(MakeMemories());
}

std::unique_ptr<Jobs::Memories> Jobs::MakeMemories() const {
  auto out = std::make_unique<Memories>(step_count_ * (kMostMemories + 1));
  for (const PhaseJobs& phase : phases_)
    for (const Job& job : phase.jobs)
      for (const Step& step : job) {
        memory* const of_step = out->data() + step.number * (kMostMemories + 1);
        for (int i = 0; i < step.count; ++i) of_step[i] = memory(step.descs[i], Engine(), nullptr);
        of_step[step.count] = memory(step.scratchpad, Engine(), nullptr);
      }
  return out;
}

// Memories for one run. Throws dnnl::error.
class Jobs::Borrowed {
 public:
  explicit Borrowed(const Jobs& jobs) : jobs_(jobs) {
    {
      std::lock_guard<std::mutex> lock(jobs.mutex_);
      if (!jobs.spare_.empty()) {
        memories_ = std::move(jobs.spare_.back());
        jobs.spare_.pop_back();
      }
    }
    if (memories_ == nullptr) memories_ = jobs.MakeMemories();
  }
  ~Borrowed() {
    std::lock_guard<std::mutex> lock(jobs_.mutex_);
    jobs_.spare_.push_back(std::move(memories_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  Memories& operator*() const { return *memories_; }

 private:
  const Jobs& jobs_;
  std::unique_ptr<Memories> memories_;
};

bool Jobs::RunStep(const Step& step, std::byte* const* arrays, std::byte* scratchpad, Memories& memories) const {
  static dnnl::stream stream(Engine());
  memory* const of_step = memories.data() + step.number * (kMostMemories + 1);
  dnnl_exec_arg_t arguments[kMostMemories + 1];
  for (int i = 0; i < step.count; ++i) {
    const Place& place = step.places[i];
    of_step[i].set_data_handle(arrays[static_cast<std::size_t>(place.array)] + place.offset);
    arguments[i] = {step.arguments[i], of_step[i].get()};
  }
  of_step[step.count].set_data_handle(scratchpad);
  arguments[step.count] = {DNNL_ARG_SCRATCHPAD, of_step[step.count].get()};
  return dnnl_primitive_execute(step.primitive.get(), stream.get(), step.count + 1, arguments) == dnnl_success;
}

bool Jobs::RunPhase(const PhaseJobs& phase, std::byte* const* arrays, ThreadPool& pool, Memories& memories) const {
  std::atomic<bool> good{true};
  std::byte* const scratchpads = arrays[static_cast<std::size_t>(Place::Array::kScratch)] + taken_;
  pool.ParallelParts(static_cast<int64_t>(phase.jobs.size()), phase.nanoseconds,
                     [&](int64_t begin, int64_t end, int worker) {
                       const OneThread one_thread;
                       for (int64_t i = begin; i < end && !IsInterrupted(); ++i)
                         for (const Step& step : phase.jobs[static_cast<std::size_t>(i)])
                           if (!RunStep(step, arrays, scratchpads + worker * scratchpad_bytes_, memories))
                             good.store(false, std::memory_order_relaxed);
                     });
  return good.load();
}

bool Jobs::Keep(const void* b, ThreadPool& pool, std::byte* scratch, std::byte* kept) const try {
  const Borrowed memories(*this);
  std::byte* const arrays[] = {nullptr, static_cast<std::byte*>(const_cast<void*>(b)), nullptr, scratch, kept};
  return RunPhase(phases_[static_cast<std::size_t>(Phase::kKeep)], arrays, pool, *memories);
} catch (const dnnl::error&) { return false; }

bool Jobs::Run(const void* a, const void* b, void* result, ThreadPool& pool, std::byte* scratch,
               const std::byte* kept) const try {
  const Borrowed memories(*this);
  std::byte* const arrays[] = {static_cast<std::byte*>(const_cast<void*>(a)),
                               static_cast<std::byte*>(const_cast<void*>(b)), static_cast<std::byte*>(result), scratch,
                               const_cast<std::byte*>(kept)};
  bool good = true;
  for (const Phase phase : {Phase::kBefore, Phase::kCompute, Phase::kAfter})
    good = RunPhase(phases_[static_cast<std::size_t>(phase)], arrays, pool, *memories) && good;
  return good;
} catch (const dnnl::error&) { return false; }

}  // namespace krafla::cpu::onednn

#endif
