// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "api/host/host_transfers.h"
#include "command.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "ir/verifier.h"
#include "recorded/npz.h"

namespace krafla::cli {
namespace {

// "f32[2,2]=1 2 3 4": values in row-major order, separated by spaces or commas.
Result<Literal> ParseInput(const std::string& text) {
  std::size_t eq = text.find('=');
  if (eq == std::string::npos)
    return InvalidArgument("'{}' is not an argument; expected a form such as 'f32[2,2]=1 2 3 4'.", text);
  KRAFLA_ASSIGN(Shape shape, ParseShape(std::string_view(text).substr(0, eq)));
  if (!shape.IsArray()) return InvalidArgument("'{}': Only arrays can be given in this form.", text);
  // The flat list as a literal of one dimension, then seen as the shape.
  int64_t flat[] = {shape.element_count()};
  KRAFLA_ASSIGN(Shape flat_shape, Shape::MakeArray(shape.element_type(), flat));
  std::string body = "{";
  bool in_value = false;
  for (char c : text.substr(eq + 1)) {
    bool separator = c == ' ' || c == ',';
    if (!separator && !in_value && body.size() > 1) body += ", ";
    if (!separator) body += c;
    in_value = !separator;
  }
  body += "}";
  KRAFLA_ASSIGN(Literal literal, ParseLiteral(body, flat_shape));
  return std::move(literal).Reshaped(shape);
}

// "in_{}.npz" for device 3 is "in_3.npz".
std::string ForDevice(std::string path, int64_t device) {
  std::size_t at = path.find("{}");
  return at == path.npos ? path : path.replace(at, 2, std::to_string(device));
}

// What the options give a device, as far as it can be told without reading large arrays.
Result<std::vector<Shape>> GivenShapes(const RunOptions& options, int64_t device) {
  std::vector<Shape> out;
  if (!options.inputs.empty()) {
    const std::string path = ForDevice(options.inputs, device);
    if (path.ends_with(".npy"))
      return InvalidArgument("'{}' is one array; --inputs takes an archive of all arguments, as numpy.savez writes it.",
                             path);
    KRAFLA_ASSIGN(const NpzArchive archive, NpzArchive::Open(path));
    for (const NpzArchive::Array& array : archive.arrays()) out.push_back(array.shape);
  }
  for (const std::string& text : options.literals) {
    KRAFLA_ASSIGN(const Literal literal, ParseInput(text));
    out.push_back(literal.shape());
  }
  return out;
}

// Before anything is compiled, which may take long: the arguments are as many as the module takes. Of one device also:
// they are of the right shapes.
Result<> CheckGiven(const RunOptions& options, const Module& module, bool alone) {
  if (options.random) return {};
  const auto parameters = module.entry()->parameters();
  KRAFLA_ASSIGN(const std::vector<Shape> given, GivenShapes(options, 0));
  std::vector<std::pair<std::string, const Shape*>> wanted;
  for (const Instruction* p : parameters)
    for (const Shape* leaf : TupleLeaves(p->shape())) wanted.emplace_back(p->name(), leaf);
  if (given.size() != wanted.size())
    return InvalidArgument("The module takes {} arguments{}{}; {} were given (--inputs, --input or --random).",
                           wanted.size(), wanted.empty() ? "" : ": ", ListOfParameters(module), given.size());
  for (std::size_t i = 0; alone && i < given.size(); ++i)
    if (!CanStandFor(given[i], *wanted[i].second))
      return InvalidArgument("Argument {} ({}): expected {}, got {}.", i, wanted[i].first,
                             wanted[i].second->ToString(false), given[i].ToString(false));
  return {};
}

Result<std::vector<Literal>> Arguments(const RunOptions& options, const std::vector<Shape>& shapes, int64_t device) {
  if (options.random) return RandomArguments(shapes, options.seed + static_cast<uint64_t>(device));
  std::vector<Literal> given;
  if (!options.inputs.empty()) {
    KRAFLA_ASSIGN(std::vector<NamedLiteral> arrays, ReadNpz(ForDevice(options.inputs, device)));
    for (NamedLiteral& a : arrays) given.push_back(std::move(a.literal));
  }
  for (const std::string& text : options.literals) {
    KRAFLA_ASSIGN(Literal literal, ParseInput(text));
    given.push_back(std::move(literal));
  }
  if (given.size() != shapes.size())
    return InvalidArgument("Device {} takes {} arguments, {} were given.", device, shapes.size(), given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    auto adopted = AdoptShape(std::move(given[i]), shapes[i]);
    if (!adopted) return Failure(std::move(adopted).error().WithContext(Format("while reading argument {}", i)));
    given[i] = std::move(*adopted);
  }
  return given;
}

// One result of device `device` (-1: there is one device).
void PrintResult(const Literal& result, std::size_t number, int64_t device, bool json) {
  const std::string shape = result.shape().ToString(false), text = PrintLiteral(result);
  if (json) {
    nlohmann::ordered_json line;
    if (device >= 0) line["device"] = device;
    line["result"] = number;
    line["shape"] = shape;
    line["value"] = text;
    std::printf("%s\n", line.dump().c_str());
  } else if (device >= 0) {
    std::printf("device %lld: %s %s\n", static_cast<long long>(device), shape.c_str(), text.c_str());
  } else {
    std::printf("%s %s\n", shape.c_str(), text.c_str());
  }
}

int Save(const std::string& path, std::vector<Literal> results) {
  std::vector<NamedLiteral> named;
  for (std::size_t i = 0; i < results.size(); ++i) named.push_back({Format("out{:04}", i), std::move(results[i])});
  if (auto written = WriteNpz(path, named); !written) return Fail(written.error());
  return kRight;
}

// Every device gets the same arguments, or those of the file that the path names for it.
int RunTogether(const RunOptions& options, DeviceGroup& group, std::unique_ptr<Module> module,
                const CompileOptions& compile_options) {
  auto executable = group.Compile(std::move(module), compile_options, options.device.ToGroupOptions());
  if (!executable) return Fail(InFile(options.module, executable.error()));
  if (!options.save.empty() && options.save.find("{}") == std::string::npos)
    return Fail(Status(
        StatusCode::kInvalidArgument,
        Format(
            "Each device has results: the file name needs a place for the device's number, as in --save out{{}}.npz, not {}.",
            options.save)));
  std::fprintf(stderr, "krafla: %s\n", (*executable)->PlacementLine().c_str());
  for (int64_t d = 0; d < (*executable)->device_count(); ++d) {
    auto arguments = Arguments(options, (*executable)->arguments(), d);
    if (!arguments) return Fail(arguments.error());
    std::vector<const Literal*> pointers;
    for (const Literal& a : *arguments) pointers.push_back(&a);
    if (auto set = (*executable)->SetArguments(d, pointers); !set) return Fail(set.error());
  }
  const RunLimit limit = options.device.ToRunLimit();
  (*executable)->SetLimit(&limit);
  if (auto done = (*executable)->Execute(); !done) return Fail(done.error());
  std::fprintf(stderr, "krafla: peak %.0f MB\n", static_cast<double>(PeakBytes()) / 1e6);
  for (int64_t d = 0; d < (*executable)->device_count(); ++d) {
    auto results = (*executable)->Results(d);
    if (!results) return Fail(results.error());
    if (!options.save.empty()) {
      if (int code = Save(ForDevice(options.save, d), std::move(*results)); code != kRight) return code;
      continue;
    }
    for (std::size_t r = 0; r < results->size(); ++r) PrintResult((*results)[r], r, d, options.device.json);
  }
  return kRight;
}

int RunAlone(const RunOptions& options, Client& client, std::unique_ptr<Module> module,
             const CompileOptions& compile_options) {
  auto executable = client.Compile(std::move(module), compile_options);
  if (!executable) return Fail(InFile(options.module, executable.error()));
  std::fprintf(stderr, "krafla: %s\n", (*executable)->PlacementLine().c_str());
  auto arguments = Arguments(options, (*executable)->arguments(), 0);
  if (!arguments) return Fail(arguments.error());
  auto results = (*executable)->RunShared(ToShared(std::move(*arguments)), options.device.ToRunLimit());
  if (!results) return Fail(results.error());
  std::fprintf(stderr, "krafla: peak %.0f MB\n", static_cast<double>(PeakBytes()) / 1e6);
  if (const DeviceWork work = (*executable)->device_work(); work.longest_ms > 0)
    std::fprintf(stderr, "krafla: %d submissions of %s, the longest of %s\n", work.submissions,
                 FormatMs(work.measured_ms).c_str(), FormatMs(work.longest_ms).c_str());
  if (!options.save.empty()) return Save(options.save, std::move(*results));
  for (std::size_t r = 0; r < results->size(); ++r) PrintResult((*results)[r], r, -1, options.device.json);
  return kRight;
}

}  // namespace

int Run(const RunOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  auto module = LoadModule(options.module);
  if (!module) return Fail(module.error());
  if (options.replicas > 0) (*module)->replica_count = options.replicas;
  if (options.partitions > 0) (*module)->num_partitions = options.partitions;
  const bool alone = (*module)->replica_count == 1 && (*module)->num_partitions == 1;
  if (auto verified = Verify(**module); !verified) return Fail(InFile(options.module, verified.error()));
  if (auto checked = CheckGiven(options, **module, alone); !checked) return Fail(checked.error());
  // Nobody feeds a program that is run from here.
  compile_options->transfers = HostTransfers::WithoutHost();
  auto group = DeviceGroup::Create(options.device.selector);
  if (!group) return FailDevice(group.error());
  if (alone)
    if (auto tuned = TuneFirst(options.tune, options.device.selector, **module, *compile_options); !tuned)
      return Fail(InFile(options.module, tuned.error()));
  const int code = alone ? RunAlone(options, (*group)->client(0), std::move(*module), *compile_options)
                         : RunTogether(options, **group, std::move(*module), *compile_options);
  // Under KRAFLA_VALIDATE a right answer got in a wrong way is a failure too.
  const std::vector<std::string> messages = (*group)->TakeValidationMessages();
  for (const std::string& message : messages) std::fprintf(stderr, "krafla: validation: %s\n", message.c_str());
  return code == kRight && !messages.empty() ? kCheckFailed : code;
}

}  // namespace krafla::cli
