// SPDX-License-Identifier: Apache-2.0
#include "cpu_fallback/executor/onednn.h"

#include <mutex>
#include <string_view>

#include "cpu_fallback/executor/host_threads.h"

#ifdef KRAFLA_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

namespace krafla::cpu {

#ifdef KRAFLA_HAVE_ONEDNN

namespace {

using dnnl::memory;

dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
dnnl::stream& Stream() {
  static dnnl::stream stream(Engine());
  return stream;
}

bool FindType(ElementType type, memory::data_type& out) {
  if (type == ElementType::kF32) return out = memory::data_type::f32, true;
  if (type == ElementType::kF16) return out = memory::data_type::f16, true;
  if (type == ElementType::kBF16) return out = memory::data_type::bf16, true;
  if (type == ElementType::kS8) return out = memory::data_type::s8, true;
  if (type == ElementType::kU8) return out = memory::data_type::u8, true;
  if (type == ElementType::kS32) return out = memory::data_type::s32, true;
  return false;
}
memory::dims ToDims(const Dims& dims) { return memory::dims(dims.begin(), dims.end()); }

bool Describe(const TensorView& view, memory::desc& out) {
  memory::data_type type;
  if (!FindType(view.type, type)) return false;
  out = memory::desc(ToDims(view.dims), type, ToDims(view.strides));
  return true;
}

bool IsFast(std::string_view implementation) {
  return implementation.find("ref") == std::string_view::npos && implementation.find("naive") == std::string_view::npos;
}

// Products of fewer operations, some 25 us of one core, stay on the calling thread: to start a team that sleeps takes
// longer than half of that, and on a machine that is busy with something else it takes milliseconds.
constexpr double kTeamFlops = 4e6;

// oneDNN asks OpenMP how many threads it may have when it makes a primitive and when it runs one.
class OneThreadWhile {
 public:
  explicit OneThreadWhile(bool small) : small_(small) {
    if (small_) UseHostThreads(1);
  }
  ~OneThreadWhile() {
    if (small_) UseHostThreads(SharedThreadPool().threads());
  }
  OneThreadWhile(const OneThreadWhile&) = delete;
  OneThreadWhile& operator=(const OneThreadWhile&) = delete;

 private:
  bool small_;
};

double Elements(const TensorView& view) {
  double out = 1;
  for (int64_t d : view.dims) out *= static_cast<double>(d);
  return out;
}

// A primitive of two operands, with reorders of operands to and from the layouts that it wants.
class Primitive final : public OneDnnPrimitive {
 public:
  template <class Descriptor>
  Primitive(const Descriptor& d, const memory::desc& a, const memory::desc& b, const memory::desc& result, bool small)
      : primitive_(d), small_(small) {
    const memory::desc wanted[3] = {d.src_desc(), d.weights_desc(), d.dst_desc()};
    const memory::desc given[3] = {a, b, result};
    for (int i = 0; i < 3; ++i) {
      Side& side = sides_[i];
      side.given = memory(given[i], Engine(), nullptr);
      if (wanted[i] == given[i]) continue;
      side.moved = true;
      side.wanted = memory(wanted[i], Engine(), nullptr);
      side.offset = Take(static_cast<int64_t>(wanted[i].get_size()));
      // Source and destination of the reorder.
      const memory::desc& from = i == 2 ? wanted[i] : given[i];
      const memory::desc& to = i == 2 ? given[i] : wanted[i];
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::reorder::primitive_desc reorder(Engine(), from, Engine(), to, attributes);
      side.reorder = dnnl::reorder(reorder);
      side.scratch = memory(reorder.scratchpad_desc(), Engine(), nullptr);
      side.scratch_offset = Take(static_cast<int64_t>(reorder.scratchpad_desc().get_size()));
    }
    scratchpad_ = memory(d.scratchpad_desc(), Engine(), nullptr);
    scratchpad_offset_ = Take(static_cast<int64_t>(d.scratchpad_desc().get_size()));
  }

  int64_t scratch_bytes() const override { return bytes_; }

  bool Run(const void* a, const void* b, void* result, std::byte* scratch) const override {
    std::lock_guard<std::mutex> lock(in_use_);
    const OneThreadWhile one_thread(small_);
    void* pointers[3] = {const_cast<void*>(a), const_cast<void*>(b), result};
    for (int i = 0; i < 3; ++i) {
      sides_[i].given.set_data_handle(pointers[i]);
      if (sides_[i].moved) {
        sides_[i].wanted.set_data_handle(scratch + sides_[i].offset);
        sides_[i].scratch.set_data_handle(scratch + sides_[i].scratch_offset);
      }
    }
    scratchpad_.set_data_handle(scratch + scratchpad_offset_);
    for (int i = 0; i < 2; ++i)
      if (sides_[i].moved && !Reorder(sides_[i], sides_[i].given, sides_[i].wanted)) return false;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, Operand(0)},
                                         {DNNL_ARG_WEIGHTS, Operand(1)},
                                         {DNNL_ARG_DST, Operand(2)},
                                         {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}};
    if (dnnl_primitive_execute(primitive_.get(), Stream().get(), 4, arguments) != dnnl_success) return false;
    return !sides_[2].moved || Reorder(sides_[2], sides_[2].wanted, sides_[2].given);
  }

