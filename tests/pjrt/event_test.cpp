// SPDX-License-Identifier: Apache-2.0
// Events keep what they promise: each callback once, whoever destroys the event and whenever.
#include <atomic>
#include <thread>

#include "tests/pjrt/plugin.h"

namespace krafla::pjrt_test {
namespace {

PJRT_Event* NewEvent() {
  auto args = Make<PJRT_Event_Create_Args>();
  EXPECT_PJRT_OK(Api().PJRT_Event_Create(&args));
  return args.event;
}

Error Set(PJRT_Event* event, PJRT_Error_Code code = 0, std::string_view message = {}) {
  auto args = Make<PJRT_Event_Set_Args>();
  args.event = event;
  args.error_code = code;
  args.error_message = message.data();
  args.error_message_size = message.size();
  return Take(Api().PJRT_Event_Set(&args));
}

bool IsReady(PJRT_Event* event) {
  auto args = Make<PJRT_Event_IsReady_Args>();
  args.event = event;
  EXPECT_PJRT_OK(Api().PJRT_Event_IsReady(&args));
  return args.is_ready;
}

struct Witness {
  std::atomic<int> calls = 0;
  Error error;
  PJRT_Event* destroy = nullptr;  // by the callback
};

void OnReady(PJRT_Event* event, Witness& witness) {
  auto args = Make<PJRT_Event_OnReady_Args>();
  args.event = event;
  args.user_arg = &witness;
  args.callback = [](PJRT_Error* error, void* user_arg) {
    auto& w = *static_cast<Witness*>(user_arg);
    w.error = Take(error);
    if (w.destroy != nullptr) Event(std::exchange(w.destroy, nullptr));
    ++w.calls;
  };
  EXPECT_PJRT_OK(Api().PJRT_Event_OnReady(&args));
}

TEST(Event, HappensOnce) {
  Event event(NewEvent());
  EXPECT_FALSE(IsReady(event.get()));
  EXPECT_EQ(Set(event.get()).code, 0u);
  EXPECT_TRUE(IsReady(event.get()));
  EXPECT_NE(Set(event.get()).code, 0u);
  EXPECT_EQ(Await(event).code, 0u);
}

TEST(Event, CallsEveryCallbackWithItsOwnError) {
  Event event(NewEvent());
  Witness first, second, late;
  OnReady(event.get(), first);
  OnReady(event.get(), second);
  EXPECT_EQ(first.calls, 0);
  Set(event.get(), 8, "full");
  OnReady(event.get(), late);
  for (const Witness* w : {&first, &second, &late}) {
    EXPECT_EQ(w->calls, 1);
    EXPECT_EQ(w->error.code, 8u);
    EXPECT_EQ(w->error.message, "full");
  }
  EXPECT_EQ(Await(event).code, 8u);
  auto args = Make<PJRT_Event_Error_Args>();
  args.event = event.get();
  EXPECT_EQ(Take(Api().PJRT_Event_Error(&args)).message, "full");
}

TEST(Event, MayBeDestroyedByItsCallback) {
  for (const bool ready_before : {false, true}) {
    PJRT_Event* event = NewEvent();
    Witness witness;
    witness.destroy = event;
    if (ready_before) {
      Set(event);
      OnReady(event, witness);
    } else {
      OnReady(event, witness);
      Set(event);
    }
    EXPECT_EQ(witness.calls, 1);
  }
}

// As XLA's client does with the event that says when a host buffer is free: it asks, and destroys the event at once.
TEST(Event, CallsBackAfterItIsGone) {
  const Client client = NewClient("cpu");
  const Loaded loaded = Compile(client, kAdd);
  PJRT_Device* device = Devices(client)[0];
  const Buffer a = Floats(client, device, {1, 2, 3, 4});
  Witness witness;
  Outcome out = Execute(loaded, {{a.get(), a.get()}});
  OnReady(out.done[0].get(), witness);
  out.done.clear();
  EXPECT_EQ(Ready(out.results[0][0]).code, 0u);
  while (witness.calls == 0) std::this_thread::yield();
  EXPECT_EQ(witness.error.code, 0u);
}

TEST(Event, ManyThreadsMayAskWhileOneSets) {
  for (int round = 0; round < 200; ++round) {
    Event event(NewEvent());
    Witness witness;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back([&] { OnReady(event.get(), witness); });
    threads.emplace_back([&] { EXPECT_EQ(Await(event).code, 0u); });
    Set(event.get());
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(witness.calls, 3);
  }
}

}  // namespace
}  // namespace krafla::pjrt_test
