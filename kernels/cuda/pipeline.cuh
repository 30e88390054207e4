// Loading tiles ahead of the multiplication by asynchronous copies.
#pragma once

#include "element.cuh"

namespace sdrop {

// Copies a tile of Rows x Columns elements to shared memory, `Pitch` elements a row there.
//
// row_at(r) is where row r begins in global memory, null for a row of zeroes; columns from
// `end` on are zeroes too. With `Bytes` > sizeof(Element) addresses and `end` are whole multiples
// of so many bytes.
template <int Rows, int Columns, int Pitch, int Threads, int Bytes, typename Element,
          typename RowAt>
__device__ __forceinline__ void copy_tile(Element* to, const RowAt& row_at, int first, int end) {
  constexpr int kVector = Bytes / static_cast<int>(sizeof(Element));
  constexpr int kVectors = Columns / kVector;
  constexpr int kCopies = divide_up(Rows * kVectors, Threads);
  // Many small copies, unrolled at all, make some tile spill on one architecture or the other. (g++
  // does not see this used.)
  [[maybe_unused]] constexpr int kUnrolled = Bytes == 16 ? kCopies : 1;
#pragma unroll kUnrolled
  for (int i = 0; i < kCopies; ++i) {
    const int place = static_cast<int>(threadIdx.x) + i * Threads;
    if (Rows * kVectors % Threads != 0 && place >= Rows * kVectors) break;
    const int row = place / kVectors, column = place % kVectors * kVector;
    const Element* from = row_at(row);
    const bool valid = from != nullptr && first + column < end;
    Element* target = to + row * Pitch + column;
    if constexpr (Bytes >= 4)
      copy_async<Bytes>(target, from + (valid ? first + column : 0), valid);
    else  // too small for an asynchronous copy; the pipeline's barrier serves it as well
      *target = valid ? from[first + column] : Element{};
  }
}

// multiply(slot) for each of `tiles` tiles, which load(tile, slot) has begun to copy
// Stages - 1 tiles earlier. Ends with all threads of the block past the last multiplication.
template <int Stages, typename Load, typename Multiply>
__device__ __forceinline__ void run_pipeline(int tiles, const Load& load,
                                             const Multiply& multiply) {
#pragma unroll
  for (int ahead = 0; ahead < Stages - 1; ++ahead) {
    if (ahead < tiles) load(ahead, ahead);
    commit_copies();
  }
  int slot = 0, free_slot = Stages - 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_copies<Stages - 2>();
    __syncthreads();  // everybody's copies are here, and nobody reads the slot before this one
    if (tile + Stages - 1 < tiles) load(tile + Stages - 1, free_slot);
    commit_copies();
    multiply(slot);
    slot = slot + 1 == Stages ? 0 : slot + 1;
    free_slot = free_slot + 1 == Stages ? 0 : free_slot + 1;
  }
  wait_copies<0>();
  __syncthreads();
}

}  // namespace sdrop
