// SPDX-License-Identifier: Apache-2.0
// Gloo over TCP. Its own store is the one that krafla offers, by which ranks find each other without a launcher.
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "transport/engine_abi.h"

struct krafla_engine {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::mutex mutex;
  bool is_aborted = false;
  std::set<krafla_engine_request*> waiting;
};
struct krafla_engine_request {
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  bool sends;
};

namespace {

using std::chrono::milliseconds;

void Fail(krafla_engine_error* error, const char* what) { std::snprintf(error->text, sizeof(error->text), "%s", what); }

class Store final : public gloo::rendezvous::Store {
 public:
  explicit Store(const krafla_engine_store& store) : store_(store) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    if (store_.put(store_.user, key.c_str(), data.data(), data.size()) < 0)
      throw std::runtime_error("a value could not be told to the other ranks");
  }
  std::vector<char> get(const std::string& key) override {
    std::vector<char> out(1 << 16);
    const int64_t size = store_.get(store_.user, key.c_str(), out.data(), out.size());
    if (size < 0) throw std::runtime_error("the other ranks have not told how they are reached");
    out.resize(static_cast<std::size_t>(size));
    return size > (1 << 16) ? get_large(key, static_cast<std::size_t>(size)) : out;
  }
  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  std::vector<char> get_large(const std::string& key, std::size_t size) {
    std::vector<char> out(size);
    store_.get(store_.user, key.c_str(), out.data(), out.size());
    return out;
  }
  const krafla_engine_store& store_;
};

krafla_engine* Open(int rank, int size, const char* address, const krafla_engine_store* store, int limit_ms,
                    krafla_engine_error* error) {
  // Gloo writes to connections whose other end may be gone, which would end the process.
  if (const auto before = std::signal(SIGPIPE, SIG_IGN); before != SIG_DFL) std::signal(SIGPIPE, before);
  try {
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    std::shared_ptr<gloo::transport::Device> device;
    try {
      device = gloo::transport::tcp::CreateDevice(attributes);
    } catch (const std::exception&) {
      // A host whose own name means nothing to it.
      attributes.hostname = "127.0.0.1";
      device = gloo::transport::tcp::CreateDevice(attributes);
    }
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->setTimeout(milliseconds(limit_ms));
    Store ours(*store);
    context->connectFullMesh(ours, device);
    auto engine = std::make_unique<krafla_engine>();
    engine->context = std::move(context);
    return engine.release();
  } catch (const std::exception& e) {
    Fail(error, e.what());
    return nullptr;
  }
}

krafla_engine_request* Begin(krafla_engine* engine, int rank, uint64_t slot, void* data, std::size_t bytes, bool sends,
                             krafla_engine_error* error) {
  try {
    auto request = std::make_unique<krafla_engine_request>();
    request->sends = sends;
    request->buffer = engine->context->createUnboundBuffer(data, bytes);
    if (sends) request->buffer->send(rank, slot);
    else request->buffer->recv(rank, slot);
    return request.release();
  } catch (const std::exception& e) {
    Fail(error, e.what());
    return nullptr;
  }
}

krafla_engine_request* Send(krafla_engine* engine, int rank, uint64_t slot, const void* from, std::size_t bytes,
                            krafla_engine_error* error) {
  return Begin(engine, rank, slot, const_cast<void*>(from), bytes, true, error);
}
krafla_engine_request* Receive(krafla_engine* engine, int rank, uint64_t slot, void* to, std::size_t bytes,
                               krafla_engine_error* error) {
  return Begin(engine, rank, slot, to, bytes, false, error);
}

void AbortWait(krafla_engine_request& request) {
  if (request.sends) request.buffer->abortWaitSend();
  else request.buffer->abortWaitRecv();
}

// Gloo closes all connections when a wait is late: it is not asked for less than the whole time.
int Wait(krafla_engine* engine, krafla_engine_request* request, int limit_ms, krafla_engine_error* error) {
  {
    const std::lock_guard lock(engine->mutex);
    if (engine->is_aborted) return 0;
    engine->waiting.insert(request);
  }
  int done = -1;
  const auto end = std::chrono::steady_clock::now() + milliseconds(limit_ms);
  try {
    const milliseconds limit(limit_ms);
    done = (request->sends ? request->buffer->waitSend(limit) : request->buffer->waitRecv(limit)) ? 1 : 0;
  } catch (const std::exception& e) {
    Fail(error, e.what());
    if (std::chrono::steady_clock::now() >= end) done = 0;
  }
  const std::lock_guard lock(engine->mutex);
  engine->waiting.erase(request);
  return done;
}

void Abort(krafla_engine* engine) {
  const std::lock_guard lock(engine->mutex);
  engine->is_aborted = true;
  for (krafla_engine_request* request : engine->waiting) AbortWait(*request);
}

void Release(krafla_engine*, krafla_engine_request* request, int) { delete request; }

void Close(krafla_engine* engine, int) {
  // Where ranks are gone its connections close with errors, of which nobody needs to hear.
  try {
    delete engine;
  } catch (const std::exception&) {}
}

constexpr krafla_engine_functions kFunctions = {KRAFLA_ENGINE_ABI, nullptr, nullptr, Open,  Send,
                                                Receive,           Wait,    Release, Abort, Close};

}  // namespace

extern "C" __attribute__((visibility("default"))) const krafla_engine_functions* krafla_transport_engine(void) {
  return &kFunctions;
}
