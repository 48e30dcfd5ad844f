// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/element_words.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/checked_math.h"

namespace krafla::spirv {
namespace {

int64_t FloorDiv(int64_t a, int64_t d) { return a / d - (a % d < 0 ? 1 : 0); }
int64_t FloorMod(int64_t a, int64_t d) { return a - FloorDiv(a, d) * d; }

// Words that are read as one stretch of memory and then shifted, because it is not known where a word begins.
struct Stretch {
  int64_t begin = 0, last = 0;  // its first and its last element
};
std::vector<Stretch> StretchesOf(std::span<const int64_t> offsets, int per_word) {
  std::vector<int64_t> sorted(offsets.begin(), offsets.end());
  std::ranges::sort(sorted);
  std::vector<Stretch> out;
  for (const int64_t at : sorted) {
    if (out.empty() || at - out.back().last > per_word) out.push_back({at, at});
    out.back().last = at;
  }
  return out;
}

}  // namespace

int64_t ElementWords::ReadsOf(int64_t multiple, int64_t phase, std::span<const int64_t> offsets, int per_word) {
  if (multiple % per_word == 0) {
    std::vector<int64_t> words;
    for (const int64_t at : offsets) words.push_back(FloorDiv(phase + at, per_word));
    std::ranges::sort(words);
    return std::ranges::distance(words.begin(), std::unique(words.begin(), words.end()));
  }
  int64_t out = 0;
  for (const Stretch& s : StretchesOf(offsets, per_word))
    out += s.begin == s.last ? 1 : (s.last - s.begin) / per_word + 2;
  return out;
}

Value ElementWords::LoadWord(int buffer, Value number, bool in_range) {
  if (!in_range && !(buffers_.uses_addresses() && b_.MayLoadWithoutLanes())) {
    const int64_t bytes = RoundUp(buffers_.element_count(buffer) * buffers_.element_bytes(buffer), int64_t{16});
    number = b_.Min(number, U(bytes / word_bytes_ - 1));
  }
  const Value word = buffers_.LoadWords(buffer, number, word_bytes_ / 4);
  return word_bytes_ == 8 ? b_.BitcastTo(word, Kind::kU64, 1) : word;
}

std::vector<ElementWords::Place> ElementWords::Read(const Source& s) {
  const int per_word = this->per_word();
  const Value log = U(std::countr_zero(static_cast<uint32_t>(per_word)));
  std::vector<Place> out;
  if (s.multiple % per_word == 0) {
    const int64_t phase = FloorMod(s.phase, per_word);
    const Value begin = b_.Sar(b_.Sub(s.first, U(phase)), log);
    std::map<int64_t, Value> words;
    for (const int64_t at : s.offsets) {
      const int64_t number = FloorDiv(phase + at, per_word);
      Value& word = words[number];
      if (!word) word = LoadWord(s.buffer, b_.Add(begin, U(number)), s.in_range);
      out.push_back({word, static_cast<int>(FloorMod(phase + at, per_word))});
    }
    return out;
  }
  std::map<int64_t, Place> places;  // by offset
  for (const Stretch& stretch : StretchesOf(s.offsets, per_word)) {
    Value first = b_.Add(s.first, U(stretch.begin));
    if (stretch.begin == stretch.last) {
      if (!s.in_range) first = b_.Min(first, U(buffers_.element_count(s.buffer) - 1));
      Value element = buffers_.Load(s.buffer, element_bytes_, first, 1);
      if (element.kind != kind()) element = b_.UConvert(element, kind());
      places[stretch.begin] = {element, 0};
      continue;
    }
    const Value begin = b_.Sar(first, log);
    const Value shift = b_.Mul(b_.And(first, U(per_word - 1)), U(element_bits()));
    const Value back = b_.Xor(shift, U(word_bits() - 1));
    // The word behind the last one is read where the stretch ends, which lies in the buffer or right behind it.
    const int64_t count = (stretch.last - stretch.begin) / per_word + 1;
    Value low = LoadWord(s.buffer, begin, s.in_range);
    for (int64_t n = 0; n < count; ++n) {
      const Value high = LoadWord(s.buffer, b_.Add(begin, U(n + 1)), s.in_range && n + 1 < count);
      const Value word = b_.Or(b_.Shr(low, shift), b_.Shl(b_.Shl(high, U(1)), back));
      for (int i = 0; i < per_word; ++i) places[stretch.begin + n * per_word + i] = {word, i};
      low = high;
    }
  }
  for (const int64_t at : s.offsets) out.push_back(places[at]);
  return out;
}

Value ElementWords::Assembled(std::span<const Place> places) const {
  const auto is_first = [&](const Place& p) { return p.word == places[0].word && p.at == places[0].at; };
  if (places.size() > 1 && std::ranges::all_of(places, is_first)) {
    const Value element = b_.And(b_.Shr(places[0].word, U(places[0].at * element_bits())), Word(ElementMask()));
    uint64_t ones = 0;
    for (std::size_t i = 0; i < places.size(); ++i) ones |= uint64_t{1} << (static_cast<int>(i) * element_bits());
    return b_.Mul(element, Word(ones));
  }
  // Elements of one word that move by the same distance move together.
  struct Part {
    Value word;
    int by = 0;  // elements, up
    uint64_t mask = 0;
  };
  std::vector<Part> parts;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const int by = static_cast<int>(i) - places[i].at;
    auto found = std::ranges::find_if(parts, [&](const Part& p) { return p.word == places[i].word && p.by == by; });
    if (found == parts.end()) found = parts.insert(parts.end(), {places[i].word, by, 0});
    found->mask |= ElementMask() << (static_cast<int>(i) * element_bits());
  }
  const uint64_t all = word_bytes_ == 8 ? ~uint64_t{0} : 0xffffffffu;
  Value out;
  for (const Part& p : parts) {
    const int bits = std::abs(p.by) * element_bits();
    const Value moved = p.by >= 0 ? b_.Shl(p.word, U(bits)) : b_.Shr(p.word, U(bits));
    // What the shift itself clears needs no mask.
    const uint64_t left = p.by >= 0 ? all << bits & all : all >> bits;
    const Value part = left == p.mask ? moved : b_.And(moved, Word(p.mask));
    out = out ? b_.Or(out, part) : part;
  }
  return out;
}

