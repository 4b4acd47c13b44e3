// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions with which a program runs a Triton server in its process. They are here because the
// loader wants every name that a library mentions; none has a meaning inside Manta.
//
// Their arguments are left out: in the calling conventions of x86-64 and AArch64 the caller cleans
// up after them.

#include "objects.h"

#define REFUSED_FUNCTIONS \
  REFUSED(TRITONSERVER_InferenceRequestAddInput) \
  REFUSED(TRITONSERVER_InferenceRequestAddRawInput) \
  REFUSED(TRITONSERVER_InferenceRequestAddRequestedOutput) \
  REFUSED(TRITONSERVER_InferenceRequestAppendInputData) \
  REFUSED(TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes) \
  REFUSED(TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy) \
  REFUSED(TRITONSERVER_InferenceRequestCancel) \
  REFUSED(TRITONSERVER_InferenceRequestCorrelationId) \
  REFUSED(TRITONSERVER_InferenceRequestCorrelationIdString) \
  REFUSED(TRITONSERVER_InferenceRequestDelete) \
  REFUSED(TRITONSERVER_InferenceRequestFlags) \
  REFUSED(TRITONSERVER_InferenceRequestId) \
  REFUSED(TRITONSERVER_InferenceRequestIsCancelled) \
  REFUSED(TRITONSERVER_InferenceRequestNew) \
  REFUSED(TRITONSERVER_InferenceRequestPriority) \
  REFUSED(TRITONSERVER_InferenceRequestRemoveAllInputData) \
  REFUSED(TRITONSERVER_InferenceRequestRemoveAllInputs) \
  REFUSED(TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs) \
  REFUSED(TRITONSERVER_InferenceRequestRemoveInput) \
  REFUSED(TRITONSERVER_InferenceRequestRemoveRequestedOutput) \
  REFUSED(TRITONSERVER_InferenceRequestSetBoolParameter) \
  REFUSED(TRITONSERVER_InferenceRequestSetCorrelationId) \
  REFUSED(TRITONSERVER_InferenceRequestSetCorrelationIdString) \
  REFUSED(TRITONSERVER_InferenceRequestSetDoubleParameter) \
  REFUSED(TRITONSERVER_InferenceRequestSetFlags) \
  REFUSED(TRITONSERVER_InferenceRequestSetId) \
  REFUSED(TRITONSERVER_InferenceRequestSetIntParameter) \
  REFUSED(TRITONSERVER_InferenceRequestSetPriority) \
  REFUSED(TRITONSERVER_InferenceRequestSetReleaseCallback) \
  REFUSED(TRITONSERVER_InferenceRequestSetResponseCallback) \
  REFUSED(TRITONSERVER_InferenceRequestSetStringParameter) \
  REFUSED(TRITONSERVER_InferenceRequestSetTimeoutMicroseconds) \
  REFUSED(TRITONSERVER_InferenceRequestTimeoutMicroseconds) \
  REFUSED(TRITONSERVER_InferenceResponseDelete) \
  REFUSED(TRITONSERVER_InferenceResponseError) \
  REFUSED(TRITONSERVER_InferenceResponseId) \
  REFUSED(TRITONSERVER_InferenceResponseModel) \
  REFUSED(TRITONSERVER_InferenceResponseOutput) \
  REFUSED(TRITONSERVER_InferenceResponseOutputClassificationLabel) \
  REFUSED(TRITONSERVER_InferenceResponseOutputCount) \
  REFUSED(TRITONSERVER_InferenceResponseParameter) \
  REFUSED(TRITONSERVER_InferenceResponseParameterCount) \
  REFUSED(TRITONSERVER_InferenceTraceContext) \
  REFUSED(TRITONSERVER_InferenceTraceDelete) \
  REFUSED(TRITONSERVER_InferenceTraceId) \
  REFUSED(TRITONSERVER_InferenceTraceModelName) \
  REFUSED(TRITONSERVER_InferenceTraceModelVersion) \
  REFUSED(TRITONSERVER_InferenceTraceNew) \
  REFUSED(TRITONSERVER_InferenceTraceParentId) \
  REFUSED(TRITONSERVER_InferenceTraceReportActivity) \
  REFUSED(TRITONSERVER_InferenceTraceRequestId) \
  REFUSED(TRITONSERVER_InferenceTraceSetContext) \
  REFUSED(TRITONSERVER_InferenceTraceSpawnChildTrace) \
  REFUSED(TRITONSERVER_InferenceTraceTensorNew) \
  REFUSED(TRITONSERVER_MetricsDelete) \
  REFUSED(TRITONSERVER_MetricsFormatted) \
  REFUSED(TRITONSERVER_ResponseAllocatorDelete) \
  REFUSED(TRITONSERVER_ResponseAllocatorNew) \
  REFUSED(TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction) \
  REFUSED(TRITONSERVER_ResponseAllocatorSetQueryFunction) \
  REFUSED(TRITONSERVER_ServerDelete) \
  REFUSED(TRITONSERVER_ServerInferAsync) \
  REFUSED(TRITONSERVER_ServerIsLive) \
  REFUSED(TRITONSERVER_ServerIsReady) \
  REFUSED(TRITONSERVER_ServerLoadModel) \
  REFUSED(TRITONSERVER_ServerLoadModelWithParameters) \
  REFUSED(TRITONSERVER_ServerMetadata) \
  REFUSED(TRITONSERVER_ServerMetrics) \
  REFUSED(TRITONSERVER_ServerModelBatchProperties) \
  REFUSED(TRITONSERVER_ServerModelConfig) \
  REFUSED(TRITONSERVER_ServerModelIndex) \
  REFUSED(TRITONSERVER_ServerModelIsReady) \
  REFUSED(TRITONSERVER_ServerModelMetadata) \
  REFUSED(TRITONSERVER_ServerModelStatistics) \
  REFUSED(TRITONSERVER_ServerModelTransactionProperties) \
  REFUSED(TRITONSERVER_ServerNew) \
  REFUSED(TRITONSERVER_ServerOptionsAddRateLimiterResource) \
  REFUSED(TRITONSERVER_ServerOptionsDelete) \
  REFUSED(TRITONSERVER_ServerOptionsNew) \
  REFUSED(TRITONSERVER_ServerOptionsSetBackendConfig) \
  REFUSED(TRITONSERVER_ServerOptionsSetBackendDirectory) \
  REFUSED(TRITONSERVER_ServerOptionsSetBufferManagerThreadCount) \
  REFUSED(TRITONSERVER_ServerOptionsSetCacheConfig) \
  REFUSED(TRITONSERVER_ServerOptionsSetCacheDirectory) \
  REFUSED(TRITONSERVER_ServerOptionsSetCpuMetrics) \
  REFUSED(TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize) \
  REFUSED(TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize) \
  REFUSED(TRITONSERVER_ServerOptionsSetEnablePeerAccess) \
  REFUSED(TRITONSERVER_ServerOptionsSetExitOnError) \
  REFUSED(TRITONSERVER_ServerOptionsSetExitTimeout) \
  REFUSED(TRITONSERVER_ServerOptionsSetGpuMetrics) \
  REFUSED(TRITONSERVER_ServerOptionsSetHostPolicy) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogError) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogFile) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogFormat) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogInfo) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogVerbose) \
  REFUSED(TRITONSERVER_ServerOptionsSetLogWarn) \
  REFUSED(TRITONSERVER_ServerOptionsSetMetrics) \
  REFUSED(TRITONSERVER_ServerOptionsSetMetricsConfig) \
  REFUSED(TRITONSERVER_ServerOptionsSetMetricsInterval) \
  REFUSED(TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelConfigName) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelControlMode) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadDeviceLimit) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadRetryCount) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelLoadThreadCount) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelNamespacing) \
  REFUSED(TRITONSERVER_ServerOptionsSetModelRepositoryPath) \
  REFUSED(TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize) \
  REFUSED(TRITONSERVER_ServerOptionsSetRateLimiterMode) \
  REFUSED(TRITONSERVER_ServerOptionsSetRepoAgentDirectory) \
  REFUSED(TRITONSERVER_ServerOptionsSetResponseCacheByteSize) \
  REFUSED(TRITONSERVER_ServerOptionsSetServerId) \
  REFUSED(TRITONSERVER_ServerOptionsSetStartupModel) \
  REFUSED(TRITONSERVER_ServerOptionsSetStrictModelConfig) \
  REFUSED(TRITONSERVER_ServerOptionsSetStrictReadiness) \
  REFUSED(TRITONSERVER_ServerPollModelRepository) \
  REFUSED(TRITONSERVER_ServerRegisterModelRepository) \
  REFUSED(TRITONSERVER_ServerSetExitTimeout) \
  REFUSED(TRITONSERVER_ServerStop) \
  REFUSED(TRITONSERVER_ServerUnloadModel) \
  REFUSED(TRITONSERVER_ServerUnloadModelAndDependents) \
  REFUSED(TRITONSERVER_ServerUnregisterModelRepository)

#define REFUSED(name)                                                                     \
  extern "C" MANTA_API TRITONSERVER_Error* name() {                                       \
    return manta::failure(                                                                \
        TRITONSERVER_ERROR_UNSUPPORTED,                                                   \
        #name " is not supported: Manta runs backend libraries, not Triton's own server"); \
  }
REFUSED_FUNCTIONS

extern "C" MANTA_API const char* TRITONSERVER_InferenceTraceActivityString(int) { return "<unknown>"; }
extern "C" MANTA_API const char* TRITONSERVER_InferenceTraceLevelString(int) { return "<unknown>"; }
