// SPDX-License-Identifier: Apache-2.0
// Several devices: virtual ones, programs over all of them, copies between them.
#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

constexpr std::string_view kSum = R"(HloModule sum, replica_count=1, num_partitions=4
add { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT s = f32[] add(x, y) }
ENTRY main {
  a = f32[2] parameter(0)
  id = u32[] partition-id()
  f = f32[] convert(id)
  b = f32[2] broadcast(f), dimensions={}
  c = f32[2] add(a, b)
  ROOT sum = f32[2] all-reduce(c), channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add
})";

TEST(Devices, OptionsNameThem) {
  for (const auto& [selector, count] : {std::pair{"cpu", 1}, {"cpu*4", 4}, {"cpu,cpu*2", 3}}) {
    const Client client = NewClient(selector);
    EXPECT_EQ(Devices(client).size(), static_cast<std::size_t>(count)) << selector;
  }
  auto args = Make<PJRT_Client_Create_Args>();
  PJRT_NamedValue option = {};
  option.struct_size = sizeof(option);
  option.name = "device";
  option.name_size = 6;
  option.type = kPjrtString;
  option.string_value = "toaster";
  option.value_size = 7;
  args.create_options = &option;
  args.num_options = 1;
  EXPECT_NE(Take(Api().PJRT_Client_Create(&args)).code, 0u);
}

// What jax.distributed.initialize passes on, and what jaxlib's watcher calls then: any error there ends the process.
TEST(Devices, BelongToOneProcess) {
  auto create = [](int64_t node, int64_t nodes) {
    std::vector<PJRT_NamedValue> options(3);
    for (PJRT_NamedValue& o : options) o.struct_size = sizeof(PJRT_NamedValue);
    auto name = [](PJRT_NamedValue& o, std::string_view text) { o.name = text.data(), o.name_size = text.size(); };
    name(options[0], "device");
    options[0].type = kPjrtString, options[0].string_value = "cpu", options[0].value_size = 3;
    name(options[1], "node_id");
    options[1].type = kPjrtInt64, options[1].int64_value = node, options[1].value_size = 1;
    name(options[2], "num_nodes");
    options[2].type = kPjrtInt64, options[2].int64_value = nodes, options[2].value_size = 1;
    auto args = Make<PJRT_Client_Create_Args>();
    args.create_options = options.data();
    args.num_options = options.size();
    const Error error = Take(Api().PJRT_Client_Create(&args));
    return std::pair(error, Client(args.client));
  };
  const auto [none, client] = create(0, 1);
  ASSERT_EQ(none.code, 0u) << none.message;
  auto info = Make<PJRT_ProcessInfo>();
  auto update = Make<PJRT_Client_UpdateGlobalProcessInfo_Args>();
  update.client = client.get();
  update.process_infos = &info;
  update.num_process_infos = 1;
  EXPECT_PJRT_OK(Api().PJRT_Client_UpdateGlobalProcessInfo(&update));
  const auto [refused, nothing] = create(1, 2);
  EXPECT_EQ(refused.code, 3u);  // it gives no store
  EXPECT_NE(refused.message.find("process 1 of 2"), std::string::npos) << refused.message;
}

TEST(Devices, HaveIdsKindsAndMemories) {
  const Client client = NewClient("cpu*2");
  std::vector<int> ids;
  for (PJRT_Device* d : Devices(client)) {
    auto description = Make<PJRT_Device_GetDescription_Args>();
    description.device = d;
    EXPECT_PJRT_OK(Api().PJRT_Device_GetDescription(&description));
    auto id = Make<PJRT_DeviceDescription_Id_Args>();
    id.device_description = description.device_description;
    EXPECT_PJRT_OK(Api().PJRT_DeviceDescription_Id(&id));
    ids.push_back(id.id);
    auto attributes = Make<PJRT_Device_GetAttributes_Args>();
    attributes.device = d;
    EXPECT_PJRT_OK(Api().PJRT_Device_GetAttributes(&attributes));
    ASSERT_NE(attributes.attributes_deleter, nullptr);
    attributes.attributes_deleter(attributes.device_attributes);
    auto memory = Make<PJRT_Device_DefaultMemory_Args>();
    memory.device = d;
    EXPECT_PJRT_OK(Api().PJRT_Device_DefaultMemory(&memory));
    auto kind = Make<PJRT_Memory_Kind_Args>();
    kind.memory = memory.memory;
    EXPECT_PJRT_OK(Api().PJRT_Memory_Kind(&kind));
    EXPECT_EQ(std::string_view(kind.kind, kind.kind_size), "device");
  }
  EXPECT_EQ(ids, (std::vector<int>{0, 1}));
}