// A square of elements that lie in as many words along its other side is turned over by halves: of pairs of words
// halves are exchanged, then quarters, and so on.
bool ElementWords::Transpose(std::span<const Place> places, std::size_t line, std::span<Value> out) const {
  const auto side = static_cast<std::size_t>(per_word());
  for (std::size_t i = 0; i < side; ++i) {
    for (std::size_t k = 0; k < side; ++k) {
      const Place& p = places[k * line + i];
      if (p.word != places[i].word || p.at != static_cast<int>(k)) return false;
    }
    for (std::size_t j = 0; j < i; ++j)
      if (places[i].word == places[j].word) return false;
  }
  for (std::size_t i = 0; i < side; ++i) out[i] = places[i].word;
  for (std::size_t step = side / 2; step > 0; step /= 2) {
    uint64_t mask = 0;  // the elements that stay, of the word that is exchanged with a later one
    for (std::size_t i = 0; i < side; ++i)
      if ((i & step) == 0) mask |= ElementMask() << (i * static_cast<std::size_t>(element_bits()));
    const Value distance = U(static_cast<int64_t>(step) * element_bits());
    for (std::size_t i = 0; i < side; ++i) {
      if ((i & step) != 0) continue;
      Value &a = out[i], &c = out[i + step];
      const Value change = b_.And(b_.Xor(b_.Shr(a, distance), c), Word(mask));
      c = b_.Xor(c, change);
      a = b_.Xor(a, b_.Shl(change, distance));
    }
  }
  return true;
}

