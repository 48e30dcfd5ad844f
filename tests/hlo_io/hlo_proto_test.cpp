// SPDX-License-Identifier: Apache-2.0
#include "hlo_io/hlo_proto/hlo_proto.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "corpus_files.h"
#include "hlo_io/hlo_proto/wire.h"
#include "hlo_io/hlo_text/hlo_text.h"

namespace krafla {
namespace {

Result<std::unique_ptr<Module>> FromProto(std::string_view bytes) {
  return ParseHloProto(std::as_bytes(std::span(bytes)), "test");
}

// An instruction without what texts may say and the proto cannot tell from saying nothing: comments in long lists, the
// type that a comparison has anyway, default precisions, quotes around a dictionary.
std::string Printed(const Instruction& i, const HloPrintOptions& options = {}) {
  std::string out = PrintInstruction(i, options);
  for (std::size_t at; (at = out.find("/*")) != std::string::npos;) out.erase(at, out.find("*/", at) + 2 - at);
  for (std::string_view said :
       {", type=FLOAT", ", type=SIGNED", ", type=UNSIGNED", ", operand_precision={default,default}"})
    if (std::size_t at = out.find(said); at != std::string::npos) out.erase(at, said.size());
  for (std::string_view quoted : {"=\"{", "}\""})
    for (std::size_t at; (at = out.find(quoted)) != std::string::npos;) out.erase(out.find('"', at), 1);
  return out;
}

// Text -> proto -> module again is the same module.
void ExpectRoundTrip(const std::string& text, const std::string& name) {
  SCOPED_TRACE(name);
  auto module = ParseHloText(text, name);
  ASSERT_TRUE(module) << module.error().ToString();
  auto bytes = SerializeHloProto(**module);
  ASSERT_TRUE(bytes) << bytes.error().ToString();
  EXPECT_TRUE(LooksLikeHloProto(*bytes));
  auto again = FromProto(*bytes);
  ASSERT_TRUE(again) << again.error().ToString();
  auto second = SerializeHloProto(**again);
  ASSERT_TRUE(second) << second.error().ToString();
  EXPECT_EQ(*bytes, *second);
  // The proto always has an entry layout and no default precisions; else the texts are equal.
  if (!(*module)->entry_layout_result) {
    (*again)->entry_layout_result.reset();
    (*again)->entry_layout_parameters.clear();
  }
  std::unordered_map<std::string, std::string> lines;
  for (const auto& c : (*again)->computations())
    for (const auto& i : c->instructions()) lines[c->name() + "/" + i->name()] = Printed(*i);
  for (const auto& c : (*module)->computations())
    for (const auto& i : c->instructions()) {
      auto it = lines.find(c->name() + "/" + i->name());
      ASSERT_NE(it, lines.end()) << c->name() << "/" << i->name();
      EXPECT_EQ(it->second, Printed(*i));
    }
  EXPECT_EQ((*again)->input_output_aliases, (*module)->input_output_aliases);
  EXPECT_EQ((*again)->buffer_donors, (*module)->buffer_donors);
  EXPECT_EQ((*again)->entry()->name(), (*module)->entry()->name());
  EXPECT_EQ((*again)->replica_count, (*module)->replica_count);
  EXPECT_EQ((*again)->num_partitions, (*module)->num_partitions);
}

constexpr std::string_view kManyAttributes =
    R"(HloModule many, input_output_alias={ {0}: (0, {}, may-alias) }, buffer_donor={ (1, {}) }, replica_count=2, num_partitions=2, frontend_attributes={a="1",b={x=2}}

max { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT m = f32[] maximum(p, q) }
ge { p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT m = pred[] compare(p, q), direction=GE, type=TOTALORDER }
cond { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(7)
  ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4]{0} get-tuple-element(s), index=1
  o = s32[] constant(1)
  j = s32[] add(i, o)
  ROOT t = (s32[], f32[4]) tuple(j, x) }
ENTRY main {
  a = f32[4,6]{0,1} parameter(0), sharding={devices=[2,2]<=[2,2]T(1,0)}
  b = f32[6,4]{1,0:T(8,128)S(1)} parameter(1), sharding={maximal device=1}
  d = f32[4,4] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={high,highest}, algorithm=dot_bf16_bf16_f32_x3, metadata={op_type="dot" op_name="jit(f)/dot \"x\"" source_file="f.py" source_line=3}
  e = f32[4,4] exponential(d), result_accuracy={tolerance={rtol=0.5, atol=0.25, ulps=3}}
  l = f32[4,4] log(e), result_accuracy={mode=highest}, sharding={replicated}
  c4 = s4[3] constant({-8, 0, 7})
  cu = u64[2] constant({18446744073709551615, 1})
  cc = c64[2] constant({(1, -2), (nan, inf)})
  ch = bf16[2] constant({1.5, -0})
  cp = pred[3] constant({true, false, true})
  ct = (s8[2], f8e4m3fn[1]) constant(({-1, 2}, {0.5}))
  cl = f32[2,3]{0,1} constant({{1, 2, 3}, {4, 5, 6}})
  z = f32[] constant(0)
  r = f32[4] reduce(l, z), dimensions={1}, to_apply=max
  rw = f32[2,2] reduce-window(l, z), window={size=2x2 stride=2x2}, to_apply=max
  sc = f32[4,4] select-and-scatter(l, rw, z), window={size=2x2 stride=2x2}, select=ge, scatter=max
  p = f32[5,9] pad(l, z), padding=1_0x-1_2_1
  s = f32[2,2] slice(l), slice={[0:4:2], [1:3]}
  i0 = s32[] constant(1)
  ds = f32[2,4] dynamic-slice(l, i0, i0), dynamic_slice_sizes={2,4}
  io = s32[4,1] iota(), iota_dimension=0
  g = f32[4,4] gather(l, io), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}, indices_are_sorted=true
  st = f32[4,4] scatter(l, io, g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, unique_indices=true, to_apply=max
  so = f32[4] sort(r), dimensions={0}, is_stable=true, to_apply=ge
  f = c64[4] fft(r), fft_type=FFT, fft_length={4}
  tr = f32[4,4] triangular-solve(l, d), left_side=true, lower=true, transpose_a=ADJOINT
  chol = f32[4,4] cholesky(l), lower=true
  cv = f32[1,4,4,2] convolution(p0, k), window={size=3x3 pad=1_1x1_1 rhs_dilate=1x1 rhs_reversal=1x0}, dim_labels=b01f_01io->b01f, feature_group_count=1
  init = (s32[], f32[4]) tuple(i0, r)
  w = (s32[], f32[4]) while(init), condition=cond, body=body, backend_config={"known_trip_count":{"n":"6"}}
  ag = f32[8] all-gather(r), channel_id=3, replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true
  ar = f32[4] all-reduce(r), replica_groups={}, to_apply=max
  pm = f32[4] collective-permute(r), source_target_pairs={{0,1},{1,0}}
  cu2 = f32[4] custom-call(r), custom_call_target="t", operand_layout_constraints={f32[4]{0}}, custom_call_has_side_effect=true, output_to_operand_aliasing={{}: (0, {})}, api_version=API_VERSION_TYPED_FFI, backend_config={x = 1 : i64}
  cu3 = f32[4] custom-call(r), custom_call_target="u", backend_config="\001bytes\""
  rp = f32[4] reduce-precision(r), exponent_bits=5, mantissa_bits=10, control-predecessors={ar, pm}
  rb = (u64[2], u32[4]) rng-bit-generator(cu), algorithm=rng_three_fry
  ROOT out = (f32[4,4], f32[4]) tuple(l, r)
}
)";

