// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM: a loop over time. What does not depend on the state, x W + b, is one product before the loop.
#include <algorithm>

#include "onnx/call.h"

namespace krafla::onnx {
namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  XlaOp operator()(XlaOp x) const { return ActivationOf(name, alpha, beta, x); }
};

// All that one direction needs.
struct Direction {
  XlaOp w, r, bias, recurrent_bias, peephole;  // w: [G * H, I], r: [G * H, H]
  std::vector<Activation> functions;
  bool backwards = false;
};
struct Cell {
  std::string type;        // LSTM, GRU, RNN
  bool quantized = false;  // com.microsoft.DynamicQuantizeLSTM: the left sides of products are rounded to u8
  int64_t gates = 1, hidden = 0;
  double clip = 0;
  bool input_forget = false, linear_before_reset = false;
};
struct State {
  XlaOp h, c;
};

XlaOp Clipped(const Cell& cell, XlaOp x) { return cell.clip > 0 ? ClampTo(x, -cell.clip, cell.clip) : x; }
XlaOp GateOf(XlaOp x, int64_t gate, int64_t hidden) { return SliceInDim(x, gate * hidden, (gate + 1) * hidden, 1, 1); }
// x R^T
XlaOp TimesTransposed(XlaOp x, XlaOp r) {
  DotDimensionNumbers numbers;
  numbers.lhs_contracting_dimensions = {1};
  numbers.rhs_contracting_dimensions = {1};
  return DotGeneral(x, r, numbers);
}

// One step: `x` is x W + the biases that may be added outside, [B, G * H].
State Step(const Cell& cell, const Direction& d, XlaOp x, XlaOp r, XlaOp recurrent_bias, XlaOp peephole, State s) {
  const int64_t n = cell.hidden;
  const Ints dims = DimsOf(s.h);
  const auto& f = d.functions;
  if (cell.type == "RNN") return {f[0](Clipped(cell, Add(x, TimesTransposed(s.h, r)))), {}};
  if (cell.type == "LSTM") {
    const XlaOp all = Add(x, TimesTransposed(cell.quantized ? ThroughU8(s.h) : s.h, r));
    auto peek = [&](XlaOp gate, int64_t i, XlaOp state) {
      if (peephole.IsUninitialized()) return gate;
      return Add(gate, Mul(state, BroadcastTo(SliceInDim(peephole, i * n, (i + 1) * n, 1, 0), dims)));
    };
    const XlaOp in = f[0](Clipped(cell, peek(GateOf(all, 0, n), 0, s.c)));
    const XlaOp forget =
        cell.input_forget ? Sub(Like(in, 1), in) : f[0](Clipped(cell, peek(GateOf(all, 2, n), 2, s.c)));
    const XlaOp c = Add(Mul(forget, s.c), Mul(in, f[1](Clipped(cell, GateOf(all, 3, n)))));
    const XlaOp out = f[0](Clipped(cell, peek(GateOf(all, 1, n), 1, c)));
    return {Mul(out, f[2](c)), c};
  }
  // GRU: z, r, h.
  const XlaOp both = TimesTransposed(s.h, SliceInDim(r, 0, 2 * n, 1, 0));
  const XlaOp z = f[0](Clipped(cell, Add(GateOf(x, 0, n), GateOf(both, 0, n))));
  const XlaOp reset = f[0](Clipped(cell, Add(GateOf(x, 1, n), GateOf(both, 1, n))));
  const XlaOp rh = SliceInDim(r, 2 * n, 3 * n, 1, 0);
  XlaOp hidden;
  if (cell.linear_before_reset) {
    XlaOp linear = TimesTransposed(s.h, rh);
    if (!recurrent_bias.IsUninitialized()) linear = Add(linear, BroadcastTo(recurrent_bias, dims));
    hidden = Mul(reset, linear);
  } else {
    hidden = TimesTransposed(Mul(reset, s.h), rh);
    if (!recurrent_bias.IsUninitialized()) hidden = Add(hidden, BroadcastTo(recurrent_bias, dims));
  }
  const XlaOp h = f[1](Clipped(cell, Add(GateOf(x, 2, n), hidden)));
  return {Add(Mul(Sub(Like(z, 1), z), h), Mul(z, s.h)), {}};
}

