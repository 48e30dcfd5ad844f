// SPDX-License-Identifier: Apache-2.0
// Makes one call of the driver after the other fail, with each error that matters, and looks at what krafla makes of
// it: a clean error or a right result, and everything works again afterwards in the same process. VK_LAYER_KRAFLA_fault
// does the failing.
//
//   fault_sweep LAYER.so MODELS [-d DEVICE] [--full] [--function NAME] [--model NAME] [--mode NAME] [--verbose]
//
// Without --full calls 1, 2, 4, 8 .. of each function are taken, each with one of the errors and one of the networks.
// Under KRAFLA_VALIDATE=1 what the validation layer has to say is a failure too.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "api/client.h"
#include "base/file.h"
#include "fault_control.h"
#include "hlo_io/read_module.h"
#include "recorded/corpus.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModels[] = {"mlp-tiny", "lstm-tiny", "sort-topk-tiny"};
// Far more than any case takes, also on a machine that others keep busy.
constexpr unsigned kHangSeconds = 600;

// VkResults (vulkan_core.h), which this program needs as numbers alone.
struct Error {
  int32_t code;
  const char* name;
};
constexpr Error kHostMemory{-1, "OUT_OF_HOST_MEMORY"}, kDeviceMemory{-2, "OUT_OF_DEVICE_MEMORY"},
    kInitialization{-3, "INITIALIZATION_FAILED"}, kLost{-4, "DEVICE_LOST"}, kMap{-5, "MEMORY_MAP_FAILED"},
    kObjects{-10, "TOO_MANY_OBJECTS"}, kFragmented{-12, "FRAGMENTED_POOL"}, kUnknown{-13, "UNKNOWN"},
    kTimeout{2, "TIMEOUT"};

std::vector<Error> ErrorsOf(const std::string& function) {
  if (function == "vkCreateInstance" || function == "vkEnumeratePhysicalDevices" ||
      function == "vkEnumerateDeviceExtensionProperties")
    return {kHostMemory, kInitialization, kDeviceMemory, kUnknown};
  if (function == "vkCreateDevice") return {kHostMemory, kLost, kInitialization, kDeviceMemory, kObjects};
  if (function == "vkQueueSubmit" || function == "vkGetFenceStatus" || function == "vkGetSemaphoreCounterValue" ||
      function == "vkDeviceWaitIdle")
    return {kLost, kDeviceMemory, kHostMemory, kUnknown};
  if (function == "vkWaitSemaphores" || function == "vkWaitForFences")
    return {kLost, kTimeout, kHostMemory, kDeviceMemory};
  if (function == "vkAllocateMemory") return {kDeviceMemory, kHostMemory, kObjects, kUnknown};
  if (function == "vkMapMemory") return {kMap, kHostMemory, kDeviceMemory};
  if (function == "vkAllocateDescriptorSets") return {kDeviceMemory, kFragmented, kHostMemory};
  return {kDeviceMemory, kHostMemory, kUnknown, kLost};
}

struct Layer {
  KraflaFaultName name = nullptr;
  KraflaFaultArm arm = nullptr;
  KraflaFaultCalls calls = nullptr;
  KraflaFaultStruck struck = nullptr;
  std::vector<std::string> functions;

  bool Load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW);
    if (library == nullptr) return false;
    name = reinterpret_cast<KraflaFaultName>(dlsym(library, "krafla_fault_name"));
    arm = reinterpret_cast<KraflaFaultArm>(dlsym(library, "krafla_fault_arm"));
    calls = reinterpret_cast<KraflaFaultCalls>(dlsym(library, "krafla_fault_calls"));
    struck = reinterpret_cast<KraflaFaultStruck>(dlsym(library, "krafla_fault_struck"));
    if (name == nullptr || arm == nullptr || calls == nullptr || struck == nullptr) return false;
    for (int f = 0; name(f) != nullptr; ++f) functions.emplace_back(name(f));
    return true;
  }
  void Disarm() const { arm(-1, 0, 0); }
};

