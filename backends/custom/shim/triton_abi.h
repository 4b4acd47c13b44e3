// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// The binary interface between Triton and its C backends, as far as Manta speaks it: names, the
// order of arguments and the numbers of enums. A backend that was built against Triton's own
// headers does not notice a difference.
//
// Triton: core/include/triton/core/tritonbackend.h, tritonserver.h @73aad7c

#ifndef MANTA_TRITON_ABI_H
#define MANTA_TRITON_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MANTA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define MANTA_OPAQUE(name) typedef struct name name
MANTA_OPAQUE(TRITONSERVER_BufferAttributes);
MANTA_OPAQUE(TRITONSERVER_Error);
MANTA_OPAQUE(TRITONSERVER_InferenceTrace);
MANTA_OPAQUE(TRITONSERVER_Message);
MANTA_OPAQUE(TRITONSERVER_Metric);
MANTA_OPAQUE(TRITONSERVER_MetricArgs);
MANTA_OPAQUE(TRITONSERVER_MetricFamily);
MANTA_OPAQUE(TRITONSERVER_Parameter);
MANTA_OPAQUE(TRITONSERVER_Server);
MANTA_OPAQUE(TRITONBACKEND_Backend);
MANTA_OPAQUE(TRITONBACKEND_BackendAttribute);
MANTA_OPAQUE(TRITONBACKEND_Batcher);
MANTA_OPAQUE(TRITONBACKEND_Input);
MANTA_OPAQUE(TRITONBACKEND_MemoryManager);
MANTA_OPAQUE(TRITONBACKEND_Model);
MANTA_OPAQUE(TRITONBACKEND_ModelInstance);
MANTA_OPAQUE(TRITONBACKEND_ModelInstanceResponseStatistics);
MANTA_OPAQUE(TRITONBACKEND_Output);
MANTA_OPAQUE(TRITONBACKEND_Request);
MANTA_OPAQUE(TRITONBACKEND_Response);
MANTA_OPAQUE(TRITONBACKEND_ResponseFactory);
MANTA_OPAQUE(TRITONBACKEND_State);
#undef MANTA_OPAQUE

#define TRITONSERVER_API_VERSION_MAJOR 1
#define TRITONSERVER_API_VERSION_MINOR 34
#define TRITONBACKEND_API_VERSION_MAJOR 1
#define TRITONBACKEND_API_VERSION_MINOR 19

typedef enum {
  TRITONSERVER_TYPE_INVALID,
  TRITONSERVER_TYPE_BOOL,
  TRITONSERVER_TYPE_UINT8,
  TRITONSERVER_TYPE_UINT16,
  TRITONSERVER_TYPE_UINT32,
  TRITONSERVER_TYPE_UINT64,
  TRITONSERVER_TYPE_INT8,
  TRITONSERVER_TYPE_INT16,
  TRITONSERVER_TYPE_INT32,
  TRITONSERVER_TYPE_INT64,
  TRITONSERVER_TYPE_FP16,
  TRITONSERVER_TYPE_FP32,
  TRITONSERVER_TYPE_FP64,
  TRITONSERVER_TYPE_BYTES,
  TRITONSERVER_TYPE_BF16
} TRITONSERVER_DataType;

typedef enum {
  TRITONSERVER_MEMORY_CPU,
  TRITONSERVER_MEMORY_CPU_PINNED,
  TRITONSERVER_MEMORY_GPU
} TRITONSERVER_MemoryType;

typedef enum {
  TRITONSERVER_PARAMETER_STRING,
  TRITONSERVER_PARAMETER_INT,
  TRITONSERVER_PARAMETER_BOOL,
  TRITONSERVER_PARAMETER_DOUBLE,
  TRITONSERVER_PARAMETER_BYTES
} TRITONSERVER_ParameterType;

