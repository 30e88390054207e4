// What every kernel builds on; device code alone, so that the same text goes to nvcc and to the
// emulation, which runs it on the CPU (kernels/emulation/cuda_emulation.h has the rules).
#pragma once

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "cuda_emulation.h"
#endif

namespace sdrop {

using Offset = long long;  // of an element: T * B * 4H and rows * vocabulary may pass 2^31

constexpr unsigned kAllLanes = 0xffffffffu;

#ifdef __CUDACC__

// SDROP_SHARED(float, tile, [16][33]): shared memory of a size that the compiler knows.
#define SDROP_SHARED(Type, name, ...) __shared__ __align__(16) Type name __VA_ARGS__
// SDROP_DYNAMIC_SHARED(float, pool): shared memory of the size given at the launch.
#define SDROP_DYNAMIC_SHARED(Type, name)                                    \
  extern __shared__ __align__(16) unsigned char sdrop_dynamic_shared[];     \
  Type* name = reinterpret_cast<Type*>(sdrop_dynamic_shared)
// To be said in every loop that waits for another block.
#define SDROP_SPIN() __nanosleep(20)
// Ends the launch with an error where what the caller gave makes no sense.
#define SDROP_DEVICE_CHECK(condition, what) \
  do {                                      \
    if (!(condition)) __trap();             \
  } while (0)

// Copies 4, 8 or 16 bytes from global to shared memory in the background, or zeroes where
// `valid` is false (`from` is not read then). Both addresses are multiples of the size.
template <int Bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int read = valid ? Bytes : 0;
  if constexpr (Bytes == 16)  // past the first-level cache, which takes no part in reuse here
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(Bytes), "r"(read)
                 : "memory");
}

// Makes a group of the calling thread's copies since the last commit.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all of the calling thread's groups but the latest `Pending`. Other threads' copies can
// be read after a barrier behind it.
template <int Pending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

#else

#define SDROP_SHARED(Type, name, ...)      \
  using name##_type = Type __VA_ARGS__;    \
  static char name##_place;                \
  auto& name = *sdrop::emulation::shared<name##_type>(&name##_place)
#define SDROP_DYNAMIC_SHARED(Type, name) \
  Type* name = static_cast<Type*>(sdrop::emulation::block->dynamic.get())
#define SDROP_SPIN() sdrop::emulation::spin()
#define SDROP_DEVICE_CHECK(condition, what)          \
  do {                                               \
    if (!(condition)) sdrop::emulation::fail(what);  \
  } while (0)

template <int Bytes>
inline void copy_async(void* to, const void* from, bool valid) {
  emulation::copy_async(to, from, Bytes, valid);
}
inline void commit_copies() { emulation::commit_copies(); }
template <int Pending>
inline void wait_copies() {
  emulation::wait_copies(Pending);
}

#endif

__host__ __device__ constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int b) { return divide_up(a, b) * b; }

__device__ __forceinline__ float4 load4(const float* from) {
  return *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ void store4(float* to, float4 value) {
  *reinterpret_cast<float4*>(to) = value;
}

// The sum over a warp, on every lane, always added in the same order.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

}  // namespace sdrop