TEST(HloProto, KeepsEveryAttribute) {
  std::string text(kManyAttributes);
  const std::string missing = "  cv = f32";
  text.insert(text.find(missing),
              "  p0 = f32[1,4,4,2] broadcast(z), dimensions={}\n  k = f32[3,3,2,2] broadcast(z), dimensions={}\n");
  ExpectRoundTrip(text, "many");
}

// Keys that are no words, and values that are no dictionaries though they begin and end like one.
TEST(HloProto, KeepsOddFrontendAttributes) {
  ExpectRoundTrip(
      "HloModule m\n\nENTRY e {\n  ROOT a = f32[2]{0} parameter(0), "
      "frontend_attributes={plain.key=\"1\",\"a b\"=\"2\",\"in\\177line\"=\"3\",x={y=\"z\"},w=\"{\\\"}\"}\n}\n",
      "odd");
}

TEST(HloProto, AnyBytesGiveAModuleOrAnError) {
  auto module = ParseHloText(
      "HloModule m\nENTRY e { a = f32[2,3] parameter(0) c = f32[2,3] constant({{1,2,3},{4,5,6}}) ROOT r = f32[2,3] add(a, c) }");
  ASSERT_TRUE(module) << module.error().ToString();
  auto bytes = SerializeHloProto(**module);
  ASSERT_TRUE(bytes);
  for (std::size_t n = 0; n < bytes->size(); ++n)
    EXPECT_FALSE(FromProto(bytes->substr(0, n)) && n + 60 < bytes->size()) << n;
  std::mt19937 random(7);
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = *bytes;
    for (unsigned k = 0; k <= random() % 4; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    read += FromProto(changed) ? 1 : 0;
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, 20000);
}