struct Swept {
  XlaOp all, h, c;  // all: [T, B, H]
};
// The loop. Its state: the step, h, c, the results so far, and what it reads.
Swept Sweep(XlaBuilder* b, const Cell& cell, const Direction& d, XlaOp x, State start, XlaOp lengths) {
  const Ints dims = DimsOf(x);  // [T, B, G * H]
  const int64_t steps = dims[0], batch = dims[1];
  const ElementType type = TypeOf(x);
  const bool has_c = cell.type == "LSTM", has_lengths = !lengths.IsUninitialized();
  const bool has_bias = !d.recurrent_bias.IsUninitialized(), has_peephole = !d.peephole.IsUninitialized();
  Outputs init = {
      Zero(b, S32), start.h, has_c ? start.c : start.h, Filled(b, type, Ints{steps, batch, cell.hidden}, 0), x, d.r};
  if (has_lengths) init.push_back(lengths);
  if (has_bias) init.push_back(d.recurrent_bias);
  if (has_peephole) init.push_back(d.peephole);
  const auto more_steps = [&](const Outputs& in) { return Lt(in[0], Like(in[0], static_cast<double>(steps))); };
  const auto step = [&](const Outputs& in) {
    const XlaOp zero = Like(in[0], 0);
    const XlaOp t = d.backwards ? Sub(Like(in[0], static_cast<double>(steps - 1)), in[0]) : in[0];
    const XlaOp xt = Reshape(DynamicSlice(in[4], {t, zero, zero}, {1, batch, dims[2]}), {batch, dims[2]});
    std::size_t extra = 6;
    const XlaOp length = has_lengths ? in[extra++] : XlaOp();
    const XlaOp bias = has_bias ? in[extra++] : XlaOp(), peephole = has_peephole ? in[extra++] : XlaOp();
    State next = Step(cell, d, xt, in[5], bias, peephole, {in[1], in[2]});
    XlaOp shown = next.h;
    if (has_lengths) {  // behind the end of a sequence the state stays, and the result is zero
      const XlaOp alive = BroadcastInDim(Lt(BroadcastTo(t, Ints{batch}), length), {batch, cell.hidden}, {0});
      shown = Select(alive, next.h, BroadcastTo(Like(next.h, 0), DimsOf(next.h)));
      next.h = Select(alive, next.h, in[1]);
      if (has_c) next.c = Select(alive, next.c, in[2]);
    }
    Outputs out = in;
    out[0] = Add(in[0], Like(in[0], 1));
    out[1] = next.h;
    if (has_c) out[2] = next.c;
    out[3] = DynamicUpdateSlice(in[3], Reshape(shown, {1, batch, cell.hidden}), {t, zero, zero});
    return out;
  };
  const Outputs last = LoopOver(init, more_steps, step);
  return {last[3], last[1], last[2]};
}

std::vector<Activation> Activations(Call& c, const Cell& cell, std::size_t count, std::size_t direction) {
  std::vector<Activation> out;
  const Attribute* names = c.Find("activations");
  const auto alphas = c.Floats("activation_alpha").value_or(std::vector<float>{});
  const auto betas = c.Floats("activation_beta").value_or(std::vector<float>{});
  std::size_t alpha = 0, beta = 0;
  for (std::size_t i = 0; i < (direction + 1) * count; ++i) {
    Activation f;
    f.name = i % count == 0 && cell.type != "RNN" ? "Sigmoid" : "Tanh";
    if (names != nullptr && i < names->strings.size()) f.name = names->strings[i];
    // Those that have parameters take the next ones.
    struct Row {
      std::string_view name;
      double alpha, beta;
      bool has_beta;
    };
    constexpr Row kRows[] = {{"Affine", 1, 0, true},           {"LeakyRelu", 0.01, 0, false},
                             {"ThresholdedRelu", 1, 0, false}, {"ScaledTanh", 1, 1, true},
                             {"HardSigmoid", 0.2, 0.5, true},  {"Elu", 1, 0, false}};
    for (const Row& row : kRows)
      if (row.name == f.name) {
        f.alpha = alpha < alphas.size() ? alphas[alpha] : row.alpha;
        f.beta = beta < betas.size() ? betas[beta] : row.beta;
        ++alpha;
        beta += row.has_beta ? 1 : 0;
      }
    if (i >= direction * count) out.push_back(f);
  }
  return out;
}
// One direction's part of [D, ...].
XlaOp PartOf(XlaOp x, int64_t direction) {
  Ints dims = DimsOf(x);
  if (dims.empty() || direction >= dims[0]) Reject("An operand has no part for direction {}.", direction);
  dims.erase(dims.begin());
  return Reshape(SliceInDim(x, direction, direction + 1, 1, 0), dims);
}

// Of com.microsoft.DynamicQuantizeLSTM: integers [D, K, G * H] at `input`, their scales, [D] or [D, G * H], and zero
// points from `scale` on; as f32, [G * H, K].
XlaOp Dequantized(Call& c, std::size_t input, std::size_t scale, int64_t direction) {
  const XlaOp q = PartOf(c.In(input), direction);
  const Ints dims = DimsOf(q);
  auto spread = [&](std::size_t from) {
    const XlaOp one = Convert(PartOf(c.In(from), direction), F32);
    return RankOf(one) == 0 ? BroadcastTo(one, dims) : BroadcastInDim(one, dims, {1});
  };
  XlaOp w = Convert(q, F32);
  if (c.Has(scale + 1)) w = Sub(w, spread(scale + 1));
  return Transpose(Mul(w, spread(scale)), {1, 0});
}

