// SPDX-License-Identifier: Apache-2.0
// What is in registers before a loop begins: constants that are used most, and tables.
#ifdef KRAFLA_HAVE_JIT

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

void Avx512Emitter::HoistConstants() {
  std::vector<int> uses(graph_.nodes.size(), 0);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!used_[i]) continue;
    const LaneNode& n = graph_.nodes[i];
    for (int o : {n.a, n.b, n.c})
      if (o >= 0) ++uses[static_cast<std::size_t>(o)];
    // What must be in a register every time counts for more.
    for (int o : {n.a, n.c})
      if (o >= 0) ++uses[static_cast<std::size_t>(o)];
  }
  for (const LaneStore& s : graph_.stores) uses[static_cast<std::size_t>(s.node)] += 2;
  std::vector<int> constants;
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
    if (used_[i] && graph_.nodes[i].op == LaneOp::kConstant) constants.push_back(static_cast<int>(i));
  std::stable_sort(constants.begin(), constants.end(),
                   [&](int a, int b) { return uses[static_cast<std::size_t>(a)] > uses[static_cast<std::size_t>(b)]; });
  if (constants.size() > kHoistedConstants) constants.resize(kHoistedConstants);
  for (int c : constants) {
    if (TypeOf(c) == ElementType::kPred) continue;
    Set(c, LoadConstant(At(c).bits, WidthOfNode(c)));
    fixed_[static_cast<std::size_t>(c)] = true;
  }
}

void Avx512Emitter::HoistTables() {
  for (const LaneTable& table : graph_.tables) {
    const x86::Vec entries = cc_.newZmm();
    Emit(Inst::kIdVmovdqu32, entries,
         cc_.newConst(asmjit::ConstPoolScope::kLocal, table.entries.data(), sizeof(table.entries)));
    tables_.push_back(table.stream < 0 ? entries : LoadTable(table, entries));
  }
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LaneNode& n = graph_.nodes[i];
    if (used_[i] && n.op == LaneOp::kByteToFloat && !byte_tables_.contains(n.bits))
      byte_tables_.emplace(n.bits, LoadByteTable(n.bits));
    if (!used_[i] || graph_.nodes[i].op != LaneOp::kRoundToBf16 || !rounding_words_.empty()) continue;
    for (const uint32_t word : kRoundingWords) rounding_words_.push_back(LoadConstant(word, 4));
  }
}

// Its elements at `places`, no more of which are touched than these name.
x86::Vec Avx512Emitter::LoadTable(const LaneTable& table, const x86::Vec& places) {
  const x86::Gp bits = cc_.newUInt32();
  const x86::KReg k = cc_.newKq();
  cc_.mov(bits, (2u << std::ranges::max(table.entries)) - 1);
  cc_.kmovd(k, bits);
  const x86::Vec loaded = cc_.newZmm(), out = cc_.newZmm();
  const x86::Mem from = x86::ptr(bases_[static_cast<std::size_t>(table.stream)]);
  if (table.storage == ElementType::kBF16) {
    EmitMasked(Inst::kIdVpmovzxwd, k, true, loaded, from);
    Emit(Inst::kIdVpslld, loaded, loaded, Imm(16));
  } else {
    EmitMasked(Inst::kIdVmovdqu32, k, true, loaded, from);
  }
  Emit(Inst::kIdVpermd, out, places, loaded);
  return out;
}

}  // namespace krafla::cpu::native

#endif
