// SPDX-License-Identifier: Apache-2.0
// NumPy's .npz (zip of .npy) in and out. bf16 is stored as u2 bits and 8-bit floats as u1 bits, as
// NumPy has no names for them; the caller says which type is meant.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "krafla/literal.h"
#include "krafla/status.h"

namespace krafla {

struct NamedLiteral {
  std::string name;
  Literal literal;
};

// An archive whose headers have been read: what it holds, before any array is allocated.
class NpzArchive {
 public:
  struct Array {
    std::string name;
    Shape shape;  // element types are NumPy's (bool -> pred, <u2 -> u16, <c8 -> c64 ...)
  };

  static Result<NpzArchive> Open(const std::string& path);
  NpzArchive(NpzArchive&&) noexcept;
  NpzArchive& operator=(NpzArchive&&) noexcept;
  ~NpzArchive();

  // In the order of the archive.
  const std::vector<Array>& arrays() const { return arrays_; }
  // What array `number` holds. The checksum has been compared.
  Result<Literal> Read(std::size_t number);

 private:
  struct File;
  NpzArchive(std::string path, std::unique_ptr<File> file);

  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<Array> arrays_;
};

// All arrays in the order of the archive. RESOURCE_EXHAUSTED, before any is read, where they are more than the host has
// memory for.
Result<std::vector<NamedLiteral>> ReadNpz(const std::string& path);
Result<> WriteNpz(const std::string& path, const std::vector<NamedLiteral>& arrays);

// Whether AdoptShape takes an array of shape `have`, as far as that says.
bool CanStandFor(const Shape& have, const Shape& shape);
// `literal` read as `shape`: equal dimensions, and either the same type or the stored stand-in of the same width
// (u16 for bf16, u8 for f8 and sub-byte types; f2/f4/f8 exact).
Result<Literal> AdoptShape(Literal literal, const Shape& shape);

}  // namespace krafla
