// Which rows of an activation are step t, and which neurons step t keeps; as kernels see it.
#pragma once

#include "element.cuh"

namespace sdrop {

// Rows of a matrix, one a step and sequence: all sequences at t = 0, then all that reach t = 1...
struct StepRows {
  const int* starts;  // (count + 1) on the device, or null where step t begins at row t * batch
  int count;          // T
  int batch;          // B, the most rows of a step

  __device__ __forceinline__ int first(int step) const {
    return starts ? starts[step] : step * batch;
  }
  __device__ __forceinline__ int rows(int step) const {
    return starts ? starts[step + 1] - starts[step] : batch;
  }
  // The step of a row: the last that begins at it or before.
  __device__ __forceinline__ int step_of(int row) const {
    if (!starts) return row / batch;
    int low = 0, high = count;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (starts[middle] <= row ? low : high) = middle;
    }
    return low;
  }
};

constexpr int kNeuronTile = 64;  // neurons of a tile, by which `tile_starts` divides a set

// Kept neurons as lists on the device. A kernel that finds one set for all steps gets StepRows of
// one step with all rows.
struct KeptSets {
  const int* neurons;      // (sets, pitch), each set in ascending order
  const int* counts;       // (sets), how many each keeps
  const int* tile_starts;  // (sets, tiles + 1): where in a set the neurons of each tile begin
  int pitch;
  int tiles;               // of kNeuronTile neurons

  __device__ __forceinline__ const int* set(int step) const {
    return neurons + static_cast<Offset>(step) * pitch;
  }
};

}  // namespace sdrop
