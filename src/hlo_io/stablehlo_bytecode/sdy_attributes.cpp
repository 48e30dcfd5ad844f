// SPDX-License-Identifier: Apache-2.0
// Attributes of Shardy's dialect sdy (github.com/openxla/shardy,
// shardy/dialect/sdy/ir/bytecode.td), written out as MLIR prints them: the text is what the rest of
// the house reads shardings from.
#include "hlo_io/stablehlo_bytecode/entries.h"

namespace krafla::stablehlo {
namespace {

// Lists share their elements, so that a small file could say a long text.
constexpr std::size_t kMaxText = std::size_t{1} << 20;

std::string InBraces(std::string_view key, std::string_view kind, const std::string& list) {
  return list.empty() ? std::string() : Format(", {}={}{{{}}}", key, kind, list);
}

// How Shardy prints the factors of a rule (shardy/dialect/sdy/ir/printers.cc): i to z, then z_1 and on.
std::string FactorSymbol(int64_t factor) {
  constexpr int64_t kLast = 'z' - 'i';
  return factor >= 0 && factor <= kLast ? std::string(1, static_cast<char>('i' + factor))
                                        : Format("z_{}", factor - kLast);
}

}  // namespace

Result<Attribute> Entries::SdyRule(ByteStream& s) {
  std::string sizes;
  const std::size_t count = s.Count();
  for (std::size_t i = 0; i < count; ++i)
    sizes += Format("{}{}={}", i > 0 ? ", " : "", FactorSymbol(static_cast<int64_t>(i)), s.SignedVarint());
  Attribute out;
  out.kind = Attribute::Kind::kOther;
  KRAFLA_ASSIGN(const std::string operands, SdyList(s));
  KRAFLA_ASSIGN(const std::string results, SdyList(s));
  out.text = Format("#sdy.op_sharding_rule<({})->({}) {{{}}}", operands, results, sizes);
  for (const std::string_view key : {"reduction", "need_replication", "permutation", "blocked_propagation"}) {
    std::string factors;
    const std::size_t named = s.Count();
    for (std::size_t i = 0; i < named; ++i) factors += (i > 0 ? ", " : "") + FactorSymbol(s.SignedVarint());
    if (named > 0) out.text += Format(" {}={{{}}}", key, factors);
  }
  out.text += s.Byte() != 0 ? ", custom>" : ">";
  return out;
}

// "a, b, c"; strings in quotes.
Result<std::string> Entries::SdyList(ByteStream& s) {
  std::string out;
  KRAFLA_ASSIGN(std::vector<AttributeRef> list, AttributeList(s));
  for (AttributeRef one : list) {
    if (!out.empty()) out += ", ";
    out += one->kind == Attribute::Kind::kString ? "\"" + one->text + "\"" : one->text;
    if (out.size() > kMaxText) return ResourceExhausted("A sharding has more than {} characters.", kMaxText);
  }
  return out;
}

// A tensor's sharding, in one of three versions.
Result<Attribute> Entries::SdySharding(ByteStream& s, uint64_t code) {
  Attribute out;
  out.kind = Attribute::Kind::kOther;
  KRAFLA_ASSIGN(AttributeRef mesh, NextAttribute(s));
  KRAFLA_ASSIGN(std::string dims, SdyList(s));
  KRAFLA_ASSIGN(std::string replicated, SdyList(s));
  std::string unreduced;
  if (code != 6) { KRAFLA_ASSIGN(unreduced, SdyList(s)); }
  const int64_t by = code == 17 ? s.SignedVarint() : 0;  // sum, max, min
  const std::string_view kind = "#sdy.";
  const bool in_place = mesh->text.starts_with(kind);
  out.text = Format("<{}, [{}]{}{}>", in_place ? mesh->text.substr(kind.size()) : "@\"" + mesh->text + "\"", dims,
                    InBraces("replicated", "", replicated),
                    InBraces("unreduced",
                             by == 1   ? "max"
                             : by == 2 ? "min"
                                       : "",
                             unreduced));
  return out;
}

Result<Attribute> Entries::DecodeSdy(ByteStream& s) {
  const uint64_t code = s.Varint();
  Attribute out;
  out.kind = Attribute::Kind::kOther;
  switch (code) {
    case 0: {
      KRAFLA_ASSIGN(std::string axes, SdyList(s));
      out.text = Format("#sdy<manual_axes{{{}}}>", axes);
      return out;
    }
    case 1: {
      KRAFLA_ASSIGN(std::string name, StringAt(s.Varint()));
      out.text = Format("\"{}\"={}", name, s.SignedVarint());
      return out;
    }
    case 2: {
      KRAFLA_ASSIGN(std::string axes, SdyList(s));
      std::string ids;
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) ids += Format("{}{}", i > 0 ? ", " : "", s.SignedVarint());
      out.text = Format("#sdy.mesh<[{}]{}>", axes, ids.empty() ? "" : Format(", device_ids=[{}]", ids));
      return out;
    }
    case 3: {
      const int64_t before = s.SignedVarint();
      out.text = Format("({}){}", before, s.SignedVarint());
      return out;
    }
    case 4: {
      KRAFLA_ASSIGN(std::string name, StringAt(s.Varint()));
      out.text = "\"" + name + "\"";
      if (const uint64_t part = s.Varint(); (part & 1) != 0) {
        KRAFLA_ASSIGN(AttributeRef info, AttributeAt(part >> 1));
        out.text += ":" + info->text;
      }
      return out;
    }
    case 5: {
      KRAFLA_ASSIGN(std::string axes, SdyList(s));
      const bool closed = s.Byte() != 0;
      const uint64_t priority = s.Varint();
      out.text = Format("{{{}{}}}", axes, closed ? "" : axes.empty() ? "?" : ", ?");
      if ((priority & 1) != 0) out.text += Format("p{}", priority >> 1);
      return out;
    }
    case 6:
    case 15:
    case 17: return SdySharding(s, code);
    case 7:
    case 16: {
      KRAFLA_ASSIGN(std::string all, SdyList(s));
      out.text = "[" + all + "]";
      return out;
    }
    case 8: {
      const std::size_t count = s.Count();
      for (std::size_t i = 0; i < count; ++i) out.text += FactorSymbol(s.SignedVarint());
      if (out.text.empty()) out.text = "_";
      return out;
    }
    case 9: {
      KRAFLA_ASSIGN(std::string dims, SdyList(s));
      out.text = "[" + dims + "]";
      return out;
    }
    case 10: return SdyRule(s);
    default:
      // Parameters of what no program carries: passed over.
      while (!s.AtEnd() && !s.failed()) s.Byte();
      out.text = Format("sdy attribute {}", code);
      return out;
  }
}

}  // namespace krafla::stablehlo
