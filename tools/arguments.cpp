// SPDX-License-Identifier: Apache-2.0
#include "arguments.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/array_archive.h"
#include "recorded/npy_file.h"

namespace krafla::cli {
namespace {

// The name that the program's source has, from metadata={op_name="params['w']" ...}.
std::string SourceName(const Instruction& parameter) {
  constexpr std::string_view kKey = "op_name=\"";
  const std::string& text = parameter.metadata().metadata;
  const std::size_t begin = text.find(kKey);
  if (begin == std::string::npos) return "";
  std::string out;
  for (std::size_t at = begin + kKey.size(); at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    out += text[at];
  }
  return out;
}

// "x.12" is x of a module whose names were made unique.
std::string WithoutNumber(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size()) return name;
  return name.find_first_not_of("0123456789", dot + 1) == std::string::npos ? name.substr(0, dot) : name;
}

std::string ListOf(const std::vector<Parameter>& parameters) {
  constexpr std::size_t kShown = 12;
  std::string out;
  for (std::size_t i = 0; i < parameters.size() && i < kShown; ++i)
    out += Format("{}{} {}", i == 0 ? "" : ", ", parameters[i].name, parameters[i].shape.ToString(false));
  if (parameters.size() > kShown) out += Format(" and {} more", parameters.size() - kShown);
  return out;
}

constexpr std::size_t kNobody = static_cast<std::size_t>(-1), kSeveral = static_cast<std::size_t>(-2);

// A name of one parameter only; exact names go first.
std::size_t FindParameter(const std::vector<Parameter>& parameters, const std::string& name) {
  std::size_t found = kNobody;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (parameters[p].name == name) return p;
    if (std::ranges::contains(parameters[p].names, name)) found = found == kNobody ? p : kSeveral;
  }
  return found;
}

// Values in row-major order, separated by spaces or commas, as an array of `shape`. In HLO's text "-0" is the integer 0
// (literal_parser.cpp); whoever types it for a floating-point array means the negative zero.
Result<Literal> ParseValues(std::string_view text, const Shape& shape) {
  if (!shape.IsArray()) return InvalidArgument("'{}': Only arrays can be given in this form.", text.substr(0, 60));
  const bool is_float = IsFloat(shape.element_type());
  // The flat list as a literal of one dimension, then seen as the shape.
  int64_t flat[] = {shape.element_count()};
  KRAFLA_ASSIGN(Shape flat_shape, Shape::MakeArray(shape.element_type(), flat));
  std::string body = "{";
  for (std::size_t at = text.find_first_not_of(" ,"), end = 0; at != text.npos;
       at = text.find_first_not_of(" ,", end)) {
    end = std::min(text.find_first_of(" ,", at), text.size());
    const std::string_view value = text.substr(at, end - at);
    body += Format("{}{}{}", body.size() > 1 ? ", " : "", value, value == "-0" && is_float ? ".0" : "");
  }
  body += "}";
  KRAFLA_ASSIGN(Literal literal, ParseLiteral(body, flat_shape));
  return std::move(literal).Reshaped(shape);
}

bool IsNpy(std::string_view begin) { return begin.starts_with("\x93NUMPY"); }

// What a .npy file holds, from its first bytes; none for any other file.
Result<std::optional<Shape>> NpyShapeOf(const std::string& path) {
  KRAFLA_ASSIGN(const InputFile file, InputFile::Open(path));
  std::string begin(static_cast<std::size_t>(std::min<int64_t>(file.size(), kNpyPreambleV2 + kMaxNpyHeader)), '\0');
  KRAFLA_TRY(file.ReadAt(0, begin.data(), begin.size()));
  if (!IsNpy(begin)) return std::nullopt;
  KRAFLA_ASSIGN(const NpyFile npy, ReadNpyBegin(std::as_bytes(std::span(begin)), file.size()));
  return npy.header.shape;
}

}  // namespace

std::vector<std::string> ShapesOfGiven(const ArgumentOptions& options, bool in_order) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name, const Shape& shape) {
    if (!shape.IsArray()) return;
    std::string sizes;
    for (int64_t size : shape.dims()) sizes += Format("{}{}", sizes.empty() ? "" : ",", size);
    out.push_back(name + "=" + sizes);
  };
  if (!options.archive.empty())
    if (const auto archive = ArrayArchive::Open(ForDevice(options.archive, 0)))
      for (std::size_t a = 0; a < archive->arrays().size(); ++a)
        add(in_order ? std::to_string(a) : archive->arrays()[a].name, archive->arrays()[a].shape);
  std::size_t unnamed = 0;
  for (const std::string& text : options.inputs) {
    const std::size_t at = text.starts_with('@') ? 0 : text.rfind("=@"), eq = text.find('=');
    if (at != std::string::npos) {
      const std::string path = ForDevice(text.substr(at == 0 ? 1 : at + 2), 0);
      const std::string name = at == 0 ? std::to_string(unnamed++) : text.substr(0, at);
      if (const auto held = path == "-" ? Result<std::optional<Shape>>() : NpyShapeOf(path); held && *held)
        add(name, **held);
    } else if (const auto stated = ParseShape(text.substr(0, eq)); stated) {
      add(std::to_string(unnamed++), *stated);
    }
  }
  return out;
}

