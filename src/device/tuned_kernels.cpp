// SPDX-License-Identifier: Apache-2.0
#include "device/tuned_kernels.h"

#include <vector>

#include "device/json_fields.h"
#include "device/tuning.h"

namespace krafla {
namespace {

// Of the file, and of what a problem's key is made of (api/vulkan/emitted_kernels.cpp).
constexpr uint32_t kTunedFormat = 1;

// One field at a time, or those that belong together: what wins is taken as it is, and not joined with others. What
// makes no difference to a kernel is not timed.
constexpr TuningCandidate kTuningCandidates[] = {
    {"loop", R"({"loop":{"local":32}})"},
    {"loop", R"({"loop":{"local":64}})"},
    {"loop", R"({"loop":{"local":128}})"},
    {"loop", R"({"loop":{"local":256}})"},
    {"loop", R"({"loop":{"local":512}})"},
    {"loop", R"({"loop":{"workgroup_points":0}})"},
    {"loop", R"({"loop":{"workgroup_points":2048}})"},
    {"loop", R"({"loop":{"workgroup_points":32768}})"},
    {"loop", R"({"loop":{"local":128,"workgroup_points":4096}})"},
    {"loop", R"({"loop":{"tile_rows":1}})"},
    {"loop", R"({"loop":{"tile_in_shared_memory":false}})"},
    {"loop", R"({"loop":{"tile_columns":16}})"},
    {"reduce", R"({"reduce":{"serial_local":32}})"},
    {"reduce", R"({"reduce":{"serial_local":128}})"},
    {"reduce", R"({"reduce":{"workgroup_points":0}})"},
    {"reduce", R"({"reduce":{"workgroup_points":32768}})"},
    {"reduce", R"({"reduce":{"subgroup_local":256}})"},
    {"reduce", R"({"reduce":{"short_row":8}})", true},
    {"reduce", R"({"reduce":{"short_row":128}})", true},
    {"reduce", R"({"reduce":{"subgroup_row":512}})", true},
    {"reduce", R"({"reduce":{"workgroup_local":128}})", true},
    {"reduce", R"({"reduce":{"workgroup_local":512}})", true},
    {"reduce", R"({"reduce":{"wanted_invocations":65536}})", true},
    {"reduce", R"({"reduce":{"long_row":16384}})", true},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":32,"columns":32,"depth":16,"thread_rows":4}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":64,"columns":64,"depth":16,"thread_rows":4}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":64,"columns":64,"depth":16,"thread_rows":8}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":128,"columns":64,"depth":16,"thread_rows":8}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":128,"columns":128,"depth":16,"thread_rows":8}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[{"rows":64,"columns":64,"depth":32,"thread_rows":4}]}})"},
    {"dot", R"({"dot":{"shared_tiles":[]}})"},
    {"dot", R"({"coop":{"used":false}})"},
    {"dot", R"({"coop":{"first_step_apart":true}})"},
    {"dot", R"({"coop":{"tiles":[{"rows":64,"columns":64,"subgroup_rows":2,"subgroup_columns":2}]}})"},
    {"dot", R"({"coop":{"tiles":[{"rows":128,"columns":128,"subgroup_rows":2,"subgroup_columns":2}]}})"},
    {"dot", R"({"coop":{"tiles":[{"rows":128,"columns":64,"subgroup_rows":4,"subgroup_columns":2}]}})"},
    {"dot", R"({"coop":{"flexible_tiles":[{"rows":128,"columns":256,"lanes":256}]}})"},
    {"dot", R"({"coop":{"flexible_tiles":[{"rows":128,"columns":128,"lanes":256}]}})"},
    {"dot", R"({"coop":{"flexible_tiles":[{"rows":64,"columns":64,"lanes":128}]}})"},
    {"dot", R"({"panel":{"lanes":16}})"},
    {"dot", R"({"panel":{"lanes":64}})"},
    {"dot", R"({"dot":{"pack_panels":true,"pack_rows":8}})"},
    {"dot", R"({"dot":{"pack_panels":false}})"},
    {"dot", R"({"dot":{"wanted_sums":0}})", true},
    {"dot", R"({"dot":{"wanted_sums":524288}})", true},
    {"dot", R"({"dot":{"rows_local":128}})", true},
    {"dot", R"({"dot":{"rows_local":256}})", true},
    {"dot", R"({"dot":{"column_slices":16}})", true},
    {"dot", R"({"dot":{"column_lanes":16,"column_slices":16}})", true},
    {"dot", R"({"dot":{"wanted_invocations":65536}})", true},
    {"convolution", R"({"conv":{"shared_tiles":[{"rows":32,"columns":32,"depth":16,"thread_rows":4}]}})"},
    {"convolution", R"({"conv":{"shared_tiles":[{"rows":64,"columns":64,"depth":16,"thread_rows":4}]}})"},
    {"convolution", R"({"conv":{"shared_tiles":[{"rows":128,"columns":64,"depth":16,"thread_rows":8}]}})"},
    {"convolution", R"({"conv":{"shared_tiles":[]}})"},
    {"convolution", R"({"coop":{"used":false}})"},
    {"convolution", R"({"coop":{"tiles":[{"rows":64,"columns":64,"subgroup_rows":2,"subgroup_columns":2}]}})"},
    {"convolution", R"({"conv":{"direct_local":128}})"},
    {"convolution", R"({"dot":{"wanted_sums":0}})", true},
    {"convolution", R"({"dot":{"wanted_sums":524288}})", true},
    {"convolution", R"({"panel":{"lanes":16}})"},
    {"convolution", R"({"panel":{"lanes":64}})"},
    {"convolution", R"({"conv":{"reorder_products":4}})"},
    {"convolution", R"({"conv":{"reorder_products":1e9}})"},
    {"sort", R"({"sort":{"rank_row":64}})"},
    {"sort", R"({"sort":{"rank_row":1024}})"},
    {"sort", R"({"sort":{"whole_row":1024}})"},
    {"sort", R"({"sort":{"merge_local":128}})"},
    {"sort", R"({"sort":{"item_local":128}})"},
    {"scan", R"({"scan":{"local":128}})"},
    {"scan", R"({"scan":{"local":32}})"},
    {"scan", R"({"scan":{"least_chunk":64}})", true},
    {"scan", R"({"scan":{"few_lines":65536}})", true},
    {"scatter", R"({"scatter":{"atomics":false}})"},
    {"scatter", R"({"scatter":{"shares_local":128}})"},
    {"scatter", R"({"scatter":{"wanted_invocations":8192}})"},
    {"scatter", R"({"scatter":{"wanted_invocations":131072}})"},
    {"scatter", R"({"scatter":{"apart_local":128}})"},
    {"scatter", R"({"scatter":{"apart_local":256}})"},
    {"fft", R"({"fft":{"local":32}})"},
    {"fft", R"({"fft":{"local":128}})"},
    {"linalg", R"({"linalg":{"local":32}})"},
    {"linalg", R"({"linalg":{"local":128}})"},
    {"linalg", R"({"linalg":{"block":16}})", true},
};

