// SPDX-License-Identifier: Apache-2.0
// Where two sides begin to differ, and what makes the difference go away.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compare_side.h"

namespace krafla::cli {

// What is compared: a module on arguments, by a rule.
struct Question {
  const Module& module;
  const std::vector<Literal>& arguments;
  Tolerance rule;
};

// Of each pair of results. INTERNAL where the numbers of results differ.
Result<std::vector<Comparison>> CompareAll(const std::vector<Literal>& a, const std::vector<Literal>& b,
                                           const Tolerance& rule);
bool AllPassed(const std::vector<Comparison>& comparisons);

struct FirstDifference {
  std::string instruction;  // empty: the difference went away when values were made results
  std::string opcode;
  Comparison comparison;              // of its result
  std::vector<std::string> between;   // where it is empty: it lies in these
  int runs = 0;                       // of each side
  std::size_t exposed = 0;            // values that were results besides in a run, at most
  bool alone = false, tried = false;  // whether it differs alone, on its operands' values; whether that could be tried
};
// By halves: values on a cut through the graph are made results besides the module's own, so that O(log n) runs find
// the first instruction of the entry computation whose result differs though its operands do not.
Result<FirstDifference> FindFirstDifference(const Question& question, const Side& a, const Side& b);

struct Suspect {
  std::string name;
  enum class Verdict { kStays, kGoesAway, kRefused } verdict = Verdict::kStays;
};
struct Bisection {
  std::vector<Suspect> suspects;    // each switched off by itself
  std::vector<std::string> needed;  // the smallest set found that makes the difference go away; empty: none does
};
// Switches off on side `b` what `krafla --disable` can and this module or device has: one by one, and where none alone
// makes the difference go away, several, by halves.
Result<Bisection> Bisect(const Question& question, const Side& a, const Side& b,
                         const std::function<void(const std::string&)>& progress);

}  // namespace krafla::cli
