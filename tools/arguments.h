// SPDX-License-Identifier: Apache-2.0
// What `krafla run` is given as arguments, and which parameter each is for.
#pragma once

#include <string>
#include <vector>

#include "command.h"

namespace krafla::cli {

// A leaf of the entry's parameters, and what people call it.
struct Parameter {
  std::string name;                // as messages have it: "x", "state{1}"
  std::vector<std::string> names;  // whatever --input takes for it: "x", "x.1", "params['w']", "0"
  Shape shape;
};
std::vector<Parameter> ParametersOf(const Module& module);

// Checked against the parameters when it is made, as far as that can be told without reading large arrays: before
// anything is compiled, which may take long.
class GivenArguments {
 public:
  // `exact`: shapes must be those of the parameters; not so where each device takes a part.
  static Result<GivenArguments> Find(const ArgumentOptions& options, std::vector<Parameter> parameters, int64_t device,
                                     bool exact);
  // The arrays, one a leaf, as an executable takes them.
  Result<std::vector<Literal>> Read(const std::vector<Shape>& shapes) const;

 private:
  enum class Kind { kMissing, kArchive, kNpy, kRaw, kValues };
  struct Source {
    Kind kind = Kind::kMissing;
    std::string text;        // the path, or the values
    std::size_t number = 0;  // of the array in the archive
    Shape shape;             // what it holds, but for raw bytes
  };

  Result<> AddArchive(const std::string& path);
  Result<> AddInput(const std::string& text, std::size_t& next);
  Result<Source> SourceOf(const std::string& text, const Shape* shape) const;
  Result<> Place(std::size_t parameter, Source source);
  Result<> CheckAll(bool exact) const;
  Result<Literal> Load(const Source& source, const Shape& shape) const;

  const ArgumentOptions* options_ = nullptr;
  int64_t device_ = 0;
  std::vector<Parameter> parameters_;
  std::vector<Source> sources_;
};

// As --shape takes them, the shapes of the arrays that are given, each by its name or else its number; `in_order`:
// those of an archive by their numbers. What cannot be read is left out: GivenArguments says so.
std::vector<std::string> ShapesOfGiven(const ArgumentOptions& options, bool in_order);

// "in_{}.npz" for device 3 is "in_3.npz".
std::string ForDevice(std::string path, int64_t device);

}  // namespace krafla::cli
