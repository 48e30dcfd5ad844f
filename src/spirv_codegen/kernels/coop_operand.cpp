// SPDX-License-Identifier: Apache-2.0
#include "spirv_codegen/kernels/coop_operand.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/checked_math.h"

namespace krafla::spirv {

int CoopPart::ChunkBytes() const { return std::gcd(16, matrix_depth * element_bytes); }
int64_t CoopPart::Stride() const { return (depth * element_bytes + 16) / ChunkBytes(); }

CoopOperand::CoopOperand(KernelWriter& w, const TileProblem& problem, const CoopPart& part, const CoopMemory& memory,
                         int64_t first_chunk, int64_t most_constant_offset, std::unique_ptr<MatrixSource> source,
                         bool rows)
    : w_(w),
      b_(w.b),
      p_(problem),
      part_(part),
      memory_(memory),
      first_chunk_(first_chunk),
      most_constant_offset_(most_constant_offset),
      source_(std::move(source)),
      rows_(rows),
      lines_(source_->Lines(rows)) {
  ChooseWay();
}

void CoopOperand::ChooseWay() {
  const int bytes = part_.element_bytes, chunk = ChunkElements();
  const bool partial = p_.depth % part_.depth != 0;
  masked_ = partial && p_.segments > 1;
  across_ = true;
  run_ = 4;
  if (!lines_) return;
  const MatrixLines& l = *lines_;
  // A piece for each invocation, where there are enough elements: what is left over, others wait for.
  const int64_t each = int64_t{part_.lines} * part_.depth / part_.local / chunk;
  across_ = l.depth_stride != 1;
  const int64_t fair = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(each, 1))));
  run_ = across_ ? static_cast<int>(std::clamp<int64_t>(fair, 4 / bytes, 8 / bytes)) : chunk;
  auto divided = [&](int64_t stride) { return std::gcd(run_ * bytes, stride * bytes); };
  int64_t align = divided(l.granule);
  auto all = [&](int64_t stride) { align = std::gcd(align, divided(stride)); };
  bool even = l.segment_strides.empty() || p_.segments == 1;
  if (!even) even = l.segment_strides.size() == p_.segment_dims.size();
  if (p_.segments > 1) {
    for (int64_t stride : l.segment_strides) {
      all(stride);
      even = even && stride * bytes % 4 == 0;
    }
  }
  if (across_) {
    if (l.depth > 1) all(l.depth_stride);
    ragged_ = l.count % run_ != 0;
    // What is read past the end of a line's neighbours is the next place of the depth.
    even = even && l.depth_stride >= run_ && l.count >= run_;
  } else {
    if (l.count > 1 && l.line_stride != 0) all(l.line_stride);
    ragged_ = l.depth % chunk != 0;
  }
  alignment_ = static_cast<int>(align);
  ragged_ = ragged_ || alignment_ < 4;
  if (!even || (ragged_ && p_.segments > 1) || (alignment_ < 4 && l.wraps)) {
    lines_.reset();
    across_ = true;
    run_ = 4;
    ragged_ = false;
  }
}

int CoopOperand::Classes() const {
  return across_ && alignment_ < 4 ? static_cast<int>(4 / std::gcd(4, lines_->depth_stride * part_.element_bytes)) : 1;
}

DepthWalk::Strides CoopOperand::Strides() const {
  if (!lines_) return {};
  DepthWalk::Strides out{static_cast<uint32_t>(part_.depth * lines_->depth_stride * part_.element_bytes)};
  for (int64_t stride : lines_->segment_strides) out.segments.push_back(stride * part_.element_bytes);
  return out;
}

void CoopOperand::Prepare(Value id, Value line0) {
  const int64_t chunks = part_.depth / ChunkElements(), groups = part_.lines / PieceLines();
  // Neighbouring invocations read 64 bytes that lie together, of one line or across lines.
  const int64_t beside = across_ ? std::gcd(groups, int64_t{std::max(64 / (run_ * part_.element_bytes), 1)}) : 1;
  const int64_t count = chunks * groups, local = part_.local;
  // An invocation's pieces lie as far from each other as they do in all others.
  const bool even = local % (beside * chunks) == 0 && (count % local == 0 || count < local);
  for (int64_t first = 0; first < count; first += local) {
    Piece piece;
    Value n = b_.Add(id, U(even ? 0 : first));
    if (first + local > count) {
      piece.there = b_.Compare(Cmp::kULt, n, U(count));
      n = b_.Select(piece.there, n, U(0));
    }
    const int64_t further = even ? first / chunks * PieceLines() : 0;  // lines
    const Value low = b_.UMod(n, U(beside)), high = b_.UDiv(n, U(beside));
    const Value chunk = b_.UMod(high, U(chunks));
    const Value group = b_.Add(b_.Mul(b_.UDiv(high, U(chunks)), U(beside)), low);
    const Value line = b_.Mul(group, U(PieceLines()));
    const Value at = b_.Add(b_.Mul(line, U(part_.Stride())), chunk);
    piece.at = b_.Add(at, U(first_chunk_ + further * part_.Stride()));
    piece.line = b_.Add(b_.Add(line0, line), U(further));
    piece.k = b_.Mul(chunk, U(ChunkElements()));
    if (lines_) {
      FindPlaces(piece, further);
    } else if (rows_) {
      source_->PrepareRows(piece.line, 4);
    } else {
      source_->PrepareColumns(piece.line, 4);
    }
    pieces_.push_back(std::move(piece));
  }
}

