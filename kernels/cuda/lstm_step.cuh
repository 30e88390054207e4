// A launch a time step: what every device runs where the persistent kernels do not fit.
#pragma once

#include "lstm_backward.cuh"
#include "lstm_forward.cuh"

namespace sdrop {

// Grid: pieces of a layer, tiles of sequences, layers. `position` as in ForwardStep and
// BackwardStep, -1 included.
template <template <typename> class Tile, template <typename> class Layer, typename Element>
__device__ __forceinline__ void run_position(const Layers<Layer, Element>& layers, int position) {
  SDROP_DYNAMIC_SHARED(char, shared);
  const Layer<Element>& layer = layers.layer[blockIdx.z];
  const auto piece =
      piece_of(layers.division, blockIdx.x, layer.site.size, layer.weight, shared);
  Tile<Element>(layer, piece)(position, blockIdx.y * layers.division.row_tile);
}

template <typename Element>
__global__ void __launch_bounds__(kRecurrenceThreads, 2)
    lstm_forward_step(Layers<ForwardLayer, Element> layers, int position) {
  run_position<ForwardStep>(layers, position);
}

template <typename Element>
__global__ void __launch_bounds__(kRecurrenceThreads, 2)
    lstm_backward_step(Layers<BackwardLayer, Element> layers, int position) {
  run_position<BackwardStep>(layers, position);
}

}  // namespace sdrop
