// Elements of tensors: float, and bfloat16 without CUDA's own header, which the emulation lacks.
#pragma once

#include "device.cuh"

namespace sdrop {

struct Bfloat16 {
  unsigned short bits;
};

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(Bfloat16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

template <typename Element>
__device__ __forceinline__ Element from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
// To the nearest, ties to even; NaN stays NaN.
template <>
__device__ __forceinline__ Bfloat16 from_float<Bfloat16>(float value) {
  const unsigned bits = __float_as_uint(value);
  if (value != value) return {static_cast<unsigned short>(bits >> 16 | 0x40)};
  return {static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

}  // namespace sdrop
