// Live rows of W_h, as the forward and the backward pass read them from shared memory.
//
// Either the block's columns of all rows are there for the whole sequence, and only the live rows
// are read; or the live rows of a step come in chunks, in the background, two stages in turn.
#pragma once

#include "lstm_layer.cuh"

namespace sdrop {

// Four elements that begin at a multiple of four.
__device__ __forceinline__ float4 load_quad(const float* from) { return load4(from); }
__device__ __forceinline__ float4 load_quad(const Bfloat16* from) {
  const uint2 raw = *reinterpret_cast<const uint2*>(from);
  return make_float4(__uint_as_float(raw.x << 16), __uint_as_float(raw.x & 0xffff0000u),
                     __uint_as_float(raw.y << 16), __uint_as_float(raw.y & 0xffff0000u));
}

// A block's piece of a layer, and where it stands in shared memory.
template <typename Element>
struct Piece {
  const Division& division;
  int tile;           // which piece
  int hidden_size;
  const Element* weight;  // packed: (H, units, 4) of this tile
  Element* resident;  // the same in shared memory, if the division says so
  char* pool;         // the shared memory behind it

  __device__ __forceinline__ int first_unit() const { return tile * division.units; }
};

template <typename Element>
__device__ __forceinline__ Piece<Element> piece_of(const Division& division, int tile,
                                                   int hidden_size, const Element* weights,
                                                   char* shared) {
  const Offset size = static_cast<Offset>(hidden_size) * division.columns();
  return {division,
          tile,
          hidden_size,
          weights + tile * size,
          reinterpret_cast<Element*>(shared),
          shared + division.resident_bytes(hidden_size, sizeof(Element))};
}

// Once a sequence, where the division is resident.
template <typename Element>
__device__ __forceinline__ void load_resident(const Piece<Element>& piece) {
  const int quads = piece.hidden_size * piece.division.units;
  for (int i = threadIdx.x; i < quads; i += kRecurrenceThreads)
    copy_async<4 * sizeof(Element)>(piece.resident + 4 * i,
                                    piece.weight + 4 * static_cast<Offset>(i), true);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
}

// The rows of one step that are live, and those of a chunk in shared memory.
template <typename Element>
struct LiveRows {
  const Piece<Element>& piece;
  const int* kept;
  int count;

  // Begins to copy chunk [first, first + chunk) to `to`: streamed rows themselves, or the indices
  // of resident ones.
  __device__ __forceinline__ void stage(int first, char* to) const {
    const int here = min(piece.division.chunk, count - first);
    if (piece.division.resident) {
      int* indices = reinterpret_cast<int*>(to);
      for (int k = threadIdx.x; k < here; k += kRecurrenceThreads) indices[k] = kept[first + k];
      return;
    }
    const int units = piece.division.units;
    auto* rows = reinterpret_cast<Element*>(to);
    for (int i = threadIdx.x; i < here * units; i += kRecurrenceThreads) {
      const Offset row = kept[first + i / units];
      copy_async<4 * sizeof(Element)>(rows + 4 * i, piece.weight + 4 * (row * units + i % units),
                                      true);
    }
  }

  // Row k of the chunk at `staged`: (units, 4).
  __device__ __forceinline__ const Element* row(const char* staged, int k) const {
    const int columns = piece.division.columns();
    if (piece.division.resident)
      return piece.resident + reinterpret_cast<const int*>(staged)[k] * columns;
    return reinterpret_cast<const Element*>(staged) + k * columns;
  }
};

}  // namespace sdrop
