// SPDX-License-Identifier: Apache-2.0
// Streams that go through rows of a few elements otherwise than along memory: rows backwards, an element for each row,
// the same row again. The elements of some lanes lie close together: they are loaded at once and permuted. Which ones
// they are follows from the first lane's column alone, so a table has a record for each column:
//
//   indices   of each lane, into the window that is loaded                       64 bytes
//   masks     of the elements that the first 0, 1, .. lanes use; no others are touched
//   low       where the window begins, in bytes behind the first lane's row
#ifdef KRAFLA_HAVE_JIT

#include <bit>
#include <span>

#include "cpu_fallback/native/x86_avx512.h"

namespace krafla::cpu::native {

namespace {

constexpr int kMasksAt = 64, kLowAt = kMasksAt + 4 * 17, kRecordBytes = 192;
// Numbers of lanes below 2^27 are divided by up to 16 exactly.
constexpr int kQuotientShift = 31;

std::vector<std::byte> RecordsOf(const LaneStream& s, int lanes) {
  std::vector<std::byte> out(static_cast<std::size_t>(s.columns * kRecordBytes));
  for (int first = 0; first < s.columns; ++first) {
    std::byte* record = out.data() + first * kRecordBytes;
    std::array<int32_t, 16> places{};
    for (int lane = 0; lane < lanes; ++lane) {
      const int at = first + lane;
      places[static_cast<std::size_t>(lane)] = at / s.columns * s.row_stride + at % s.columns * s.stride;
    }
    const int32_t low = *std::min_element(places.begin(), places.begin() + lanes);
    uint32_t mask = 0;
    for (int lane = 0; lane < lanes; ++lane) {
      const uint64_t index = static_cast<uint64_t>(places[static_cast<std::size_t>(lane)] - low);
      std::memcpy(record + lane * s.width, &index, static_cast<std::size_t>(s.width));
      mask |= 1u << index;
      std::memcpy(record + kMasksAt + 4 * (lane + 1), &mask, sizeof(mask));
    }
    const int32_t low_bytes = low * s.width;
    std::memcpy(record + kLowAt, &low_bytes, sizeof(low_bytes));
  }
  return out;
}

// Whether vectors begin with a row's first element: they have eight lanes or more, whole powers of two.
bool BeginsRows(int columns) { return std::has_single_bit(static_cast<unsigned>(columns)) && columns <= 8; }
int32_t LowBytes(std::span<const std::byte> record) {
  int32_t low;
  std::memcpy(&low, record.data() + kLowAt, sizeof(low));
  return low;
}

}  // namespace

asmjit::Label Avx512Emitter::RowTableOf(const LaneStream& stream, int lanes) {
  for (const RowTable& t : row_tables_)
    if (t.lanes == lanes && t.stream.width == stream.width && t.stream.columns == stream.columns &&
        t.stream.row_stride == stream.row_stride && t.stream.stride == stream.stride)
      return t.label;
  return row_tables_.emplace_back(stream, lanes, cc_.newLabel()).label;
}

void Avx512Emitter::EmbedShortRows() {
  for (const RowTable& t : row_tables_) {
    const std::vector<std::byte> records = RecordsOf(t.stream, t.lanes);
    cc_.align(asmjit::AlignMode::kData, 64);
    cc_.bind(t.label);
    cc_.embed(records.data(), records.size());
  }
}

const Avx512Emitter::RowPlace& Avx512Emitter::RowPlaceOf(int columns, int lane) {
  for (const RowPlace& p : row_places_)
    if (p.columns == columns && p.lane == lane) return p;
  const x86::Gp at = cc_.newInt64(), row = cc_.newInt64(), before = cc_.newInt64(), record = cc_.newInt64();
  if (BeginsRows(columns)) {
    cc_.lea(row, x86::ptr(index_, lane));
    cc_.shr(row, std::countr_zero(static_cast<unsigned>(columns)));
    return row_places_.emplace_back(columns, lane, row, x86::Gp());
  }
  cc_.lea(at, x86::ptr(index_, lane));
  cc_.imul(row, at, static_cast<int32_t>(((int64_t{1} << kQuotientShift) + columns - 1) / columns));
  cc_.shr(row, kQuotientShift);
  cc_.imul(before, row, columns);
  cc_.sub(at, before);
  cc_.imul(record, at, kRecordBytes);
  return row_places_.emplace_back(columns, lane, row, record);
}

// `lanes` elements from lane number `lane` on.
x86::Vec Avx512Emitter::LoadShortRows(const LaneStream& stream, const x86::Gp& base, int lane, int lanes) {
  const int width = stream.width, each = LanesOfShortRows(width), bytes = each * width;
  const RowPlace& place = RowPlaceOf(stream.columns, lane);
  const x86::Gp record = cc_.newIntPtr(), from = cc_.newIntPtr();
  cc_.lea(record, x86::ptr(RowTableOf(stream, lanes)));
  cc_.imul(from, place.row, stream.row_stride * width);
  if (place.record.isValid()) {
    const x86::Gp low = cc_.newInt64();
    cc_.add(record, place.record);
    cc_.movsxd(low, x86::dword_ptr(record, kLowAt));
    cc_.add(from, low);
  } else if (const int32_t low = LowBytes(RecordsOf(stream, lanes)); low != 0) {
    cc_.add(from, low);
  }
  cc_.add(from, base);
  const x86::KReg k = cc_.newKq();
  if (is_tail_) {
    const x86::Gp count = cc_.newInt64(), limit = cc_.newInt64();
    cc_.mov(count, columns_);
    cc_.sub(count, index_);
    cc_.sub(count, lane);
    cc_.mov(limit, lanes);
    cc_.cmp(count, limit);
    cc_.cmovg(count, limit);
    cc_.xor_(limit, limit);
    cc_.cmp(count, limit);
    cc_.cmovl(count, limit);
    cc_.kmovd(k, x86::dword_ptr(record, count, 2, kMasksAt));
  } else {
    cc_.kmovd(k, x86::dword_ptr(record, kMasksAt + 4 * lanes));
  }
  const auto fresh = [&]() -> x86::Vec {
    if (bytes == 64) return cc_.newZmm();
    if (bytes == 32) return cc_.newYmm();
    return cc_.newXmm();
  };
  const x86::Vec indices = fresh(), near = fresh(), out = fresh();
  Emit(Inst::kIdVmovdqu32, indices, x86::ptr(record));
  EmitMasked(MoveOf(width), k, true, near, x86::ptr(from));
  if (WindowOfShortRows(lanes, stream.columns, stream.row_stride, stream.stride) <= each) {
    if (width == 1) Emit(Inst::kIdVpshufb, out, near, indices);
    else Emit(OfWidth(width, 0, Inst::kIdVpermw, Inst::kIdVpermd, Inst::kIdVpermq), out, indices, near);
    return out;
  }
  const x86::KReg rest = cc_.newKq();
  const x86::Vec far = fresh();
  Emit(Inst::kIdKshiftrd, rest, k, Imm(each));
  EmitMasked(MoveOf(width), rest, true, far, x86::ptr(from, bytes));
  Emit(Inst::kIdVmovdqa32, out, near);
  Emit(OfWidth(width, 0, Inst::kIdVpermt2w, Inst::kIdVpermt2d, Inst::kIdVpermt2q), out, indices, far);
  return out;
}

void Avx512Emitter::EmitShortRows(int id) {
  const LaneNode& n = At(id);
  const LaneStream& stream = graph_.streams[n.bits];
  const int width = stream.width, lanes = std::min(lanes_, LanesOfShortRows(width));
  std::vector<x86::Vec> parts;
  for (int lane = 0; lane < lanes_; lane += lanes)
    parts.push_back(LoadShortRows(stream, bases_[n.bits], Ahead() + lane, lanes));
  x86::Vec v = parts[0];
  if (parts.size() == 1) {
    const int bytes = width * lanes_;
    if (bytes <= 16) v = v.xmm();
    else if (bytes <= 32) v = v.ymm();
  } else if (lanes * width == 32) {
    v = cc_.newZmm();
    Emit(Inst::kIdVinserti64x4, v, parts[0].zmm(), parts[1], Imm(1));
  } else {
    for (std::size_t p = 1; p < parts.size(); ++p) {
      const x86::Vec more = NewVector(width);
      if (parts.size() == 2) Emit(Inst::kIdVinserti32x4, more, v.ymm(), parts[p], Imm(1));
      else Emit(Inst::kIdVinserti32x4, more, v.zmm(), parts[p], Imm(static_cast<int>(p)));
      v = more;
    }
  }
  SetLoaded(id, v);
}

}  // namespace krafla::cpu::native

#endif
