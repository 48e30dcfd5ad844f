// SPDX-License-Identifier: Apache-2.0
// Field numbers of the messages in xla/service/hlo.proto and xla/xla_data.proto that krafla reads and writes.
#pragma once

#include <cstdint>

namespace krafla::hlo_proto {

using Field = uint32_t;

namespace module_field {
inline constexpr Field kName = 1, kEntryName = 2, kComputations = 3, kHostProgramShape = 4, kId = 5, kEntryId = 6,
                       kSchedule = 7, kInputOutputAlias = 8, kDeviceAssignment = 15, kStackFrameIndex = 17,
                       kBufferDonor = 18, kFrontendAttributes = 19;
}
namespace computation_field {
inline constexpr Field kName = 1, kInstructions = 2, kProgramShape = 4, kId = 5, kRootId = 6, kExecutionThread = 8;
}
namespace instruction_field {
inline constexpr Field kName = 1, kOpcode = 2, kShape = 3, kMetadata = 7, kLiteral = 8, kParameterNumber = 9,
                       kFusionKind = 11, kTupleIndex = 13, kDimensions = 14, kWindow = 15, kConvolutionDims = 16,
                       kSliceDimensions = 17, kExponentBits = 18, kMantissaBits = 19, kDynamicSliceSizes = 20,
                       kPaddingConfig = 21, kOutfeedConfig = 22, kDistribution = 23, kEpsilon = 24, kFeatureIndex = 25,
                       kChannelId = 26, kInfeedConfig = 27, kCustomCallTarget = 28, kOutfeedShape = 29, kDotDims = 30,
                       kFftType = 31, kFftLength = 32, kGatherDims = 33, kGatherSliceSizes = 34, kId = 35,
                       kOperandIds = 36, kControlPredecessorIds = 37, kCalledComputationIds = 38, kSharding = 40,
                       kBackendConfig = 43, kIsHostTransfer = 47, kScatterDims = 48, kReplicaGroups = 49,
                       kFeatureGroupCount = 50, kPrecisionConfig = 51, kSourceTargetPairs = 52, kDomainEntry = 54,
                       kDomainExit = 55, kConstrainLayout = 56, kOperandShapes = 57, kBatchGroupCount = 58,
                       kTriangularSolveOptions = 59, kIsStable = 60, kParameterReplication = 61, kCholeskyOptions = 62,
                       kComparisonDirection = 63, kHasSideEffect = 65, kDelta = 66, kIndicesAreSorted = 67,
                       kFrontendAttributes = 68, kUniqueIndices = 69, kRngAlgorithm = 70, kUseGlobalDeviceIds = 71,
                       kComparisonType = 72, kOutputOperandAliasing = 74, kCustomCallApiVersion = 77,
                       kAsyncExecutionThread = 79, kK = 81, kLargest = 85, kCollectiveDeviceList = 87,
                       kIsComposite = 89, kRaggedDotDims = 90, kResultAccuracy = 91, kIotaDeviceList = 92,
                       kMeshAxesGroups = 93, kIsReverse = 94, kNumCarries = 95, kIsAssociative = 96;
}
namespace shape_field {
inline constexpr Field kElementType = 2, kDimensions = 3, kTupleShapes = 4, kLayout = 5, kIsDynamic = 6;
}
namespace layout_field {
inline constexpr Field kMinorToMajor = 1, kTiles = 6, kElementSizeInBits = 7, kMemorySpace = 8;
}
namespace literal_field {
inline constexpr Field kShape = 1, kTupleLiterals = 10;
}
namespace sharding_field {
inline constexpr Field kType = 1, kTileDims = 3, kTileDevices = 4, kTupleShardings = 5, kReplicateOnLastTileDim = 6,
                       kLastTileDims = 8, kIotaReshapeDims = 9, kIotaTransposePerm = 10, kIsShardGroup = 11,
                       kShardGroupId = 12, kShardGroupType = 13, kNamedSharding = 14;
}

}  // namespace krafla::hlo_proto