Direction ReadDirection(Call& c, const Cell& cell, int64_t number, bool backwards) {
  Direction d;
  d.backwards = backwards;
  d.w = cell.quantized ? Dequantized(c, 1, 8, number) : PartOf(c.In(1), number);
  d.r = cell.quantized ? Dequantized(c, 2, 10, number) : PartOf(c.In(2), number);
  const int64_t rows = cell.gates * cell.hidden;
  if (DimsOf(d.r) != Ints{rows, cell.hidden} || RankOf(d.w) != 2 || DimsOf(d.w)[0] != rows)
    Reject("The weights do not fit {} hidden elements.", cell.hidden);
  d.functions = Activations(c, cell,
                            cell.type == "LSTM"  ? 3
                            : cell.type == "GRU" ? 2
                                                 : 1,
                            static_cast<std::size_t>(number));
  if (c.Has(3)) {
    const XlaOp both = PartOf(c.In(3), number);
    if (DimsOf(both) != Ints{2 * rows}) Reject("The bias must have {} elements.", 2 * rows);
    XlaOp recurrent = SliceInDim(both, rows, 2 * rows, 1, 0);
    d.bias = SliceInDim(both, 0, rows, 1, 0);
    if (cell.type == "GRU") {  // that of h stays inside
      d.recurrent_bias = SliceInDim(recurrent, 2 * cell.hidden, rows, 1, 0);
      recurrent =
          PadWith(SliceInDim(recurrent, 0, 2 * cell.hidden, 1, 0), Zero(c.b, TypeOf(both)), {{{0, cell.hidden}}});
    }
    d.bias = Add(d.bias, recurrent);
  }
  if (cell.type == "LSTM" && c.Has(7)) d.peephole = PartOf(c.In(7), number);
  return d;
}

}  // namespace

Outputs OnRecurrent(Call& c) {
  XlaOp x = c.In(0);
  Cell cell;
  cell.quantized = c.node.op_type == "DynamicQuantizeLSTM";
  cell.type = cell.quantized ? "LSTM" : c.node.op_type;
  cell.gates = cell.type == "LSTM" ? 4 : cell.type == "GRU" ? 3 : 1;
  if (c.ShapeOf(2).rank() != 3 || RankOf(x) != 3) Reject("It takes arrays of 3 dimensions.");
  cell.hidden = c.ShapeOf(2).dim(cell.quantized ? 1 : 2);
  cell.clip = c.Float("clip", 0);
  cell.input_forget = c.Int("input_forget", 0) != 0;
  cell.linear_before_reset = c.Int("linear_before_reset", 0) != 0;
  const bool batch_first = c.Int("layout", 0) != 0;
  if (batch_first) x = Transpose(x, {1, 0, 2});
  const Ints dims = DimsOf(x);
  const std::string way = c.Text("direction", "forward");
  const int64_t directions = way == "bidirectional" ? 2 : 1;
  const XlaOp lengths = c.Has(4) ? Convert(c.In(4), S32) : XlaOp();
  auto initial = [&](std::size_t input, int64_t number) {
    if (!c.Has(input)) return Filled(c.b, TypeOf(x), Ints{dims[1], cell.hidden}, 0);
    const XlaOp all = c.In(input);
    return PartOf(batch_first ? Transpose(all, {1, 0, 2}) : all, number);
  };
  Outputs all, last, cells;
  for (int64_t number = 0; number < directions; ++number) {
    const Direction d = ReadDirection(c, cell, number, way == "reverse" || number == 1);
    DotDimensionNumbers numbers;
    numbers.lhs_contracting_dimensions = {2};
    numbers.rhs_contracting_dimensions = {1};
    XlaOp wx = DotGeneral(cell.quantized ? ThroughU8(x) : x, d.w, numbers);
    if (!d.bias.IsUninitialized()) wx = Add(wx, BroadcastTo(d.bias, DimsOf(wx)));
    const State start = {initial(5, number), cell.type == "LSTM" ? initial(6, number) : XlaOp()};
    const Swept swept = Sweep(c.b, cell, d, wx, start, lengths);
    all.push_back(Reshape(swept.all, {dims[0], 1, dims[1], cell.hidden}));
    last.push_back(Reshape(swept.h, {1, dims[1], cell.hidden}));
    cells.push_back(Reshape(swept.c, {1, dims[1], cell.hidden}));
  }
  XlaOp y = ConcatInDim(c.b, all, 1), h = ConcatInDim(c.b, last, 0), state = ConcatInDim(c.b, cells, 0);
  if (batch_first) {
    y = Transpose(y, {2, 0, 1, 3});
    h = Transpose(h, {1, 0, 2});
    state = Transpose(state, {1, 0, 2});
  }
  Outputs out = {y, h};
  if (cell.type == "LSTM") out.push_back(state);
  return out;
}

}  // namespace krafla::onnx
