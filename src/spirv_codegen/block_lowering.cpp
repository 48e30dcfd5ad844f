// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/block_lowering.h"

namespace krafla::spirv {

using plan::NodeId;

WordLayout LayoutOfLoad(const plan::ElementProgram& program, MoveIndices& indices, NodeId load, int most_bytes) {
  const plan::Node& n = program.nodes[static_cast<std::size_t>(load)];
  const int bytes = StorageBytes(n.storage);
  if (bytes < 4) return {bytes, indices.count() * bytes >= most_bytes ? most_bytes : 4};
  const MoveIndices::Step step = *indices.Of(n.index);
  const bool pairs = !step.in_runs && step.offsets.multiple % 2 == 0;
  return {bytes, pairs ? most_bytes : 4};
}

Values BlockLowering::Given(const MoveLowering::Points& points, Value in_run) {
  Values out;
  for (const NodeId id : indices_.loads()) {
    ElementWords words = Words(LayoutOfLoad(program_, indices_, id, most_bytes_));
    MoveLowering lowering(b_, buffers_, program_, indices_, words, points);
    const Values own = lowering.WordsOfLoad(id, in_run);
    out.insert(out.end(), own.begin(), own.end());
  }
  ElementWords words = Words({});
  MoveLowering lowering(b_, buffers_, program_, indices_, words, points);
  const auto add = [&](const MoveLowering::OfRuns& values) {
    out.push_back(values.first);
    out.push_back(values.last);
  };
  for (const NodeId id : indices_.numbers()) add(lowering.Number(id, in_run));
  for (const NodeId id : indices_.ones()) add(lowering.One(id, in_run));
  return out;
}

Value BlockLowering::Numbers(NodeId id, Value in_run, int64_t begin, const MoveLowering::OfRuns& at) {
  const MoveIndices::Step step = *indices_.Of(indices_.IndexOf(id));
  uint64_t steps[4];
  for (std::size_t i = 0; i < 4; ++i)
    steps[i] = static_cast<uint32_t>(step.offsets.at[static_cast<std::size_t>(begin) + i] - step.offsets.at[0]);
  const Value start =
      in_run ? MoveLowering::Choose(b_, in_run, begin, b_.Splat(at.first, 4), b_.Splat(at.last, 4)) : at.first;
  const Value number = b_.Add(b_.Splat(start, 4), b_.m.ConstantVector(Kind::kU32, steps));
  const Limit* limit = indices_.LimitOf(id);
  if (limit == nullptr) return number;
  return LowerCompare(b_, limit->direction, ElementType::kS32, false, number,
                      b_.U32(static_cast<uint32_t>(limit->limit)));
}

Values BlockLowering::Compute(ProgramLowering& first, Value in_run, const Values& given) {
  const int64_t fours = indices_.count() / 4;
  std::vector<Values> stored(program_.stores.size());  // by store, in fours
  for (int64_t four = 0; four < fours; ++four) {
    ProgramLowering lowering(b_, buffers_, program_, 0, 4);
    std::size_t next = 0;
    for (const NodeId id : indices_.loads()) {
      const WordLayout layout = LayoutOfLoad(program_, indices_, id, most_bytes_);
      const auto count = static_cast<std::size_t>(indices_.count() * layout.element_bytes / layout.word_bytes);
      lowering.SetBits(id, Words(layout).Four(std::span(given).subspan(next, count), static_cast<int>(four)));
      next += count;
    }
    const auto take = [&] {
      next += 2;
      return MoveLowering::OfRuns{given[next - 2], given[next - 1]};
    };
    for (const NodeId id : indices_.numbers()) lowering.SetNode(id, Numbers(id, in_run, four * 4, take()));
    for (const NodeId id : indices_.ones()) {
      const MoveLowering::OfRuns values = take();
      const Value a = b_.Splat(values.first, 4);
      const Value chosen = in_run ? MoveLowering::Choose(b_, in_run, four * 4, a, b_.Splat(values.last, 4)) : a;
      lowering.SetNode(id, chosen);
    }
    for (const NodeId id : indices_.same()) lowering.SetNode(id, first.Node(id));
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const plan::Store& s = program_.stores[i];
      stored[i].push_back(b_.Splat(ToStorage(b_, s.storage, lowering.Node(s.node)), 4));
    }
  }
  Values out;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const Values words = Words(LayoutOfStore(program_.stores[i], indices_.count(), most_bytes_)).PackFours(stored[i]);
    out.insert(out.end(), words.begin(), words.end());
  }
  return out;
}

}  // namespace krafla::spirv