 private:
  struct Side {
    memory given, wanted, scratch;
    bool moved = false;
    dnnl::reorder reorder;
    int64_t offset = 0, scratch_offset = 0;
  };

  int64_t Take(int64_t bytes) {
    const int64_t at = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return at;
  }
  dnnl_memory_t Operand(int i) const { return sides_[i].moved ? sides_[i].wanted.get() : sides_[i].given.get(); }
  static bool Reorder(const Side& side, const memory& from, const memory& to) {
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}, {DNNL_ARG_SCRATCHPAD, side.scratch.get()}};
    return dnnl_primitive_execute(side.reorder.get(), Stream().get(), 3, arguments) == dnnl_success;
  }

  dnnl::primitive primitive_;
  bool small_;
  mutable std::mutex in_use_;  // the memory objects carry the pointers of a run
  mutable Side sides_[3];
  mutable memory scratchpad_;
  int64_t scratchpad_offset_ = 0, bytes_ = 0;
};

dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

}  // namespace

std::unique_ptr<OneDnnPrimitive> MakeOneDnnMatmul(const TensorView& a, const TensorView& b, const TensorView& result) {
  try {
    memory::desc da, db, dr;
    if (!Describe(a, da) || !Describe(b, db) || !Describe(result, dr)) return nullptr;
    const bool small = 2 * Elements(result) * static_cast<double>(a.dims.back()) < kTeamFlops;
    const OneThreadWhile one_thread(small);
    const dnnl::matmul::primitive_desc d(Engine(), da, db, dr, Attributes(), /*allow_empty=*/true);
    if (!d || !IsFast(d.impl_info_str())) return nullptr;
    return std::make_unique<Primitive>(d, da, db, dr, small);
  } catch (const dnnl::error&) {
    return nullptr;  // oneDNN does not take this problem
  }
}

std::unique_ptr<OneDnnPrimitive> MakeOneDnnConvolution(const TensorView& input, const TensorView& kernel,
                                                       const TensorView& result, const ConvolutionWindow& window) {
  try {
    TensorView weights = kernel;
    if (window.groups > 1) {
      weights.dims.insert(weights.dims.begin(), window.groups);
      weights.dims[1] /= window.groups;
      weights.strides.insert(weights.strides.begin(), weights.dims[1] * kernel.strides[0]);
    }
    memory::desc di, dw, dr;
    if (!Describe(input, di) || !Describe(weights, dw) || !Describe(result, dr)) return nullptr;
    // A kernel element is multiplied once for each result position of its group.
    const double outputs = kernel.dims[0] > 0 ? static_cast<double>(kernel.dims[0]) : 1;
    const bool small = 2 * Elements(result) * Elements(kernel) / outputs < kTeamFlops;
    const OneThreadWhile one_thread(small);
    Dims dilations = window.dilations;
    for (int64_t& v : dilations) --v;
    auto describe = [&](const memory::desc& i, const memory::desc& w, const memory::desc& r) {
      return dnnl::convolution_forward::primitive_desc(
          Engine(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, i, w, r,
          ToDims(window.strides), ToDims(dilations), ToDims(window.padding_low), ToDims(window.padding_high),
          Attributes(), /*allow_empty=*/true);
    };
    auto any = [](const memory::desc& like, memory::data_type type) {
      return memory::desc(like.get_dims(), type, memory::format_tag::any);
    };
    // The kernel in whatever layout suits; input and result as they are, or moved too where that is all there is.
    auto d = describe(di, any(dw, dw.get_data_type()), dr);
    if (!d || !IsFast(d.impl_info_str())) {
      d = describe(any(di, di.get_data_type()), any(dw, dw.get_data_type()), any(dr, dr.get_data_type()));
    }
    // Where the CPU does not compute in f16: f32 has all of its values, and the result is rounded once, on its way out.
    constexpr auto kF32 = memory::data_type::f32;
    if ((!d || !IsFast(d.impl_info_str())) && di.get_data_type() == memory::data_type::f16 &&
        dw.get_data_type() == memory::data_type::f16)
      d = describe(any(di, kF32), any(dw, kF32), any(dr, kF32));
    if (!d || !IsFast(d.impl_info_str())) return nullptr;
    return std::make_unique<Primitive>(d, di, dw, dr, small);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

#else

std::unique_ptr<OneDnnPrimitive> MakeOneDnnMatmul(const TensorView&, const TensorView&, const TensorView&) {
  return nullptr;
}
std::unique_ptr<OneDnnPrimitive> MakeOneDnnConvolution(const TensorView&, const TensorView&, const TensorView&,
                                                       const ConvolutionWindow&) {
  return nullptr;
}

#endif

}  // namespace krafla::cpu
