// SPDX-License-Identifier: Apache-2.0
// Buffers that are filled in pieces, and runs that are given them before they are full.
#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

using Manager =
    std::unique_ptr<PJRT_AsyncHostToDeviceTransferManager,
                    Destroy<PJRT_AsyncHostToDeviceTransferManager, PJRT_AsyncHostToDeviceTransferManager_Destroy_Args,
                            &PJRT_Api::PJRT_AsyncHostToDeviceTransferManager_Destroy,
                            &PJRT_AsyncHostToDeviceTransferManager_Destroy_Args::transfer_manager>>;

class AsyncTransferTest : public testing::TestWithParam<const char*> {
 protected:
  const Client client_ = NewClient(GetParam());
  PJRT_Device* const device_ = Devices(client_)[0];

  // One buffer f32[4].
  Manager NewManager() {
    auto memory = Make<PJRT_Device_DefaultMemory_Args>();
    memory.device = device_;
    EXPECT_PJRT_OK(Api().PJRT_Device_DefaultMemory(&memory));
    const int64_t dims[] = {4};
    PJRT_ShapeSpec spec = Make<PJRT_ShapeSpec>();
    spec.dims = dims;
    spec.num_dims = 1;
    spec.element_type = kF32;
    auto args = Make<PJRT_Client_CreateBuffersForAsyncHostToDevice_Args>();
    args.client = client_.get();
    args.shape_specs = &spec;
    args.num_shape_specs = 1;
    args.memory = memory.memory;
    EXPECT_PJRT_OK(Api().PJRT_Client_CreateBuffersForAsyncHostToDevice(&args));
    return Manager(args.transfer_manager);
  }
  static Buffer Retrieve(const Manager& manager) {
    auto args = Make<PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args>();
    args.transfer_manager = manager.get();
    EXPECT_PJRT_OK(Api().PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&args));
    return Buffer(args.buffer_out);
  }
  static Error Transfer(const Manager& manager, const std::vector<float>& values, int64_t offset, bool last,
                        int index = 0) {
    auto args = Make<PJRT_AsyncHostToDeviceTransferManager_TransferData_Args>();
    args.transfer_manager = manager.get();
    args.buffer_index = index;
    args.data = values.data();
    args.offset = offset;
    args.transfer_size = static_cast<int64_t>(values.size() * sizeof(float));
    args.is_last_transfer = last;
    Error error = Take(Api().PJRT_AsyncHostToDeviceTransferManager_TransferData(&args));
    Event event(error.code == 0 ? args.done_with_h2d_transfer : nullptr);
    return error;
  }
};

TEST_P(AsyncTransferTest, PiecesMakeABuffer) {
  const Manager manager = NewManager();
  const Buffer buffer = Retrieve(manager);
  EXPECT_EQ(Transfer(manager, {3, 4}, 8, false).code, 0u);
  EXPECT_EQ(Transfer(manager, {1, 2}, 12, false).code, 3u) << "past the end";
  EXPECT_EQ(Transfer(manager, {1, 2}, -4, false).code, 3u);
  EXPECT_EQ(Transfer(manager, {1, 2}, 0, true, 1).code, 3u) << "no such buffer";
  EXPECT_EQ(Transfer(manager, {1, 2}, 0, true).code, 0u);
  EXPECT_EQ(Transfer(manager, {1, 2}, 0, true).code, 9u) << "full";
  EXPECT_EQ(ToHost<float>(buffer), (std::vector<float>{1, 2, 3, 4}));
}

// A run that waits for such a buffer keeps nothing else from running, and neither do runs that wait for that run.
TEST_P(AsyncTransferTest, RunsWaitWithoutStoppingOthers) {
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
  const Manager manager = NewManager();
  const Buffer late = Retrieve(manager);
  const Outcome waiting = Execute(loaded, {{late.get(), one.get()}});
  ASSERT_EQ(waiting.error.code, 0u) << waiting.error.message;
  const Outcome after = Execute(loaded, {{waiting.results[0][0].get(), one.get()}});
  const Outcome other = Execute(loaded, {{one.get(), one.get()}});
  EXPECT_EQ(ToHost<float>(other.results[0][0]), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_EQ(Transfer(manager, {1, 2, 3, 4}, 0, true).code, 0u);
  EXPECT_EQ(ToHost<float>(after.results[0][0]), (std::vector<float>{3, 4, 5, 6}));
  EXPECT_EQ(ToHost<float>(waiting.results[0][0]), (std::vector<float>{2, 3, 4, 5}));
}

TEST_P(AsyncTransferTest, WhatIsGivenUpFails) {
  const Loaded loaded = Compile(client_, kAdd);
  const Buffer one = Floats(client_, device_, {1, 1, 1, 1});
  Manager manager = NewManager(), failing = NewManager();
  const Buffer late = Retrieve(manager), failed = Retrieve(failing);
  const Outcome waiting = Execute(loaded, {{late.get(), one.get()}});
  manager.reset();
  EXPECT_EQ(Ready(late).code, 1u);
  EXPECT_EQ(Ready(waiting.results[0][0]).code, 1u);

  auto args = Make<PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args>();
  args.transfer_manager = failing.get();
  args.error_code = 14;
  args.error_message = "away";
  args.error_message_size = 4;
  EXPECT_PJRT_OK(Api().PJRT_AsyncHostToDeviceTransferManager_SetBufferError(&args));
  EXPECT_EQ(Ready(failed).message, "away");
}

INSTANTIATE_TEST_SUITE_P(Devices, AsyncTransferTest, testing::Values("cpu", ""), [](const auto& device) {
  return std::string(device.param).empty() ? std::string("best") : std::string(device.param);
});

}  // namespace
}  // namespace krafla::pjrt_test
