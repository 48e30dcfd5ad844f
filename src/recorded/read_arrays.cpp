// SPDX-License-Identifier: Apache-2.0
// The arrays of a recorded case: from a family's data.bin, or a model's npz files.
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "hlo_io/element_codec.h"
#include "hlo_io/hlo_text/hlo_text.h"
#include "recorded/corpus.h"
#include "recorded/json_reading.h"
#include "recorded/npz.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;

Result<Tolerance> ToTolerance(const Json& json) {
  Tolerance out;
  KRAFLA_ASSIGN(std::string kind, StringMember(json, "kind"));
  if (kind == "bits") out.kind = Tolerance::Kind::kBits;
  else if (kind == "exact") out.kind = Tolerance::Kind::kExact;
  else if (kind == "ulp") out.kind = Tolerance::Kind::kUlp;
  else if (kind == "close") out.kind = Tolerance::Kind::kClose;
  else
    return InvalidArgument("'{}' is not a kind of tolerance; the kinds are bits, exact, ulp and close.",
                           kind.substr(0, 40));
  KRAFLA_ASSIGN(out.ulp, IntMember(json, "ulp", 0));
  KRAFLA_ASSIGN(out.atol, RealMember(json, "atol", 0));
  KRAFLA_ASSIGN(out.rtol, RealMember(json, "rtol", 0));
  return out;
}

// data.bin: arrays as ["f32[2,3]", offset, bytes], read one at a time.
class DataFile {
 public:
  explicit DataFile(const std::string& path) : path_(path), in_(InputFile::Open(path)) {}

  Result<Literal> Read(const Json& ref) {
    if (!ref.is_array() || ref.size() != 3 || !ref[0].is_string())
      return InvalidArgument("An array must be given as [shape, offset, bytes].");
    const auto& text = ref[0].get_ref<const std::string&>();
    KRAFLA_ASSIGN(Shape shape, ParseShape(text));
    KRAFLA_ASSIGN(int64_t offset, AsInt(ref[1], "offset"));
    KRAFLA_ASSIGN(int64_t bytes, AsInt(ref[2], "bytes"));
    if (!shape.IsArray() || bytes != shape.byte_size())
      return InvalidArgument("An array of {} takes {} bytes, not {}.", text, shape.byte_size(), bytes);
    if (!in_) return Failure(in_.error());
    const int64_t size = in_->size();
    if (offset < 0 || offset > size || bytes > size - offset)
      return OutOfRange("'{}' has {} bytes; an array of {} at {} is not within it.", path_, size, bytes, offset);
    KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(shape));
    KRAFLA_TRY(in_->ReadAt(offset, out.bytes().data(), out.bytes().size()));
    if (shape.element_type() == ElementType::kPred)
      for (uint8_t b : out.data<uint8_t>())
        if (b > 1) return DataLoss("An array of {} holds {}, which is not a value of pred.", text, b);
    return out;
  }

  Result<std::vector<Literal>> ReadList(const Json& refs) {
    if (!refs.is_array()) return InvalidArgument("Arrays must be given as a list.");
    std::vector<Literal> out;
    for (const Json& ref : refs) {
      KRAFLA_ASSIGN(Literal literal, Read(ref));
      out.push_back(std::move(literal));
    }
    return out;
  }

  // A list of lists: one per device, or one per item of a queue.
  Result<std::vector<std::vector<Literal>>> ReadLists(const Json* lists) {
    std::vector<std::vector<Literal>> out;
    if (lists == nullptr) return out;
    if (!lists->is_array()) return InvalidArgument("Lists of arrays must be given as a list.");
    for (const Json& list : *lists) {
      KRAFLA_ASSIGN(std::vector<Literal> one, ReadList(list));
      out.push_back(std::move(one));
    }
    return out;
  }

  Result<std::vector<std::pair<int64_t, Literal>>> ReadChannels(const Json* map) {
    std::vector<std::pair<int64_t, Literal>> out;
    if (map == nullptr) return out;
    if (!map->is_object()) return InvalidArgument("Host transfers must be given as {{channel: array}}.");
    for (auto it = map->begin(); it != map->end(); ++it) {
      int64_t channel = 0;
      const std::string& key = it.key();
      auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), channel);
      if (error != std::errc() || end != key.data() + key.size())
        return InvalidArgument("'{}' is not a channel number.", key.substr(0, 40));
      KRAFLA_ASSIGN(Literal literal, Read(it.value()));
      out.emplace_back(channel, std::move(literal));
    }
    return out;
  }

 private:
  std::string path_;
  Result<InputFile> in_;
};