typedef enum {
  TRITONSERVER_INSTANCEGROUPKIND_AUTO,
  TRITONSERVER_INSTANCEGROUPKIND_CPU,
  TRITONSERVER_INSTANCEGROUPKIND_GPU,
  TRITONSERVER_INSTANCEGROUPKIND_MODEL
} TRITONSERVER_InstanceGroupKind;

typedef enum {
  TRITONSERVER_LOG_INFO,
  TRITONSERVER_LOG_WARN,
  TRITONSERVER_LOG_ERROR,
  TRITONSERVER_LOG_VERBOSE
} TRITONSERVER_LogLevel;

typedef enum {
  TRITONSERVER_ERROR_UNKNOWN,
  TRITONSERVER_ERROR_INTERNAL,
  TRITONSERVER_ERROR_NOT_FOUND,
  TRITONSERVER_ERROR_INVALID_ARG,
  TRITONSERVER_ERROR_UNAVAILABLE,
  TRITONSERVER_ERROR_UNSUPPORTED,
  TRITONSERVER_ERROR_ALREADY_EXISTS,
  TRITONSERVER_ERROR_CANCELLED
} TRITONSERVER_Error_Code;

typedef enum {
  TRITONSERVER_METRIC_KIND_COUNTER,
  TRITONSERVER_METRIC_KIND_GAUGE,
  TRITONSERVER_METRIC_KIND_HISTOGRAM
} TRITONSERVER_MetricKind;

typedef enum {
  TRITONSERVER_REQUEST_RELEASE_ALL = 1,
  TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
} TRITONSERVER_RequestReleaseFlag;

typedef enum { TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1 } TRITONSERVER_ResponseCompleteFlag;

typedef enum { TRITONBACKEND_ARTIFACT_FILESYSTEM } TRITONBACKEND_ArtifactType;

typedef enum {
  TRITONBACKEND_EXECUTION_BLOCKING,
  TRITONBACKEND_EXECUTION_DEVICE_BLOCKING
} TRITONBACKEND_ExecutionPolicy;

#define MANTA_CALL MANTA_API TRITONSERVER_Error*

// What every library may use.
MANTA_CALL TRITONSERVER_ApiVersion(uint32_t* major, uint32_t* minor);
MANTA_API const char* TRITONSERVER_DataTypeString(TRITONSERVER_DataType);
MANTA_API TRITONSERVER_DataType TRITONSERVER_StringToDataType(const char* name);
MANTA_API uint32_t TRITONSERVER_DataTypeByteSize(TRITONSERVER_DataType);
MANTA_API const char* TRITONSERVER_MemoryTypeString(TRITONSERVER_MemoryType);
MANTA_API const char* TRITONSERVER_ParameterTypeString(TRITONSERVER_ParameterType);
MANTA_API const char* TRITONSERVER_InstanceGroupKindString(TRITONSERVER_InstanceGroupKind);
MANTA_API TRITONSERVER_Parameter* TRITONSERVER_ParameterNew(
    const char* name, TRITONSERVER_ParameterType, const void* value);
MANTA_API TRITONSERVER_Parameter* TRITONSERVER_ParameterBytesNew(
    const char* name, const void* bytes, uint64_t size);
MANTA_API void TRITONSERVER_ParameterDelete(TRITONSERVER_Parameter*);
MANTA_API bool TRITONSERVER_LogIsEnabled(TRITONSERVER_LogLevel);
MANTA_CALL TRITONSERVER_LogMessage(
    TRITONSERVER_LogLevel, const char* file, int line, const char* text);
MANTA_API TRITONSERVER_Error* TRITONSERVER_ErrorNew(TRITONSERVER_Error_Code, const char* text);
MANTA_API void TRITONSERVER_ErrorDelete(TRITONSERVER_Error*);
MANTA_API TRITONSERVER_Error_Code TRITONSERVER_ErrorCode(TRITONSERVER_Error*);
MANTA_API const char* TRITONSERVER_ErrorCodeString(TRITONSERVER_Error*);
MANTA_API const char* TRITONSERVER_ErrorMessage(TRITONSERVER_Error*);
MANTA_CALL TRITONSERVER_MessageNewFromSerializedJson(
    TRITONSERVER_Message**, const char* base, size_t size);
