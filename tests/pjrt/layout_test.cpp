// SPDX-License-Identifier: Apache-2.0
// Layouts other than row-major: of buffers, of what programs take and give, and how the extension tells them.
#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

const PJRT_Layouts_Extension* Layouts() {
  for (const PJRT_Extension_Base* e = Api().extension_start; e != nullptr; e = e->next)
    if (e->type == kPjrtLayoutsExtension) return reinterpret_cast<const PJRT_Layouts_Extension*>(e);
  return nullptr;
}

std::string Text(PJRT_Layouts_MemoryLayout* layout) {
  auto args = Make<PJRT_Layouts_MemoryLayout_Serialize_Args>();
  args.layout = layout;
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_MemoryLayout_Serialize(&args));
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_layout_deleter(args.serialized_layout);
  return out;
}
std::string TakeText(PJRT_Layouts_MemoryLayout* layout) {
  std::string out = Text(layout);
  auto args = Make<PJRT_Layouts_MemoryLayout_Destroy_Args>();
  args.layout = layout;
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_MemoryLayout_Destroy(&args));
  return out;
}
std::string LayoutOf(const Buffer& buffer) {
  auto args = Make<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args>();
  args.buffer = buffer.get();
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_PJRT_Buffer_MemoryLayout(&args));
  return TakeText(args.layout);
}

// The bytes as they lie.
std::vector<int32_t> Raw(const Buffer& buffer, std::size_t count) {
  std::vector<int32_t> out(count);
  auto args = Make<PJRT_Buffer_CopyRawToHost_Args>();
  args.buffer = buffer.get();
  args.dst = out.data();
  args.transfer_size = static_cast<int64_t>(count * 4);
  EXPECT_PJRT_OK(Api().PJRT_Buffer_CopyRawToHost(&args));
  EXPECT_EQ(Await(Event(args.event)).code, 0u);
  return out;
}

// The 2x3 array {1, 2, 3, 4, 5, 6} on the device, column-major.
Buffer Columns(const Client& client, PJRT_Device* device) {
  static const int32_t values[] = {1, 2, 3, 4, 5, 6};
  static const int64_t dims[] = {2, 3}, order[] = {0, 1};
  auto layout = Make<PJRT_Buffer_MemoryLayout>();
  layout.type = kPjrtTiledLayout;
  layout.tiled.minor_to_major = order;
  layout.tiled.minor_to_major_size = 2;
  auto args = Make<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = values;
  args.type = kS32;
  args.dims = dims;
  args.num_dims = 2;
  args.device = device;
  args.device_layout = &layout;
  EXPECT_PJRT_OK(Api().PJRT_Client_BufferFromHostBuffer(&args));
  EXPECT_EQ(Await(Event(args.done_with_host_buffer)).code, 0u);
  return Buffer(args.buffer);
}
Buffer Rows(const Client& client, PJRT_Device* device) {
  static const int32_t values[] = {1, 2, 3, 4, 5, 6};
  static const int64_t dims[] = {2, 3};
  return FromHost(client, device, kS32, dims, values);
}

class LayoutTest : public testing::TestWithParam<const char*> {
 protected:
  const Client client_ = NewClient(GetParam());
  PJRT_Device* const device_ = Devices(client_)[0];
};

TEST_P(LayoutTest, DefaultIsRowMajor) {
  ASSERT_NE(Layouts(), nullptr);
  const int64_t dims[] = {2, 3, 4};
  auto args = Make<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>();
  args.client = client_.get();
  args.type = kS32;
  args.dims = dims;
  args.num_dims = 3;
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_PJRT_Client_GetDefaultLayout(&args));
  EXPECT_EQ(TakeText(args.layout), "{2,1,0}");
  args.num_dims = 0;
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_PJRT_Client_GetDefaultLayout(&args));
  EXPECT_EQ(TakeText(args.layout), "{}");
  args.num_dims = 1000;
  EXPECT_EQ(Take(Layouts()->PJRT_Layouts_PJRT_Client_GetDefaultLayout(&args)).code, 3u);
  EXPECT_EQ(LayoutOf(Rows(client_, device_)), "{1,0}");
}