struct TunedEntry {
  std::string problem;
  TunedKernel kernel;
};
struct TunedFile {
  uint32_t format = 0;
  std::string krafla, device, device_uuid, driver;
  uint32_t driver_version = 0;
  std::vector<TunedEntry> kernels;
};

template <Is<TunedEntry> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("problem", x.problem);
  v("name", x.kernel.name);
  v("family", x.kernel.family);
  v("tuning", x.kernel.tuning);
  v("default_variant", x.kernel.default_variant);
  v("variant", x.kernel.variant);
  v("default_ms", x.kernel.default_ms);
  v("ms", x.kernel.ms);
  v("other_sums", x.kernel.other_sums);
}

template <Is<TunedFile> Self, typename Visitor>
void VisitFields(Self& x, Visitor&& v) {
  v("format", x.format);
  v("krafla", x.krafla);
  v("device", x.device);
  v("device_uuid", x.device_uuid);
  v("driver", x.driver);
  v("driver_version", x.driver_version);
  v("kernels", x.kernels);
}

TunedFile FileFor(const DeviceProfile& p) {
  return {
      kTunedFormat, KRAFLA_VERSION, p.name, p.device_uuid, p.driver_name + " " + p.driver_info, p.driver_version, {}};
}

}  // namespace

std::span<const TuningCandidate> TuningCandidates() { return kTuningCandidates; }

std::string TunedToJson(const TunedKernels& tuned, const DeviceProfile& profile) {
  TunedFile file = FileFor(profile);
  for (const auto& [problem, kernel] : tuned.kernels) file.kernels.push_back({problem, kernel});
  return ToJsonValue(file).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<TunedKernels> ParseTuned(std::string_view json, const DeviceProfile& profile) {
  TunedFile file;
  KRAFLA_TRY(JsonReader("list of tuned kernels").Read(json, file));
  const TunedFile here = FileFor(profile);
  const auto is_of = [](std::string_view what, const auto& theirs, const auto& ours) {
    return Status(StatusCode::kFailedPrecondition,
                  Format("The tuned kernels are of {} {}; here it is {}. Run krafla tune here.", what, theirs, ours));
  };
  if (file.format != here.format) return Failure(is_of("format", file.format, here.format));
  if (file.krafla != here.krafla) return Failure(is_of("krafla", file.krafla, here.krafla));
  if (file.device != here.device || file.device_uuid != here.device_uuid)
    return Failure(is_of("device", file.device, here.device));
  if (file.driver != here.driver || file.driver_version != here.driver_version)
    return Failure(is_of("driver", file.driver, here.driver));
  TunedKernels out;
  for (TunedEntry& entry : file.kernels) {
    Tuning tuning = TuningFor(profile);
    if (!entry.kernel.tuning.empty()) KRAFLA_TRY(OverrideTuning(entry.kernel.tuning, tuning));
    out.kernels[entry.problem] = std::move(entry.kernel);
  }
  return out;
}

}  // namespace krafla
