// SPDX-License-Identifier: Apache-2.0
// A stable sort of positions by their keys' digits, the last digits first. A row is cut into chunks, and each chunk has
// a *worker*: on devices of SortTuning::invocation_chunks an invocation, which keeps its counters in scratch; on others
// a workgroup, each of whose invocations has a stretch of the chunk and a column of counters in shared memory. A pass
// by one digit is three dispatches: the workers count digits, a scan over (digit, chunk) turns the counts into places,
// and the workers put their elements there. Where a row is one chunk, all of it is one dispatch.
//
// Two kinds of rows are sorted otherwise:
//   rank     In a short row, an element's place is the number of elements that go before it.
//   select   A top-k by keys of one word first finds the key of the last element that is kept, digit by digit from the
//            front. One pass then brings the elements before it, and as many of its equals as are wanted, to the front
//            of the row, and only those are sorted.
#pragma once

#include <bit>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "spirv_codegen/kernels/sort.h"

namespace krafla::spirv {

class DigitSort {
 public:
  DigitSort(const plan::KernelPlan& plan, const plan::SortKernel& sort, const SortKeys& keys, const Target& target)
      : plan_(plan),
        keys_(keys),
        profile_(target.profile),
        target_(target),
        tuning_(target.tuning.sort),
        rows_(sort),
        own_chunks_(tuning_.invocation_chunks),
        lanes_(std::bit_floor(WorkgroupSize(profile_, tuning_.lanes))),
        length_(rows_.length()),
        half_(rows_.rows() * rows_.length()) {}

  Result<EmittedProgram> Emit();

 private:
  enum Scratch { kKeys, kPositions, kCounts, kState };
  // A kernel under construction.
  struct Kernel {
    Kernel(const DigitSort& sort, int push_words) : w(sort.plan_, sort.target_, sort.scratch_, push_words), b(w.b) {}
    Value U32(int64_t v) const { return b.U32(static_cast<uint32_t>(v)); }
    KernelWriter w;
    Builder& b;
  };

  int Buffer(Scratch s) const { return static_cast<int>(plan_.bindings.size()) + s; }
  Value Load(Kernel& k, Scratch s, Value at) const { return k.w.buffers.Load(Buffer(s), 4, at, 1); }
  void Store(Kernel& k, Scratch s, Value at, Value v) const { k.w.buffers.Store(Buffer(s), 4, at, v); }
  // The place of element `n` of a row in an array whose rows have length_ elements and begin at `half`.
  Value At(Kernel& k, Value half, Value row, Value n) const;

  // Chooses how rows of `length` are cut and how many bits a digit has. A pass accesses memory `of_element` times for
  // each element and `of_counter` times for each counter.
  void Cut(int64_t length, int64_t of_element = 10, int64_t of_counter = 4);

  // Ends a kernel of `items` invocations: body(item).
  Result<int> FinishItems(Kernel& k, int64_t items, std::string variant, const std::function<void(Value)>& body);
  // The same of items with so little to do that an invocation takes several (SortTuning::workgroup_items).
  Result<int> FinishShortItems(Kernel& k, int64_t items, std::string variant, const std::function<void(Value)>& body);
  // Ends a kernel with a worker for each of `rows` x `chunks`: body(row, chunk).
  Result<int> FinishWorkers(Kernel& k, int64_t chunks, std::string variant,
                            const std::function<void(Value, Value)>& body);
  int Add(Kernel& k, const Grid& grid, uint32_t local, std::string variant);
  void Dispatch(int kernel, std::vector<uint32_t> push, double share);
  // The kernel of that name, made where there is none yet.
  Result<int> Once(const std::string& name, const std::function<Result<int>()>& make);
  std::vector<uint32_t> From(int at, std::vector<uint32_t> more = {}) const;

  // ---- Counters of a worker (digit_passes.cpp)