// Where the elements of a piece lie, which is `further` lines behind the first one.
void CoopOperand::FindPlaces(Piece& piece, int64_t further) const {
  const MatrixLines& l = *lines_;
  const bool whole = l.count % part_.lines == 0;
  const int64_t last = across_ ? (l.count - 1) / run_ * run_ : l.count - 1;
  const Value line = whole ? piece.line : b_.Min(piece.line, U(last));
  if (l.segments) piece.segments = l.segments(line);
  const int64_t behind = further * l.line_stride * part_.element_bytes;
  if (further > 0 && whole && l.line_stride != 0 && behind % 4 == 0 && behind <= most_constant_offset_) {
    piece.offsets = pieces_[0].offsets;
    piece.odd = pieces_[0].odd;
    piece.constant = behind;
    return;
  }
  const Value place = b_.Add(l.offset(line), b_.Mul(piece.k, U(l.depth_stride)));
  const Value bytes = b_.Mul(place, U(part_.element_bytes));
  const int64_t place_bytes = l.depth_stride * part_.element_bytes;
  const bool far = (Places() - 1) * place_bytes > most_constant_offset_;
  for (int i = 0; i < (far ? Places() : Classes()); ++i) {
    const Value at = b_.Add(bytes, U(i * place_bytes));
    piece.offsets.push_back(alignment_ < 4 ? b_.And(at, U(~int64_t{3})) : at);
    if (alignment_ < 4 && i < Classes()) piece.odd.push_back(b_.Mul(b_.And(at, U(3)), U(8)));
  }
}

Values CoopOperand::Read(const Buffers::Place& place, Value odd, int words) const {
  if (!odd) {
    Buffers::Place at = place;
    at.alignment = std::clamp(alignment_, 4, 4 * words);
    const Value v = w_.buffers.LoadWordsAt(lines_->binding, at, words);
    Values out;
    for (int i = 0; i < words; ++i) out.push_back(b_.Extract(v, i));
    return out;
  }
  // Words around it, put together. More of the buffer follows, as this is no last step of the depth.
  Values around;
  if (words == 1) {
    around = Read(place, {}, 2);
  } else {
    around = Read(place, {}, words);
    Buffers::Place behind = place;
    behind.constant += static_cast<uint32_t>(4 * words);
    around.push_back(Read(behind, {}, 1)[0]);
  }
  Values out;
  for (std::size_t i = 0; i < static_cast<std::size_t>(words); ++i) {
    const Value high = b_.Shl(b_.Shl(around[i + 1], U(1)), b_.Sub(U(31), odd));
    out.push_back(b_.Or(b_.Shr(around[i], odd), high));
  }
  return out;
}