TEST(Devices, RunOneProgramTogether) {
  const Client client = NewClient("cpu*4");
  const std::vector<PJRT_Device*> devices = Devices(client);
  const Loaded loaded = Compile(client, kSum, "hlo", Options(1, 4));
  std::vector<Buffer> arguments;
  std::vector<std::vector<PJRT_Buffer*>> lists;
  for (PJRT_Device* d : devices) lists.push_back({arguments.emplace_back(Floats(client, d, {1, 2})).get()});
  for (int round = 0; round < 5; ++round) {
    const Outcome out = Execute(loaded, lists);
    ASSERT_EQ(out.error.code, 0u) << out.error.message;
    for (std::size_t d = 0; d < 4; ++d) {
      EXPECT_EQ(ToHost<float>(out.results[d][0]), (std::vector<float>{10, 14}));
      auto where = Make<PJRT_Buffer_Device_Args>();
      where.buffer = out.results[d][0].get();
      EXPECT_PJRT_OK(Api().PJRT_Buffer_Device(&where));
      EXPECT_EQ(where.device, devices[d]);
      EXPECT_EQ(Await(out.done[d]).code, 0u);
    }
  }
  // What a partitioned program has become is told as HLO.
  auto get = Make<PJRT_LoadedExecutable_GetExecutable_Args>();
  get.loaded_executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetExecutable(&get));
  const Executable executable(get.executable);
  auto text = Make<PJRT_Executable_OptimizedProgram_Args>();
  auto program = Make<PJRT_Program>();
  text.executable = executable.get();
  text.program = &program;
  EXPECT_PJRT_OK(Api().PJRT_Executable_OptimizedProgram(&text));
  EXPECT_EQ(std::string_view(program.format, program.format_size), "hlo_with_config");
  std::string code(program.code_size, ' ');
  program.code = code.data();
  EXPECT_PJRT_OK(Api().PJRT_Executable_OptimizedProgram(&text));
  EXPECT_NE(code.find("all-reduce"), std::string::npos);
  const Loaded again = Compile(client, code, "hlo_with_config", Options(1, 4));
  EXPECT_EQ(ToHost<float>(Execute(again, lists).results[0][0]), (std::vector<float>{10, 14}));

  auto ids = Make<PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args>();
  ids.executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_AddressableDeviceLogicalIds(&ids));
  ASSERT_EQ(ids.num_addressable_device_logical_ids, 4u);
  EXPECT_EQ(ids.addressable_device_logical_ids[3].partition, 3);
  auto assignment = Make<PJRT_LoadedExecutable_GetDeviceAssignment_Args>();
  assignment.executable = loaded.get();
  EXPECT_PJRT_OK(Api().PJRT_LoadedExecutable_GetDeviceAssignment(&assignment));
  ASSERT_NE(assignment.serialized_device_assignment_deleter, nullptr);
  EXPECT_EQ(
      std::string(assignment.serialized_bytes, assignment.serialized_bytes_size),
      std::string("\x08\x01\x10\x04\x1a\x03\x0a\x01\x00\x1a\x03\x0a\x01\x01\x1a\x03\x0a\x01\x02\x1a\x03\x0a\x01\x03",
                  24));
  assignment.serialized_device_assignment_deleter(assignment.serialized_device_assignment);
}

TEST(Devices, CopiesGoFromOneToAnother) {
  const Client client = NewClient("cpu*2");
  const std::vector<PJRT_Device*> devices = Devices(client);
  const Buffer a = Floats(client, devices[0], {1, 2, 3});
  auto args = Make<PJRT_Buffer_CopyToDevice_Args>();
  args.buffer = a.get();
  args.dst_device = devices[1];
  EXPECT_PJRT_OK(Api().PJRT_Buffer_CopyToDevice(&args));
  const Buffer b(args.dst_buffer);
  EXPECT_EQ(ToHost<float>(b), (std::vector<float>{1, 2, 3}));
}

}  // namespace
}  // namespace krafla::pjrt_test