std::string ForDevice(std::string path, int64_t device) {
  std::size_t at = path.find("{}");
  return at == path.npos ? path : path.replace(at, 2, std::to_string(device));
}

std::vector<Parameter> ParametersOf(const Module& module) {
  std::vector<Parameter> out;
  for (const Instruction* p : module.entry()->parameters()) {
    const std::vector<const Shape*> leaves = TupleLeaves(p->shape());
    std::vector<std::string> names = {WithoutNumber(p->name())};
    if (std::string source = SourceName(*p); !source.empty()) names.push_back(std::move(source));
    for (std::size_t l = 0; l < leaves.size(); ++l) {
      const std::string leaf = p->shape().IsTuple() ? Format("{{{}}}", l) : "";
      Parameter one{p->name() + leaf, {std::to_string(out.size())}, *leaves[l]};
      for (const std::string& name : names) one.names.push_back(name + leaf);
      out.push_back(std::move(one));
    }
  }
  return out;
}

Result<GivenArguments> GivenArguments::Find(const ArgumentOptions& options, std::vector<Parameter> parameters,
                                            int64_t device, bool exact) {
  GivenArguments out;
  out.options_ = &options;
  out.device_ = device;
  out.parameters_ = std::move(parameters);
  out.sources_.resize(out.parameters_.size());
  if (options.random) return out;
  if (!options.archive.empty()) KRAFLA_TRY(out.AddArchive(ForDevice(options.archive, device)));
  std::size_t next = 0;
  for (const std::string& text : options.inputs) KRAFLA_TRY(out.AddInput(text, next));
  KRAFLA_TRY(out.CheckAll(exact));
  return out;
}

// By name where all names are those of parameters, else in the order of the archive.
Result<> GivenArguments::AddArchive(const std::string& path) {
  if (path.ends_with(".npy"))
    return InvalidArgument(
        "'{}' is one array; --inputs takes an archive of all arguments, as numpy.savez or safetensors write it, "
        "and --input NAME=@{} takes one.",
        path, path);
  KRAFLA_ASSIGN(const ArrayArchive archive, ArrayArchive::Open(path));
  const std::vector<ArrayArchive::Array>& arrays = archive.arrays();
  std::vector<std::size_t> places;
  std::string stray;
  for (const ArrayArchive::Array& array : arrays) {
    places.push_back(FindParameter(parameters_, array.name));
    if (places.back() >= kSeveral && stray.empty()) stray = array.name;
  }
  const bool some = std::ranges::any_of(places, [](std::size_t p) { return p < kSeveral; });
  if (some && !stray.empty())
    return InvalidArgument("'{}' names some arrays as parameters and one '{}', which is none; the parameters are: {}.",
                           path, stray, ListOf(parameters_));
  // Named ones may leave some for --input.
  if (!some || options_->inputs.empty() ? arrays.size() != parameters_.size() : arrays.size() > parameters_.size())
    return InvalidArgument("The module takes {} arguments{}{}; {} were given (in '{}').", parameters_.size(),
                           parameters_.empty() ? "" : ": ", ListOf(parameters_), arrays.size(), path);
  for (std::size_t a = 0; a < arrays.size(); ++a)
    KRAFLA_TRY(Place(some ? places[a] : a, {Kind::kArchive, path, a, arrays[a].shape}));
  return {};
}

// "x=@a.npy", "x=1 2 3", "f32[2,2]=1 2 3 4", "@a.npy"; without a name it is the next one's.
Result<> GivenArguments::AddInput(const std::string& text, std::size_t& next) {
  while (next < sources_.size() && sources_[next].kind != Kind::kMissing) ++next;
  const std::size_t at = text.rfind("=@"), eq = at != std::string::npos ? at : text.find('=');
  std::size_t place = next;
  std::string value = text;
  if (!text.starts_with('@') && eq == std::string::npos)
    return InvalidArgument(
        "'{}' is not an argument; expected a form such as 'x=@x.npy', 'x=1 2 3 4' or 'f32[2,2]=1 2 3 4'.", text);
  if (!text.starts_with('@')) {
    const std::string name = text.substr(0, eq);
    place = FindParameter(parameters_, name);
    if (place == kSeveral)
      return InvalidArgument("'{}' is the name of several parameters: {}.", name, ListOf(parameters_));
    if (place != kNobody) {
      value = text.substr(eq + 1);
    } else if (at != std::string::npos || !ParseShape(name)) {
      return InvalidArgument("There is no parameter '{}'; the parameters are: {}.", name,
                             parameters_.empty() ? "none" : ListOf(parameters_));
    } else {
      place = next;
    }
  }
  if (place >= parameters_.size())
    return InvalidArgument("The module takes {} arguments{}{}; {} were given.", parameters_.size(),
                           parameters_.empty() ? "" : ": ", ListOf(parameters_), options_->inputs.size());
  const Shape* shape = value.size() < text.size() ? &parameters_[place].shape : nullptr;
  auto source = SourceOf(value, shape);
  if (!source)
    return Failure(std::move(source).error().WithContext(
        Format("while reading argument {} ({})", place, parameters_[place].name)));
  return Place(place, std::move(*source));
}

