// SPDX-License-Identifier: Apache-2.0
// ONNX models of a few nodes, written byte by byte: names, shapes, control flow, and what is refused.
#include "krafla/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <protozero/pbf_writer.hpp>

#include "krafla/local_client.h"
#include "krafla/session.h"

namespace krafla::testing {
namespace {

using ::testing::HasSubstr;

// Messages of onnx.proto, by the numbers of their fields.
std::string Node(const std::string& op, std::initializer_list<const char*> inputs,
                 std::initializer_list<const char*> outputs, const std::string& domain = "",
                 std::initializer_list<std::pair<const char*, int64_t>> attributes = {}) {
  std::string out;
  protozero::pbf_writer w(out);
  for (const char* name : inputs) w.add_string(1, name);
  for (const char* name : outputs) w.add_string(2, name);
  w.add_string(3, op + "_node");
  w.add_string(4, op);
  for (const auto& [name, value] : attributes) {
    std::string attribute;
    protozero::pbf_writer a(attribute);
    a.add_string(1, name);
    a.add_int64(3, value);
    a.add_int32(20, 2);  // an integer
    w.add_message(5, attribute);
  }
  if (!domain.empty()) w.add_string(7, domain);
  return out;
}
// An f32 array; a negative size is a dimension named "n".
std::string Info(const std::string& name, const std::vector<int64_t>& dims) {
  std::string shape;
  protozero::pbf_writer s(shape);
  for (int64_t d : dims) {
    std::string dim;
    protozero::pbf_writer w(dim);
    if (d >= 0) w.add_int64(1, d);
    else w.add_string(2, "n");
    s.add_message(1, dim);
  }
  std::string tensor, type, out;
  protozero::pbf_writer t(tensor), y(type), o(out);
  t.add_int32(1, 1);
  t.add_message(2, shape);
  y.add_message(1, tensor);
  o.add_string(1, name);
  o.add_message(2, type);
  return out;
}
std::string Weights(const std::string& name, const std::vector<float>& values, const std::string& location = "") {
  std::string out;
  protozero::pbf_writer w(out);
  w.add_int64(1, static_cast<int64_t>(values.size()));
  w.add_int32(2, 1);
  w.add_string(8, name);
  if (location.empty()) {
    w.add_bytes(9, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return out;
  }
  std::string entry;
  protozero::pbf_writer e(entry);
  e.add_string(1, "location");
  e.add_string(2, location);
  w.add_message(13, entry);
  w.add_int32(14, 1);
  return out;
}
struct GraphParts {
  std::vector<std::string> nodes, weights, inputs, outputs;
};
std::string Model(const GraphParts& parts, int64_t opset = 17) {
  std::string graph, version, out;
  protozero::pbf_writer g(graph), v(version), o(out);
  for (const std::string& node : parts.nodes) g.add_message(1, node);
  g.add_string(2, "graph");
  for (const std::string& tensor : parts.weights) g.add_message(5, tensor);
  for (const std::string& input : parts.inputs) g.add_message(11, input);
  for (const std::string& output : parts.outputs) g.add_message(12, output);
  v.add_int64(2, opset);
  o.add_int64(1, 8);
  o.add_message(7, graph);
  o.add_message(8, version);
  return out;
}
std::string Sum(const std::vector<int64_t>& dims) {
  return Model({{Node("Add", {"x", "w"}, {"y"})}, {Weights("w", {1, 2, 3})}, {Info("x", dims)}, {Info("y", dims)}});
}

TEST(OnnxImport, NamesAndAnswers) {
  const std::string bytes = Sum({2, 3});
  EXPECT_TRUE(LooksLikeOnnx(bytes));
  auto model = ImportOnnx(bytes);
  ASSERT_TRUE(model.has_value()) << model.error().ToString();
  EXPECT_EQ(model->inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(model->outputs, std::vector<std::string>{"y"});

  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  auto session = Session::Load(*client, model->computation);
  ASSERT_TRUE(session.has_value()) << session.error().ToString();
  ASSERT_EQ(session->FindInput("x").value_or(7), 0u);
  ASSERT_EQ(session->FindOutput("y").value_or(7), 0u);
  const std::array<float, 6> x = {0, 10, 20, 30, 40, 50};
  std::array<float, 6> y = {};
  const InputBytes in[] = {std::as_bytes(std::span(x))};
  const OutputBytes out[] = {std::as_writable_bytes(std::span(y))};
  auto run = session->Run(in, out);
  ASSERT_TRUE(run.has_value()) << run.error().ToString();
  EXPECT_EQ(y, (std::array<float, 6>{1, 12, 23, 31, 42, 53}));
}

// What is beyond the numbers of a type of 8 bits is its largest, or what a cast makes of it.
TEST(OnnxImport, SmallFloatsSaturateOrNot) {
  constexpr int64_t kFloat = 1, kF8E4M3FN = 17;
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  for (const int64_t saturate : {1, 0}) {
    auto model = ImportOnnx(Model({{Node("QuantizeLinear", {"x", "w"}, {"q"}, "",
                                         {{"output_dtype", kF8E4M3FN}, {"saturate", saturate}, {"axis", 0}}),
                                    Node("Cast", {"q"}, {"y"}, "", {{"to", kFloat}})},
                                   {Weights("w", {2, 2, 2})},
                                   {Info("x", {3})},
                                   {Info("y", {3})}},
                                  21));
    ASSERT_TRUE(model.has_value()) << model.error().ToString();
    auto session = Session::Load(*client, model->computation);
    ASSERT_TRUE(session.has_value()) << session.error().ToString();
    const std::array<float, 3> x = {3, 2e6f, -2e6f};
    std::array<float, 3> y = {};
    const InputBytes in[] = {std::as_bytes(std::span(x))};
    const OutputBytes out[] = {std::as_writable_bytes(std::span(y))};
    auto run = session->Run(in, out);
    ASSERT_TRUE(run.has_value()) << run.error().ToString();
    EXPECT_EQ(y[0], 1.5f);
    if (saturate != 0) EXPECT_EQ((std::array{y[1], y[2]}), (std::array{448.f, -448.f}));
    else EXPECT_TRUE(std::isnan(y[1]) && std::isnan(y[2])) << y[1] << " " << y[2];
  }
}

TEST(OnnxImport, AsksForShapesByName) {
  auto open = ImportOnnx(Sum({-1, 3}));
  ASSERT_FALSE(open.has_value());
  EXPECT_EQ(open.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(open.error().ToString(), HasSubstr("x=n,3"));
  OnnxOptions options;
  options.shapes["x"] = {5, 3};
  auto given = ImportOnnx(Sum({-1, 3}), options);
  ASSERT_TRUE(given.has_value()) << given.error().ToString();
  EXPECT_EQ(given->computation.GetProgramShape()->parameters[0].ToString(false), "f32[5,3]");
  OnnxOptions by_dimension;
  by_dimension.dimensions["n"] = 4;
  EXPECT_TRUE(ImportOnnx(Sum({-1, 3}), by_dimension).has_value());
  options.shapes["x"] = {5, 4};
  EXPECT_FALSE(ImportOnnx(Sum({-1, 3}), options).has_value()) << "the model fixes the second dimension to 3";
  options.shapes = {{"z", {1}}};
  EXPECT_FALSE(ImportOnnx(Sum({2, 3}), options).has_value()) << "there is no input of that name";
}

TEST(OnnxImport, SessionsTakeSizes) {
  auto client = LocalClient::Create("cpu");
  ASSERT_TRUE(client.has_value()) << client.error().ToString();
  const std::string bytes = Sum({-1, 3});
  EXPECT_FALSE(Session::LoadBytes(*client, bytes).has_value());
  SessionOptions options;
  options.input_sizes["x"] = {5, 3};
  auto session = Session::LoadBytes(*client, bytes, options);
  ASSERT_TRUE(session.has_value()) << session.error().ToString();
  EXPECT_EQ(session->inputs()[0].shape.ToString(false), "f32[5,3]");
}

TEST(OnnxImport, NamesAllThatIsNotSupported) {
  std::vector<OnnxUnsupported> found;
  auto model = ImportOnnx(Model({{Node("ImageDecoder", {"x"}, {"a"}), Node("Unheard", {"a"}, {"b"}, "org.example"),
                                  Node("Relu", {"b"}, {"y"})},
                                 {},
                                 {Info("x", {4})},
                                 {Info("y", {4})}}),
                          {}, &found);
  ASSERT_FALSE(model.has_value());
  EXPECT_EQ(model.error().code(), StatusCode::kUnimplemented);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].node, "ImageDecoder_node");
  EXPECT_EQ(found[0].opset, 17);
  EXPECT_THAT(found[1].op, HasSubstr("Unheard"));
  EXPECT_THAT(model.error().ToString(), HasSubstr("Unheard"));
}

// Every beginning of a model, and every byte changed, is a model or an error.
TEST(OnnxImport, DamagedBytes) {
  const std::string bytes = Sum({2, 3});
  for (std::size_t size = 0; size < bytes.size(); ++size) (void)ImportOnnx(bytes.substr(0, size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      (void)ImportOnnx(damaged);
    }
  }
  EXPECT_FALSE(ImportOnnx("").has_value());
  EXPECT_FALSE(ImportOnnx("\x08").has_value());
}

// Weights beside the model are read from its folder, and from nowhere else.
TEST(OnnxImport, WeightsInOtherFiles) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "onnx_import_test";
  std::filesystem::create_directories(folder / "models");
  const std::array<float, 3> w = {1, 2, 3};
  for (const auto& path : {folder / "w.bin", folder / "models" / "w.bin"})
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(w.data()), sizeof(w));
  const auto import_with = [&](const std::string& location) {
    const std::filesystem::path path = folder / "models" / "m.onnx";
    std::ofstream(path, std::ios::binary) << Model(
        {{Node("Add", {"x", "w"}, {"y"})}, {Weights("w", {1, 2, 3}, location)}, {Info("x", {3})}, {Info("y", {3})}});
    return ImportOnnxFile(path.string());
  };
  auto beside = import_with("w.bin");
  EXPECT_TRUE(beside.has_value()) << beside.error().ToString();
  for (const std::string& outside : {std::string("../w.bin"), (folder / "w.bin").string(), std::string("none.bin")}) {
    auto model = import_with(outside);
    ASSERT_FALSE(model.has_value()) << outside;
    EXPECT_THAT(model.error().ToString(), HasSubstr("'w'")) << outside;
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace krafla::testing
