// SPDX-License-Identifier: Apache-2.0
// Which opcode takes which attributes. "required" follows XLA's parser (hlo_parser.cc): without it there is no module.
#include <type_traits>

#include "hlo_io/hlo_text/attribute_set.h"

namespace krafla::hlo_text {
namespace {

struct KeyInfo {
  std::string_view name;
  ValueKind kind;
};
constexpr KeyInfo kKeys[] = {
#define KRAFLA_KEY(Enum, name, kind) {name, ValueKind::kind},
    KRAFLA_HLO_KEYS(KRAFLA_KEY)
#undef KRAFLA_KEY
};

constexpr bool kRequired = true;

constexpr KeyUse kCommon[] = {{Key::kMetadata},      {Key::kSharding},   {Key::kFrontendAttributes},
                              {Key::kBackendConfig}, {Key::kStatistics}, {Key::kControlPredecessors},
                              {Key::kOrigin}};

constexpr KeyUse kParameter[] = {{Key::kParameterReplication}};
constexpr KeyUse kIota[] = {{Key::kIotaDimension, kRequired}};
constexpr KeyUse kDimensionsOnly[] = {{Key::kDimensions, kRequired}};
constexpr KeyUse kReduce[] = {{Key::kDimensions, kRequired}, {Key::kToApply, kRequired}};
constexpr KeyUse kMap[] = {{Key::kDimensions}, {Key::kToApply, kRequired}};
constexpr KeyUse kCompare[] = {{Key::kDirection, kRequired}, {Key::kType}};
constexpr KeyUse kSlice[] = {{Key::kSlice, kRequired}};
constexpr KeyUse kDynamicSlice[] = {{Key::kDynamicSliceSizes, kRequired}};
constexpr KeyUse kPad[] = {{Key::kPadding, kRequired}};
constexpr KeyUse kDot[] = {{Key::kLhsContractingDims}, {Key::kRhsContractingDims}, {Key::kLhsBatchDims},
                           {Key::kRhsBatchDims},       {Key::kOperandPrecision},   {Key::kAlgorithm}};
constexpr KeyUse kRaggedDot[] = {{Key::kLhsContractingDims}, {Key::kRhsContractingDims}, {Key::kLhsBatchDims},
                                 {Key::kRhsBatchDims},       {Key::kLhsRaggedDims},      {Key::kRhsGroupDims},
                                 {Key::kOperandPrecision}};
constexpr KeyUse kConvolution[] = {{Key::kWindow},
                                   {Key::kDimLabels, kRequired},
                                   {Key::kFeatureGroupCount},
                                   {Key::kBatchGroupCount},
                                   {Key::kOperandPrecision}};
constexpr KeyUse kReduceWindow[] = {{Key::kWindow}, {Key::kToApply, kRequired}};
constexpr KeyUse kSelectAndScatter[] = {{Key::kWindow}, {Key::kSelect, kRequired}, {Key::kScatter, kRequired}};
constexpr KeyUse kGather[] = {{Key::kOffsetDims, kRequired},    {Key::kCollapsedSliceDims, kRequired},
                              {Key::kStartIndexMap, kRequired}, {Key::kOperandBatchingDims},
                              {Key::kStartBatchingDims},        {Key::kIndexVectorDim, kRequired},
                              {Key::kSliceSizes, kRequired},    {Key::kIndicesAreSorted}};
constexpr KeyUse kScatter[] = {{Key::kUpdateWindowDims, kRequired},
                               {Key::kInsertedWindowDims, kRequired},
                               {Key::kScatterDims, kRequired},
                               {Key::kInputBatchingDims},
                               {Key::kScatterBatchingDims},
                               {Key::kIndexVectorDim, kRequired},
                               {Key::kToApply, kRequired},
                               {Key::kIndicesAreSorted},
                               {Key::kUniqueIndices}};
constexpr KeyUse kSort[] = {{Key::kDimensions, kRequired}, {Key::kIsStable}, {Key::kToApply, kRequired}};
constexpr KeyUse kTopK[] = {{Key::kK, kRequired}, {Key::kLargest, kRequired}};
constexpr KeyUse kScan[] = {{Key::kDimensions, kRequired},
                            {Key::kNumCarries, kRequired},
                            {Key::kIsReverse},
                            {Key::kIsAssociative},
                            {Key::kToApply, kRequired}};
constexpr KeyUse kFft[] = {{Key::kFftType, kRequired}, {Key::kFftLength, kRequired}};
constexpr KeyUse kRng[] = {{Key::kDistribution, kRequired}};
constexpr KeyUse kRngBits[] = {{Key::kAlgorithm, kRequired}};
constexpr KeyUse kRngState[] = {{Key::kDelta, kRequired}};
constexpr KeyUse kCholesky[] = {{Key::kLower}};
constexpr KeyUse kTriangularSolve[] = {{Key::kLeftSide}, {Key::kLower}, {Key::kUnitDiagonal}, {Key::kTransposeA}};
constexpr KeyUse kBatchNorm[] = {{Key::kEpsilon, kRequired}, {Key::kFeatureIndex, kRequired}};
constexpr KeyUse kReducePrecision[] = {{Key::kExponentBits, kRequired}, {Key::kMantissaBits, kRequired}};
constexpr KeyUse kTupleIndex[] = {{Key::kIndex, kRequired}};
constexpr KeyUse kFusion[] = {{Key::kKind, kRequired}, {Key::kCalls, kRequired}, {Key::kOutputAliasing}};
constexpr KeyUse kCall[] = {{Key::kToApply, kRequired}, {Key::kIsComposite}, {Key::kOutputAliasing}};
constexpr KeyUse kWhile[] = {{Key::kCondition, kRequired}, {Key::kBody, kRequired}};
constexpr KeyUse kConditional[] = {{Key::kTrueComputation}, {Key::kFalseComputation}, {Key::kBranchComputations}};
constexpr KeyUse kAllGather[] = {{Key::kDimensions, kRequired},
                                 {Key::kReplicaGroups},
                                 {Key::kChannelId},
                                 {Key::kConstrainLayout},
                                 {Key::kUseGlobalDeviceIds}};
constexpr KeyUse kAllReduce[] = {{Key::kToApply, kRequired},
                                 {Key::kReplicaGroups},
                                 {Key::kChannelId},
                                 {Key::kConstrainLayout},
                                 {Key::kUseGlobalDeviceIds}};
constexpr KeyUse kReduceScatter[] = {{Key::kToApply, kRequired}, {Key::kReplicaGroups},
                                     {Key::kChannelId},          {Key::kConstrainLayout},
                                     {Key::kUseGlobalDeviceIds}, {Key::kDimensions, kRequired}};
constexpr KeyUse kAllToAll[] = {{Key::kReplicaGroups}, {Key::kChannelId}, {Key::kConstrainLayout}, {Key::kDimensions}};
constexpr KeyUse kCollectivePermute[] = {{Key::kSourceTargetPairs, kRequired}, {Key::kChannelId}};
constexpr KeyUse kGroupsOnly[] = {{Key::kReplicaGroups}, {Key::kChannelId}};
constexpr KeyUse kChannel[] = {{Key::kChannelId}, {Key::kIsHostTransfer}};
constexpr KeyUse kInfeed[] = {{Key::kInfeedConfig}};
constexpr KeyUse kOutfeed[] = {{Key::kOutfeedConfig}, {Key::kOutfeedShape}};
constexpr KeyUse kAsyncStart[] = {{Key::kAsyncThread}, {Key::kCalls, kRequired}};
constexpr KeyUse kAsyncOther[] = {{Key::kAsyncThread}, {Key::kCalls}};
constexpr KeyUse kDomain[] = {{Key::kDomain, kRequired}};
constexpr KeyUse kCustomCall[] = {{Key::kCustomCallTarget, kRequired},
                                  {Key::kHasSideEffect},
                                  {Key::kApiVersion},
                                  {Key::kOperandLayouts},
                                  {Key::kOutputAliasing},
                                  {Key::kLiteral},
                                  {Key::kToApply},
                                  {Key::kCalledComputations},
                                  {Key::kCalls},
                                  {Key::kWindow},
                                  {Key::kDimLabels},
                                  {Key::kFeatureGroupCount},
                                  {Key::kBatchGroupCount},
                                  {Key::kPaddingType},
                                  {Key::kOperandPrecision},
                                  {Key::kCustomCallSchedule}};
constexpr KeyUse kAccuracy[] = {{Key::kResultAccuracy}};
constexpr KeyUse kCopyStart[] = {{Key::kCrossProgramPrefetch}};
constexpr KeyUse kReshape[] = {{Key::kInferredDimension}};

// Of elementwise operations, the attribute struct tells the keys.
std::span<const KeyUse> ElementwiseKeys(std::type_identity<NoAttributes>) { return {}; }
std::span<const KeyUse> ElementwiseKeys(std::type_identity<ResultAccuracyAttributes>) { return kAccuracy; }
std::span<const KeyUse> ElementwiseKeys(std::type_identity<CompareAttributes>) { return kCompare; }
std::span<const KeyUse> ElementwiseKeys(std::type_identity<ReducePrecisionAttributes>) { return kReducePrecision; }

}  // namespace

std::string_view KeyName(Key key) { return kKeys[static_cast<std::size_t>(key)].name; }
ValueKind KindOf(Key key) { return kKeys[static_cast<std::size_t>(key)].kind; }
std::span<const KeyUse> CommonKeys() { return kCommon; }

bool IsKeyOfAnyOpcode(std::string_view name) {
  for (const KeyInfo& info : kKeys)
    if (info.name == name) return true;
  return false;
}

std::span<const KeyUse> KeysOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kParameter: return kParameter;
    case Opcode::kIota: return kIota;
    case Opcode::kBroadcast:
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kConcatenate:
    case Opcode::kGetDimensionSize:
    case Opcode::kSetDimensionSize: return kDimensionsOnly;
    case Opcode::kReduce: return kReduce;
    case Opcode::kMap: return kMap;
    case Opcode::kSlice: return kSlice;
    case Opcode::kDynamicSlice: return kDynamicSlice;
    case Opcode::kPad: return kPad;
    case Opcode::kDot:
    case Opcode::kScaledDot: return kDot;
    case Opcode::kRaggedDot: return kRaggedDot;
    case Opcode::kConvolution: return kConvolution;
    case Opcode::kReduceWindow: return kReduceWindow;
    case Opcode::kSelectAndScatter: return kSelectAndScatter;
    case Opcode::kGather: return kGather;
    case Opcode::kScatter: return kScatter;
    case Opcode::kSort: return kSort;
    case Opcode::kTopK: return kTopK;
    case Opcode::kScan: return kScan;
    case Opcode::kFft: return kFft;
    case Opcode::kRng: return kRng;
    case Opcode::kRngBitGenerator: return kRngBits;
    case Opcode::kRngGetAndUpdateState: return kRngState;
    case Opcode::kCholesky: return kCholesky;
    case Opcode::kTriangularSolve: return kTriangularSolve;
    case Opcode::kBatchNormGrad:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormTraining: return kBatchNorm;
    case Opcode::kGetTupleElement: return kTupleIndex;
    case Opcode::kFusion: return kFusion;
    case Opcode::kCall: return kCall;
    case Opcode::kWhile: return kWhile;
    case Opcode::kConditional: return kConditional;
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart: return kAllGather;
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart: return kAllReduce;
    case Opcode::kReduceScatter: return kReduceScatter;
    case Opcode::kAllToAll: return kAllToAll;
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart: return kCollectivePermute;
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll: return kGroupsOnly;
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone: return kChannel;
    case Opcode::kInfeed: return kInfeed;
    case Opcode::kOutfeed: return kOutfeed;
    case Opcode::kAsyncStart: return kAsyncStart;
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone: return kAsyncOther;
    case Opcode::kDomain: return kDomain;
    case Opcode::kCustomCall: return kCustomCall;
    case Opcode::kCopyStart: return kCopyStart;
    case Opcode::kReshape: return kReshape;
#define KRAFLA_ELEMENTWISE(Enum, hlo, stablehlo, arity, types, attributes, ...) \
  case Opcode::Enum: return ElementwiseKeys(std::type_identity<attributes>());
#include "ir/ops.def"
    case Opcode::kAddDependency:
    case Opcode::kAfterAll:
    case Opcode::kAllGatherDone:
    case Opcode::kAllReduceDone:
    case Opcode::kBitcast:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kConstant:
    case Opcode::kCopy:
    case Opcode::kCopyDone:
    case Opcode::kDynamicReshape:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kOptimizationBarrier:
    case Opcode::kPartitionId:
    case Opcode::kReplicaId:
    case Opcode::kTuple: return {};
  }
  return {};
}

void AttributeSet::Clear() {
  seen.reset();
  called.clear();
  predecessors.clear();
}

}  // namespace krafla::hlo_text
