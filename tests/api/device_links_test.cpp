// SPDX-License-Identifier: Apache-2.0
// Collectives on Vulkan devices, on every path between them: the bits that the CPU gives, and no byte of them touched
// by the host.
#include "api/group/device_links.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "api/group/device_group.h"
#include "hlo_io/read_module.h"

namespace krafla {
namespace {

using Clients = std::vector<std::shared_ptr<Client>>;

struct LinksOutcome {
  std::vector<std::vector<std::byte>> bytes;  // of each result of each device
  std::string path;
  int64_t host_bytes = 0;
  std::vector<std::string> validation;
};

Literal BitsOf(const Shape& shape, uint32_t seed) {
  Literal out = *Literal::Create(shape);
  std::mt19937 random(seed);
  for (std::byte& b : out.bytes()) b = static_cast<std::byte>(random());
  // Of floats values around one, so that sums round and are numbers; a pred is 0 or 1.
  for (std::size_t i = 0; i < out.bytes().size(); ++i) {
    const auto size = static_cast<std::size_t>(StorageBytes(shape.element_type()));
    const bool top = i % size == size - 1;
    if (IsFloat(shape.element_type()) && top)
      out.bytes()[i] = static_cast<std::byte>(0x3E + (static_cast<int>(out.bytes()[i]) & 1));
    if (shape.element_type() == ElementType::kPred) out.bytes()[i] &= static_cast<std::byte>(1);
  }
  return out;
}

LinksOutcome RunLinked(const DeviceGroup& devices, const std::string& text, const CompileOptions& options,
                       int runs = 2) {
  LinksOutcome out;
  DeviceGroup group = devices;
  auto module = ReadModule(text, "test");
  EXPECT_TRUE(module) << module.error().ToString() << text;
  if (!module) return out;
  auto made = group.Compile(std::move(*module), options);
  EXPECT_TRUE(made) << made.error().ToString() << text;
  if (!made) return out;
  GroupExecutable& executable = **made;
  for (int64_t d = 0; d < executable.device_count(); ++d) {
    std::vector<Literal> arguments;
    std::vector<const Literal*> pointers;
    for (const Shape& s : executable.arguments())
      arguments.push_back(BitsOf(s, static_cast<uint32_t>(d * 100 + static_cast<int64_t>(arguments.size()))));
    for (const Literal& l : arguments) pointers.push_back(&l);
    EXPECT_TRUE(executable.SetArguments(d, pointers));
  }
  // Again over the same window.
  for (int run = 0; run < runs; ++run) {
    auto ran = executable.Execute();
    EXPECT_TRUE(ran) << ran.error().ToString() << text;
    if (!ran) return out;
  }
  for (int64_t d = 0; d < executable.device_count(); ++d) {
    auto results = executable.Results(d);
    EXPECT_TRUE(results);
    if (!results) return out;
    for (const Literal& l : *results) {
      const auto bytes = l.bytes();
      out.bytes.emplace_back(bytes.begin(), bytes.end());
    }
  }
  out.path = executable.path();
  out.host_bytes = executable.exchange_host_bytes();
  out.validation = group.TakeValidationMessages();
  return out;
}

std::string TypedText(std::string text, std::string_view type) {
  for (std::size_t at = text.find("T["); at != text.npos; at = text.find("T[", at + 1))
    if (at == 0 || !std::isalnum(static_cast<unsigned char>(text[at - 1]))) text.replace(at, 1, type);
  return text;
}

// Of four devices: sums and other reductions, in one hop and in pieces, with shares that are not equal.
std::vector<std::string> Reductions() {
  std::vector<std::string> out;
  const auto add = [&](std::string_view body, std::string_view type, std::string_view op) {
    out.push_back(TypedText(Format("HloModule m, replica_count=4\n"
                                   "f {{ a = T[] parameter(0) b = T[] parameter(1) {} }}\n"
                                   "ENTRY e {{ {} }}\n",
                                   body, op),
                            type));
  };
  const std::string_view one_hop = "x = T[1003] parameter(0) ROOT y = T[1003] all-reduce(x), to_apply=f";
  const std::string_view pieces = "x = T[700001] parameter(0) ROOT y = T[700001] all-reduce(x), to_apply=f";
  const std::string_view scatter =
      "x = T[6,8,5] parameter(0) ROOT y = T[6,2,5] reduce-scatter(x), dimensions={1}, to_apply=f";
  for (const std::string_view type : {"f32", "f16", "bf16", "f64", "s8", "u16", "s32", "s64"})
    for (const std::string_view op : {one_hop, scatter}) add("ROOT c = T[] add(a, b)", type, op);
  for (const std::string_view type : {"f32", "bf16", "s8"}) add("ROOT c = T[] add(a, b)", type, pieces);
  add("ROOT c = T[] multiply(a, b)", "bf16", one_hop);
  add("ROOT c = T[] maximum(a, b)", "f32", one_hop);
  add("ROOT c = T[] or(a, b)", "pred", one_hop);
  add("t = T[] multiply(a, b) ROOT c = T[] subtract(t, a)", "f32", one_hop);
  add("ROOT c = T[] add(a, b)", "f32",
      "x = T[100] parameter(0) z = T[] parameter(1) w = T[300000] parameter(2) "
      "ROOT y = (T[100], T[], T[300000]) all-reduce(x, z, w), to_apply=f");
  add("ROOT c = T[] add(a, b)", "f32",
      "x = T[3000] parameter(0) ROOT y = T[3000] all-reduce(x), replica_groups={{0,3},{2,1}}, to_apply=f");
  // Between kernels, twice, and in a loop.
  add("ROOT c = T[] add(a, b)", "f32",
      "x = T[3000] parameter(0) n = T[3000] negate(x) y = T[3000] all-reduce(n), to_apply=f "
      "m = T[3000] multiply(y, n) z = T[3000] all-reduce(m), to_apply=f ROOT r = T[3000] add(z, x)");
  return out;
}

std::vector<std::string> Movements() {
  std::vector<std::string> out;
  for (const std::string_view type : {"f32", "bf16", "u8"})
    for (const std::string_view op : {
             "x = T[5,3] parameter(0) ROOT y = T[5,12] all-gather(x), dimensions={1}",
             "x = T[3] parameter(0) ROOT y = T[12] all-gather(x), dimensions={0}",
             "x = T[100,3] parameter(0) ROOT y = T[100,12] all-gather(x), dimensions={1}",
             "x = T[5,8] parameter(0) ROOT y = T[5,8] all-to-all(x), dimensions={1}",
             "x = T[300,8] parameter(0) ROOT y = T[300,8] all-to-all(x), dimensions={1}",
             "a = T[3] parameter(0) b = T[3] parameter(1) c = T[3] parameter(2) d = T[3] parameter(3) "
             "ROOT y = (T[3], T[3], T[3], T[3]) all-to-all(a, b, c, d)",
             "x = T[3001] parameter(0) ROOT y = T[3001] collective-permute(x), source_target_pairs={{0,1},{1,2},{3,0}}",
             "x = T[3001] parameter(0) ROOT y = T[3001] collective-permute(x), source_target_pairs={{0,2},{2,0}}",
             "x = T[501] parameter(0) ROOT y = T[501] collective-broadcast(x), replica_groups={{2,0,1,3}}",
             "x = T[7] parameter(0) ROOT y = T[14] all-gather(x), dimensions={0}, replica_groups={{0,3},{2,1}}",
         })
      out.push_back(TypedText(Format("HloModule m, replica_count=4\nENTRY e {{ {} }}\n", op), type));
  return out;
}

// The same bits as four devices of the CPU, by `path`.
void ExpectBitsOfCpu(const DeviceGroup& devices, const CompileOptions& options, const std::string& path) {
  const DeviceGroup cpu = **DeviceGroup::Create("cpu*4");
  std::vector<std::string> texts = Reductions();
  for (std::string& text : Movements()) texts.push_back(std::move(text));
  for (const std::string& text : texts) {
    // What a device does not compute goes through the host by design.
    const DeviceFeatures& has = devices.client(0).device().profile->features;
    if (!has.float64 && text.find("f64[") != text.npos) continue;
    const LinksOutcome want = RunLinked(cpu, text, {}, 1), got = RunLinked(devices, text, options);
    EXPECT_TRUE(got.bytes == want.bytes) << text;
    EXPECT_EQ(got.path, path) << text;
    for (const std::string& message : got.validation) ADD_FAILURE() << message;
    // Devices that a permutation leaves out get their zeros from the host.
    if (path == "host") {
      EXPECT_GT(got.host_bytes, 0) << text;
    } else if (text.find("{{0,2},{2,0}}") == text.npos) {
      EXPECT_EQ(got.host_bytes, 0) << text;
    }
  }
}

CompileOptions SummingWithout(std::initializer_list<const char*> disabled) {
  CompileOptions out;
  out.enabled = {"device-sums"};
  for (const char* name : disabled) out.disabled.insert(name);
  return out;
}

class LinkedDevices : public ::testing::Test {
 protected:
  const DeviceFeatures& features() const { return four_->client(0).device().profile->features; }