MANTA_CALL TRITONSERVER_MessageDelete(TRITONSERVER_Message*);
MANTA_CALL TRITONSERVER_MessageSerializeToJson(
    TRITONSERVER_Message*, const char** base, size_t* size);
MANTA_CALL TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes**);
MANTA_CALL TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes*);
MANTA_CALL TRITONSERVER_BufferAttributesSetMemoryTypeId(TRITONSERVER_BufferAttributes*, int64_t);
MANTA_CALL TRITONSERVER_BufferAttributesSetMemoryType(
    TRITONSERVER_BufferAttributes*, TRITONSERVER_MemoryType);
MANTA_CALL TRITONSERVER_BufferAttributesSetCudaIpcHandle(TRITONSERVER_BufferAttributes*, void*);
MANTA_CALL TRITONSERVER_BufferAttributesSetByteSize(TRITONSERVER_BufferAttributes*, size_t);
MANTA_CALL TRITONSERVER_BufferAttributesMemoryTypeId(TRITONSERVER_BufferAttributes*, int64_t*);
MANTA_CALL TRITONSERVER_BufferAttributesMemoryType(
    TRITONSERVER_BufferAttributes*, TRITONSERVER_MemoryType*);
MANTA_CALL TRITONSERVER_BufferAttributesCudaIpcHandle(TRITONSERVER_BufferAttributes*, void**);
MANTA_CALL TRITONSERVER_BufferAttributesByteSize(TRITONSERVER_BufferAttributes*, size_t*);

// Metrics of a library's own.
MANTA_CALL TRITONSERVER_MetricFamilyNew(
    TRITONSERVER_MetricFamily**, TRITONSERVER_MetricKind, const char* name,
    const char* description);
MANTA_CALL TRITONSERVER_MetricFamilyDelete(TRITONSERVER_MetricFamily*);
MANTA_CALL TRITONSERVER_GetMetricFamilyKind(TRITONSERVER_MetricFamily*, TRITONSERVER_MetricKind*);
MANTA_CALL TRITONSERVER_MetricArgsNew(TRITONSERVER_MetricArgs**);
MANTA_CALL TRITONSERVER_MetricArgsSetHistogram(
    TRITONSERVER_MetricArgs*, const double* buckets, uint64_t count);
MANTA_CALL TRITONSERVER_MetricArgsDelete(TRITONSERVER_MetricArgs*);
MANTA_CALL TRITONSERVER_MetricNew(
    TRITONSERVER_Metric**, TRITONSERVER_MetricFamily*, const TRITONSERVER_Parameter** labels,
    uint64_t label_count);
MANTA_CALL TRITONSERVER_MetricNewWithArgs(
    TRITONSERVER_Metric**, TRITONSERVER_MetricFamily*, const TRITONSERVER_Parameter** labels,
    uint64_t label_count, const TRITONSERVER_MetricArgs*);
MANTA_CALL TRITONSERVER_MetricDelete(TRITONSERVER_Metric*);
MANTA_CALL TRITONSERVER_MetricValue(TRITONSERVER_Metric*, double* value);
MANTA_CALL TRITONSERVER_MetricIncrement(TRITONSERVER_Metric*, double value);
MANTA_CALL TRITONSERVER_MetricSet(TRITONSERVER_Metric*, double value);
MANTA_CALL TRITONSERVER_MetricObserve(TRITONSERVER_Metric*, double value);
MANTA_CALL TRITONSERVER_GetMetricKind(TRITONSERVER_Metric*, TRITONSERVER_MetricKind*);