// XLA's reader refuses a program shape without its parameters' names and a literal without a layout, be it empty.
TEST(HloProto, HasWhatXlaInsistsOn) {
  auto module = ParseHloText(
      "HloModule m\nENTRY e { first = f32[] parameter(0) c = f32[] constant(3) ROOT r = f32[] add(first, c) }");
  ASSERT_TRUE(module) << module.error().ToString();
  auto bytes = SerializeHloProto(**module);
  ASSERT_TRUE(bytes);
  int names = 0;
  hlo_proto::Reader reader(*bytes);
  while (reader.next()) {
    if (reader.tag() != 4) {
      reader.skip();
      continue;
    }
    hlo_proto::Reader shape = reader.get_message();
    while (shape.next()) {
      if (shape.tag() == 3) names += shape.get_string() == "first";
      else shape.skip();
    }
  }
  EXPECT_EQ(names, 1);
  // Shape {element_type: F32, layout {}}, as the literal's field 1.
  EXPECT_NE(bytes->find(std::string("\x0a\x04\x10\x0b\x2a\x00", 6)), std::string::npos);
}

// And one without the messages that say nothing of scalars: dimension numbers, windows, paddings.
TEST(HloProto, WritesMessagesWithoutFields) {
  for (const auto& [text, field] :
       {std::pair("ROOT r = f32[] dot(a, a)", 30), std::pair("ROOT r = f32[] pad(a, a), padding=", 21)}) {
    auto module = ParseHloText(std::string("HloModule m\nENTRY e { a = f32[] parameter(0) ") + text + "}");
    ASSERT_TRUE(module) << module.error().ToString();
    auto bytes = SerializeHloProto(**module);
    ASSERT_TRUE(bytes);
    int found = 0;
    hlo_proto::Reader reader(*bytes);
    while (reader.next(3)) {
      hlo_proto::Reader computation = reader.get_message();
      while (computation.next(2)) {
        hlo_proto::Reader instruction = computation.get_message();
        while (instruction.next(static_cast<uint32_t>(field))) {
          ++found;
          instruction.skip();
        }
      }
    }
    EXPECT_EQ(found, 1) << text;
  }
}