// Words of lines, of one element of the depth each, as words of the depth, of one line each.
Values CoopOperand::Turned(const std::vector<Values>& rows) const {
  // Halves of two words beside each other: drivers know moves of halves, and make one instruction of it.
  const bool halves = b_.m.profile().features.int16;
  if (halves) b_.m.Require(spv::Capability::Int16);
  const bool bytes = b_.m.profile().features.int8 && part_.element_bytes == 1;
  if (bytes) b_.m.Require(spv::Capability::Int8);
  auto pair = [&](Value x, Value y, int half) {
    const Value both[] = {b_.Extract(b_.BitcastTo(x, Kind::kU16, 2), half),
                          b_.Extract(b_.BitcastTo(y, Kind::kU16, 2), half)};
    return b_.BitcastTo(b_.Composite(both), Kind::kU32, 1);
  };
  auto low = [&](Value x, Value y) { return halves ? pair(x, y, 0) : b_.Or(b_.And(x, U(0xffff)), b_.Shl(y, U(16))); };
  auto high = [&](Value x, Value y) {
    return halves ? pair(x, y, 1) : b_.Or(b_.Shr(x, U(16)), b_.And(y, U(0xffff0000)));
  };
  const std::size_t per_word = 4 / static_cast<std::size_t>(part_.element_bytes);
  const std::size_t words = rows.size() / per_word;  // of a line
  Values out(static_cast<std::size_t>(run_) * words);
  for (std::size_t q = 0; q < words; ++q) {
    for (std::size_t j = 0; j < rows[0].size(); ++j) {  // of a row's words
      auto put = [&](std::size_t line, Value v) { out[(j * per_word + line) * words + q] = v; };
      auto row = [&](std::size_t i) { return rows[q * per_word + i][j]; };
      if (part_.element_bytes == 2) {
        put(0, low(row(0), row(1)));
        put(1, high(row(0), row(1)));
        continue;
      }
      if (bytes) {
        for (int line = 0; line < 4; ++line) {
          Value of_line[4];
          for (std::size_t i = 0; i < 4; ++i) of_line[i] = b_.Extract(b_.BitcastTo(row(i), Kind::kU8, 4), line);
          put(static_cast<std::size_t>(line), b_.BitcastTo(b_.Composite(of_line), Kind::kU32, 1));
        }
        continue;
      }
      const Value even = U(0x00ff00ff), odd = U(0xff00ff00);
      auto evens = [&](Value x, Value y) { return b_.Or(b_.And(x, even), b_.Shl(b_.And(y, even), U(8))); };
      auto odds = [&](Value x, Value y) { return b_.Or(b_.And(b_.Shr(x, U(8)), even), b_.And(y, odd)); };
      const Value e0 = evens(row(0), row(1)), e1 = evens(row(2), row(3));
      const Value o0 = odds(row(0), row(1)), o1 = odds(row(2), row(3));
      put(0, low(e0, e1));
      put(1, low(o0, o1));
      put(2, high(e0, e1));
      put(3, high(o0, o1));
    }
  }
  return out;
}

// `masked`: k may be past the end of the depth.
void CoopOperand::FetchLines(const Piece& piece, Value segment, Value k, Value bytes, bool masked, Values& out) const {
  std::vector<Values> rows;
  Value inside;  // all ones, or zero
  if (piece.segments) inside = b_.Neg(b_.And(b_.Shr(piece.segments, segment), U(1)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(Places()); ++i) {
    Value mask = inside;
    if (masked) {
      const Value at = b_.Add(b_.Add(k, piece.k), U(static_cast<int64_t>(i)));
      const Value in = b_.Select(b_.Compare(Cmp::kULt, at, U(p_.depth)), U(0xffffffff), U(0));
      mask = mask ? b_.And(mask, in) : in;
    }
    Buffers::Place place;
    const std::size_t of_class = i % static_cast<std::size_t>(Classes());
    const bool all = piece.offsets.size() == static_cast<std::size_t>(Places());
    place.lane = piece.offsets[all ? i : of_class];
    const auto before = static_cast<int64_t>(all ? 0 : i - of_class);
    place.constant = static_cast<uint32_t>(piece.constant + before * lines_->depth_stride * part_.element_bytes);
    if (mask) {
      place.lane = b_.And(b_.Add(b_.Add(place.lane, bytes), U(place.constant)), mask);
      place.constant = 0;
    } else if (lines_->wraps) {
      place.lane = b_.Add(place.lane, bytes);
    } else {
      place.uniform = bytes;
    }
    Values words = Read(place, piece.odd.empty() ? Value{} : piece.odd[of_class], run_ * part_.element_bytes / 4);
    if (mask)
      for (Value& v : words) v = b_.And(v, mask);
    rows.push_back(std::move(words));
  }
  const Values words = across_ ? Turned(rows) : rows[0];
  out.insert(out.end(), words.begin(), words.end());
}

void CoopOperand::FetchElements(const Piece& piece, Value k0, Values& out) const {
  const bool partial = p_.depth % part_.depth != 0;
  const auto depth = static_cast<std::size_t>(ChunkElements());
  const int lines = static_cast<int>(PieceLines()), at_once = lines % 4 == 0 ? 4 : 1;
  for (int line = 0; line < lines; line += at_once) {
    const Value first = b_.Add(piece.line, U(line));
    std::vector<Values> elements(static_cast<std::size_t>(at_once), Values(depth));
    for (std::size_t d = 0; d < depth; d += 4) {
      const Value k = b_.Add(b_.Add(k0, piece.k), U(static_cast<int64_t>(d)));
      Value got[4];
      if (rows_) {
        source_->Load(first, at_once, k, 4, got);
      } else {
        source_->Load(k, 4, first, at_once, got);
      }
      for (std::size_t i = 0; i < elements.size(); ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
          Value v = rows_ ? b_.Extract(got[i], static_cast<int>(j)) : b_.Extract(got[j], static_cast<int>(i));
          if (partial) {
            const Value in = b_.Compare(Cmp::kULt, b_.Add(k, U(static_cast<int64_t>(j))), U(p_.depth));
            v = b_.Select(in, v, U(0));
          }
          elements[i][d + j] = v;
        }
      }
    }
    const std::size_t per_word = 4 / static_cast<std::size_t>(part_.element_bytes);
    for (const Values& of_line : elements) {
      for (std::size_t d = 0; d < depth; d += per_word) {
        Value word = of_line[d];
        for (std::size_t j = 1; j < per_word; ++j)
          word = b_.Or(word, b_.Shl(of_line[d + j], U(static_cast<int64_t>(j) * 8 * part_.element_bytes)));
        out.push_back(word);
      }
    }
  }
}