Result<RecordedArrays> ReadFamilyCase(const RecordedCase& c) {
  KRAFLA_ASSIGN(Json json, ParseJsonObject(c.manifest_json, c.name));
  DataFile file((fs::path(c.folder) / "data.bin").string());
  RecordedArrays out;
  const Json* inputs = FindMember(json, "inputs");
  const Json* outputs = FindMember(json, "outputs");
  if (inputs == nullptr || outputs == nullptr) return InvalidArgument("A case needs inputs and outputs.");
  const int64_t devices = c.replicas * c.partitions;
  if (devices > 1) {
    KRAFLA_ASSIGN(out.inputs, file.ReadLists(inputs));
    KRAFLA_ASSIGN(out.outputs, file.ReadLists(outputs));
    if (static_cast<int64_t>(out.inputs.size()) != devices || static_cast<int64_t>(out.outputs.size()) != devices)
      return InvalidArgument("{} devices cannot have {} lists of inputs and {} of outputs.", devices, out.inputs.size(),
                             out.outputs.size());
  } else {
    KRAFLA_ASSIGN(std::vector<Literal> in, file.ReadList(*inputs));
    KRAFLA_ASSIGN(std::vector<Literal> expected, file.ReadList(*outputs));
    out.inputs.push_back(std::move(in));
    out.outputs.push_back(std::move(expected));
  }
  const std::size_t count = out.outputs[0].size();
  for (const auto& device : out.outputs) out.alt_outputs.emplace_back(device.size());
  if (const Json* alt = FindMember(json, "alt_outputs")) {
    if (!alt->is_array() || alt->size() != count)
      return InvalidArgument("'alt_outputs' must have one entry per output.");
    for (std::size_t i = 0; i < count; ++i) {
      if ((*alt)[i].is_null()) continue;
      KRAFLA_ASSIGN(Literal literal, file.Read((*alt)[i]));
      out.alt_outputs[0][i] = std::move(literal);
    }
  }
  const Json* tol = FindMember(json, "tol");
  if (tol == nullptr) return InvalidArgument("A case needs 'tol'.");
  if (tol->is_array() && tol->size() != count) return InvalidArgument("'tol' must have one entry per output.");
  for (std::size_t i = 0; i < count; ++i) {
    KRAFLA_ASSIGN(Tolerance tolerance, ToTolerance(tol->is_array() ? (*tol)[i] : *tol));
    out.tolerances.push_back(tolerance);
  }
  if (const Json* dynamic = FindMember(json, "dynamic_dims")) {
    if (!dynamic->is_array()) return InvalidArgument("'dynamic_dims' is not a list.");
    for (const Json& one : *dynamic) {
      std::vector<int64_t> dims;
      if (!one.is_null() && !one.is_array()) return InvalidArgument("'dynamic_dims' holds neither a list nor null.");
      for (const Json& dim : one) {
        if (dim.is_null()) {
          dims.push_back(-1);
          continue;
        }
        KRAFLA_ASSIGN(int64_t n, AsInt(dim, "dynamic_dims"));
        dims.push_back(n);
      }
      out.dynamic_dims.push_back(std::move(dims));
    }
  }
  KRAFLA_ASSIGN(out.infeed, file.ReadLists(FindMember(json, "infeed")));
  KRAFLA_ASSIGN(out.outfeed, file.ReadLists(FindMember(json, "outfeed")));
  KRAFLA_ASSIGN(out.send_to_host, file.ReadChannels(FindMember(json, "send_to_host")));
  KRAFLA_ASSIGN(out.recv_from_host, file.ReadChannels(FindMember(json, "recv_from_host")));
  return out;
}

// "arg0000", "arg0001" ... of an archive, as `shapes` where there are any.
Result<std::vector<Literal>> ReadNumbered(const fs::path& path, std::string_view prefix,
                                          const std::vector<Shape>* shapes) {
  KRAFLA_ASSIGN(std::vector<NamedLiteral> arrays, ReadNpz(path.string()));
  std::map<std::string_view, Literal*> by_name;
  for (NamedLiteral& array : arrays) by_name[array.name] = &array.literal;
  std::vector<Literal> out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    auto it = by_name.find(Format("{}{:04}", prefix, i));
    if (it == by_name.end())
      return InvalidArgument("'{}' has {} arrays but no {}{:04}.", path.string(), arrays.size(), prefix, i);
    out.push_back(std::move(*it->second));
  }
  if (shapes == nullptr) return out;
  if (out.size() != shapes->size())
    return InvalidArgument("'{}' has {} arrays, the program has {}.", path.string(), out.size(), shapes->size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    auto adopted = AdoptShape(std::move(out[i]), (*shapes)[i]);
    if (!adopted)
      return Failure(
          std::move(adopted).error().WithContext(Format("while reading {}{:04} of '{}'", prefix, i, path.string())));
    out[i] = std::move(*adopted);
  }
  return out;
}

// Leaves of tokens have no array.
std::vector<Shape> Arrays(const std::vector<Shape>& shapes) {
  std::vector<Shape> out;
  for (const Shape& s : shapes)
    for (const Shape* leaf : TupleLeaves(s))
      if (leaf->IsArray()) out.push_back(*leaf);
  return out;
}