TEST(HloProto, SaysWhatIsWrong) {
  EXPECT_FALSE(FromProto("").has_value());
  auto module = ParseHloText("HloModule m\nENTRY e { ROOT a = f32[2,3] parameter(0) }");
  ASSERT_TRUE(module) << module.error().ToString();
  auto whole = SerializeHloProto(**module);
  ASSERT_TRUE(whole);
  std::string bytes = *whole;
  bytes.replace(bytes.find("parameter"), 9, "parameeer");
  auto bad = FromProto(bytes);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code(), StatusCode::kUnimplemented) << bad.error().ToString();
  EXPECT_NE(bad.error().message().find("parameeer"), std::string::npos) << bad.error().ToString();
}

// Every recorded network: the proto beside the text is the same module.
TEST(HloProto, RecordedModules) {
  const char* root = std::getenv("KRAFLA_MODELS");
  if (root == nullptr) GTEST_SKIP() << "KRAFLA_MODELS is not set.";
  int count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".pb") continue;
    std::filesystem::path text_path = entry.path();
    text_path.replace_extension(".hlo");
    SCOPED_TRACE(entry.path().string());
    auto module = FromProto(testing::ReadText(entry.path()));
    ASSERT_TRUE(module) << module.error().ToString();
    auto text = ParseHloText(testing::ReadText(text_path), "text");
    ASSERT_TRUE(text) << text.error().ToString();
    ASSERT_EQ((*module)->computations().size(), (*text)->computations().size());
    HloPrintOptions options{.metadata = false};
    std::unordered_map<std::string, std::string> lines;
    for (const auto& c : (*module)->computations())
      for (const auto& i : c->instructions()) {
        std::string line = Printed(*i, options);
        // XLA prints -0.0 as "-0", which its own reader takes for the integer 0; only the proto keeps the sign.
        for (std::string_view end : {")", ",", "}"})
          for (std::size_t at; (at = line.find(Format("-0.0{}", end))) != std::string::npos;) line.replace(at, 4, "0");
        lines[c->name() + "/" + i->name()] = std::move(line);
      }
    for (const auto& c : (*text)->computations())
      for (const auto& i : c->instructions()) {
        auto it = lines.find(c->name() + "/" + i->name());
        ASSERT_NE(it, lines.end()) << c->name() << "/" << i->name();
        ASSERT_EQ(it->second, Printed(*i, options));
      }
    ++count;
  }
  EXPECT_GT(count, 0);
}

TEST(HloProto, RecordedTextsRoundTrip) {
  int count = 0;
  for (const auto& path : testing::RecordedModules()) {
    if (path.string().contains("/syntax/")) continue;
    ExpectRoundTrip(testing::ReadText(path), path.string());
    if (HasFatalFailure()) return;
    ++count;
  }
  if (count == 0) GTEST_SKIP() << "Neither KRAFLA_MODELS nor KRAFLA_CORPUS is set.";
}

// XLA refuses a module where two instructions share a name.
TEST(HloProto, NamesAreUniqueOnRequest) {
  auto module = ParseHloText(R"(HloModule m
f { x = f32[] parameter(0)
 ROOT y = f32[] negate(x) }
ENTRY main { x = f32[] parameter(0)
 y = f32[] call(x), to_apply=f
 ROOT z = f32[] add(y, x) })");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  for (const bool unique : {false, true}) {
    auto bytes = SerializeHloProto(**module, unique);
    ASSERT_TRUE(bytes.has_value()) << bytes.error().ToString();
    auto again = ParseHloProto(std::as_bytes(std::span(*bytes)));
    ASSERT_TRUE(again.has_value()) << again.error().ToString();
    std::set<std::string> names;
    std::size_t count = 0;
    for (const auto& c : (*again)->computations())
      for (const auto& i : c->instructions()) names.insert(std::string(i->name())), ++count;
    EXPECT_EQ(count, 5u);
    EXPECT_EQ(names.size(), unique ? 5u : 3u);
  }
}

}  // namespace
}  // namespace krafla
