// Launches of the row-skipping kernels: which tile, how many blocks.
#pragma once

#include "launch.h"
#include "row_skip_weight_gradient.cuh"
#include "tensor_core_gemm.cuh"

namespace sdrop {

// Whether rows of `columns` elements can be read in pieces of 16 bytes.
inline bool in_vectors(const void* a, const void* b, int columns, int element_bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  return address % 16 == 0 && columns * static_cast<Offset>(element_bytes) % 16 == 0;
}

// Rows of a tile for steps of `batch` rows. A tile multiplies its empty rows too, and reads the
// gathered weights once: about as dear as 24 of its rows, by arithmetic.
inline int tile_rows(int batch) {
  int best = 8;
  const auto cost = [&](int rows) { return round_up(batch, rows) * (rows + 24.0) / rows; };
  for (const int rows : {20, 32, 64})
    if (cost(rows) <= cost(best)) best = rows;
  return best;
}

template <typename Tile>
void launch_forward_tile(ForwardOperands on, cudaStream_t stream) {
  on.tiles_of_step = divide_up(on.steps.batch, Tile::kRows);
  const dim3 grid(on.steps.count * on.tiles_of_step, divide_up(on.columns, Tile::kColumns));
  launch({grid, dim3(Tile::kThreads), 0, stream}, row_skip_forward<Tile>, on);
}

inline void launch_row_skip_forward(const ForwardOperands& on, cudaStream_t stream) {
  if (!in_vectors(on.weight, on.weight, on.columns, 4))
    return launch_forward_tile<ForwardTile<32, 8, 4>>(on, stream);
  switch (tile_rows(on.steps.batch)) {
    case 8: return launch_forward_tile<ForwardTile<8, 4, 16>>(on, stream);
    case 20: return launch_forward_tile<ForwardTile<20, 10, 16>>(on, stream);
    case 32: return launch_forward_tile<ForwardTile<32, 8, 16>>(on, stream);
    default: return launch_forward_tile<ForwardTile<64, 16, 16>>(on, stream);
  }
}

template <typename Tile>
void launch_data_gradient_tile(DataGradientOperands on, cudaStream_t stream) {
  on.tiles_of_step = divide_up(on.steps.batch, Tile::kRows);
  const dim3 grid(on.steps.count * on.tiles_of_step, divide_up(on.kept.pitch, Tile::kNeurons));
  launch({grid, dim3(Tile::kThreads), 0, stream}, row_skip_data_gradient<Tile>, on);
}

// `grad_input` must be zeroed before.
inline void launch_row_skip_data_gradient(const DataGradientOperands& on, cudaStream_t stream) {
  if (!in_vectors(on.weight, on.grad_output, on.columns, 4))
    return launch_data_gradient_tile<DataGradientTile<32, 8, 4>>(on, stream);
  switch (tile_rows(on.steps.batch)) {
    case 8: return launch_data_gradient_tile<DataGradientTile<8, 2, 16>>(on, stream);
    case 20: return launch_data_gradient_tile<DataGradientTile<20, 5, 16>>(on, stream);
    case 32: return launch_data_gradient_tile<DataGradientTile<32, 8, 16>>(on, stream);
    default: return launch_data_gradient_tile<DataGradientTile<64, 8, 16>>(on, stream);
  }
}

inline void launch_row_skip_weight_gradient(WeightGradientOperands on, cudaStream_t stream) {
  using Tile = WeightGradientTile;
  on.chunks_of_step = divide_up(on.steps.batch, Tile::kChunk);
  on.chunk_rows = round_up(divide_up(on.steps.batch, on.chunks_of_step), 4);
  const dim3 grid(on.kept.tiles, divide_up(on.columns, Tile::kColumns));
  const Launch how{grid, dim3(Tile::kThreads), Tile::kSharedBytes, stream};
  if (in_vectors(on.grad_output, on.grad_output, on.columns, 4))
    launch(how, row_skip_weight_gradient<16>, on);
  else
    launch(how, row_skip_weight_gradient<4>, on);
}

template <typename Element>
void launch_tensor_core_forward(ForwardOperands on, cudaStream_t stream) {
  using Tile = TensorCoreTile<Element>;
  on.tiles_of_step = divide_up(on.steps.batch, Tile::kRows);
  const dim3 grid(on.steps.count * on.tiles_of_step, divide_up(on.columns, Tile::kColumns));
  const Launch how{grid, dim3(Tile::kThreads), tensor_core_forward_bytes<Element>(), stream};
  if (in_vectors(on.weight, on.weight, on.columns, sizeof(Element)))
    launch(how, tensor_core_forward<Element, 16>, on);
  else
    launch(how, tensor_core_forward<Element, static_cast<int>(sizeof(Element))>, on);
}

// `grad_input` must be zeroed before.
template <typename Element>
void launch_tensor_core_data_gradient(DataGradientOperands on, cudaStream_t stream) {
  using Tile = TensorCoreTile<Element>;
  on.tiles_of_step = divide_up(on.steps.batch, Tile::kRows);
  const dim3 grid(on.steps.count * on.tiles_of_step, divide_up(on.kept.pitch, Tile::kColumns));
  const Launch how{grid, dim3(Tile::kThreads), tensor_core_data_gradient_bytes<Element>(), stream};
  if (in_vectors(on.weight, on.grad_output, on.columns, sizeof(Element)))
    launch(how, tensor_core_data_gradient<Element, 16>, on);
  else
    launch(how, tensor_core_data_gradient<Element, static_cast<int>(sizeof(Element))>, on);
}

}  // namespace sdrop