// What a host offers a backend.
MANTA_CALL TRITONBACKEND_ApiVersion(uint32_t* major, uint32_t* minor);
MANTA_CALL TRITONBACKEND_MemoryManagerAllocate(
    TRITONBACKEND_MemoryManager*, void** buffer, TRITONSERVER_MemoryType, int64_t id,
    uint64_t size);
MANTA_CALL TRITONBACKEND_MemoryManagerFree(
    TRITONBACKEND_MemoryManager*, void* buffer, TRITONSERVER_MemoryType, int64_t id);
MANTA_CALL TRITONBACKEND_InputProperties(
    TRITONBACKEND_Input*, const char** name, TRITONSERVER_DataType*, const int64_t** shape,
    uint32_t* dims_count, uint64_t* size, uint32_t* buffer_count);
MANTA_CALL TRITONBACKEND_InputPropertiesForHostPolicy(
    TRITONBACKEND_Input*, const char* policy, const char** name, TRITONSERVER_DataType*,
    const int64_t** shape, uint32_t* dims_count, uint64_t* size, uint32_t* buffer_count);
MANTA_CALL TRITONBACKEND_InputBuffer(
    TRITONBACKEND_Input*, uint32_t index, const void** buffer, uint64_t* size,
    TRITONSERVER_MemoryType*, int64_t* id);
MANTA_CALL TRITONBACKEND_InputBufferForHostPolicy(
    TRITONBACKEND_Input*, const char* policy, uint32_t index, const void** buffer, uint64_t* size,
    TRITONSERVER_MemoryType*, int64_t* id);
MANTA_CALL TRITONBACKEND_InputBufferAttributes(
    TRITONBACKEND_Input*, uint32_t index, const void** buffer, TRITONSERVER_BufferAttributes**);
MANTA_CALL TRITONBACKEND_OutputBuffer(
    TRITONBACKEND_Output*, void** buffer, uint64_t size, TRITONSERVER_MemoryType*, int64_t* id);
MANTA_CALL TRITONBACKEND_OutputBufferAttributes(
    TRITONBACKEND_Output*, TRITONSERVER_BufferAttributes**);
MANTA_CALL TRITONBACKEND_RequestId(TRITONBACKEND_Request*, const char** id);
MANTA_CALL TRITONBACKEND_RequestIsCancelled(TRITONBACKEND_Request*, bool* is_cancelled);
MANTA_CALL TRITONBACKEND_RequestCorrelationId(TRITONBACKEND_Request*, uint64_t* id);
MANTA_CALL TRITONBACKEND_RequestCorrelationIdString(TRITONBACKEND_Request*, const char** id);
MANTA_CALL TRITONBACKEND_InferenceRequestTimeoutMicroseconds(TRITONBACKEND_Request*, uint64_t*);
MANTA_CALL TRITONBACKEND_RequestFlags(TRITONBACKEND_Request*, uint32_t* flags);
MANTA_CALL TRITONBACKEND_RequestParameterCount(TRITONBACKEND_Request*, uint32_t* count);
MANTA_CALL TRITONBACKEND_RequestParameter(
    TRITONBACKEND_Request*, uint32_t index, const char** key, TRITONSERVER_ParameterType*,
    const void** value);
MANTA_CALL TRITONBACKEND_RequestInputCount(TRITONBACKEND_Request*, uint32_t* count);
MANTA_CALL TRITONBACKEND_RequestInputName(
    TRITONBACKEND_Request*, uint32_t index, const char** name);
MANTA_CALL TRITONBACKEND_RequestInput(
    TRITONBACKEND_Request*, const char* name, TRITONBACKEND_Input**);
MANTA_CALL TRITONBACKEND_RequestInputByIndex(
    TRITONBACKEND_Request*, uint32_t index, TRITONBACKEND_Input**);
MANTA_CALL TRITONBACKEND_RequestOutputCount(TRITONBACKEND_Request*, uint32_t* count);
MANTA_CALL TRITONBACKEND_RequestOutputName(
    TRITONBACKEND_Request*, uint32_t index, const char** name);
