// SPDX-License-Identifier: Apache-2.0
// Features of rows of words, which are numbers: TfIdfVectorizer.

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

// The n-grams of a node: those of n words are `pool[begin[n - 1], begin[n])`, word by word, and each has a column.
struct Grams {
  int64_t shortest, longest, skips;
  Ints begin, pool, columns;

  int64_t Count(int64_t n) const {  // of those of n words
    const auto k = static_cast<std::size_t>(n - 1);
    const int64_t end = k + 1 < begin.size() ? begin[k + 1] : static_cast<int64_t>(pool.size());
    return (end - begin[k]) / n;
  }
};
Grams GramsOf(const Call& c) {
  if (c.Find("pool_strings") != nullptr) Refuse("Its words are strings.");
  Grams g{c.Int("min_gram_length"), c.Int("max_gram_length"), c.Int("max_skip_count"), {}, {}, {}};
  g.begin = c.List("ngram_counts").value_or(Ints());
  g.pool = c.List("pool_int64s").value_or(Ints());
  g.columns = c.List("ngram_indexes").value_or(Ints());
  const auto sizes = static_cast<int64_t>(g.begin.size());
  if (g.shortest < 1 || g.longest < g.shortest || g.longest > sizes || g.longest > 64 || g.skips < 0 || g.skips > 64)
    Reject("n-grams of {} to {} words with up to {} skipped, of {} lengths.", g.shortest, g.longest, g.skips, sizes);
  int64_t last = 0, all = 0;
  for (int64_t n = 1; n <= sizes; ++n) {
    const int64_t at = g.begin[static_cast<std::size_t>(n - 1)];
    if (at < last || at > static_cast<int64_t>(g.pool.size())) Reject("ngram_counts has {} out of order.", at);
    last = at;
    all += g.Count(n);
  }
  if (all != static_cast<int64_t>(g.columns.size())) Reject("{} columns of {} n-grams.", g.columns.size(), all);
  for (const int64_t column : g.columns)
    if (column < 0 || column > 1 << 24) Reject("A column {}.", column);
  return g;
}

// How often each of the n-grams of n words, which begin at `first` in the pool, is in each row of words s64[B, C]:
// f32[B, K].
XlaOp Occurrences(XlaOp words, const Grams& g, int64_t n) {
  XlaBuilder* b = words.builder();
  const Ints d = DimsOf(words);
  const int64_t count = g.Count(n), first = g.begin[static_cast<std::size_t>(n - 1)];
  XlaOp sum = Filled(b, F32, Ints{d[0], count}, 0);
  // Words one apart, two apart, ..; single words are counted once.
  for (int64_t apart = 1; apart <= (n == 1 ? 1 : g.skips + 1); ++apart) {
    const int64_t places = d[1] - (n - 1) * apart;
    if (places <= 0) break;
    const Ints all = {d[0], count, places};
    XlaOp equal;
    for (int64_t k = 0; k < n; ++k) {
      Ints word;
      for (int64_t i = 0; i < count; ++i) word.push_back(g.pool[static_cast<std::size_t>(first + i * n + k)]);
      const XlaOp here = BroadcastInDim(SliceInDim(words, k * apart, k * apart + places, 1, 1), all, {0, 2});
      const XlaOp same = Eq(here, BroadcastInDim(IntList(b, word), all, {1}));
      equal = k == 0 ? same : And(equal, same);
    }
    sum = Add(sum, ReduceBy(Fold::kSum, Convert(equal, F32), Ints{2}, false));
  }
  return sum;
}

}  // namespace

Outputs OnTfIdfVectorizer(Call& c) {
  const Grams g = GramsOf(c);
  const Ints d = DimsOf(c.ShapeOf(0));
  if (d.empty() || d.size() > 2) Reject("Words of {} dimensions.", d.size());
  const int64_t rows = d.size() == 2 ? d[0] : 1;
  const XlaOp words = Reshape(Convert(c.In(0), S64), {rows, d.back()});
  // Columns of which no n-gram is known are zero: they take the last part.
  const int64_t columns = g.columns.empty() ? 0 : 1 + *std::ranges::max_element(g.columns);
  Ints from(static_cast<std::size_t>(columns), 0);
  Outputs parts;
  int64_t place = 0, seen = 0;
  std::vector<bool> is_known(from.size());
  for (int64_t n = 1; n <= static_cast<int64_t>(g.begin.size()); ++n) {
    const int64_t count = g.Count(n);
    const bool is_counted = n >= g.shortest && n <= g.longest && count > 0;
    for (int64_t i = 0; i < count && is_counted; ++i) {
      const auto column = static_cast<std::size_t>(g.columns[static_cast<std::size_t>(seen + i)]);
      from[column] = place + i;
      is_known[column] = true;
    }
    seen += count;
    if (!is_counted) continue;
    parts.push_back(Occurrences(words, g, n));
    place += count;
  }
  parts.push_back(Filled(c.b, F32, Ints{rows, 1}, 0));
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!is_known[i]) from[i] = place;
  XlaOp out = TakeAt(ConcatInDim(c.b, parts, 1), 1, from);
  const std::string mode = c.Text("mode", "TF");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") Reject("The mode '{}'.", mode);
  if (mode == "IDF") out = Convert(Gt(out, Like(out, 0)), F32);
  // A weight of each n-gram, as the text of the operator and ONNX Runtime have it; ONNX's reference takes them for
  // those of the columns.
  if (const auto weights = c.Floats("weights"); weights && mode != "TF") {
    if (weights->size() != g.columns.size()) Reject("{} weights of {} n-grams.", weights->size(), g.columns.size());
    std::vector<double> each(from.size(), 0);
    for (std::size_t i = 0; i < weights->size(); ++i) each[static_cast<std::size_t>(g.columns[i])] = (*weights)[i];
    out = Mul(out, AlongAxis(FromNumbers(c.b, F32, each, Ints{columns}), Ints{rows, columns}, 1));
  }
  return {d.size() == 2 ? out : Reshape(out, {columns})};
}

}  // namespace krafla::onnx
