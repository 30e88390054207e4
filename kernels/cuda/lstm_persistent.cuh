// One cooperative launch a sequence, of one layer or of several that do not depend on one another
// (the directions of a layer): blocks stay, hand live columns round, and meet at a barrier a step.
#pragma once

#include "grid_barrier.cuh"
#include "lstm_backward.cuh"
#include "lstm_forward.cuh"

namespace sdrop {

// Grid: pieces of a layer, 1, layers. Layers meet at barriers of their own.
template <template <typename> class Tile, template <typename> class Layer, typename Element>
__device__ __forceinline__ void run_sequence(const Layers<Layer, Element>& layers, int first,
                                             int end, int stride) {
  SDROP_DYNAMIC_SHARED(char, shared);
  const Layer<Element>& layer = layers.layer[blockIdx.z];
  const Division& division = layers.division;
  const auto piece = piece_of(division, blockIdx.x, layer.site.size, layer.weight, shared);
  if (division.resident) load_resident(piece);
  Tile<Element> tile(layer, piece);
  unsigned round = 0;
  for (int position = first; position != end; position += stride) {
    if (position != first) grid_barrier(layer.arrived, division.tiles, ++round);
    for (int rows = 0; rows < division.row_tiles; ++rows)
      tile(position, rows * division.row_tile);
  }
}

template <typename Element>
__global__ void __launch_bounds__(kRecurrenceThreads, 1)
    lstm_forward_persistent(Layers<ForwardLayer, Element> layers) {
  run_sequence<ForwardStep>(layers, -1, layers.layer[blockIdx.z].steps.count(), 1);
}

template <typename Element>
__global__ void __launch_bounds__(kRecurrenceThreads, 1)
    lstm_backward_persistent(Layers<BackwardLayer, Element> layers) {
  run_sequence<BackwardStep>(layers, layers.layer[blockIdx.z].steps.count() - 1, -2, -1);
}

}  // namespace sdrop
