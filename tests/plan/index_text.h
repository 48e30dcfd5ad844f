// SPDX-License-Identifier: Apache-2.0
// Index expressions as text in both directions, for tests: "i0" is an iterator, "v3" a value of the program, "/" a
// floor division, "%" a modulus.
#pragma once

#include <cctype>
#include <cstdlib>
#include <string>
#include <string_view>

#include "plan/index_expr.h"

namespace krafla::plan {

// Makes the expression that a text says, operation by operation, in `space`.
class IndexReader {
 public:
  IndexReader(IndexSpace& space, std::string_view text) : space_(space), text_(text) {}

  IndexId Read() { return Sum(); }

 private:
  char Peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  int64_t Number() {
    Peek();
    int64_t out = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      out = out * 10 + (text_[at_++] - '0');
    return out;
  }
  IndexId Sum() {
    IndexId out = Accept('-') ? space_.Mul(Product(), -1) : Product();
    for (;;) {
      if (Accept('+')) out = space_.Add(out, Product());
      else if (Accept('-')) out = space_.Sub(out, Product());
      else return out;
    }
  }
  // Factors are numbers and stand first; divisors are numbers.
  IndexId Product() {
    IndexId out;
    if (std::isdigit(static_cast<unsigned char>(Peek()))) {
      const int64_t factor = Number();
      out = Accept('*') ? space_.Mul(Product(), factor) : space_.Constant(factor);
    } else {
      out = Primary();
    }
    for (;;) {
      if (Accept('/')) out = space_.FloorDiv(out, Number());
      else if (Accept('%')) out = space_.Mod(out, Number());
      else return out;
    }
  }
  IndexId Primary() {
    if (Accept('(')) {
      const IndexId out = Sum();
      Accept(')');
      return out;
    }
    if (Accept('i')) return space_.Iter(static_cast<int>(Number()));
    // "v3:2..7": the value of node 3, which lies in [2, 7].
    Accept('v');
    const auto node = static_cast<int>(Number());
    Accept(':');
    const int64_t lo = Number();
    Accept('.'), Accept('.');
    return space_.Value(node, lo, Number(), 0);
  }

  IndexSpace& space_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace krafla::plan
