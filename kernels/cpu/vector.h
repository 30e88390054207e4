// The compiler's own vector types. SDROP_VECTOR_BYTES is the width that the build's flags allow.
#pragma once

#ifdef __AVX__
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <utility>

#include "interface.h"

namespace sdrop::SDROP_CAPABILITY {

constexpr int kLanes = SDROP_VECTOR_BYTES / sizeof(float);

typedef float Vector __attribute__((vector_size(SDROP_VECTOR_BYTES)));
typedef std::int32_t IntVector __attribute__((vector_size(SDROP_VECTOR_BYTES)));
// In memory they may be pairs of bfloat16 numbers (precision.h), aligned as these are.
typedef float UnalignedVector
    __attribute__((vector_size(SDROP_VECTOR_BYTES), aligned(2), may_alias));

#define SDROP_INLINE inline __attribute__((always_inline))

SDROP_INLINE Vector load(const float* from) {
  return *reinterpret_cast<const UnalignedVector*>(from);
}

SDROP_INLINE void store(float* to, Vector value) {
  *reinterpret_cast<UnalignedVector*>(to) = value;
}

SDROP_INLINE Vector broadcast(float value) { return value - Vector{}; }
SDROP_INLINE Vector broadcast_at(const float* from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return broadcast(value);
}

// Two elements again and again.
SDROP_INLINE Vector broadcast_pair(const float* from) {
  typedef std::int64_t Pairs __attribute__((vector_size(SDROP_VECTOR_BYTES)));
  std::int64_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return reinterpret_cast<Vector>(pair - Pairs{});
}

// Four elements again and again. Processors have a load for it, which GCC 12 does not find by
// itself: a shuffle went through memory and made a layer two to three times as slow.
SDROP_INLINE Vector broadcast_four(const float* from) {
#if defined(__AVX512F__) && SDROP_VECTOR_BYTES == 64
  return _mm512_maskz_broadcast_f32x4(-1, _mm_loadu_ps(from));  // the other form warns in GCC 12
#elif defined(__AVX__) && SDROP_VECTOR_BYTES == 32
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(from));
#else
  float fours[kLanes];
  for (int lane = 0; lane < kLanes; lane += 4) std::memcpy(fours + lane, from, 4 * sizeof *from);
  return load(fours);
#endif
}

template <int... Lane>
SDROP_INLINE Vector add_pairs_in(Vector a, Vector b, std::integer_sequence<int, Lane...>) {
  return __builtin_shufflevector(a, b, 2 * Lane...) +
         __builtin_shufflevector(a, b, 2 * Lane + 1 ...);
}

// Lane i is the sum of lanes 2 i and 2 i + 1 of a, and behind them those of b.
SDROP_INLINE Vector add_pairs(Vector a, Vector b) {
  return add_pairs_in(a, b, std::make_integer_sequence<int, kLanes>());
}

// The first `live` elements, and zeroes: nothing is read behind the end of an array.
SDROP_INLINE Vector load_first(const float* from, Index live) {
  if (live >= kLanes) return load(from);
  Vector value{};
  for (Index lane = 0; lane < live; ++lane) value[lane] = from[lane];
  return value;
}

// Elements from[indices[0]], from[indices[1]], ...
SDROP_INLINE Vector gather(const float* from, const std::int32_t* indices) {
#if defined(__AVX512F__) && SDROP_VECTOR_BYTES == 64
  return _mm512_i32gather_ps(_mm512_loadu_si512(indices), from, sizeof *from);
#else
  Vector value{};
  for (Index lane = 0; lane < kLanes; ++lane) value[lane] = from[indices[lane]];
  return value;
#endif
}

SDROP_INLINE void store_first(float* to, Vector value, Index live) {
  if (live >= kLanes) return store(to, value);
  for (Index lane = 0; lane < live; ++lane) to[lane] = value[lane];
}

constexpr Index kLine = 16;  // floats of a cache line

SDROP_INLINE void prefetch(const float* address) { __builtin_prefetch(address, 0, 3); }
// Into the second-level cache alone.
SDROP_INLINE void prefetch_far(const float* address) { __builtin_prefetch(address, 0, 2); }

constexpr Index divide_up(Index a, Index b) { return (a + b - 1) / b; }
constexpr Index round_up(Index a, Index b) { return divide_up(a, b) * b; }

}  // namespace sdrop::SDROP_CAPABILITY
