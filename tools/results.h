// SPDX-License-Identifier: Apache-2.0
// Results of a run, for people and for machines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "krafla/literal.h"

namespace krafla::cli {

// A line of standard output. What is not UTF-8 in it is replaced.
void PrintJsonLine(const nlohmann::ordered_json& line);

// An array of arrays of numbers, complex ones as [re, im]; numbers that JSON lacks are strings: "nan", "inf", "-inf".
std::string JsonOf(const Literal& literal);

// Floats, all of them NaN.
bool IsAllNan(const Literal& literal);

}  // namespace krafla::cli
