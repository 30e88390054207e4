// A block's tile of a product on tensor cores: 64 rows by 128 columns, eight warps of 32 by 32.
//
// Operands in shared memory: `a` is (64, depth) by rows. `b` is (depth, 128) where the gathered
// index is summed over (forward), or (128, depth) where it is an output's (backward data). The
// padded pitches put what the lanes of a warp read at once into different banks.
#pragma once

#include "pipeline.cuh"
#include "tensor_core.cuh"

namespace sdrop {

template <typename Element>
struct TensorCoreTile {
  static constexpr int kRows = 64, kColumns = 128, kThreads = 256, kStages = 2;
  static constexpr int kDepth = 32;
  static constexpr int kPad = 16 / sizeof(Element);
  static constexpr int kPitch = kDepth + kPad;               // of what is (…, depth)
  static constexpr int kWidePitch = kColumns + 8;           // of what is (depth, columns)
  static constexpr int kRowsBytes = kRows * kPitch * sizeof(Element);
};

// Where the calling thread's warp and lane stand in the tile.
struct WarpPlace {
  int first_row, first_column, g, t, lane;
  __device__ __forceinline__ WarpPlace() {
    const int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32;
    first_row = warp / 4 * 32;
    first_column = warp % 4 * 32;
    g = lane / 4;
    t = lane % 4;
  }
};

using WarpSums = float[2][4][4];  // 16-row tiles, 8-column tiles, D's registers

__device__ __forceinline__ unsigned pair_at(const Bfloat16* from) {
  return *reinterpret_cast<const unsigned*>(from);
}

template <int Pitch>
__device__ __forceinline__ void load_a(unsigned (&a)[4], const float* tile, int k,
                                       const WarpPlace& at) {
  const float* from = tile + at.g * Pitch + k + at.t;
  a[0] = to_tf32(from[0]);
  a[1] = to_tf32(from[8 * Pitch]);
  a[2] = to_tf32(from[4]);
  a[3] = to_tf32(from[8 * Pitch + 4]);
}
template <int Pitch>
__device__ __forceinline__ void load_a(unsigned (&a)[4], const Bfloat16* tile, int k,
                                       const WarpPlace& at) {
  const Bfloat16* from = tile + at.g * Pitch + k + 2 * at.t;
  a[0] = pair_at(from);
  a[1] = pair_at(from + 8 * Pitch);
  a[2] = pair_at(from + 8);
  a[3] = pair_at(from + 8 * Pitch + 8);
}

// B from (columns, depth).
template <int Pitch>
__device__ __forceinline__ void load_b_by_column(unsigned (&b)[2], const float* tile, int k,
                                                 const WarpPlace& at) {
  const float* from = tile + at.g * Pitch + k + at.t;
  b[0] = to_tf32(from[0]);
  b[1] = to_tf32(from[4]);
}
template <int Pitch>
__device__ __forceinline__ void load_b_by_column(unsigned (&b)[2], const Bfloat16* tile, int k,
                                                 const WarpPlace& at) {
  const Bfloat16* from = tile + at.g * Pitch + k + 2 * at.t;
  b[0] = pair_at(from);
  b[1] = pair_at(from + 8);
}

// B from (depth, columns); `tile` is its first column.
template <int Pitch>
__device__ __forceinline__ void load_b_by_row(unsigned (&b)[2], const float* tile, int k,
                                              const WarpPlace& at) {
  const float* from = tile + (k + at.t) * Pitch + at.g;
  b[0] = to_tf32(from[0]);
  b[1] = to_tf32(from[4 * Pitch]);
}
template <int Pitch>
__device__ __forceinline__ void load_b_by_row(unsigned (&b)[2], const Bfloat16* tile, int k,
                                              const WarpPlace& at) {
  load_transposed(b, tile + (k + at.lane % 16) * Pitch);
}

__device__ __forceinline__ void multiply_fragments(float (&d)[4], const unsigned (&a)[4],
                                                   const unsigned (&b)[2], float) {
  multiply_tf32(d, a, b);
}
__device__ __forceinline__ void multiply_fragments(float (&d)[4], const unsigned (&a)[4],
                                                   const unsigned (&b)[2], Bfloat16) {
  multiply_bfloat16(d, a, b);
}

// Adds a tile's product to the warp's sums.
template <bool ByRow, typename Element>
__device__ __forceinline__ void multiply_tile(WarpSums& sums, const Element* a_tile,
                                              const Element* b_tile, const WarpPlace& at) {
  using Tile = TensorCoreTile<Element>;
  constexpr int kStep = 32 / static_cast<int>(sizeof(Element));  // K of one instruction
#pragma unroll
  for (int k = 0; k < Tile::kDepth; k += kStep) {
    unsigned a[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      load_a<Tile::kPitch>(a[i], a_tile + (at.first_row + 16 * i) * Tile::kPitch, k, at);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int column = at.first_column + 8 * j;
      unsigned b[2];
      if constexpr (ByRow)
        load_b_by_row<Tile::kWidePitch>(b, b_tile + column, k, at);
      else
        load_b_by_column<Tile::kPitch>(b, b_tile + column * Tile::kPitch, k, at);
#pragma unroll
      for (int i = 0; i < 2; ++i) multiply_fragments(sums[i][j], a[i], b, Element{});
    }
  }
}

// Calls store(row, column, value) with the place in the tile of each of the thread's sums.
template <typename Store>
__device__ __forceinline__ void for_each_sum(const WarpSums& sums, const WarpPlace& at,
                                             const Store& store) {
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        store(at.first_row + 16 * i + at.g + r / 2 * 8,
              at.first_column + 8 * j + 2 * at.t + r % 2, sums[i][j][r]);
}

}  // namespace sdrop
