// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "command.h"
#include "hlo_io/data/npz.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla::cli {
namespace {

// "f32[2,2]=1 2 3 4": values in row-major order, separated by spaces or commas.
Result<Literal> ParseInput(const std::string& text) {
  std::size_t eq = text.find('=');
  if (eq == std::string::npos) return InvalidArgument("'{}' is no argument: say 'f32[2,2]=1 2 3 4'", text);
  KRAFLA_ASSIGN(Shape shape, ParseShape(std::string_view(text).substr(0, eq)));
  if (!shape.IsArray()) return InvalidArgument("'{}': only arrays can be given so", text);
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

Result<std::vector<Literal>> Arguments(const RunOptions& options, const std::vector<Shape>& shapes) {
  if (options.random) return RandomArguments(shapes, options.seed);
  std::vector<Literal> given;
  if (!options.inputs.empty()) {
    KRAFLA_ASSIGN(std::vector<NamedLiteral> arrays, ReadNpz(options.inputs));
    for (NamedLiteral& a : arrays) given.push_back(std::move(a.literal));
  }
  for (const std::string& text : options.literals) {
    KRAFLA_ASSIGN(Literal literal, ParseInput(text));
    given.push_back(std::move(literal));
  }
  if (given.size() != shapes.size())
    return InvalidArgument("the module takes {} arguments, {} were given (--inputs, --input or --random)", shapes.size(),
                           given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    auto adopted = AdoptShape(std::move(given[i]), shapes[i]);
    if (!adopted) return Failure(std::move(adopted).error().WithContext(std::format("While reading argument {}", i)));
    given[i] = std::move(*adopted);
  }
  return given;
}

}  // namespace

int Run(const RunOptions& options) {
  auto compile_options = options.device.ToCompileOptions();
  if (!compile_options) return Fail(compile_options.error()), kUsage;
  auto module = LoadModule(options.module);
  if (!module) return Fail(module.error());
  auto client = Client::Create(options.device.selector);
  if (!client) return FailDevice(client.error());
  auto executable = (*client)->Compile(std::move(*module), *compile_options);
  if (!executable) return Fail(InFile(options.module, executable.error()));
  std::fprintf(stderr, "krafla: %s\n", (*executable)->PlacementLine().c_str());
  auto arguments = Arguments(options, (*executable)->arguments());
  if (!arguments) return Fail(arguments.error());
  auto results = (*executable)->RunShared(ToShared(std::move(*arguments)));
  if (!results) return Fail(results.error());
  std::fprintf(stderr, "krafla: peak %.0f MB\n", static_cast<double>(PeakBytes()) / 1e6);
  if (!options.save.empty()) {
    std::vector<NamedLiteral> named;
    for (std::size_t i = 0; i < results->size(); ++i)
      named.push_back({std::format("out{:04}", i), std::move((*results)[i])});
    if (auto written = WriteNpz(options.save, named); !written) return Fail(written.error());
    return kRight;
  }
  for (const Literal& r : *results)
    std::printf("%s %s\n", r.shape().ToString(false).c_str(), PrintLiteral(r).c_str());
  return kRight;
}

}  // namespace krafla::cli
