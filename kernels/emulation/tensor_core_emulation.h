// What tensor cores compute, from the registers of a warp's lanes (layouts: tensor_core.cuh).
// Inputs are rounded as the hardware's are, sums are float32 in ascending order of k.
#pragma once

#include "cuda_emulation.h"

namespace sdrop::emulation {

inline unsigned to_tf32(float value) {
  const unsigned bits = __float_as_uint(value);
  if (!std::isfinite(value)) return bits;
  return (bits + 0x1000u) & ~0x1fffu;
}

struct Tf32Fragments {
  static constexpr int kDepth = 8;
  static float value(unsigned bits, int) {
    return __uint_as_float(bits & ~0x1fffu);  // the hardware does not look at the other bits
  }
  // Where element (row, k) of A, or (k, column) of B, is.
  static int lane_of(int row, int k) { return row % 8 * 4 + k % 4; }
  static int a_register(int row, int k) { return row / 8 + k / 4 * 2; }
  static int b_register(int k) { return k / 4; }
};

struct Bfloat16Fragments {
  static constexpr int kDepth = 16;
  static float value(unsigned bits, int k) {
    return __uint_as_float(k % 2 ? bits & 0xffff0000u : bits << 16);
  }
  static int lane_of(int row, int k) { return row % 8 * 4 + k % 8 / 2; }
  static int a_register(int row, int k) { return row / 8 + k / 8 * 2; }
  static int b_register(int k) { return k / 8; }
};

struct MultiplyArgument {
  const float* d;
  const unsigned* a;
  const unsigned* b;
  float result[4];
};

template <typename Fragments>
void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  MultiplyArgument mine{d, a, b, {}};
  together(
      0xffffffffu,
      [](Warp& warp, unsigned lane, unsigned) {
        auto& me = argument_of<MultiplyArgument>(warp, lane);
        for (int i = 0; i < 4; ++i) {
          const int row = static_cast<int>(lane) / 4 + i / 2 * 8;
          const int column = static_cast<int>(lane) % 4 * 2 + i % 2;
          float sum = me.d[i];
          for (int k = 0; k < Fragments::kDepth; ++k) {
            const auto& of_a = argument_of<MultiplyArgument>(warp, Fragments::lane_of(row, k));
            const auto& of_b = argument_of<MultiplyArgument>(warp, Fragments::lane_of(column, k));
            sum += Fragments::value(of_a.a[Fragments::a_register(row, k)], k) *
                   Fragments::value(of_b.b[Fragments::b_register(k)], k);
          }
          me.result[i] = sum;
        }
      },
      &mine);
  std::copy(mine.result, mine.result + 4, d);
}

struct TransposeArgument {
  const unsigned short* row;
  unsigned result[2];
};

inline void load_transposed(unsigned (&r)[2], const void* row) {
  if (lane_index() < 16 && reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
    fail("ldmatrix from an unaligned address");
  TransposeArgument mine{static_cast<const unsigned short*>(row), {}};
  together(
      0xffffffffu,
      [](Warp& warp, unsigned lane, unsigned) {
        auto& me = argument_of<TransposeArgument>(warp, lane);
        const unsigned g = lane / 4, t = lane % 4;
        for (unsigned i = 0; i < 2; ++i) {
          const auto element = [&](unsigned k) {
            return unsigned{argument_of<TransposeArgument>(warp, i * 8 + k).row[g]};
          };
          me.result[i] = element(2 * t) | element(2 * t + 1) << 16;
        }
      },
      &mine);
  std::copy(mine.result, mine.result + 2, r);
}

}  // namespace sdrop::emulation
