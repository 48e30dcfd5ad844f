// SPDX-License-Identifier: Apache-2.0
// A routine's control flow.
#pragma once

#include <type_traits>
#include <vector>

#include "cpu_fallback/native/routine.h"
#include "cpu_fallback/native/x86_avx2.h"
#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

// With blocks of this emitter.
template <class BlockEmitter>
class RoutineEmitter {
 public:
  RoutineEmitter(const Routine& routine, x86::Compiler& cc) : routine_(routine), cc_(cc) {}

  void Run() {
    asmjit::FuncNode* f = cc_.addFunc(asmjit::FuncSignatureT<uint32_t, const void*>());
    f->frame().setAvxEnabled();
    if (std::is_same_v<BlockEmitter, Avx512Emitter>) f->frame().setAvx512Enabled();
    f->frame().setAvxCleanup();
    run_ = cc_.newIntPtr();
    f->setArg(0, run_);
    const x86::Gp table = cc_.newIntPtr();
    cc_.mov(table, x86::ptr(run_, offsetof(RoutineRun, bases)));
    for (int b = 0; b < routine_.base_count; ++b) {
      bases_.push_back(cc_.newIntPtr());
      cc_.mov(bases_.back(), x86::ptr(table, 8 * b));
    }
    turns_ = cc_.newInt64();
    cc_.mov(turns_, kTurnsBetweenLooks);
    stop_ = cc_.newLabel();
    for (const RoutineItem& i : routine_.items) EmitItem(i);
    const x86::Gp result = cc_.newUInt32();
    cc_.mov(result, 1);
    cc_.ret(result);
    cc_.bind(stop_);
    const x86::Gp none = cc_.newUInt32();
    cc_.xor_(none, none);
    cc_.ret(none);
    cc_.endFunc();
  }

 private:
  // Some microseconds, where turns are short.
  static constexpr int kTurnsBetweenLooks = 1024;

  struct Part {
    asmjit::Label begin, end;
    x86::Gp count;
    std::vector<asmjit::Label> branches;
  };
  Part& PartOf(int64_t number) {
    if (parts_.size() <= static_cast<std::size_t>(number)) parts_.resize(static_cast<std::size_t>(number) + 1);
    return parts_[static_cast<std::size_t>(number)];
  }
  x86::Mem PlaceOf(const RoutineItem& i) const {
    return x86::ptr(bases_[static_cast<std::size_t>(i.base)], static_cast<int32_t>(i.offset));
  }

  // A function of the caller's with its owner, and a number; leaves where it says so.
  void Invoke(std::size_t function, const int64_t* number) {
    cc_.vzeroupper();
    const x86::Gp target = cc_.newIntPtr(), owner = cc_.newIntPtr(), goes_on = cc_.newUInt32();
    cc_.mov(target, x86::ptr(run_, static_cast<int32_t>(function)));
    cc_.mov(owner, x86::ptr(run_, offsetof(RoutineRun, owner)));
    asmjit::InvokeNode* node = nullptr;
    if (number != nullptr) {
      const x86::Gp which = cc_.newInt64();
      cc_.mov(which, *number);
      cc_.invoke(&node, target, asmjit::FuncSignatureT<uint8_t, void*, int64_t>());
      if (node == nullptr) return;
      node->setArg(1, which);
    } else {
      cc_.invoke(&node, target, asmjit::FuncSignatureT<uint8_t, void*>());
      if (node == nullptr) return;
    }
    node->setArg(0, owner);
    node->setRet(0, goes_on);
    cc_.test(goes_on.r8(), goes_on.r8());
    cc_.jz(stop_);
  }
  // Back to `begin` for another turn.
  void TurnTo(const asmjit::Label& begin) {
    cc_.dec(turns_);
    cc_.jnz(begin);
    Invoke(offsetof(RoutineRun, look), nullptr);
    cc_.mov(turns_, kTurnsBetweenLooks);
    cc_.jmp(begin);
  }

  void EmitItem(const RoutineItem& i) {
    switch (i.kind) {
      case RoutineItem::Kind::kBlock:
        BlockEmitter(routine_.blocks[static_cast<std::size_t>(i.number)], cc_).RunBlock(bases_);
        return;
      case RoutineItem::Kind::kCall: return Invoke(offsetof(RoutineRun, call), &i.number);
      case RoutineItem::Kind::kCount: {
        Part& p = PartOf(i.number);
        p.begin = cc_.newLabel(), p.end = cc_.newLabel(), p.count = cc_.newInt64();
        cc_.mov(p.count, i.count);
        cc_.bind(p.begin);
        return;
      }
      case RoutineItem::Kind::kEndCount: {
        const Part p = PartOf(i.number);
        cc_.dec(p.count);
        cc_.jz(p.end);
        TurnTo(p.begin);
        cc_.bind(p.end);
        return;
      }
      case RoutineItem::Kind::kWhile: {
        Part& p = PartOf(i.number);
        p.begin = cc_.newLabel(), p.end = cc_.newLabel();
        cc_.bind(p.begin);
        return;
      }
      case RoutineItem::Kind::kLeave:
        cc_.cmp(x86::byte_ptr(bases_[static_cast<std::size_t>(i.base)], static_cast<int32_t>(i.offset)), 0);
        cc_.je(PartOf(i.number).end);
        return;
      case RoutineItem::Kind::kEndWhile: {
        const Part p = PartOf(i.number);
        TurnTo(p.begin);
        cc_.bind(p.end);
        return;
      }
      case RoutineItem::Kind::kChoose:
      case RoutineItem::Kind::kChooseByPred: {
        Part& p = PartOf(i.number);
        p.end = cc_.newLabel();
        for (int64_t b = 0; b < i.count; ++b) p.branches.push_back(cc_.newLabel());
        const x86::Gp index = cc_.newUInt32();
        if (i.kind == RoutineItem::Kind::kChoose) {
          cc_.mov(index, PlaceOf(i));
        } else {
          cc_.mov(index, 0);
          cc_.cmp(x86::byte_ptr(bases_[static_cast<std::size_t>(i.base)], static_cast<int32_t>(i.offset)), 0);
          cc_.sete(index.r8());
        }
        for (int64_t b = 0; b + 1 < i.count; ++b) {
          cc_.cmp(index, static_cast<int32_t>(b));
          cc_.je(p.branches[static_cast<std::size_t>(b)]);
        }
        cc_.jmp(p.branches.back());
        return;
      }
      case RoutineItem::Kind::kBranch: {
        const Part& p = PartOf(i.number);
        if (i.count > 0) cc_.jmp(p.end);
        cc_.bind(p.branches[static_cast<std::size_t>(i.count)]);
        return;
      }
      case RoutineItem::Kind::kEndChoose: cc_.bind(PartOf(i.number).end); return;
    }
  }

  const Routine& routine_;
  x86::Compiler& cc_;
  x86::Gp run_, turns_;
  std::vector<x86::Gp> bases_;
  asmjit::Label stop_;
  std::vector<Part> parts_;
};

}  // namespace krafla::cpu::native