// The reference where both it and the recorded result are finite, the recorded result elsewhere; as f64 or c128.
Result<Literal> Reference(const Literal& recorded, const Literal& reference) {
  const ElementType type = recorded.shape().element_type(), ref_type = reference.shape().element_type();
  const bool complex = IsComplex(type);
  if (!Shape::SameDims(recorded.shape(), reference.shape()) || complex != IsComplex(ref_type) ||
      !(IsFloat(RealPart(type)) && IsFloat(RealPart(ref_type))))
    return InvalidArgument("outputs_ref.npz has {} for the output {}.", reference.shape().ToString(false),
                           recorded.shape().ToString(false));
  KRAFLA_ASSIGN(Literal out, Literal::CreateUninitialized(
                                 recorded.shape().WithElementType(complex ? ElementType::kC128 : ElementType::kF64)));
  const ElementType from = RealPart(type), ref_from = RealPart(ref_type);
  const int size = StorageBytes(from), ref_size = StorageBytes(ref_from);
  const int parts = complex ? 2 : 1;
  const int64_t count = recorded.shape().element_count();
  const std::byte* a = recorded.bytes().data();
  const std::byte* r = reference.bytes().data();
  std::byte* to = out.bytes().data();
  for (int64_t i = 0; i < count; ++i) {
    double want[2] = {}, ref[2] = {};
    bool finite = true;
    for (int p = 0; p < parts; ++p, a += size, r += ref_size) {
      want[p] = DecodeReal(from, LoadBits(a, size));
      ref[p] = DecodeReal(ref_from, LoadBits(r, ref_size));
      finite = finite && std::isfinite(want[p]) && std::isfinite(ref[p]);
    }
    for (int p = 0; p < parts; ++p, to += sizeof(double)) StoreAs(to, finite ? ref[p] : want[p]);
  }
  return out;
}

Result<RecordedArrays> ReadModel(const RecordedCase& c, const std::vector<Shape>& parameters,
                                 const std::vector<Shape>& results, RecordedPart part) {
  KRAFLA_ASSIGN(Json meta, ParseJsonObject(c.manifest_json, c.name));
  const Json* rows = FindMember(meta, "results");
  if (rows == nullptr || !rows->is_array()) return InvalidArgument("meta.json needs a list 'results'.");
  RecordedArrays out;
  for (const Json& row : *rows) {
    // Neither tolerance: equal as numbers.
    Tolerance tolerance;
    tolerance.kind = Tolerance::Kind::kClose;
    KRAFLA_ASSIGN(tolerance.atol, RealMember(row, "atol", 0));
    KRAFLA_ASSIGN(tolerance.rtol, RealMember(row, "rtol", 0));
    KRAFLA_ASSIGN(tolerance.share, RealMember(row, "share", 0));
    out.tolerances.push_back(tolerance);
  }
  const fs::path folder(c.folder);
  const std::vector<Shape> in_shapes = Arrays(parameters), out_shapes = Arrays(results);
  if (out_shapes.size() != out.tolerances.size())
    return InvalidArgument("The program has {} results, meta.json names {}.", out_shapes.size(), out.tolerances.size());
  std::error_code error;
  const int64_t devices = c.replicas * c.partitions;
  if (devices > 1 && fs::exists(folder / "inputs_dev0.npz", error)) {
    for (int64_t d = 0; d < devices; ++d) {
      KRAFLA_ASSIGN(auto in, ReadNumbered(folder / Format("inputs_dev{}.npz", d), "arg", &in_shapes));
      KRAFLA_ASSIGN(auto expected, ReadNumbered(folder / Format("outputs_dev{}.npz", d), "out", &out_shapes));
      out.inputs.push_back(std::move(in));
      out.outputs.push_back(std::move(expected));
      out.alt_outputs.emplace_back(out_shapes.size());
    }
    return out;
  }
  if (part != RecordedPart::kExpected) {
    KRAFLA_ASSIGN(auto in, ReadNumbered(folder / "inputs.npz", "arg", &in_shapes));
    out.inputs.push_back(std::move(in));
  }
  if (part == RecordedPart::kInputs) return out;
  KRAFLA_ASSIGN(auto expected, ReadNumbered(folder / "outputs.npz", "out", &out_shapes));
  if (fs::exists(folder / "outputs_ref.npz", error)) {
    KRAFLA_ASSIGN(auto references, ReadNumbered(folder / "outputs_ref.npz", "out", nullptr));
    if (references.size() != expected.size())
      return InvalidArgument("outputs_ref.npz has {} arrays, outputs.npz {}.", references.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // What must be equal is compared with the recorded result.
      if (out.tolerances[i].atol == 0 && out.tolerances[i].rtol == 0) continue;
      KRAFLA_ASSIGN(expected[i], Reference(expected[i], references[i]));
    }
  }
  out.outputs.push_back(std::move(expected));
  out.alt_outputs.emplace_back(out_shapes.size());
  return out;
}

}  // namespace

Result<RecordedArrays> ReadArrays(const RecordedCase& c, const std::vector<Shape>& parameters,
                                  const std::vector<Shape>& results, RecordedPart part) {
  auto out = c.is_model ? ReadModel(c, parameters, results, part) : ReadFamilyCase(c);
  if (!out) return Failure(std::move(out).error().WithContext(Format("while reading the arrays of '{}'", c.name)));
  return out;
}

}  // namespace krafla
