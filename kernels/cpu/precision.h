// What the products multiply: float32 numbers, or bfloat16 ones whose sums are float32.
//
// Both are the same loops over words of 32 bits. A word is one float32 number, or two bfloat16
// numbers that are neighbours along the sum: one instruction (VDPBF16PS) multiplies both with
// theirs and adds the products to a lane. Words are passed as floats; nothing computes with them.
#pragma once

#include <algorithm>

#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

typedef std::uint16_t Half;  // the upper half of a float32 number: a bfloat16 one

struct Float32 {
  using Number = float;
  static constexpr Index kPerWord = 1;

  static SDROP_INLINE Vector add_product(Vector sum, Vector a, Vector b) { return sum + a * b; }
};

struct BFloat16 {
  using Number = Half;
  static constexpr Index kPerWord = 2;

  // Where the processor has no instruction for it, as a reference and for tests.
  static SDROP_INLINE Vector add_product(Vector sum, Vector a, Vector b) {
#ifdef __AVX512BF16__
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
    const auto low = [](Vector word) { return (Vector)((IntVector)word << 16); };
    const auto high = [](Vector word) { return (Vector)((IntVector)word & -0x10000); };
    return (sum + low(a) * low(b)) + high(a) * high(b);
#endif
  }
};

// Words of so many numbers.
template <typename Precision>
constexpr Index words(Index numbers) {
  return divide_up(numbers, Precision::kPerWord);
}

// To the nearest, ties to even; NaN stays NaN.
inline Half to_half(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<Half>(bits >> 16 | 0x40);
  return static_cast<Half>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

typedef Half HalfVector __attribute__((vector_size(SDROP_VECTOR_BYTES)));
typedef Half UnalignedHalves
    __attribute__((vector_size(SDROP_VECTOR_BYTES / 2), aligned(2), may_alias));

// Each lane as to_half has it, in the low half of the lane; the high half is 0.
SDROP_INLINE IntVector to_halves(Vector value) {
#ifdef __AVX512BF16__
  return __builtin_convertvector((UnalignedHalves)_mm512_cvtneps_pbh(value), IntVector);
#else
  const IntVector bits = (IntVector)value;
  const IntVector rounded = bits + 0x7FFF + (bits >> 16 & 1), nan = bits | 0x400000;
  return (value == value ? rounded : nan) >> 16 & 0xFFFF;
#endif
}

template <int... Lane>
SDROP_INLINE Vector interleave_all(HalfVector a, std::integer_sequence<int, Lane...>) {
  return (Vector)__builtin_shufflevector(a, a, (Lane % 2 * kLanes + Lane / 2)...);
}

template <bool Others, int... Lane>
SDROP_INLINE Vector interleave_fours(HalfVector a, HalfVector b,
                                     std::integer_sequence<int, Lane...>) {
  return (Vector)__builtin_shufflevector(
      a, b, (Lane / 8 * 8 + 4 * Others + Lane % 8 / 2 + Lane % 2 * 2 * kLanes)...);
}

// Words whose low halves are those of `low`, and whose high halves those of `high`.
SDROP_INLINE Vector pair_up(Vector low, Vector high) {
#ifdef __AVX512BF16__
  return interleave_all((HalfVector)_mm512_cvtne2ps_pbh(high, low),
                        std::make_integer_sequence<int, 2 * kLanes>());
#else
  return (Vector)(to_halves(low) | to_halves(high) << 16);
#endif
}

// The words of two rows of halves: those of the first four of each eight halves, or of the others.
template <bool Others>
SDROP_INLINE Vector interleave(Vector low, Vector high) {
  return interleave_fours<Others>((HalfVector)low, (HalfVector)high,
                                  std::make_integer_sequence<int, 2 * kLanes>());
}

SDROP_INLINE void store_first(Half* to, Vector value, Index live) {
#ifdef __AVX512BF16__
  if (live >= kLanes) {
    *reinterpret_cast<UnalignedHalves*>(to) = (UnalignedHalves)_mm512_cvtneps_pbh(value);
    return;
  }
#endif
  const IntVector halves = to_halves(value);
  for (Index lane = 0; lane < std::min<Index>(live, kLanes); ++lane)
    to[lane] = static_cast<Half>(halves[lane]);
}

// The lanes whose bit is set, one behind the other; what is behind them may be anything.
SDROP_INLINE Vector compress(Vector value, std::uint32_t lanes) {
#if defined(__AVX512F__) && SDROP_VECTOR_BYTES == 64
  return _mm512_maskz_compress_ps(static_cast<__mmask16>(lanes), value);
#else
  Vector packed{};
  Index count = 0;
  for (Index lane = 0; lane < kLanes; ++lane)
    if (lanes >> lane & 1) packed[count++] = value[lane];
  return packed;
#endif
}

// Lanes [begin, end) of the value.
SDROP_INLINE void store_halves(Half* to, Vector value, Index begin, Index end) {
#ifdef __AVX512BF16__
  const std::uint32_t lanes = (std::uint32_t{1} << end) - (std::uint32_t{1} << begin);
  _mm256_mask_storeu_epi16(to - begin, static_cast<__mmask16>(lanes),
                           (__m256i)_mm512_cvtneps_pbh(value));
#else
  const IntVector halves = to_halves(value);
  for (Index lane = begin; lane < end; ++lane) to[lane - begin] = static_cast<Half>(halves[lane]);
#endif
}

// Element `number` along the sum of lane `lane`, where a word of the sum is `pitch` words wide.
template <typename Precision>
SDROP_INLINE void put_number(float* words, Index pitch, Index number, Index lane, float value) {
  if constexpr (Precision::kPerWord == 1) {
    words[number * pitch + lane] = value;
  } else {
    const Half half = to_half(value);
    char* word = reinterpret_cast<char*>(words + number / 2 * pitch + lane);
    std::memcpy(word + number % 2 * sizeof half, &half, sizeof half);
  }
}

// Elements [begin, end) along the sum of kLanes lanes, of which `get(number)` is a vector.
template <typename Precision, typename Get>
SDROP_INLINE void put_vectors(float* words, Index pitch, Index begin, Index end, const Get& get) {
  const auto put_alone = [&](Index number) {
    const Vector values = get(number);
    for (Index lane = 0; lane < kLanes; ++lane)
      put_number<Precision>(words, pitch, number, lane, values[lane]);
  };
  Index number = begin;
  if constexpr (Precision::kPerWord == 1) {
    for (; number < end; ++number) store(words + number * pitch, get(number));
  } else {
    if (number % 2 == 1 && number < end) put_alone(number++);
    for (; number + 2 <= end; number += 2)
      store(words + number / 2 * pitch, pair_up(get(number), get(number + 1)));
    if (number < end) put_alone(number);
  }
}

}  // namespace sdrop::SDROP_CAPABILITY
