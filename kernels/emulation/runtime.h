// The little of CUDA's runtime that host code asks for, as if one device were there.
#pragma once

#include <map>

using cudaStream_t = void*;
using cudaError_t = int;
constexpr cudaError_t cudaSuccess = 0;

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrReservedSharedMemoryPerBlock,
  cudaDevAttrMaxRegistersPerMultiprocessor,
  cudaDevAttrMaxThreadsPerMultiProcessor,
  cudaDevAttrMaxBlocksPerMultiprocessor,
  cudaDevAttrCooperativeLaunch,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrL2CacheSize,
  cudaDevAttrMaxPersistingL2CacheSize,
  cudaDevAttrMaxAccessPolicyWindowSize,
};

namespace sdrop::emulation {

// An H100 SXM's published limits with few multiprocessors, so that grids stay small. Tests may
// change them.
inline std::map<cudaDeviceAttr, int> device_attributes = {
    {cudaDevAttrMultiProcessorCount, 8},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, 227 * 1024},
    {cudaDevAttrMaxSharedMemoryPerMultiprocessor, 228 * 1024},
    {cudaDevAttrReservedSharedMemoryPerBlock, 1024},
    {cudaDevAttrMaxRegistersPerMultiprocessor, 65536},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrMaxBlocksPerMultiprocessor, 32},
    {cudaDevAttrCooperativeLaunch, 1},
    {cudaDevAttrComputeCapabilityMajor, 9},
    {cudaDevAttrComputeCapabilityMinor, 0},
    {cudaDevAttrL2CacheSize, 50 * 1024 * 1024},
    {cudaDevAttrMaxPersistingL2CacheSize, 32 * 1024 * 1024},
    {cudaDevAttrMaxAccessPolicyWindowSize, 128 * 1024 * 1024},
};

}  // namespace sdrop::emulation

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*device*/) {
  *value = sdrop::emulation::device_attributes.at(attribute);
  return cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline const char* cudaGetErrorString(cudaError_t) { return "emulated"; }
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
