// SPDX-License-Identifier: Apache-2.0
// A row of a few elements that comes again and again, as the channels of pixels have it, is the same in every vector,
// or in every third one: a body of as many vectors has it, and what is computed of it, in registers.
#ifdef KRAFLA_HAVE_JIT

#include <numeric>

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

namespace {

constexpr int kMostPeriodicRegisters = 15;
constexpr int kMostPeriod = 4;  // vectors of a body

}  // namespace

// Vectors after which the stream begins anew; 0: it does not, or later than a body has vectors.
int Avx512Emitter::PeriodOf(const LaneStream& stream) const {
  if (stream.kind != LaneStream::Kind::kShortRows || stream.row_stride != 0) return 0;
  const int period = stream.columns / std::gcd(stream.columns, lanes_);
  return period <= kMostPeriod ? period : 0;
}

// Finds the nodes that repeat themselves, and the number of vectors after which all of them do; 0: there are none, or
// they need too many registers.
int Avx512Emitter::FindPeriodic() {
  int period = 0;
  std::vector<bool> repeats(graph_.nodes.size(), false);
  const auto is_known = [&](int id) {
    return id < 0 || repeats[static_cast<std::size_t>(id)] || loop_.steps[static_cast<std::size_t>(id)] == 0;
  };
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (!used_[i] || loop_.steps[i] == 0) continue;
    if (n.op == LaneOp::kLoad) {
      const int own = n.b < 0 ? PeriodOf(graph_.streams[n.bits & 0xffffffffu]) : 0;
      if (own == 0 || (period != 0 && period % own != 0 && own % period != 0)) continue;
      period = std::max(period, own);
      repeats[i] = true;
    } else {
      repeats[i] = n.op < LaneOp::kFixedLoad && n.op != LaneOp::kConstant && n.op != LaneOp::kRamp &&
                   n.op != LaneOp::kGather && n.op != LaneOp::kPhi && is_known(n.a) && is_known(n.b) && is_known(n.c);
    }
  }
  if (period == 0) return 0;
  // What others, and stores, read of them.
  std::vector<bool> is_read(graph_.nodes.size(), false);
  const auto read = [&](int id) {
    if (id >= 0) is_read[static_cast<std::size_t>(id)] = true;
  };
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i] && !repeats[i]) read(graph_.nodes[i].a), read(graph_.nodes[i].b), read(graph_.nodes[i].c);
  for (const LaneStore& s : graph_.stores) {
    read(s.node), read(s.mask);
    for (int p : s.parts) read(p);
  }
  int registers = 0;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!repeats[i] || !is_read[i]) continue;
    if (graph_.nodes[i].type == ElementType::kPred) return 0;
    registers += period;
  }
  if (registers > kMostPeriodicRegisters) return 0;
  periodic_ = std::move(repeats);
  return period;
}

void Avx512Emitter::EmitPeriodic(int vectors) {
  is_tail_ = false;
  row_places_.clear();
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!periodic_[i]) continue;
    for (vector_ = 0; vector_ < static_cast<std::size_t>(vectors); ++vector_) EmitNode(static_cast<int>(i));
  }
  vector_ = 0;
}

}  // namespace krafla::cpu::native

#endif
