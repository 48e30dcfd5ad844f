// SPDX-License-Identifier: Apache-2.0
// Arrays in and out: strides, layouts, small types, sizes, memories, deletion.
#include <numeric>

#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

class BufferTest : public testing::Test {
 protected:
  const Client client_ = NewClient("cpu");
  PJRT_Device* const device_ = Devices(client_)[0];
};

TEST_F(BufferTest, KeepsShapeAndType) {
  const int64_t dims[] = {2, 3};
  const std::vector<int32_t> values = {1, 2, 3, 4, 5, 6};
  const Buffer b = FromHost(client_, device_, kS32, dims, values.data());
  auto type = Make<PJRT_Buffer_ElementType_Args>();
  type.buffer = b.get();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_ElementType(&type));
  EXPECT_EQ(type.type, kS32);
  auto shape = Make<PJRT_Buffer_Dimensions_Args>();
  shape.buffer = b.get();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_Dimensions(&shape));
  EXPECT_EQ(std::vector<int64_t>(shape.dims, shape.dims + shape.num_dims), (std::vector<int64_t>{2, 3}));
  auto layout = Make<PJRT_Buffer_GetMemoryLayout_Args>();
  layout.buffer = b.get();
  EXPECT_PJRT_OK(Api().PJRT_Buffer_GetMemoryLayout(&layout));
  ASSERT_EQ(layout.layout.type, kPjrtTiledLayout);
  ASSERT_EQ(layout.layout.tiled.minor_to_major_size, 2u);
  EXPECT_EQ(layout.layout.tiled.minor_to_major[0], 1);
  EXPECT_EQ(layout.layout.tiled.minor_to_major[1], 0);
  EXPECT_EQ(ToHost<int32_t>(b), values);
}

TEST_F(BufferTest, ReadsAnyStrides) {
  std::vector<int32_t> values(24);
  std::iota(values.begin(), values.end(), 0);
  {  // transposed
    const int64_t dims[] = {4, 6}, strides[] = {4, 16};
    const std::vector<int32_t> got = ToHost<int32_t>(FromHost(client_, device_, kS32, dims, values.data(), strides));
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 6; ++j) EXPECT_EQ(got[static_cast<std::size_t>(6 * i + j)], i + 4 * j);
  }
  {  // backwards, and every other
    const int64_t dims[] = {3, 4}, strides[] = {-32, 8};
    const std::vector<int32_t> got =
        ToHost<int32_t>(FromHost(client_, device_, kS32, dims, values.data() + 16, strides));
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j) EXPECT_EQ(got[static_cast<std::size_t>(4 * i + j)], 16 - 8 * i + 2 * j);
  }
  {  // broadcast
    const int64_t dims[] = {2, 3}, strides[] = {0, 4};
    EXPECT_EQ(ToHost<int32_t>(FromHost(client_, device_, kS32, dims, values.data(), strides)),
              (std::vector<int32_t>{0, 1, 2, 0, 1, 2}));
  }
}

TEST_F(BufferTest, WritesTheLayoutThatIsAskedFor) {
  const int64_t dims[] = {2, 3};
  const std::vector<int32_t> values = {1, 2, 3, 4, 5, 6};
  const Buffer b = FromHost(client_, device_, kS32, dims, values.data());
  auto layout = Make<PJRT_Buffer_MemoryLayout>();
  const int64_t order[] = {0, 1};
  layout.type = kPjrtTiledLayout;
  layout.tiled.minor_to_major = order;
  layout.tiled.minor_to_major_size = 2;
  std::vector<int32_t> out(6);
  auto args = Make<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = b.get();
  args.host_layout = &layout;
  args.dst = out.data();
  args.dst_size = 24;
  EXPECT_PJRT_OK(Api().PJRT_Buffer_ToHostBuffer(&args));
  EXPECT_EQ(Await(Event(args.event)).code, 0u);
  EXPECT_EQ(out, (std::vector<int32_t>{1, 4, 2, 5, 3, 6}));

  args.dst_size = 23;
  EXPECT_EQ(Take(Api().PJRT_Buffer_ToHostBuffer(&args)).code, 3u);
  args.dst_size = 24;
  const int64_t no_order[] = {0, 0};
  layout.tiled.minor_to_major = no_order;
  EXPECT_EQ(Take(Api().PJRT_Buffer_ToHostBuffer(&args)).code, 3u);
}

// A byte an element; what callers leave in the upper bits does not count.
TEST_F(BufferTest, SmallTypesAreCleaned) {
  const int64_t dims[] = {3};
  const uint8_t bytes[] = {0x0f, 0xf7, 0x18};
  EXPECT_EQ(ToHost<int8_t>(FromHost(client_, device_, kS4, dims, bytes)), (std::vector<int8_t>{-1, 7, -8}));
  EXPECT_EQ(ToHost<int8_t>(FromHost(client_, device_, kU4, dims, bytes)), (std::vector<int8_t>{15, 7, 8}));
  EXPECT_EQ(ToHost<int8_t>(FromHost(client_, device_, kPredType, dims, bytes)), (std::vector<int8_t>{1, 1, 1}));
}

TEST_F(BufferTest, ScalarsAndEmptyArrays) {
  const float one = 1.5f;
  EXPECT_EQ(ToHost<float>(FromHost(client_, device_, kF32, {}, &one)), std::vector<float>{1.5f});
  const int64_t dims[] = {0, 5};
  EXPECT_TRUE(ToHost<float>(FromHost<float>(client_, device_, kF32, dims, nullptr)).empty());
}

