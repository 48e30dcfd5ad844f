// SPDX-License-Identifier: Apache-2.0
// The table, its slots, and what is promised about sizes.
#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

TEST(Table, HasAVersionAndNoNullSlot) {
  const PJRT_Api& api = Api();
  EXPECT_EQ(api.struct_size, 1144u);
  EXPECT_EQ(api.pjrt_api_version.major_version, 0);
  EXPECT_EQ(api.pjrt_api_version.minor_version, 112);
  const auto* slots = reinterpret_cast<void* const*>(&api.PJRT_Error_Destroy);
  for (int i = 0; i < 138; ++i) EXPECT_NE(slots[i], nullptr) << i;
}

TEST(Table, ASlotThatNothingStandsBehindNamesItself) {
  auto args = Make<PJRT_CopyToDeviceStream_AddChunk_Args>();
  const Error error = Take(Api().PJRT_CopyToDeviceStream_AddChunk(&args));
  EXPECT_EQ(error.code, 12u);
  EXPECT_NE(error.message.find("PJRT_CopyToDeviceStream_AddChunk"), std::string::npos) << error.message;
}

TEST(Table, StructsThatAreTooShortAreRefused) {
  auto args = Make<PJRT_Event_IsReady_Args>();
  args.struct_size = 24;
  EXPECT_EQ(Take(Api().PJRT_Event_IsReady(&args)).code, 3u);
  EXPECT_EQ(Take(Api().PJRT_Event_IsReady(nullptr)).code, 3u);
}

// A caller of an older version has no room for later fields: what lies behind its struct is somebody else's.
TEST(Table, NothingIsWrittenBehindTheCallersStruct) {
  const Client client = NewClient("cpu");
  struct {
    PJRT_Device_MemoryStats_Args args;
    unsigned char behind[16];
  } room;
  std::memset(&room, 0x5a, sizeof(room));
  room.args.struct_size = 185;
  room.args.extension_start = nullptr;
  room.args.device = Devices(client)[0];
  EXPECT_PJRT_OK(Api().PJRT_Device_MemoryStats(&room.args));
  EXPECT_EQ(room.args.bytes_in_use, 0);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&room);
  for (std::size_t i = 185; i < sizeof(room); ++i) EXPECT_EQ(bytes[i], 0x5a) << i;
}

TEST(Table, LaterVersionsFindTheTablesOfErrorsAndMemories) {
  const Client client = NewClient("cpu");
  auto args = Make<PJRT_Client_LookupDevice_Args>();
  args.client = client.get();
  args.id = 77;
  PJRT_Error* error = Api().PJRT_Client_LookupDevice(&args);
  ASSERT_NE(error, nullptr);
  const auto* table = *reinterpret_cast<const PJRT_Error_FunctionTable* const*>(error);
  EXPECT_EQ(table->struct_size, sizeof(*table));
  EXPECT_EQ(table->get_code(error), 3u);
  const char* text = nullptr;
  std::size_t size = 0;
  table->message(error, &text, &size);
  EXPECT_NE(std::string_view(text, size).find("77"), std::string_view::npos);
  int payloads = 0;
  table->for_each_payload(
      error, [](const char*, size_t, const char*, size_t, void* n) { ++*static_cast<int*>(n); }, &payloads);
  EXPECT_EQ(payloads, 0);
  table->destroy(error);

  auto memory = Make<PJRT_Device_DefaultMemory_Args>();
  memory.device = Devices(client)[0];
  EXPECT_PJRT_OK(Api().PJRT_Device_DefaultMemory(&memory));
  const auto* functions = *reinterpret_cast<const PJRT_Memory_FunctionTable* const*>(memory.memory);
  static int destroyed;
  destroyed = 0;
  int key = 0, data = 0, other = 0;
  auto count = [](void*) { ++destroyed; };
  EXPECT_EQ(functions->get_user_data(memory.memory, &key), nullptr);
  functions->set_user_data(memory.memory, &key, &data, count);
  EXPECT_EQ(functions->get_user_data(memory.memory, &key), &data);
  functions->set_user_data(memory.memory, &key, &other, count);
  EXPECT_EQ(destroyed, 1);
}

TEST(Plugin, SaysWhichStableHloItReads) {
  auto args = Make<PJRT_Plugin_Attributes_Args>();
  EXPECT_PJRT_OK(Api().PJRT_Plugin_Attributes(&args));
  bool found = false;
  for (std::size_t i = 0; i < args.num_attributes; ++i) {
    const PJRT_NamedValue& v = args.attributes[i];
    if (std::string_view(v.name, v.name_size) != "stablehlo_current_version") continue;
    found = true;
    ASSERT_EQ(v.type, kPjrtInt64List);
    ASSERT_EQ(v.value_size, 3u);
    EXPECT_EQ(v.int64_array_value[0], 1);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace krafla::pjrt_test
