// The products of row_skip_forward.cuh and row_skip_data_gradient.cuh on tensor cores: float32
// rounded to tf32, or bfloat16, summed in float32. Operands and results are described there.
#pragma once

#include "row_skip_data_gradient.cuh"
#include "row_skip_forward.cuh"
#include "tensor_core_tile.cuh"

namespace sdrop {

template <typename Element>
constexpr int tensor_core_forward_bytes() {
  using Tile = TensorCoreTile<Element>;
  return Tile::kStages * (Tile::kRowsBytes + Tile::kDepth * Tile::kWidePitch *
                                                 static_cast<int>(sizeof(Element)));
}

template <typename Element>
constexpr int tensor_core_data_gradient_bytes() {
  using Tile = TensorCoreTile<Element>;
  return Tile::kStages * (Tile::kRowsBytes + Tile::kColumns * Tile::kPitch *
                                                 static_cast<int>(sizeof(Element)));
}

template <typename Element, int Bytes>
__global__ void __launch_bounds__(256) tensor_core_forward(ForwardOperands on) {
  using Tile = TensorCoreTile<Element>;
  SDROP_DYNAMIC_SHARED(Element, pool);
  constexpr int kInputs = Tile::kRows * Tile::kPitch, kWeights = Tile::kDepth * Tile::kWidePitch;
  Element* inputs = pool;
  Element* weights = pool + Tile::kStages * kInputs;
  const int step = static_cast<int>(blockIdx.x) / on.tiles_of_step;
  const int skipped = static_cast<int>(blockIdx.x) % on.tiles_of_step * Tile::kRows;
  const int rows = on.steps.rows(step) - skipped;
  if (rows <= 0) return;
  const int first_row = on.steps.first(step) + skipped;
  const int first_column = static_cast<int>(blockIdx.y) * Tile::kColumns;
  const int count = on.kept.counts[step];
  const int* neurons = on.kept.set(step);
  const auto* packed = static_cast<const Element*>(on.packed);
  const auto* weight = static_cast<const Element*>(on.weight);

  const auto load = [&](int tile, int slot) {
    const int begin = tile * Tile::kDepth;
    copy_tile<Tile::kRows, Tile::kDepth, Tile::kPitch, Tile::kThreads, 16>(
        inputs + slot * kInputs,
        [&](int row) {
          const Offset offset = static_cast<Offset>(first_row + row) * on.kept.pitch;
          return row < rows ? packed + offset : nullptr;
        },
        begin, on.kept.pitch);
    copy_tile<Tile::kDepth, Tile::kColumns, Tile::kWidePitch, Tile::kThreads, Bytes>(
        weights + slot * kWeights,
        [&](int k) {
          if (begin + k >= count) return static_cast<const Element*>(nullptr);
          return weight + static_cast<Offset>(__ldg(neurons + begin + k)) * on.columns;
        },
        first_column, on.columns);
  };

  const WarpPlace at;
  WarpSums sums = {};
  run_pipeline<Tile::kStages>(divide_up(count, Tile::kDepth), load, [&](int slot) {
    multiply_tile<true>(sums, inputs + slot * kInputs, weights + slot * kWeights, at);
  });
  auto* output = static_cast<Element*>(on.output);
  for_each_sum(sums, at, [&](int row, int place, float sum) {
    const int column = first_column + place;
    if (row >= rows || column >= on.columns) return;
    const float bias = on.bias ? on.bias[column] : 0.0f;
    output[static_cast<Offset>(first_row + row) * on.columns + column] =
        from_float<Element>(sum + bias);
  });
}

template <typename Element, int Bytes>
__global__ void __launch_bounds__(256) tensor_core_data_gradient(DataGradientOperands on) {
  using Tile = TensorCoreTile<Element>;
  SDROP_DYNAMIC_SHARED(Element, pool);
  constexpr int kGrads = Tile::kRows * Tile::kPitch, kWeights = Tile::kColumns * Tile::kPitch;
  Element* grads = pool;
  Element* weights = pool + Tile::kStages * kGrads;
  const int step = static_cast<int>(blockIdx.x) / on.tiles_of_step;
  const int skipped = static_cast<int>(blockIdx.x) % on.tiles_of_step * Tile::kRows;
  const int rows = on.steps.rows(step) - skipped;
  const int first_place = static_cast<int>(blockIdx.y) * Tile::kColumns;
  const int places = on.kept.counts[step] - first_place;
  if (rows <= 0 || places <= 0) return;
  const int first_row = on.steps.first(step) + skipped;
  const int* neurons = on.kept.set(step) + first_place;
  const auto* grad_output = static_cast<const Element*>(on.grad_output);
  const auto* weight = static_cast<const Element*>(on.weight);

  const auto load = [&](int tile, int slot) {
    const int begin = tile * Tile::kDepth;
    copy_tile<Tile::kRows, Tile::kDepth, Tile::kPitch, Tile::kThreads, Bytes>(
        grads + slot * kGrads,
        [&](int row) {
          const Offset offset = static_cast<Offset>(first_row + row) * on.columns;
          return row < rows ? grad_output + offset : nullptr;
        },
        begin, on.columns);
    copy_tile<Tile::kColumns, Tile::kDepth, Tile::kPitch, Tile::kThreads, Bytes>(
        weights + slot * kWeights,
        [&](int place) {
          if (place >= places) return static_cast<const Element*>(nullptr);
          return weight + static_cast<Offset>(__ldg(neurons + place)) * on.columns;
        },
        begin, on.columns);
  };

  const WarpPlace at;
  WarpSums sums = {};
  run_pipeline<Tile::kStages>(divide_up(on.columns, Tile::kDepth), load, [&](int slot) {
    multiply_tile<false>(sums, grads + slot * kGrads, weights + slot * kWeights, at);
  });
  auto* grad_input = static_cast<Element*>(on.grad_input);
  for_each_sum(sums, at, [&](int row, int place, float sum) {
    if (row >= rows || place >= places) return;
    const int neuron = neurons[place];
    grad_input[static_cast<Offset>(first_row + row) * on.size + neuron] =
        from_float<Element>(sum * on.factor_of(step, neuron));
  });
}

}  // namespace sdrop
