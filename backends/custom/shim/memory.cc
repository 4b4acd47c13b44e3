// SPDX-FileCopyrightText: 2026 The Manta authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of the processor; there is none of a GPU here.

#include <cstdlib>
#include <new>

#include "objects.h"

TRITONSERVER_Error* TRITONBACKEND_MemoryManagerAllocate(
    TRITONBACKEND_MemoryManager*, void** buffer, TRITONSERVER_MemoryType type, int64_t,
    uint64_t size) {
  *buffer = nullptr;
  if (type == TRITONSERVER_MEMORY_GPU) {
    return manta::failure(
        TRITONSERVER_ERROR_UNAVAILABLE,
        "backend library asked for " + std::to_string(size) +
            " bytes of GPU memory; libraries get memory of the CPU only");
  }
  try {
    // Pinned memory is a wish: Triton too gives other memory when it has none.
    *buffer = manta::Block(size).give_away();
  } catch (const std::bad_alloc&) {
    return manta::failure(
        TRITONSERVER_ERROR_UNAVAILABLE,
        "backend library asked for " + std::to_string(size) + " bytes, which there are not");
  }
  return nullptr;
}

TRITONSERVER_Error* TRITONBACKEND_MemoryManagerFree(
    TRITONBACKEND_MemoryManager*, void* buffer, TRITONSERVER_MemoryType, int64_t) {
  std::free(buffer);
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesNew(TRITONSERVER_BufferAttributes** made) {
  *made = new TRITONSERVER_BufferAttributes;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesDelete(TRITONSERVER_BufferAttributes* gone) {
  delete gone;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesSetMemoryTypeId(
    TRITONSERVER_BufferAttributes* attributes, int64_t id) {
  attributes->id = id;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesSetMemoryType(
    TRITONSERVER_BufferAttributes* attributes, TRITONSERVER_MemoryType type) {
  attributes->type = type;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesSetCudaIpcHandle(
    TRITONSERVER_BufferAttributes* attributes, void* handle) {
  attributes->cuda_ipc_handle = handle;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesSetByteSize(
    TRITONSERVER_BufferAttributes* attributes, size_t size) {
  attributes->size = size;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesMemoryTypeId(
    TRITONSERVER_BufferAttributes* attributes, int64_t* id) {
  *id = attributes->id;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesMemoryType(
    TRITONSERVER_BufferAttributes* attributes, TRITONSERVER_MemoryType* type) {
  *type = attributes->type;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesCudaIpcHandle(
    TRITONSERVER_BufferAttributes* attributes, void** handle) {
  *handle = attributes->cuda_ipc_handle;
  return nullptr;
}

TRITONSERVER_Error* TRITONSERVER_BufferAttributesByteSize(
    TRITONSERVER_BufferAttributes* attributes, size_t* size) {
  *size = attributes->size;
  return nullptr;
}