// `shape`: of the parameter that values are for; null: they say so themselves.
Result<GivenArguments::Source> GivenArguments::SourceOf(const std::string& text, const Shape* shape) const {
  if (text.starts_with('@')) {
    const std::string path = ForDevice(text.substr(1), device_);
    if (path == "-") return Source{Kind::kRaw, path, 0, {}};
    KRAFLA_ASSIGN(std::optional<Shape> held, NpyShapeOf(path));
    if (!held) return Source{Kind::kRaw, path, 0, {}};
    return Source{Kind::kNpy, path, 0, std::move(*held)};
  }
  if (shape != nullptr) {
    KRAFLA_TRY(ParseValues(text, *shape));
    return Source{Kind::kValues, text, 0, *shape};
  }
  const std::size_t eq = text.find('=');
  KRAFLA_ASSIGN(Shape stated, ParseShape(std::string_view(text).substr(0, eq)));
  KRAFLA_TRY(ParseValues(std::string_view(text).substr(eq + 1), stated));
  return Source{Kind::kValues, text.substr(eq + 1), 0, std::move(stated)};
}

Result<> GivenArguments::Place(std::size_t parameter, Source source) {
  if (sources_[parameter].kind != Kind::kMissing)
    return InvalidArgument("Argument {} ({}) is given twice.", parameter, parameters_[parameter].name);
  sources_[parameter] = std::move(source);
  return {};
}

Result<> GivenArguments::CheckAll(bool exact) const {
  std::size_t given = 0;
  for (const Source& source : sources_) given += source.kind != Kind::kMissing;
  if (given != sources_.size())
    return InvalidArgument("The module takes {} arguments: {}; {} were given (--inputs, --input or --random).",
                           sources_.size(), ListOf(parameters_), given);
  for (std::size_t i = 0; exact && i < sources_.size(); ++i) {
    const Shape& wanted = parameters_[i].shape;
    const Source& source = sources_[i];
    if (source.kind != Kind::kRaw) {
      if (!CanStandFor(source.shape, wanted))
        return InvalidArgument("Argument {} ({}): expected {}, got {}.", i, parameters_[i].name, wanted.ToString(false),
                               source.shape.ToString(false));
      continue;
    }
    if (!wanted.IsArray())
      return InvalidArgument("Argument {} ({}) is {}, for which no bytes can be given.", i, parameters_[i].name,
                             wanted.ToString(false));
    if (source.text == "-") continue;
    KRAFLA_ASSIGN(const InputFile file, InputFile::Open(source.text));
    if (file.size() != wanted.byte_size())
      return InvalidArgument("Argument {} ({}): {} takes {} bytes, '{}' has {}.", i, parameters_[i].name,
                             wanted.ToString(false), wanted.byte_size(), source.text, file.size());
  }
  return {};
}

Result<Literal> GivenArguments::Load(const Source& source, const Shape& shape) const {
  if (source.kind == Kind::kValues) return ParseValues(source.text, source.shape);
  if (source.kind == Kind::kNpy) return ReadNpy(source.text);
  KRAFLA_ASSIGN(const std::string bytes, source.text == "-" ? ReadStandardInput() : ReadFile(source.text));
  if (IsNpy(bytes)) return ReadNpyBytes(std::as_bytes(std::span(bytes)));
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
  if (bytes.size() != out.bytes().size())
    return InvalidArgument("{} takes {} bytes, '{}' has {}.", shape.ToString(false), out.bytes().size(), source.text,
                           bytes.size());
  std::memcpy(out.bytes().data(), bytes.data(), bytes.size());
  // As in an archive: every byte but 0 is true.
  if (shape.element_type() == ElementType::kPred)
    for (uint8_t& b : out.data<uint8_t>()) b = b != 0;
  return out;
}

Result<std::vector<Literal>> GivenArguments::Read(const std::vector<Shape>& shapes) const {
  if (options_->random) {
    return RandomArguments(shapes, options_->seed + static_cast<uint64_t>(device_), options_->Range());
  }
  if (sources_.size() != shapes.size())
    return InvalidArgument("Device {} takes {} arguments, {} were given.", device_, shapes.size(), sources_.size());
  std::optional<ArrayArchive> archive;
  std::vector<Literal> out;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.kind == Kind::kArchive && !archive) { KRAFLA_ASSIGN(archive, ArrayArchive::Open(source.text)); }
    auto read = source.kind == Kind::kArchive ? archive->Read(source.number) : Load(source, shapes[i]);
    auto adopted = read ? AdoptShape(std::move(*read), shapes[i]) : Result<Literal>(Failure(std::move(read).error()));
    if (!adopted)
      return Failure(
          std::move(adopted).error().WithContext(Format("while reading argument {} ({})", i, parameters_[i].name)));
    out.push_back(std::move(*adopted));
  }
  return out;
}

}  // namespace krafla::cli