Values ElementWords::Pack(std::span<const Place> places, int64_t line) const {
  const auto side = static_cast<std::size_t>(per_word());
  Values out(places.size() / side);
  // A line of as many elements as a square has is one, too.
  const std::size_t length = places.size() == side * side ? side : static_cast<std::size_t>(line);
  if (side > 1 && places.size() == side * length && length % side == 0) {
    bool all = true;
    Values square(side);
    for (std::size_t first = 0; first < length && all; first += side) {
      all = Transpose(places.subspan(first), length, square);
      for (std::size_t k = 0; k < side && all; ++k) out[(k * length + first) / side] = square[k];
    }
    if (all) return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = Assembled(places.subspan(i * side, side));
  return out;
}

Value ElementWords::Shifted(Value low, Value high, Value count) const {
  const Value shift = b_.Mul(count, U(element_bits()));
  // Shifted by one and then by the rest, as a shift by a whole word has no defined result.
  return b_.Or(b_.Shr(b_.Shr(low, U(1)), b_.Xor(shift, U(word_bits() - 1))), b_.Shl(high, shift));
}

Value ElementWords::Four(std::span<const Value> words, int number) const {
  Values parts;  // of 4 bytes
  for (int i = number * element_bytes_; i < (number + 1) * element_bytes_; ++i) {
    const auto at = static_cast<std::size_t>(i);
    parts.push_back(word_bytes_ == 4 ? words[at] : b_.Extract(b_.BitcastTo(words[at / 2], Kind::kU32, 2), i % 2));
  }
  return buffers_.Elements(parts.size() == 1 ? parts[0] : b_.Composite(parts), element_bytes_);
}

Values ElementWords::PackFours(std::span<const Value> fours) const {
  Values parts;
  for (const Value& four : fours) {
    const Value words = buffers_.ElementWords(four, element_bytes_);
    for (int i = 0; i < words.width; ++i) parts.push_back(b_.Extract(words, i));
  }
  if (word_bytes_ == 4) return parts;
  Values out;
  for (std::size_t i = 0; i < parts.size(); i += 2)
    out.push_back(b_.BitcastTo(b_.Composite(std::span(parts).subspan(i, 2)), Kind::kU64, 1));
  return out;
}

void ElementWords::Store(int buffer, Value index, Value word) {
  const Value number = b_.Shr(index, U(std::countr_zero(static_cast<uint32_t>(per_word()))));
  buffers_.StoreWords(buffer, number, word_bytes_ == 8 ? b_.BitcastTo(word, Kind::kU32, 2) : word);
}

void ElementWords::StoreElement(int buffer, Value index, Value word, int at) {
  Value bits = b_.Shr(word, U(at * element_bits()));
  if (word_bytes_ == 8 && element_bytes_ < 8) bits = b_.UConvert(bits, Kind::kU32);
  buffers_.Store(buffer, element_bytes_, index, bits);
}

Value ElementWords::Repeated(uint64_t element) const {
  uint64_t word = 0;
  for (int i = 0; i < per_word(); ++i) word |= (element & ElementMask()) << (i * element_bits());
  return Word(word);
}

Values ElementWords::FirstElements(Value count, int words) const {
  Values out;
  for (int n = 0; n < words; ++n) {
    const Value here = b_.SMax(b_.SMin(b_.Sub(count, U(int64_t{n} * per_word())), U(per_word())), U(0));
    // Shifted by half of it twice, as a shift by a whole word has no defined result.
    const Value half = b_.Mul(here, U(element_bits() / 2));
    out.push_back(b_.Sub(b_.Shl(b_.Shl(Word(1), half), half), Word(1)));
  }
  return out;
}

Value ElementWords::Mask(std::span<const bool> elements) const {
  uint64_t word = 0;
  for (std::size_t i = 0; i < elements.size(); ++i)
    if (elements[i]) word |= ElementMask() << (static_cast<int>(i) * element_bits());
  return Word(word);
}

Value ElementWords::MaskOfPreds(Value word) const { return b_.Sub(b_.Shl(word, U(element_bits())), word); }

Value ElementWords::Choose(Value mask, Value a, Value b) const {
  uint64_t bits = 0;
  if (b_.m.IsConstant(b, &bits) && bits == 0) return b_.And(a, mask);
  if (b_.m.IsConstant(a, &bits) && bits == 0) return b_.And(b, b_.Not(mask));
  return b_.Xor(b, b_.And(b_.Xor(a, b), mask));
}

}  // namespace krafla::spirv
