// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/other_formats.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

namespace krafla {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kExportFromJax =
    "Export the model from JAX: jax.export.export(jax.jit(f))(x).mlir_module_serialized is StableHLO";
constexpr std::string_view kWeightsOnly =
    "It holds weights and no program. Export the program, as StableHLO or ONNX, with its weights";
constexpr std::string_view kFromTorch = "Export it with torch.onnx.export(model, args, \"model.onnx\")";
constexpr std::string_view kFromKeras =
    "Load it with Keras on JAX (KERAS_BACKEND=jax) and export it: jax.export.export(jax.jit(model.call))(x)"
    ".mlir_module_serialized is StableHLO";
constexpr std::string_view kFromTensorFlow =
    "Convert it to ONNX with tf2onnx, or export the model from JAX or Keras as StableHLO";

// A number of seven bits a byte, as protobuf writes it; `at` moves behind it.
std::optional<uint64_t> Varint(std::string_view bytes, std::size_t& at) {
  uint64_t out = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
  return std::nullopt;
}

// ModelProto begins with ir_version (1) and goes on with producer_name (2), graph (7) or opset_import (8); a
// SavedModel begins with the version 1 and its first MetaGraphDef (2), which begins with a message.
OtherFormat Protobuf(std::string_view bytes) {
  std::size_t at = 1;
  const std::optional<uint64_t> version = Varint(bytes, at);
  if (bytes.empty() || bytes[0] != '\x08' || !version || at >= bytes.size()) return {};
  const char tag = bytes[at++];
  const std::optional<uint64_t> length = Varint(bytes, at);
  if (!length || *length > bytes.size() - std::min(at, bytes.size())) return {};
  if (*version == 1 && tag == '\x12' && *length > 200) return {"a TensorFlow SavedModel", kFromTensorFlow};
  if (*version >= 1 && *version <= 64 && (tag == '\x12' || tag == '\x1a' || tag == '\x3a' || tag == '\x42'))
    return {"an ONNX model", "krafla import makes a module of it"};
  return {};
}

OtherFormat Zip(std::string_view bytes) {
  const auto has = [&](std::string_view name) { return bytes.find(name) != std::string_view::npos; };
  // The names stand uncompressed in the list at the end, and before each file.
  if (has(".dist-info/")) return {"a Python wheel", "Unpack it: the model is a file inside"};
  if (has("model.weights.h5")) return {"a Keras model", kFromKeras};
  if (has("archive_format") || has("data/aotinductor") || has("models/model.json"))
    return {"a program of torch.export", kFromTorch};
  if (has("data.pkl")) return {"a PyTorch or TorchScript file", kFromTorch};
  if (has(".npy")) return {"an archive of arrays (.npz)", "It is given with --inputs"};
  return {"a zip archive", "Unpack it: a module is a file inside"};
}

bool IsSafetensors(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < 10) return false;
  std::memcpy(&length, bytes.data(), 8);
  return length >= 2 && length <= bytes.size() - 8 && bytes[8] == '{' && bytes[8 + length - 1] != '\0' &&
         bytes.substr(8, length).find('}') != std::string_view::npos;
}

struct Magic {
  std::string_view begin;
  std::size_t at;
  OtherFormat format;
};
constexpr Magic kMagics[] = {
    {"GGUF"sv, 0, {"a GGUF file (llama.cpp)", kWeightsOnly}},
    {"TFL3"sv, 4, {"a TensorFlow Lite model", kFromTensorFlow}},
    {"\x89HDF\r\n\x1a\n"sv, 0, {"an HDF5 file (Keras)", kFromKeras}},
    {"\x93NUMPY"sv, 0, {"an array (.npy)", "It is given with --input NAME=@FILE"}},
    {"version https://git-lfs.github.com/"sv, 0, {"a pointer of Git LFS", "'git lfs pull' fetches the file itself"}},
    {"\x03\x02\x23\x07"sv, 0, {"SPIR-V", "krafla makes SPIR-V of modules; it does not read it"}},
    {"BC\xc0\xde"sv, 0, {"LLVM bitcode", kExportFromJax}},
    {"\x7f"
     "ELF"sv,
     0,
     {"a program or library", "A module is expected: HLO or StableHLO"}},
    {"\x1f\x8b"sv, 0, {"compressed by gzip", "Unpack it first"}},
    {"\x28\xb5\x2f\xfd"sv, 0, {"compressed by zstd", "Unpack it first"}},
    {"\xfd"
     "7zXZ"sv,
     0,
     {"compressed by xz", "Unpack it first"}},
    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9"sv, 0, {"an old PyTorch file", kFromTorch}},
    {"\x80\x02"sv, 0, {"a Python pickle", kExportFromJax}},
    {"\x80\x04\x95"sv, 0, {"a Python pickle", kExportFromJax}},
    {"\x80\x05\x95"sv, 0, {"a Python pickle", kExportFromJax}},
    {"<?xml"sv, 0, {"XML", "A module is expected: HLO or StableHLO"}},
    {"<!DOCTYPE"sv, 0, {"a page of the web", "The download gave a page in place of the file"}},
    {"<!doctype"sv, 0, {"a page of the web", "The download gave a page in place of the file"}},
    {"<html"sv, 0, {"a page of the web", "The download gave a page in place of the file"}},
};

}  // namespace

OtherFormat RecognizeOther(std::string_view bytes) {
  for (const Magic& magic : kMagics)
    if (bytes.size() >= magic.at + magic.begin.size() && bytes.substr(magic.at).starts_with(magic.begin))
      return magic.format;
  if (bytes.starts_with("PK\x03\x04")) return Zip(bytes);
  // A table in front of StableHLO bytecode.
  if (!bytes.starts_with("ML\xefR") && bytes.substr(0, 1 << 16).find("ML\xefR") != std::string_view::npos)
    return {"an archive of jax.export (Exported.serialize)",
            "krafla reads what is inside: jax.export.deserialize(data).mlir_module_serialized"};
  if (IsSafetensors(bytes)) return {"a safetensors file", kWeightsOnly};
  return Protobuf(bytes);
}

}  // namespace krafla
