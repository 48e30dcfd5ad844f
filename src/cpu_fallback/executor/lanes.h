// SPDX-License-Identifier: Apache-2.0
// In which width the nodes of a program are computed. A program's integers are s32 or u32; where only the low 8 or 16
// bits of a value are asked for, and those follow from the low bits of its operands, it is computed in lanes of that
// width: a load then needs no widening, a wrap nothing at all, and a vector holds four times as many.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/element_program.h"

namespace krafla::cpu {

class Lanes {
 public:
  // `results`: as BlockProgram::Options::result_lanes.
  explicit Lanes(const plan::ElementProgram& program, std::span<const ElementType> results = {});

  // Which forms of a node's value the program needs: its compute type, its low bits in `width` (1 or 2) bytes.
  bool NeedsWide(plan::NodeId id) const { return needs_[static_cast<std::size_t>(id)].wide; }
  bool NeedsNarrow(plan::NodeId id, int width) const { return needs_[static_cast<std::size_t>(id)].narrow[At(width)]; }

  // How the low bits of a node come about.
  struct Form {
    enum class Kind : uint8_t {
      kTruncate,  // of the wide value
      kLoad,      // as it is stored
      kConstant,
      kSame,     // those of `from`
      kOp,       // the same op in lanes of `type`; a select's predicate is as ever
      kConvert,  // from the wide value of `from`, saturating floats at the limits of `type`
    } kind = Kind::kTruncate;
    ElementType type = ElementType::kInvalid;
    plan::NodeId from = plan::kNoNode;
  };
  Form FormOf(plan::NodeId id, int width) const;

  // The node whose f32 a store rounds itself; else the one that it names.
  plan::NodeId SourceOf(const plan::Store& store) const;

  // The lanes in which a compare or a convert reads its operands; kInvalid: their compute type.
  ElementType ReadType(plan::NodeId id) const { return needs_[static_cast<std::size_t>(id)].read; }

 private:
  struct Needs {
    bool wide = false;
    std::array<bool, 2> narrow = {false, false};
    ElementType read = ElementType::kInvalid;
  };
  struct Range {
    int64_t lo = 0, hi = 0;
  };
  static std::size_t At(int width) { return width == 1 ? 0 : 1; }
  const plan::Node& node(plan::NodeId id) const { return program_.nodes[static_cast<std::size_t>(id)]; }
  Needs& needs(plan::NodeId id) { return needs_[static_cast<std::size_t>(id)]; }
  void FindRanges();
  bool Fits(plan::NodeId id, ElementType lane) const;
  void FindNeeds();
  ElementType WantedRead(const plan::Node& n) const;
  plan::NodeId Saturated(const plan::Node& convert, ElementType lane) const;

  const plan::ElementProgram& program_;
  std::span<const ElementType> results_;
  std::vector<Range> ranges_;  // of s32 and u32 nodes
  std::vector<Needs> needs_;
  std::vector<bool> only_wide_;  // computed wide in any case: reading them narrow would cost a step more
};

}  // namespace krafla::cpu
