// SPDX-License-Identifier: Apache-2.0
#include "recorded/npy_header.h"
#include "ir/element_type_cases.h"

#include <charconv>
#include <cstdint>
#include <cstring>

namespace krafla {
namespace {

struct Descr {
  std::string_view text;
  ElementType type;
};
// What NumPy writes for its types, without the byte order. "V2" and "V1" are what it writes for types it does not
// know, such as those of ml_dtypes.
constexpr Descr kDescr[] = {
    {"b1", ElementType::kPred}, {"i1", ElementType::kS8},    {"i2", ElementType::kS16}, {"i4", ElementType::kS32},
    {"i8", ElementType::kS64},  {"u1", ElementType::kU8},    {"u2", ElementType::kU16}, {"u4", ElementType::kU32},
    {"u8", ElementType::kU64},  {"f2", ElementType::kF16},   {"f4", ElementType::kF32}, {"f8", ElementType::kF64},
    {"c8", ElementType::kC64},  {"c16", ElementType::kC128}, {"V1", ElementType::kU8},  {"V2", ElementType::kU16}};

// A scanner for the little of Python's grammar that a header has.
struct Scanner {
  std::string_view text;
  std::size_t at = 0;

  void Blank() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\n' || text[at] == '\r')) ++at;
  }
  bool Take(std::string_view what) {
    Blank();
    if (!text.substr(at).starts_with(what)) return false;
    at += what.size();
    return true;
  }
  bool String(std::string_view* out) {
    Blank();
    if (at >= text.size() || (text[at] != '\'' && text[at] != '"')) return false;
    std::size_t end = text.find(text[at], at + 1);
    if (end == std::string_view::npos) return false;
    *out = text.substr(at + 1, end - at - 1);
    at = end + 1;
    return true;
  }
  bool Int(int64_t* out) {
    Blank();
    auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), *out);
    if (error != std::errc()) return false;
    at = static_cast<std::size_t>(end - text.data());
    Take("L");  // a long of Python 2
    return true;
  }
};

Result<ElementType> TypeOf(std::string_view descr) {
  if (descr.starts_with('>') && descr != ">i1" && descr != ">u1" && descr != ">b1")
    return Unimplemented("The array type '{}' is big-endian; only little-endian arrays can be read.",
                         descr.substr(0, 40));
  std::string_view plain = descr;
  if (!plain.empty() && std::string_view("<>|=").find(plain[0]) != std::string_view::npos) plain.remove_prefix(1);
  for (const Descr& row : kDescr)
    if (row.text == plain) return row.type;
  return InvalidArgument("HLO does not have the array type '{}'.", descr.substr(0, 40));
}

std::string_view DescrOf(ElementType type) {
  switch (type) {
    case ElementType::kPred: return "|b1";
    case ElementType::kS1:
    case ElementType::kS2:
    case ElementType::kS4:
    case ElementType::kS8: return "|i1";
    case ElementType::kS16: return "<i2";
    case ElementType::kS32: return "<i4";
    case ElementType::kS64: return "<i8";
    case ElementType::kU1:
    case ElementType::kU2:
    case ElementType::kU4:
    case ElementType::kU8:
    case KRAFLA_MINI_FLOATS: return "|u1";
    case ElementType::kU16:
    case ElementType::kBF16: return "<u2";
    case ElementType::kU32: return "<u4";
    case ElementType::kU64: return "<u8";
    case ElementType::kF16: return "<f2";
    case ElementType::kF32: return "<f4";
    case ElementType::kF64: return "<f8";
    case ElementType::kC64: return "<c8";
    case ElementType::kC128: return "<c16";
    case KRAFLA_NO_ARRAY_TYPES: return {};
  }
  return {};
}

}  // namespace

Result<NpyLength> ReadNpyLength(std::span<const std::byte> p) {
  if (p.size() < kNpyPreambleV2 || std::memcmp(p.data(), "\x93NUMPY", 6) != 0)
    return InvalidArgument("The array does not begin with the magic bytes of a .npy file.");
  auto byte = [&](std::size_t i) { return static_cast<std::size_t>(p[i]); };
  NpyLength out;
  if (byte(6) == 1) {
    out.begin = kNpyPreamble;
    out.length = byte(8) | byte(9) << 8;
  } else if (byte(6) == 2 || byte(6) == 3) {
    out.begin = kNpyPreambleV2;
    out.length = byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  } else {
    return InvalidArgument("Version {} of the .npy format is unknown; expected 1, 2 or 3.", byte(6));
  }
  if (out.length > kMaxNpyHeader)
    return InvalidArgument("The .npy header has {} bytes, more than the limit of {}.", out.length, kMaxNpyHeader);
  return out;
}

Result<NpyHeader> ReadNpyDictionary(std::string_view text) {
  Scanner in{text};
  auto bad = [&](std::string_view what) {
    return InvalidArgument("The .npy header is malformed at byte {}: expected {}.", in.at, what);
  };
  bool have_descr = false, have_order = false, have_shape = false;
  ElementType type = ElementType::kInvalid;
  NpyHeader out;
  Dims dims;
  if (!in.Take("{")) return bad("'{'");
  while (!in.Take("}")) {
    std::string_view key;
    if (!in.String(&key)) return bad("a key");
    if (!in.Take(":")) return bad("':'");
    if (key == "descr" && !have_descr) {
      std::string_view descr;
      if (!in.String(&descr)) return bad("a plain type; arrays of records are not read");
      KRAFLA_ASSIGN(type, TypeOf(descr));
      have_descr = true;
    } else if (key == "fortran_order" && !have_order) {
      out.fortran_order = in.Take("True");
      if (!out.fortran_order && !in.Take("False")) return bad("True or False");
      have_order = true;
    } else if (key == "shape" && !have_shape) {
      if (!in.Take("(")) return bad("'('");
      while (!in.Take(")")) {
        int64_t n = 0;
        if (!in.Int(&n)) return bad("a dimension");
        if (dims.ssize() >= Shape::kMaxRank) return bad(Format("at most {} dimensions", Shape::kMaxRank));
        dims.push_back(n);
        if (!in.Take(",")) {
          if (!in.Take(")")) return bad("',' or ')'");
          break;
        }
      }
      have_shape = true;
    } else {
      return bad("each of descr, fortran_order and shape once");
    }
    if (!in.Take(",")) {
      if (!in.Take("}")) return bad("',' or '}'");
      break;
    }
  }
  in.Blank();
  if (in.at != text.size()) return bad("nothing more");
  if (!have_descr || !have_order || !have_shape) return bad("each of descr, fortran_order and shape once");
  KRAFLA_ASSIGN(out.shape, Shape::MakeArray(type, dims));
  return out;
}

Result<std::string> MakeNpyHeader(const Shape& shape) {
  std::string_view descr = DescrOf(shape.element_type());
  if (descr.empty()) return InvalidArgument("{} cannot be stored as a NumPy array.", shape.ToString(false));
  std::string dims;
  for (int64_t n : shape.dims()) dims += Format("{}, ", n);
  if (shape.rank() > 1) dims.resize(dims.size() - 2);
  if (shape.rank() == 1) dims.resize(dims.size() - 1);
  std::string dict = Format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  std::size_t total = (kNpyPreamble + dict.size() + 1 + 63) / 64 * 64;
  dict.resize(total - kNpyPreamble - 1, ' ');
  dict += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict;
}

}  // namespace krafla