MANTA_CALL TRITONBACKEND_RequestOutputBufferProperties(
    TRITONBACKEND_Request*, const char* name, size_t* size, TRITONSERVER_MemoryType*,
    int64_t* id);
MANTA_CALL TRITONBACKEND_RequestRelease(TRITONBACKEND_Request*, uint32_t flags);
MANTA_CALL TRITONBACKEND_RequestTrace(TRITONBACKEND_Request*, TRITONSERVER_InferenceTrace**);
MANTA_CALL TRITONBACKEND_ResponseFactoryNew(
    TRITONBACKEND_ResponseFactory**, TRITONBACKEND_Request*);
MANTA_CALL TRITONBACKEND_ResponseFactoryDelete(TRITONBACKEND_ResponseFactory*);
MANTA_CALL TRITONBACKEND_ResponseFactorySendFlags(TRITONBACKEND_ResponseFactory*, uint32_t flags);
MANTA_CALL TRITONBACKEND_ResponseFactoryIsCancelled(TRITONBACKEND_ResponseFactory*, bool*);
MANTA_CALL TRITONBACKEND_ResponseNew(TRITONBACKEND_Response**, TRITONBACKEND_Request*);
MANTA_CALL TRITONBACKEND_ResponseNewFromFactory(
    TRITONBACKEND_Response**, TRITONBACKEND_ResponseFactory*);
MANTA_CALL TRITONBACKEND_ResponseDelete(TRITONBACKEND_Response*);
MANTA_CALL TRITONBACKEND_ResponseSetStringParameter(
    TRITONBACKEND_Response*, const char* name, const char* value);
MANTA_CALL TRITONBACKEND_ResponseSetIntParameter(
    TRITONBACKEND_Response*, const char* name, int64_t value);
MANTA_CALL TRITONBACKEND_ResponseSetBoolParameter(
    TRITONBACKEND_Response*, const char* name, bool value);
MANTA_CALL TRITONBACKEND_ResponseSetDoubleParameter(
    TRITONBACKEND_Response*, const char* name, double value);
MANTA_CALL TRITONBACKEND_ResponseOutput(
    TRITONBACKEND_Response*, TRITONBACKEND_Output**, const char* name, TRITONSERVER_DataType,
    const int64_t* shape, uint32_t dims_count);
MANTA_CALL TRITONBACKEND_ResponseSend(
    TRITONBACKEND_Response*, uint32_t flags, TRITONSERVER_Error* error);
MANTA_CALL TRITONBACKEND_InferenceResponseOutputByName(
    TRITONBACKEND_Response*, const char* name, TRITONSERVER_DataType*, const int64_t** shape,
    uint64_t* dims_count);
MANTA_CALL TRITONBACKEND_InferenceResponseOutput(
    TRITONBACKEND_Response*, uint32_t index, const char** name, TRITONSERVER_DataType*,
    const int64_t** shape, uint64_t* dims_count);
MANTA_CALL TRITONBACKEND_StateNew(
    TRITONBACKEND_State**, TRITONBACKEND_Request*, const char* name, TRITONSERVER_DataType,
    const int64_t* shape, uint32_t dims_count);
MANTA_CALL TRITONBACKEND_StateUpdate(TRITONBACKEND_State*);
MANTA_CALL TRITONBACKEND_StateBuffer(
    TRITONBACKEND_State*, void** buffer, uint64_t size, TRITONSERVER_MemoryType*, int64_t* id);
MANTA_CALL TRITONBACKEND_StateBufferAttributes(
    TRITONBACKEND_State*, TRITONSERVER_BufferAttributes**);
MANTA_CALL TRITONBACKEND_BackendName(TRITONBACKEND_Backend*, const char** name);
MANTA_CALL TRITONBACKEND_BackendConfig(TRITONBACKEND_Backend*, TRITONSERVER_Message**);
MANTA_CALL TRITONBACKEND_BackendExecutionPolicy(
    TRITONBACKEND_Backend*, TRITONBACKEND_ExecutionPolicy*);