// Which way through the runtime: with addresses and timeline semaphores, without either, and each from an empty cache.
struct Mode {
  const char* name;
  std::set<std::string> disabled;
  bool cold;
};
const Mode kModes[] = {{"plain", {}, false},
                       {"descriptors", {"bda", "timeline"}, false},
                       {"staged", {"unified"}, false},
                       {"cold", {}, true}};

struct Network {
  RecordedCase recorded;
  std::string bytes;
};

// What is being tried, for a process that ends in the middle of it.
char current[256];
void OnSignal(int number) {
  const char* what = number == SIGALRM ? "HANG: " : "CRASH: ";
  (void)!write(STDERR_FILENO, what, std::strlen(what));
  (void)!write(STDERR_FILENO, current, std::strlen(current));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(3);
}

struct Tally {
  int tried = 0, errors = 0, right = 0, not_reached = 0, bad = 0;
};

class Sweep {
 public:
  Sweep(Layer layer, std::string device) : layer_(std::move(layer)), device_(std::move(device)) {}

  bool verbose = false;

  // How often each function is called when nothing fails.
  Result<std::vector<int64_t>> Count(const Network& network, const Mode& mode) {
    if (mode.cold) {
      ClearCache();
    } else {
      KRAFLA_TRY(Twice(network, mode));  // fills the cache
    }
    layer_.Disarm();
    std::snprintf(current, sizeof current, "%s, %s, no fault", network.recorded.name.c_str(), mode.name);
    KRAFLA_TRY(Twice(network, mode));
    std::vector<int64_t> out;
    for (std::size_t f = 0; f < layer_.functions.size(); ++f) out.push_back(layer_.calls(static_cast<int>(f)));
    return out;
  }

  void Try(const Network& network, const Mode& mode, std::size_t function, int64_t n, const Error& error) {
    Tally& tally = tallies_[layer_.functions[function]];
    ++tally.tried;
    std::snprintf(current, sizeof current, "%s, %s: call %lld of %s gives %s", network.recorded.name.c_str(), mode.name,
                  static_cast<long long>(n), layer_.functions[function].c_str(), error.name);
    if (verbose) std::fprintf(stderr, "%s\n", current);
    alarm(kHangSeconds);
    if (mode.cold) ClearCache();
    layer_.arm(static_cast<int>(function), n, error.code);
    failures_ = 0;
    Attempt(network, mode, error);
    const bool struck = layer_.struck() != 0;
    // Nothing fails any more: what is left of the client goes on, and a new one does.
    layer_.Disarm();
    Again(network, mode, error);
    if (client_ != nullptr)
      for (const std::string& message : client_->TakeValidationMessages()) Report(message);
    client_ = nullptr;
    executable_ = nullptr;
    if (auto fresh = Twice(network, mode); !fresh) Report("a new client: " + fresh.error().ToString());
    alarm(0);
    tally.bad += failures_ > 0;
    if (!struck) ++tally.not_reached;
    else ++(had_error_ ? tally.errors : tally.right);
  }

  int Print() const {
    Tally all;
    std::printf("%-38s %8s %12s %12s %12s %5s\n", "function", "tried", "clean error", "right result", "not reached",
                "bad");
    auto print = [](const std::string& name, const Tally& t) {
      std::printf("%-38s %8d %12d %12d %12d %5d\n", name.c_str(), t.tried, t.errors, t.right, t.not_reached, t.bad);
    };
    for (const auto& [name, t] : tallies_) {
      print(name, t);
      all.tried += t.tried, all.errors += t.errors, all.right += t.right, all.not_reached += t.not_reached,
          all.bad += t.bad;
    }
    print("all", all);
    if (all.errors + all.right == 0) {
      std::printf("no fault was met: is the layer active?\n");
      return 1;
    }
    return all.bad == 0 ? 0 : 1;
  }

 private:
  void ClearCache() {
    std::error_code error;
    fs::remove_all(std::getenv("KRAFLA_CACHE_DIR"), error);
  }

  void Report(const std::string& what) {
    std::printf("BAD: %s: %s\n", current, what.c_str());
    std::fflush(stdout);
    ++failures_;
  }