  void SetUp() override {
    auto group = DeviceGroup::Create("vulkan:0*4");
    if (!group) GTEST_SKIP() << group.error().ToString();
    four_ = std::make_unique<DeviceGroup>(**group);
  }
  std::unique_ptr<DeviceGroup> four_;
};

TEST_F(LinkedDevices, OneLogicalDevice) { ExpectBitsOfCpu(*four_, SummingWithout({}), "one-device"); }

TEST_F(LinkedDevices, WindowOfHostPages) {
  if (!features().external_memory_host) GTEST_SKIP() << "The device imports no host pages.";
  ExpectBitsOfCpu(*four_, SummingWithout({"one-device", "dma-buf", "opaque-fd"}), "host_import");
}

TEST_F(LinkedDevices, HostWhereEveryOtherPathIsOff) {
  ExpectBitsOfCpu(*four_, SummingWithout({"one-device", "dma-buf", "opaque-fd", "host_import"}), "host");
}

TEST_F(LinkedDevices, WindowsBetweenLogicalDevices) {
  Clients clients;
  for (int d = 0; d < 4; ++d) clients.push_back(*Client::Create("vulkan:0"));
  ExpectBitsOfCpu(DeviceGroup(clients), SummingWithout({"dma-buf"}), "opaque-fd");
  if (features().external_memory_host)
    ExpectBitsOfCpu(DeviceGroup(clients), SummingWithout({"dma-buf", "opaque-fd"}), "host_import");
  // Two of them are two virtual devices of one.
  clients[2] = clients[1];
  ExpectBitsOfCpu(DeviceGroup(clients), SummingWithout({"dma-buf"}), "opaque-fd");
}

// Handed to the lane of each device, on every path.
TEST_F(LinkedDevices, BesideKernels) {
  const auto beside = [](CompileOptions options) {
    options.enabled.insert("overlap-all");
    return options;
  };
  ExpectBitsOfCpu(*four_, beside(SummingWithout({})), "one-device");
  ExpectBitsOfCpu(*four_, beside(SummingWithout({"one-device", "dma-buf", "opaque-fd", "host_import"})), "host");
  Clients clients;
  for (int d = 0; d < 4; ++d) clients.push_back(*Client::Create("vulkan:0"));
  ExpectBitsOfCpu(DeviceGroup(clients), beside(SummingWithout({"dma-buf"})), "opaque-fd");
}

// Collectives that are under way together, beside kernels that write what others have read, turn after turn.
std::string PipelinedText() {
  return "HloModule m, replica_count=4\n"
         "f { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }\n"
         "cond { s = (s32[], f32[9000], f32[9000]) parameter(0) i = s32[] get-tuple-element(s), index=0 "
         "n = s32[] constant(5) ROOT l = pred[] compare(i, n), direction=LT }\n"
         "body { s = (s32[], f32[9000], f32[9000]) parameter(0) i = s32[] get-tuple-element(s), index=0 "
         "x = f32[9000] get-tuple-element(s), index=1 y = f32[9000] get-tuple-element(s), index=2 "
         "nx = f32[9000] negate(x) sx = f32[9000] all-reduce(nx), to_apply=f "
         "py = f32[9000] collective-permute(y), source_target_pairs={{0,1},{1,2},{2,3},{3,0}} "
         "q = f32[9000] multiply(y, y) r = f32[9000] reverse(q), dimensions={0} t = f32[9000] tanh(r) "
         "u = f32[9000] multiply(t, x) m = f32[9000] add(u, sx) h = f32[] constant(0.125) "
         "hb = f32[9000] broadcast(h), dimensions={} z = f32[9000] multiply(m, hb) w = f32[9000] add(py, t) "
         "one = s32[] constant(1) j = s32[] add(i, one) ROOT o = (s32[], f32[9000], f32[9000]) tuple(j, z, w) }\n"
         "ENTRY e { x = f32[9000] parameter(0) y = f32[9000] parameter(1) i = s32[] constant(0) "
         "s = (s32[], f32[9000], f32[9000]) tuple(i, x, y) "
         "o = (s32[], f32[9000], f32[9000]) while(s), condition=cond, body=body "
         "a = f32[9000] get-tuple-element(o), index=1 b = f32[9000] get-tuple-element(o), index=2 "
         "g = f32[36000] all-gather(b), dimensions={0} c = f32[9000] all-reduce(a), to_apply=f "
         "d = f32[9000] exponential(a) e2 = f32[9000] add(d, b) "
         "ROOT out = (f32[9000], f32[36000], f32[9000]) tuple(c, g, e2) }\n";
}

// tests/second_queue/two_queues_layer.cpp, where it is active: the ctest second_queue.
TEST_F(LinkedDevices, OnASecondQueue) {
  const char* layer = std::getenv("KRAFLA_TWO_QUEUES");
  if (layer == nullptr)
    GTEST_SKIP() << "The driver has one queue; the test second_queue has a layer that gives it two.";
  void* library = dlopen(layer, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto count = reinterpret_cast<int64_t (*)()>(dlsym(library, "krafla_two_queues_submissions"));
  ASSERT_NE(count, nullptr);
  CompileOptions options = SummingWithout({"dma-buf"});
  options.enabled.insert("overlap-all");
  const LinksOutcome want = RunLinked(**DeviceGroup::Create("cpu*4"), PipelinedText(), {}, 1);
  Clients clients;
  for (int d = 0; d < 4; ++d) clients.push_back(*Client::Create("vulkan:0"));
  for (const DeviceGroup& devices : {*four_, DeviceGroup(clients)}) {
    const int64_t before = count();
    for (int run = 0; run < 10; ++run) {
      const LinksOutcome got = RunLinked(devices, PipelinedText(), options, 3);
      EXPECT_EQ(got.host_bytes, 0);
      ASSERT_TRUE(got.bytes == want.bytes) << got.path << ", run " << run;
    }
    EXPECT_GT(count() - before, 200);
    const int64_t middle = count();
    CompileOptions off = options;
    off.disabled.insert("second-queue");
    EXPECT_TRUE(RunLinked(devices, PipelinedText(), off, 1).bytes == want.bytes);
    EXPECT_EQ(count(), middle);
  }
}

// lavapipe and SwiftShader have nothing in common: one imports pages of the host, the other only its own memory.
TEST_F(LinkedDevices, BetweenDrivers) {
  auto pair = DeviceGroup::Create("vulkan:0*2,vulkan:1*2");
  if (!pair) GTEST_SKIP() << pair.error().ToString();
  const bool imports =
      features().external_memory_host && (*pair)->client(2).device().profile->features.external_memory_host;
  ExpectBitsOfCpu(**pair, SummingWithout({"dma-buf"}), imports ? "host_import" : "host");
}

TEST_F(LinkedDevices, NamesThePathAndRefusesUnknownOnes) {
  const std::string text =
      "HloModule m, replica_count=4\nENTRY e { x = f32[3] parameter(0) ROOT y = f32[12] all-gather(x), dimensions={0} }";
  auto made = four_->Compile(*ReadModule(text, "test"), {});
  ASSERT_TRUE(made) << made.error().ToString();
  EXPECT_NE((*made)->PlacementLine().find("1 between devices, by one-device"), std::string::npos)
      << (*made)->PlacementLine();
  CompileOptions options;
  options.disabled = {"host"};
  EXPECT_EQ(four_->Compile(*ReadModule(text, "test"), options).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ((*DeviceGroup::Create("cpu*4"))->Compile(*ReadModule(text, "test"), {}).value()->path(), "host");
}

}  // namespace
}  // namespace krafla