TEST_P(LayoutTest, BuffersLieAsTheyWereAskedTo) {
  const Buffer b = Columns(client_, device_);
  EXPECT_EQ(LayoutOf(b), "{0,1}");
  EXPECT_EQ(ToHost<int32_t>(b), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Raw(b, 6), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
  auto copy = Make<PJRT_Buffer_CopyToDevice_Args>();
  copy.buffer = b.get();
  copy.dst_device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Buffer_CopyToDevice(&copy));
  const Buffer other(copy.dst_buffer);
  EXPECT_EQ(LayoutOf(other), "{0,1}");
  EXPECT_EQ(ToHost<int32_t>(other), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

// x -> x + x, x.T; the argument column-major, the second result left to the compiler.
constexpr std::string_view kProgram = R"(module @m {
  func.func public @main(%x: tensor<2x3xi32> {mhlo.layout_mode = "{0,1}"})
      -> (tensor<2x3xi32> {mhlo.layout_mode = "{0,1}"}, tensor<3x2xi32> {mhlo.layout_mode = "auto"}, tensor<2x3xi32>) {
    %0 = stablehlo.add %x, %x : tensor<2x3xi32>
    %1 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
    return %0, %1, %x : tensor<2x3xi32>, tensor<3x2xi32>, tensor<2x3xi32>
  }
})";

TEST_P(LayoutTest, ProgramsTakeAndGiveThem) {
  const Loaded loaded = Compile(client_, kProgram, "mlir");
  auto get = Make<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetExecutable(&get));
  const Executable executable(get.executable);
  auto in = Make<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args>();
  in.executable = executable.get();
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_PJRT_Executable_GetParameterLayouts(&in));
  ASSERT_EQ(in.num_parameters, 1u);
  EXPECT_EQ(Text(in.layouts[0]), "{0,1}");
  auto out = Make<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>();
  out.executable = executable.get();
  EXPECT_PJRT_OK(Layouts()->PJRT_Layouts_PJRT_Executable_GetOutputLayouts(&out));
  ASSERT_EQ(out.num_outputs, 3u);
  EXPECT_EQ(Text(out.layouts[0]), "{0,1}");
  EXPECT_EQ(Text(out.layouts[1]), "{1,0}");
  EXPECT_EQ(Text(out.layouts[2]), "{1,0}");

  // The second argument lies otherwise than the program takes it.
  for (const Buffer& x : {Columns(client_, device_), Rows(client_, device_)}) {
    const Outcome run = Execute(loaded, {{x.get()}});
    ASSERT_EQ(run.error.code, 0u) << run.error.message;
    const std::vector<Buffer>& results = run.results[0];
    EXPECT_EQ(LayoutOf(results[0]), "{0,1}");
    EXPECT_EQ(ToHost<int32_t>(results[0]), (std::vector<int32_t>{2, 4, 6, 8, 10, 12}));
    EXPECT_EQ(Raw(results[0], 6), (std::vector<int32_t>{2, 8, 4, 10, 6, 12}));
    EXPECT_EQ(ToHost<int32_t>(results[1]), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(Raw(results[1], 6), (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(Raw(results[2], 6), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  }
}

TEST_P(LayoutTest, HloSaysThemInItsHeader) {
  const Loaded loaded = Compile(client_, R"(HloModule m, entry_computation_layout={(s32[2,3]{0,1})->s32[2,3]{0,1}}
ENTRY e { x = s32[2,3]{0,1} parameter(0)
  ROOT r = s32[2,3]{0,1} negate(x) })");
  const Outcome run = Execute(loaded, {{Columns(client_, device_).get()}});
  ASSERT_EQ(run.error.code, 0u) << run.error.message;
  EXPECT_EQ(Raw(run.results[0][0], 6), (std::vector<int32_t>{-1, -4, -2, -5, -3, -6}));
  EXPECT_EQ(ToHost<int32_t>(run.results[0][0]), (std::vector<int32_t>{-1, -2, -3, -4, -5, -6}));
}

INSTANTIATE_TEST_SUITE_P(Devices, LayoutTest, testing::Values("cpu", ""),
                         [](const auto& device) { return *device.param == '\0' ? "best" : "cpu"; });

}  // namespace
}  // namespace krafla::pjrt_test
