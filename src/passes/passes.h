// SPDX-License-Identifier: Apache-2.0
// Every pass, each in a source file of the same name. All have the signature of PassInfo::run; what each does is told
// in its file and, in one line, in pipeline.cpp.
#pragma once

#include "passes/pipeline.h"

namespace krafla {

#define KRAFLA_PASS(Function) Result<bool> Function(Module& module, const PassOptions& options)

KRAFLA_PASS(AlgebraicSimplifier);
KRAFLA_PASS(AllReduceCombiner);
KRAFLA_PASS(BarrierRemover);
KRAFLA_PASS(BatchNormExpander);
KRAFLA_PASS(BitcastExpander);
KRAFLA_PASS(CallInliner);
KRAFLA_PASS(CallRoller);
KRAFLA_PASS(ChannelsLast);
KRAFLA_PASS(CollectiveSimplifier);
KRAFLA_PASS(ComplexExpander);
KRAFLA_PASS(ConditionalSimplifier);
KRAFLA_PASS(ConstantFolding);
KRAFLA_PASS(ConstantPacker);
KRAFLA_PASS(ContractionExpander);
KRAFLA_PASS(Cse);
KRAFLA_PASS(CustomCallRewriter);
KRAFLA_PASS(Dce);
KRAFLA_PASS(DilatedConvolutionExpander);
KRAFLA_PASS(DilatedWindowExpander);
KRAFLA_PASS(DotCanonicalizer);
KRAFLA_PASS(DynamicPadder);
KRAFLA_PASS(IndexState);
KRAFLA_PASS(InterleavedReductionExpander);
KRAFLA_PASS(MapInliner);
KRAFLA_PASS(MovementSimplifier);
KRAFLA_PASS(PackedState);
KRAFLA_PASS(PieceReducer);
KRAFLA_PASS(ProductRecomputer);
KRAFLA_PASS(RaggedDotExpander);
KRAFLA_PASS(RaggedDotRecognizer);
KRAFLA_PASS(ResidualRecomputer);
KRAFLA_PASS(RngExpander);
KRAFLA_PASS(ScaledDotExpander);
KRAFLA_PASS(ScanExpander);
KRAFLA_PASS(ScanRecognizer);
KRAFLA_PASS(ScannedState);
KRAFLA_PASS(ScatterSimplifier);
KRAFLA_PASS(ScoreOrder);
KRAFLA_PASS(SelectAndScatterExpander);
KRAFLA_PASS(SpmdPartitioner);
KRAFLA_PASS(SmallDotExpander);
KRAFLA_PASS(SmallPictureExpander);
KRAFLA_PASS(StructuralSimplifier);
KRAFLA_PASS(TopKExpander);
KRAFLA_PASS(TupleSimplifier);
KRAFLA_PASS(WhileInvariantMotion);
KRAFLA_PASS(WhileSimplifier);
KRAFLA_PASS(WhileTripCount);
KRAFLA_PASS(WindowMerger);
KRAFLA_PASS(WindowOrder);
KRAFLA_PASS(WholePictureExpander);
KRAFLA_PASS(WindowSplitter);
KRAFLA_PASS(WindowTrimmer);

#undef KRAFLA_PASS

}  // namespace krafla