  struct Counters {
    // Where the worker is a workgroup: arrays in shared memory. `shared` has the counter of a digit and an invocation
    // at digit * lanes + lane, and the number of all elements behind them; `sums` is room for a scan over invocations.
    Id shared = 0, sums = 0;
    Value base;  // where the worker is an invocation: its first cell in the table in scratch
    int digits = 0;
  };
  // The cell of a digit in the table of counts.
  Value Cell(Kernel& k, Value row, Value digit, Value chunk, int digits) const;
  Counters MakeCounters(Kernel& k, Value row, Value chunk, int digits) const;
  Value LoadCounter(Kernel& k, const Counters& c, Value at) const;
  void StoreCounter(Kernel& k, const Counters& c, Value at, Value v) const;
  Value CounterOf(Kernel& k, const Counters& c, Value digit) const;
  // body(element, values) for [begin, end), `unrolled` elements a turn: a turn of the loop costs much beside the load
  // and the count of one element.
  Values ForEach(Kernel& k, Value begin, Value end, uint32_t unrolled, const Values& initial,
                 const std::function<Values(Value, const Values&)>& body) const;
  // Elements of the row in the invocation's stretch of a chunk.
  Values ForStretch(Kernel& k, Value chunk, const Values& initial,
                    const std::function<Values(Value, const Values&)>& body) const;
  void ForStretch(Kernel& k, Value chunk, const std::function<void(Value)>& body) const;
  // The digit of an element, and the condition under which it counts; no condition: it always does.
  using DigitOf = std::function<std::pair<Value, Value>(Value element)>;
  void Count(Kernel& k, const Counters& c, Value chunk, const DigitOf& digit) const;
  // Whether the counters of a worker are values instead of memory: few counters, of an invocation.
  bool InValues(int digits) const { return own_chunks_ && digits <= 4; }
  Values OneMore(Kernel& k, Values counts, Value digit) const;
  // The sum of `own` over the invocations of the workgroup before this one, and the sum with this one's.
  std::pair<Value, Value> SumBefore(Kernel& k, Id sums, Value own) const;
  // Turns the workgroup's counters into the places where their elements begin, in the order (digit, invocation).
  void ScanShared(Kernel& k, const Counters& c) const;
  // body(digit) for the first `digits` invocations of a workgroup.
  void ForOwnDigit(Kernel& k, int digits, const std::function<void(Value)>& body) const;

  // ---- Kernels of a pass

  // Each makes the kernel `name` where there is none yet, and gives its number.
  // Counts the digits of every chunk into the table.
  Result<int> MakeCount(const std::string& name, int push_words, int digits,
                        const std::function<DigitOf(Kernel&, Value row)>& digit);

  // Replaces each count of a row by the sum of the counts before it, in the order (digit, chunk).
  Result<int> MakeScan(int digits);

  // Finds the place of each element by its digit: put(row, element, place). Where a row is one chunk it counts first.
  Result<int> MakePlace(const std::string& name, int push_words, int digits,
                        const std::function<DigitOf(Kernel&, Value row)>& digit_of,
                        const std::function<void(Kernel&, Value row, Value element, Value place)>& put);

  // ---- The steps

  // The position of an element: before the first pass its place, then what the array of positions says.
  Value PositionOf(Kernel& k, Value from, Value row, Value element) const;

  // Writes the key words of all elements. `begin`: also the first state of a selection.
  Result<> MakeKeys(std::span<const SortKeys::Word> words, bool begin);

  // Sorts by one word of the keys, pass by pass. `last_word`: the last pass moves the elements to the results.
  Result<> SortByWord(const SortKeys::Word& word, bool last_word);

  // Leaves the positions of the elements that are kept, and a row has only these from then on. The state of a row is
  // what is known of the last kept element's key, and how many elements whose keys begin so go before it.
  Result<> Select();

  // Each element counts those that go before it, and moves to that place.
  Result<> Rank();

  const plan::KernelPlan& plan_;
  const SortKeys& keys_;
  const DeviceProfile& profile_;
  const Target& target_;
  const SortTuning& tuning_;
  SortRows rows_;
  bool own_chunks_;  // SortTuning::invocation_chunks
  uint32_t lanes_;   // of a workgroup
  int64_t length_;   // of a row, of what is still sorted
  int64_t half_;     // of the arrays of keys and positions, of which a pass reads one half and writes the other
  int64_t chunk_ = 1, chunks_ = 1;  // elements of a chunk, chunks of a row
  int bits_ = 4;
  bool has_positions_ = false;  // else an element's position is its place
  int at_ = 0;                  // the half that is read
  std::vector<BufferDesc> scratch_;
  std::map<std::string, int> made_;
  std::vector<Grid> grids_;
  EmittedProgram out_;
};

}  // namespace krafla::spirv