MANTA_CALL TRITONBACKEND_BackendSetExecutionPolicy(
    TRITONBACKEND_Backend*, TRITONBACKEND_ExecutionPolicy);
MANTA_CALL TRITONBACKEND_BackendArtifacts(
    TRITONBACKEND_Backend*, TRITONBACKEND_ArtifactType*, const char** location);
MANTA_CALL TRITONBACKEND_BackendMemoryManager(
    TRITONBACKEND_Backend*, TRITONBACKEND_MemoryManager**);
MANTA_CALL TRITONBACKEND_BackendState(TRITONBACKEND_Backend*, void** state);
MANTA_CALL TRITONBACKEND_BackendSetState(TRITONBACKEND_Backend*, void* state);
MANTA_CALL TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(
    TRITONBACKEND_BackendAttribute*, TRITONSERVER_InstanceGroupKind, uint64_t count,
    const uint64_t* device_ids, uint64_t id_count);
MANTA_CALL TRITONBACKEND_BackendAttributeSetParallelModelInstanceLoading(
    TRITONBACKEND_BackendAttribute*, bool enabled);
MANTA_CALL TRITONBACKEND_ModelName(TRITONBACKEND_Model*, const char** name);
MANTA_CALL TRITONBACKEND_ModelVersion(TRITONBACKEND_Model*, uint64_t* version);
MANTA_CALL TRITONBACKEND_ModelRepository(
    TRITONBACKEND_Model*, TRITONBACKEND_ArtifactType*, const char** location);
MANTA_CALL TRITONBACKEND_ModelConfig(
    TRITONBACKEND_Model*, uint32_t config_version, TRITONSERVER_Message**);
MANTA_CALL TRITONBACKEND_ModelAutoCompleteConfig(TRITONBACKEND_Model*, bool* auto_complete);
MANTA_CALL TRITONBACKEND_ModelSetConfig(
    TRITONBACKEND_Model*, uint32_t config_version, TRITONSERVER_Message*);
MANTA_CALL TRITONBACKEND_ModelServer(TRITONBACKEND_Model*, TRITONSERVER_Server**);
MANTA_CALL TRITONBACKEND_ModelBackend(TRITONBACKEND_Model*, TRITONBACKEND_Backend**);
MANTA_CALL TRITONBACKEND_ModelState(TRITONBACKEND_Model*, void** state);
MANTA_CALL TRITONBACKEND_ModelSetState(TRITONBACKEND_Model*, void* state);
MANTA_CALL TRITONBACKEND_ModelReportMemoryUsage(
    TRITONBACKEND_Model*, TRITONSERVER_BufferAttributes** usage, uint32_t count);
MANTA_CALL TRITONBACKEND_ModelInstanceName(TRITONBACKEND_ModelInstance*, const char** name);
MANTA_CALL TRITONBACKEND_ModelInstanceKind(
    TRITONBACKEND_ModelInstance*, TRITONSERVER_InstanceGroupKind*);
MANTA_CALL TRITONBACKEND_ModelInstanceDeviceId(TRITONBACKEND_ModelInstance*, int32_t* id);
MANTA_CALL TRITONBACKEND_ModelInstanceHostPolicy(
    TRITONBACKEND_ModelInstance*, TRITONSERVER_Message**);
MANTA_CALL TRITONBACKEND_ModelInstanceIsPassive(TRITONBACKEND_ModelInstance*, bool* is_passive);
MANTA_CALL TRITONBACKEND_ModelInstanceProfileCount(TRITONBACKEND_ModelInstance*, uint32_t* count);
MANTA_CALL TRITONBACKEND_ModelInstanceProfileName(
    TRITONBACKEND_ModelInstance*, uint32_t index, const char** name);
MANTA_CALL TRITONBACKEND_ModelInstanceSecondaryDeviceCount(
    TRITONBACKEND_ModelInstance*, uint32_t* count);