  Result<> Compile(const Network& network, const Mode& mode) {
    KRAFLA_ASSIGN(std::unique_ptr<Module> module, ReadModule(network.bytes, network.recorded.module_path));
    CompileOptions options;
    options.disabled = mode.disabled;
    KRAFLA_ASSIGN(executable_, client_->Compile(std::move(module), options));
    return {};
  }

  // DATA_LOSS for wrong results.
  Result<> Run(const Network& network) {
    KRAFLA_ASSIGN(RecordedArrays arrays,
                  ReadArrays(network.recorded, executable_->arguments(), executable_->results()));
    std::vector<std::shared_ptr<const Literal>> arguments = ToShared(std::move(arrays.inputs[0]));
    KRAFLA_ASSIGN(std::vector<Literal> results, executable_->RunShared(std::move(arguments)));
    for (std::size_t r = 0; r < results.size(); ++r) {
      const Comparison comparison = Compare(results[r], arrays.outputs[0][r], nullptr, arrays.tolerances[r]);
      if (!comparison.passed) return DataLoss("result {} is wrong: {}", r, comparison.reason);
    }
    return {};
  }

  // A client of its own, without faults: two programs, two runs each.
  Result<> Twice(const Network& network, const Mode& mode) {
    KRAFLA_ASSIGN(client_, Client::Create(device_, {.wait_limit = std::chrono::seconds(60)}));
    for (int program = 0; program < 2; ++program) {
      KRAFLA_TRY(Compile(network, mode));
      KRAFLA_TRY(Run(network));
      KRAFLA_TRY(Run(network));
    }
    executable_ = nullptr;
    client_ = nullptr;
    return {};
  }

  // What goes wrong, if anything does, is to be said well. Leaves what there is of client and executable.
  void Attempt(const Network& network, const Mode& mode, const Error& error) {
    had_error_ = false;
    auto said_well = [&](const Result<>& result, const char* what) {
      if (result) return true;
      had_error_ = true;
      const Status& status = result.error();
      const StatusCode expected = error.code == kLost.code ? StatusCode::kAborted
                                  : error.code == kInitialization.code || error.code == kUnknown.code
                                      ? StatusCode::kUnavailable
                                      : StatusCode::kResourceExhausted;
      // The loader says INITIALIZATION_FAILED where there is no device; then nothing can be validated either.
      const bool absent = error.code == kInitialization.code &&
                          (status.code() == StatusCode::kNotFound || status.code() == StatusCode::kFailedPrecondition);
      if (layer_.struck() == 0) Report(Format("{}: an error before the fault: {}", what, status.ToString()));
      else if (status.code() != expected && !absent)
        Report(Format("{}: the wrong kind of error: {}", what, status.ToString()));
      return false;
    };
    auto created = Client::Create(device_, {.wait_limit = std::chrono::seconds(60)});
    if (!said_well(created ? Result<>() : Result<>(Failure(created.error())), "create")) return;
    client_ = std::move(*created);
    if (!said_well(Compile(network, mode), "compile")) return;
    // A run that failed is followed by one that works, if the device is there.
    for (int run = 0; run < 3; ++run) said_well(Run(network), "run");
    if (!said_well(Compile(network, mode), "second compile")) return;
    for (int run = 0; run < 2; ++run) said_well(Run(network), "run of the second");
  }

  // After the fault, in the client that met it.
  void Again(const Network& network, const Mode& mode, const Error& error) {
    if (client_ == nullptr) return;
    if (executable_ != nullptr) {
      const Result<> run = Run(network);
      // What was compiled for a device that was lost says so, every time.
      const bool lost = executable_->IsLost();
      if (!run && (!lost || run.error().code() != StatusCode::kAborted))
        Report("the same executable: " + run.error().ToString());
      if (run && lost) Report("a lost device ran a program");
      if (lost && error.code != kLost.code) Report("the device is lost after another error");
    }
    Result<> again = Compile(network, mode);
    if (again) again = Run(network);
    if (again) again = Run(network);
    if (!again) Report("the same client: " + again.error().ToString());
  }

  Layer layer_;
  std::string device_;
  std::shared_ptr<Client> client_;
  std::unique_ptr<Executable> executable_;
  std::map<std::string, Tally> tallies_;
  int failures_ = 0;
  bool had_error_ = false;
};

