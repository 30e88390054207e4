// CUDA's vector types, atomics and arithmetic that kernels use, in plain C++.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "block.h"

#define SDROP_EMULATED_VECTORS(Scalar, name, pair_align, quad_align)                      \
  struct alignas(pair_align) name##2 {                                                    \
    Scalar x, y;                                                                          \
  };                                                                                      \
  struct alignas(quad_align) name##4 {                                                    \
    Scalar x, y, z, w;                                                                    \
  };                                                                                      \
  inline name##2 make_##name##2(Scalar x, Scalar y) { return {x, y}; }                    \
  inline name##4 make_##name##4(Scalar x, Scalar y, Scalar z, Scalar w) { return {x, y, z, w}; }

SDROP_EMULATED_VECTORS(float, float, 8, 16)
SDROP_EMULATED_VECTORS(int, int, 8, 16)
SDROP_EMULATED_VECTORS(unsigned, uint, 8, 16)
#undef SDROP_EMULATED_VECTORS

using std::max;
using std::min;

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
inline float __uint_as_float(unsigned x) {
  float y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}
inline unsigned __float_as_uint(float x) {
  unsigned y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

template <typename Value>
Value __ldg(const Value* address) {
  return *address;
}
template <typename Value>
Value __ldcg(const Value* address) {
  return *address;
}
template <typename Value>
void __stcg(Value* address, Value value) {
  *address = value;
}

// All fibers share one thread of the processor: what they do between two turns is atomic, and
// everyone sees it.
inline void __threadfence() {}
inline void __threadfence_block() {}
template <typename Value>
Value atomicExch(Value* address, Value value) {
  return std::exchange(*address, value);
}
template <typename Value>
Value atomicAdd(Value* address, Value value) {
  const Value old = *address;
  *address = old + value;
  return old;
}
template <typename Value>
Value atomicMax(Value* address, Value value) {
  const Value old = *address;
  *address = std::max(old, value);
  return old;
}
template <typename Value>
Value atomicOr(Value* address, Value value) {
  const Value old = *address;
  *address = old | value;
  return old;
}
template <typename Value>
Value atomicCAS(Value* address, Value expected, Value value) {
  const Value old = *address;
  if (old == expected) *address = value;
  return old;
}