MANTA_CALL TRITONBACKEND_ModelInstanceSecondaryDeviceProperties(
    TRITONBACKEND_ModelInstance*, uint32_t index, const char** kind, int64_t* id);
MANTA_CALL TRITONBACKEND_ModelInstanceModel(TRITONBACKEND_ModelInstance*, TRITONBACKEND_Model**);
MANTA_CALL TRITONBACKEND_ModelInstanceState(TRITONBACKEND_ModelInstance*, void** state);
MANTA_CALL TRITONBACKEND_ModelInstanceSetState(TRITONBACKEND_ModelInstance*, void* state);
MANTA_CALL TRITONBACKEND_ModelInstanceReportMemoryUsage(
    TRITONBACKEND_ModelInstance*, TRITONSERVER_BufferAttributes** usage, uint32_t count);
MANTA_CALL TRITONBACKEND_ModelInstanceReportStatistics(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request*, bool success, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns);
MANTA_CALL TRITONBACKEND_ModelInstanceReportBatchStatistics(
    TRITONBACKEND_ModelInstance*, uint64_t batch_size, uint64_t exec_start_ns,
    uint64_t compute_start_ns, uint64_t compute_end_ns, uint64_t exec_end_ns);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsNew(
    TRITONBACKEND_ModelInstanceResponseStatistics**);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsDelete(
    TRITONBACKEND_ModelInstanceResponseStatistics*);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetModelInstance(
    TRITONBACKEND_ModelInstanceResponseStatistics*, TRITONBACKEND_ModelInstance*);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseFactory(
    TRITONBACKEND_ModelInstanceResponseStatistics*, TRITONBACKEND_ResponseFactory*);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseStart(
    TRITONBACKEND_ModelInstanceResponseStatistics*, uint64_t ns);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetComputeOutputStart(
    TRITONBACKEND_ModelInstanceResponseStatistics*, uint64_t ns);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetResponseEnd(
    TRITONBACKEND_ModelInstanceResponseStatistics*, uint64_t ns);
MANTA_CALL TRITONBACKEND_ModelInstanceResponseStatisticsSetError(
    TRITONBACKEND_ModelInstanceResponseStatistics*, TRITONSERVER_Error*);
MANTA_CALL TRITONBACKEND_ModelInstanceReportResponseStatistics(
    TRITONBACKEND_ModelInstanceResponseStatistics*);

// What a backend or a batching library defines; only Execute must be there.
MANTA_CALL TRITONBACKEND_Initialize(TRITONBACKEND_Backend*);
MANTA_CALL TRITONBACKEND_Finalize(TRITONBACKEND_Backend*);
MANTA_CALL TRITONBACKEND_GetBackendAttribute(
    TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute*);
MANTA_CALL TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model*);
MANTA_CALL TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model*);
MANTA_CALL TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance*);
MANTA_CALL TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance*);
MANTA_CALL TRITONBACKEND_ModelInstanceExecute(
    TRITONBACKEND_ModelInstance*, TRITONBACKEND_Request** requests, uint32_t count);
MANTA_CALL TRITONBACKEND_ModelInstanceReady(TRITONBACKEND_ModelInstance*);
MANTA_CALL TRITONBACKEND_ModelBatcherInitialize(TRITONBACKEND_Batcher**, TRITONBACKEND_Model*);
MANTA_CALL TRITONBACKEND_ModelBatcherFinalize(TRITONBACKEND_Batcher*);
MANTA_CALL TRITONBACKEND_ModelBatchInitialize(const TRITONBACKEND_Batcher*, void** user);
MANTA_CALL TRITONBACKEND_ModelBatchIncludeRequest(
    TRITONBACKEND_Request*, void* user, bool* should_include);
MANTA_CALL TRITONBACKEND_ModelBatchFinalize(void* user);

#ifdef __cplusplus
}
#endif
#endif
