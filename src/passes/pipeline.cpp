// SPDX-License-Identifier: Apache-2.0
#include "passes/pipeline.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "passes/passes.h"
#include "passes/rewrite.h"

namespace krafla {

namespace {

constexpr std::array kPasses = {
    PassInfo{"algebraic_simplifier", "applies identities of elementwise operations that keep every bit",
             AlgebraicSimplifier},
    PassInfo{"all_reduce_combiner", "combines all-reduces that do not depend on each other", AllReduceCombiner},
    PassInfo{"barrier_remover", "removes optimization barriers; the last pass", BarrierRemover},
    PassInfo{"batch_norm_expander", "expands batch normalisation to arithmetic and reductions", BatchNormExpander},
    PassInfo{"bitcast_expander", "turns bitcasts into reshapes and transposes; drops layouts", BitcastExpander},
    PassInfo{"call_inliner", "inlines called computations", CallInliner},
    PassInfo{"call_roller", "makes a loop of calls that follow one another", CallRoller},
    PassInfo{"channels_last", "moves the channels of pictures behind their positions, where that moves less",
             ChannelsLast},
    PassInfo{"collective_simplifier", "removes collectives of one device", CollectiveSimplifier},
    PassInfo{"complex_expander", "turns sorts of complex numbers into those of their parts", ComplexExpander},
    PassInfo{"conditional_simplifier", "inlines known branches; turns small branches into selects",
             ConditionalSimplifier},
    PassInfo{"constant_folding", "evaluates what depends on constants only", ConstantFolding},
    PassInfo{"constant_packer", "packs large constants of fewer than 8 bits an element; makes small even steps iotas",
             ConstantPacker},
    PassInfo{"contraction_expander",
             "turns dots and convolutions of complex numbers and preds into those of real numbers",
             ContractionExpander},
    PassInfo{"cse", "merges computations and instructions that are the same", Cse},
    PassInfo{"custom_call_rewriter", "turns custom calls that name an HLO operation into that operation",
             CustomCallRewriter},
    PassInfo{"dce", "removes instructions and computations that nothing needs", Dce},
    PassInfo{"dilated_convolution_expander",
             "turns convolutions over dilated arrays into plain ones with some of the taps",
             DilatedConvolutionExpander},
    PassInfo{"dilated_window_expander",
             "turns windows over dilated arrays into windows over their elements laid apart, or repeated",
             DilatedWindowExpander},
    PassInfo{"dot_canonicalizer", "moves transposes around dots into their dimension numbers", DotCanonicalizer},
    PassInfo{"dynamic_padder", "makes dynamic dimensions static and their sizes scalars in the graph", DynamicPadder},
    PassInfo{"index_state", "lets loops make arrays of indices themselves", IndexState},
    PassInfo{"interleaved_reduction_expander",
             "reduces short runs of elements last that lie between those of other results",
             InterleavedReductionExpander},
    PassInfo{"map_inliner", "turns map into elementwise instructions", MapInliner},
    PassInfo{"movement_simplifier", "collapses reshapes, broadcasts, transposes, slices, pads and concatenations",
             MovementSimplifier},
    PassInfo{"packed_state", "lets loops pass packed arrays on as they are", PackedState},
    PassInfo{"piece_reducer", "turns reductions along a stack of few arrays into combinations of the arrays",
             PieceReducer},
    PassInfo{"product_recomputer", "computes large products of small operands again for gradients", ProductRecomputer},
    PassInfo{"ragged_dot_expander", "expands ragged-dot to dots and masks", RaggedDotExpander},
    PassInfo{"ragged_dot_recognizer", "turns dots of rows that are zero outside their group into ragged-dots",
             RaggedDotRecognizer},
    PassInfo{"residual_recomputer", "computes large products of a loop again in the loop of their gradients",
             ResidualRecomputer},
    PassInfo{"rng_expander", "expands rng to random bits and arithmetic", RngExpander},
    PassInfo{"scaled_dot_expander", "expands scaled-dot to multiplications and a dot", ScaledDotExpander},
    PassInfo{"scan_expander", "turns scans that are more than running combinations into loops", ScanExpander},
    PassInfo{"scan_recognizer", "turns cumulative reduce-windows into scans", ScanRecognizer},
    PassInfo{"scanned_state", "updates rows that a loop takes and puts one a turn where they lie", ScannedState},
    PassInfo{"scatter_simplifier", "turns scatters of one window into updates of a slice", ScatterSimplifier},
    PassInfo{"score_order", "gives scores and their gradients one order of dimensions", ScoreOrder},
    PassInfo{"select_and_scatter_expander", "expands select-and-scatter to a reduce-window and a scatter",
             SelectAndScatterExpander},
    PassInfo{"small_dot_expander", "multiplies element by element what a dot does not contract, or in many batches",
             SmallDotExpander},
    PassInfo{"small_picture_expander", "swaps pictures and kernels of convolutions whose window is the larger one",
             SmallPictureExpander},
    PassInfo{"spmd_partitioner", "turns a program over several devices into the program of one of them",
             SpmdPartitioner},
    PassInfo{"structural_simplifier", "removes copies, annotations, and the split of collectives into start and done",
             StructuralSimplifier},
    PassInfo{"topk_expander", "expands topk to a stable sort and slices", TopKExpander},
    PassInfo{"tuple_simplifier", "removes tuples that are taken apart again", TupleSimplifier},
    PassInfo{"while_invariant_motion", "moves what is the same in every iteration out of the loop",
             WhileInvariantMotion},
    PassInfo{"while_simplifier", "removes loop state that is constant, passed on, or not needed", WhileSimplifier},
    PassInfo{"while_trip_count", "finds the trip counts of loops; inlines loops of at most one iteration",
             WhileTripCount},
    PassInfo{"whole_picture_expander", "turns convolutions whose window is the picture into dots",
             WholePictureExpander},
    PassInfo{"window_merger", "merges dimensions side by side along which a window is one element", WindowMerger},
    PassInfo{"window_order",
             "rewrites reduce-windows whose result depends on the order of their elements, so that it matches XLA's",
             WindowOrder},
    PassInfo{"window_splitter", "turns windows over several dimensions into one along each of them", WindowSplitter},
    PassInfo{"window_trimmer", "leaves out the taps of windows that meet padding alone", WindowTrimmer},
};
static_assert(std::ranges::is_sorted(kPasses, {}, &PassInfo::name));

// Once, in this order.
constexpr auto kFirst = std::to_array<std::string_view>({
    // The passes below know the program of one device; annotations are gone after them.
    "spmd_partitioner",
    // While instructions still have the layouts that they were written with.
    "bitcast_expander",
    // While what was written out are calls.
    "call_roller",
    // Before anything that looks at one computation at a time.
    "call_inliner",
    // Copies and annotations hide what they copy from every pattern below.
    "structural_simplifier",
    "collective_simplifier",
    // Less to expand.
    "dce",
    "custom_call_rewriter",
    "map_inliner",
    "rng_expander",
    "batch_norm_expander",
    // Everything below knows static shapes only.
    "dynamic_padder",
    // Before a reduce-window of constants is computed.
    "window_order",
    "window_trimmer",
    // Windows that padding alone made larger than the picture are no longer.
    "whole_picture_expander",
    "small_picture_expander",
    "dilated_window_expander",
    "dilated_convolution_expander",
    // The second makes reduce-windows that the recognizer of scans turns into scans.
    "ragged_dot_recognizer",
    "ragged_dot_expander",
    "scaled_dot_expander",
    "scan_recognizer",
    // While the computations of scans are as they were written.
    "scan_expander",
});
// Until nothing changes, but no more than kRounds times: each makes work for the others.
constexpr auto kRepeated = std::to_array<std::string_view>({
    // Tuples stand between a loop's state and what it is made of.
    "tuple_simplifier",
    // Makes broadcasts of constants, which the simplifiers know, of arrays of equal elements, which they do not.
    "constant_folding",
    "movement_simplifier",
    "algebraic_simplifier",
    // With constants in place: conditions and bounds may have become known.
    "conditional_simplifier",
    "while_trip_count",
    // Leave state behind that nobody needs.
    "packed_state",
    "scanned_state",
    "residual_recomputer",
    "index_state",
    "while_simplifier",
    "cse",
    "dce",
});
// Once more, in this order.
constexpr auto kLast = std::to_array<std::string_view>({
    // What carries arrays from one convolution to the next is as plain as it gets; the two behind the next fold the
    // transposes.
    "channels_last",
    // Knows which dimensions lie side by side; cumulative windows are scans.
    "window_merger",
    "window_splitter",
    "interleaved_reduction_expander",
    // What is left of its transposes meets and merges below.
    "score_order",
    "constant_folding",
    "movement_simplifier",
    // After the state of loops is as small as it gets, as this adds to it.
    "while_invariant_motion",
    // Transposes have met and merged before they disappear into dots.
    "dot_canonicalizer",
    // Before those of complex numbers become several.
    "small_dot_expander",
    "contraction_expander",
    // What is known of indices is known by now.
    "scatter_simplifier",
    "complex_expander",
    // What they make needs the simplifications below only.
    "select_and_scatter_expander",
    "topk_expander",
    "piece_reducer",
    // After those that nobody needs or that are alike have gone.
    "all_reduce_combiner",
    // Nothing below merges a recomputation with what it recomputes but cse, which runs before.
    "cse",
    // Adds what is a copy of what is there.
    "product_recomputer",
    "barrier_remover",
    "tuple_simplifier",
    "movement_simplifier",
    // Nothing below computes with constants.
    "constant_packer",
    "dce",
});
constexpr int kRounds = 4;

Result<bool> RunOne(const PassInfo& pass, Module& module, const PassOptions& options, const PassObserver& observer) {
  auto start = std::chrono::steady_clock::now();
  auto changed = pass.run(module, options);
  if (!changed) return Failure(std::move(changed).error().WithContext(Format("in pass {}", pass.name)));
  // Passes walk what the entry reaches. Where they change the interface of a computation, its callers elsewhere would
  // not fit it any more.
  if (*changed) RemoveUncalled(module);
  if (observer) {
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    KRAFLA_TRY(observer(pass, module, *changed, took.count()));
  }
  return *changed;
}

Result<bool> RunList(std::span<const std::string_view> names, Module& module, const PassOptions& options,
                     const PassObserver& observer) {
  bool changed = false;
  for (std::string_view name : names) {
    if (options.disabled.contains(std::string(name))) continue;
    KRAFLA_ASSIGN(const PassInfo* pass, FindPass(name));
    KRAFLA_ASSIGN(bool c, RunOne(*pass, module, options, observer));
    changed |= c;
  }
  return changed;
}

Result<> Finish(Module& module) {
  for (const auto& c : module.computations()) KRAFLA_TRY(c->SortTopologically());
  return {};
}

}  // namespace

std::span<const PassInfo> AllPasses() { return kPasses; }

Result<const PassInfo*> FindPass(std::string_view name) {
  for (const PassInfo& pass : kPasses)
    if (pass.name == name) return &pass;
  std::string known;
  for (const PassInfo& pass : kPasses) known += Format("{}{}", known.empty() ? "" : ", ", pass.name);
  return NotFound("There is no pass '{}'; the passes are {}.", name, known);
}

Result<> RunPipeline(Module& module, const PassOptions& options, const PassObserver& observer) {
  RemoveUncalled(module);
  KRAFLA_TRY(RunList(kFirst, module, options, observer));
  for (int round = 0; round < kRounds; ++round) {
    KRAFLA_ASSIGN(bool changed, RunList(kRepeated, module, options, observer));
    if (!changed) break;
  }
  KRAFLA_TRY(RunList(kLast, module, options, observer));
  return Finish(module);
}

Result<> RunPasses(Module& module, std::span<const std::string> names, const PassOptions& options,
                   const PassObserver& observer) {
  RemoveUncalled(module);
  for (const std::string& name : names) {
    KRAFLA_ASSIGN(const PassInfo* pass, FindPass(name));
    KRAFLA_TRY(RunOne(*pass, module, options, observer));
  }
  return Finish(module);
}

}  // namespace krafla