Values CoopOperand::Fetch(Value segment, Value k, Value bytes, bool last) const {
  Values out;
  const bool partial = p_.depth % part_.depth != 0;
  if (!lines_ || (last && ragged_)) source_->Enter(segment);
  for (const Piece& piece : pieces_) {
    if (!lines_ || (last && ragged_)) {
      FetchElements(piece, k, out);
    } else {
      FetchLines(piece, segment, k, bytes, masked_ || (last && partial), out);
    }
  }
  return out;
}

void CoopOperand::Stage(std::span<const Value> elements) const {
  const auto words = static_cast<std::size_t>(memory_.width);
  std::size_t next = 0;
  for (const Piece& piece : pieces_) {
    auto all = [&] {
      for (int64_t line = 0; line < PieceLines(); ++line, next += words) {
        const auto of_chunk = elements.subspan(next, words);
        b_.StoreShared(memory_.array, b_.Add(piece.at, U(line * part_.Stride())),
                       words == 1 ? of_chunk[0] : b_.Composite(of_chunk));
      }
    };
    if (piece.there) {
      b_.If(piece.there, all);
    } else {
      all();
    }
  }
}

void MultiplyInSteps(Builder& builder, const TileProblem& p, const StagedOperands& operands,
                     const std::function<void()>& multiply) {
  const CoopOperand &a = operands.a, &b = operands.b;
  const DepthWalk walk(builder, p, operands.step, {a.Strides(), b.Strides()});
  auto u = [&](uint32_t v) { return builder.U32(v); };
  auto fetch = [&](const Values& state, bool last) {
    const DepthWalk::Place place = walk.At(state);
    // b first: it may have to be turned.
    Values of_b = b.Fetch(place.segment, place.k, place.bytes[1], last);
    Values of_a = a.Fetch(place.segment, place.k, place.bytes[0], last);
    return std::pair(std::move(of_a), std::move(of_b));
  };
  auto stage = [&](const std::pair<Values, Values>& elements) {
    a.Stage(elements.first);
    b.Stage(elements.second);
    builder.WorkgroupBarrier();
  };
  // Where the last step is not like the others, it comes behind the loop. A turn reads the next step's elements before
  // it multiplies, and stages them when all have multiplied: no element stays in a register from turn to turn.
  const bool tail = p.segments == 1 && (p.depth % operands.step != 0 || a.ragged() || b.ragged());
  const int64_t whole = walk.steps() - (tail ? 1 : 0);
  stage(fetch(walk.Start(), whole == 0));
  auto turn = [&](const Values& state) {
    const Values next = walk.Next(state);
    const auto elements = fetch(next, false);
    multiply();
    builder.WorkgroupBarrier();
    stage(elements);
    return next;
  };
  Values state = walk.Start();
  int64_t done = 0;
  if (operands.first_step_apart && whole > 1) {
    state = turn(state);
    done = 1;
  }
  walk.Turns(state, done, whole - 1, turn);
  const bool two = tail && whole > 0;
  builder.For(u(0), u(two ? 2 : 1), u(1), [&](Value number) {
    multiply();
    builder.WorkgroupBarrier();
    if (two) builder.If(builder.Compare(Cmp::kEq, number, u(0)), [&] { stage(fetch(walk.Step(whole), true)); });
  });
}

}  // namespace krafla::spirv
