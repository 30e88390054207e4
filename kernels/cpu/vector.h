// The compiler's own vector types. SDROP_VECTOR_BYTES is the width that the build's flags allow.
#pragma once

#include <cstdint>

#include "interface.h"

namespace sdrop::SDROP_CAPABILITY {

constexpr int kLanes = SDROP_VECTOR_BYTES / sizeof(float);

typedef float Vector __attribute__((vector_size(SDROP_VECTOR_BYTES)));
typedef std::int32_t IntVector __attribute__((vector_size(SDROP_VECTOR_BYTES)));
typedef float UnalignedVector
    __attribute__((vector_size(SDROP_VECTOR_BYTES), aligned(4), may_alias));

#define SDROP_INLINE inline __attribute__((always_inline))

SDROP_INLINE Vector load(const float* from) {
  return *reinterpret_cast<const UnalignedVector*>(from);
}

SDROP_INLINE void store(float* to, Vector value) {
  *reinterpret_cast<UnalignedVector*>(to) = value;
}

SDROP_INLINE Vector broadcast(float value) { return value - Vector{}; }

// The first `live` elements, and zeroes: nothing is read behind the end of an array.
SDROP_INLINE Vector load_first(const float* from, Index live) {
  if (live >= kLanes) return load(from);
  Vector value{};
  for (Index lane = 0; lane < live; ++lane) value[lane] = from[lane];
  return value;
}

SDROP_INLINE void store_first(float* to, Vector value, Index live) {
  if (live >= kLanes) return store(to, value);
  for (Index lane = 0; lane < live; ++lane) to[lane] = value[lane];
}

SDROP_INLINE void prefetch(const float* address) { __builtin_prefetch(address, 0, 3); }
SDROP_INLINE void prefetch_to_write(const float* address) { __builtin_prefetch(address, 1, 3); }
// Into the second-level cache alone.
SDROP_INLINE void prefetch_far(const float* address) { __builtin_prefetch(address, 0, 2); }

constexpr Index divide_up(Index a, Index b) { return (a + b - 1) / b; }
constexpr Index round_up(Index a, Index b) { return divide_up(a, b) * b; }

}  // namespace sdrop::SDROP_CAPABILITY