TEST_F(BufferTest, WhatCannotBeIsAnError) {
  auto args = Make<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client_.get();
  args.device = device_;
  const float data[4] = {};
  const int64_t negative[] = {-4}, huge[] = {int64_t{1} << 40, int64_t{1} << 40}, four[] = {4};
  args.data = data;
  args.type = kF32;
  args.dims = negative;
  args.num_dims = 1;
  EXPECT_NE(Take(Api().PJRT_Client_BufferFromHostBuffer(&args)).code, 0u);
  args.dims = huge;
  args.num_dims = 2;
  EXPECT_NE(Take(Api().PJRT_Client_BufferFromHostBuffer(&args)).code, 0u);
  args.dims = four;
  args.num_dims = 1;
  args.type = 99;
  EXPECT_EQ(Take(Api().PJRT_Client_BufferFromHostBuffer(&args)).code, 12u);
  args.type = kF32;
  args.data = nullptr;
  EXPECT_EQ(Take(Api().PJRT_Client_BufferFromHostBuffer(&args)).code, 3u);
  args.data = data;
  args.device = nullptr;
  EXPECT_EQ(Take(Api().PJRT_Client_BufferFromHostBuffer(&args)).code, 3u);
}

TEST_F(BufferTest, DeletedOnesSaySo) {
  const Buffer b = Floats(client_, device_, {1, 2});
  auto args = Make<PJRT_Buffer_Delete_Args>();
  args.buffer = b.get();
  EXPECT_FALSE(IsDeleted(b));
  EXPECT_PJRT_OK(Api().PJRT_Buffer_Delete(&args));
  EXPECT_PJRT_OK(Api().PJRT_Buffer_Delete(&args));
  EXPECT_TRUE(IsDeleted(b));
  EXPECT_EQ(Ready(b).code, 3u);
}

TEST_F(BufferTest, StatisticsFollowWhatLives) {
  auto stats = Make<PJRT_Device_MemoryStats_Args>();
  stats.device = device_;
  {
    const Buffer a = Floats(client_, device_, std::vector<float>(1000)), b = Floats(client_, device_, {1});
    EXPECT_PJRT_OK(Api().PJRT_Device_MemoryStats(&stats));
    EXPECT_EQ(stats.bytes_in_use, 4004);
    EXPECT_TRUE(stats.largest_alloc_size_is_set);
    EXPECT_EQ(stats.largest_alloc_size, 4000);
  }
  EXPECT_PJRT_OK(Api().PJRT_Device_MemoryStats(&stats));
  EXPECT_EQ(stats.bytes_in_use, 0);
  EXPECT_EQ(stats.peak_bytes_in_use, 4004);
  auto clear = Make<PJRT_Device_ClearMemoryStats_Args>();
  clear.device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Device_ClearMemoryStats(&clear));
  EXPECT_PJRT_OK(Api().PJRT_Device_MemoryStats(&stats));
  EXPECT_EQ(stats.peak_bytes_in_use, 0);
}

TEST_F(BufferTest, CopiesGoToAnyMemory) {
  const Buffer from = Floats(client_, device_, {1, 2, 3});
  auto memories = Make<PJRT_Device_AddressableMemories_Args>();
  memories.device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Device_AddressableMemories(&memories));
  for (std::size_t i = 0; i < memories.num_memories; ++i) {
    auto args = Make<PJRT_Buffer_CopyToMemory_Args>();
    args.buffer = from.get();
    args.dst_memory = memories.memories[i];
    EXPECT_PJRT_OK(Api().PJRT_Buffer_CopyToMemory(&args));
    const Buffer to(args.dst_buffer);
    EXPECT_EQ(ToHost<float>(to), (std::vector<float>{1, 2, 3}));
    auto where = Make<PJRT_Buffer_Memory_Args>();
    where.buffer = to.get();
    EXPECT_PJRT_OK(Api().PJRT_Buffer_Memory(&where));
    EXPECT_EQ(where.memory, memories.memories[i]);
  }
}

TEST_F(BufferTest, ErrorBuffersFailWhatReadsThem) {
  auto args = Make<PJRT_Client_CreateErrorBuffer_Args>();
  args.client = client_.get();
  args.error_code = 10;
  args.error_message = "gone";
  args.error_message_size = 4;
  const int64_t dims[] = {4};
  args.shape_dims = dims;
  args.shape_num_dims = 1;
  args.shape_element_type = kF32;
  auto memory = Make<PJRT_Device_DefaultMemory_Args>();
  memory.device = device_;
  EXPECT_PJRT_OK(Api().PJRT_Device_DefaultMemory(&memory));
  args.memory = memory.memory;
  EXPECT_PJRT_OK(Api().PJRT_Client_CreateErrorBuffer(&args));
  const Buffer failed(args.buffer), good = Floats(client_, device_, {1, 2, 3, 4});
  EXPECT_EQ(Ready(failed).message, "gone");
  const Loaded loaded = Compile(client_, kAdd);
  const Outcome out = Execute(loaded, {{good.get(), failed.get()}});
  ASSERT_EQ(out.error.code, 0u) << out.error.message;
  EXPECT_EQ(Ready(out.results[0][0]).code, 10u);
  EXPECT_EQ(Await(out.done[0]).code, 10u);
}

}  // namespace
}  // namespace krafla::pjrt_test