Result<Network> LoadNetwork(const std::string& folder) {
  Network out;
  KRAFLA_ASSIGN(CaseList list, FindCases(folder));
  if (list.cases.size() != 1) return NotFound("'{}' is not a model", folder);
  out.recorded = std::move(list.cases[0]);
  KRAFLA_ASSIGN(out.bytes, ReadFile(out.recorded.module_path));
  return out;
}

int Main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr,
                 "fault_sweep LAYER.so MODELS [-d DEVICE] [--full] [--function NAME] [--model NAME] [--mode NAME] "
                 "[--verbose]\n");
    return 2;
  }
  const fs::path library = fs::absolute(argv[1]);
  std::string device = "vulkan", only_function, only_model, only_mode;
  bool full = false, verbose = false;
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--full") full = true;
    else if (word == "--verbose") verbose = true;
    else if (i + 1 < argc && word == "-d") device = argv[++i];
    else if (i + 1 < argc && word == "--function") only_function = argv[++i];
    else if (i + 1 < argc && word == "--model") only_model = argv[++i];
    else if (i + 1 < argc && word == "--mode") only_mode = argv[++i];
    else return std::fprintf(stderr, "fault_sweep: unknown argument '%s'\n", argv[i]), 2;
  }
  setenv("VK_ADD_LAYER_PATH", library.parent_path().c_str(), 1);
  setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KRAFLA_fault", 1);
  const std::string cache = Format("{}/krafla-faults-{}", fs::temp_directory_path().string(), getpid());
  setenv("KRAFLA_CACHE_DIR", cache.c_str(), 1);
  for (int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) signal(number, OnSignal);
  Layer layer;
  if (!layer.Load(library.string())) return std::fprintf(stderr, "fault_sweep: %s\n", dlerror()), 2;
  const std::vector<std::string> functions = layer.functions;
  Sweep sweep(std::move(layer), device);
  sweep.verbose = verbose;
  if (auto client = Client::Create(device); !client) {
    std::fprintf(stderr, "skipped: %s\n", client.error().ToString().c_str());
    return 77;
  }

  std::size_t number = 0;  // of all that is tried: spreads errors and networks where not all are taken
  for (const Mode& mode : kModes) {
    if (!only_mode.empty() && only_mode != mode.name) continue;
    std::vector<Network> networks;
    std::vector<std::vector<int64_t>> counts;
    for (const char* name : kModels) {
      if (!only_model.empty() && only_model != name) continue;
      auto network = LoadNetwork(std::string(argv[2]) + "/" + name);
      if (!network) return std::fprintf(stderr, "fault_sweep: %s\n", network.error().ToString().c_str()), 2;
      auto count = sweep.Count(*network, mode);
      if (!count) return std::fprintf(stderr, "fault_sweep: %s: %s\n", current, count.error().ToString().c_str()), 2;
      networks.push_back(std::move(*network));
      counts.push_back(std::move(*count));
    }
    for (std::size_t f = 0; f < functions.size(); ++f) {
      if (!only_function.empty() && only_function != functions[f]) continue;
      const std::vector<Error> errors = ErrorsOf(functions[f]);
      if (full) {
        for (std::size_t m = 0; m < networks.size(); ++m)
          for (int64_t n = 1; n <= counts[m][f]; ++n)
            for (const Error& error : errors) sweep.Try(networks[m], mode, f, n, error);
        continue;
      }
      // What a mode adds: the calls of the second are others, and from an empty cache the first ones are the
      // self-test's.
      const int64_t step = std::strcmp(mode.name, "plain") == 0 ? 2 : 8;
      for (int64_t n = 1; n <= counts[number % networks.size()][f]; n *= step, ++number)
        sweep.Try(networks[number % networks.size()], mode, f, n, errors[number % errors.size()]);
    }
  }
  std::error_code error;
  fs::remove_all(cache, error);
  return sweep.Print();
}

}  // namespace
}  // namespace krafla

int main(int argc, char** argv) { return krafla::Main(argc, argv); }
