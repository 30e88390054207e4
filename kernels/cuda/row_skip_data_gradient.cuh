// dX[:, S_t] = dY W[S_t]^T in float32, where step t keeps S_t; the other columns are left alone.
//
// Both operands are contiguous along N, over which is summed. A lane has one kept neuron of each 32
// and reads four elements of its row at once; the padded pitch puts lanes into different banks.
#pragma once

#include "pipeline.cuh"
#include "rows.cuh"

namespace sdrop {

struct DataGradientOperands {
  StepRows steps;
  KeptSets kept;
  const void* grad_output;  // (rows, columns)
  const void* weight;       // (size, columns)
  const float* factor;      // (sets, size) on the device, or null: all are multiplied by `scale`
  float scale;
  void* grad_input;         // (rows, size)
  int columns;              // N
  int size;                 // K
  int tiles_of_step;

  __device__ __forceinline__ float factor_of(int step, int neuron) const {
    return factor ? factor[static_cast<Offset>(step) * size + neuron] : scale;
  }
};

template <int Rows_, int RowsOfThread_, int Bytes_>
struct DataGradientTile {
  static constexpr int kRows = Rows_, kRowsOfThread = RowsOfThread_, kBytes = Bytes_;
  static constexpr int kNeurons = 64, kDepth = 16, kStages = 3;
  static constexpr int kPitch = kDepth + 4;
  static constexpr int kThreads = kRows / kRowsOfThread * 32;
};

__device__ __forceinline__ float add_products(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads) row_skip_data_gradient(DataGradientOperands on) {
  constexpr int kRows = Tile::kRows, kDepth = Tile::kDepth, kPitch = Tile::kPitch;
  SDROP_SHARED(float, grads, [Tile::kStages][kRows][kPitch]);
  SDROP_SHARED(float, weights, [Tile::kStages][Tile::kNeurons][kPitch]);
  const int step = static_cast<int>(blockIdx.x) / on.tiles_of_step;
  const int skipped = static_cast<int>(blockIdx.x) % on.tiles_of_step * kRows;
  const int rows = on.steps.rows(step) - skipped;
  const int first_place = static_cast<int>(blockIdx.y) * Tile::kNeurons;
  const int places = on.kept.counts[step] - first_place;
  if (rows <= 0 || places <= 0) return;
  const int first_row = on.steps.first(step) + skipped;
  const int* neurons = on.kept.set(step) + first_place;
  const auto* grad_output = static_cast<const float*>(on.grad_output);
  const auto* weight = static_cast<const float*>(on.weight);

  const auto load = [&](int tile, int slot) {
    copy_tile<kRows, kDepth, kPitch, Tile::kThreads, Tile::kBytes>(
        &grads[slot][0][0],
        [&](int row) {
          const Offset offset = static_cast<Offset>(first_row + row) * on.columns;
          return row < rows ? grad_output + offset : nullptr;
        },
        tile * kDepth, on.columns);
    copy_tile<Tile::kNeurons, kDepth, kPitch, Tile::kThreads, Tile::kBytes>(
        &weights[slot][0][0],
        [&](int place) {
          if (place >= places) return static_cast<const float*>(nullptr);
          return weight + static_cast<Offset>(__ldg(neurons + place)) * on.columns;
        },
        tile * kDepth, on.columns);
  };

  const int lane = threadIdx.x % 32, own_row = threadIdx.x / 32 * Tile::kRowsOfThread;
  float sums[Tile::kRowsOfThread][2] = {};
  run_pipeline<Tile::kStages>(divide_up(on.columns, kDepth), load, [&](int slot) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 4) {
      const float4 w0 = load4(&weights[slot][lane][k]), w1 = load4(&weights[slot][lane + 32][k]);
#pragma unroll
      for (int row = 0; row < Tile::kRowsOfThread; ++row) {
        const float4 dy = load4(&grads[slot][own_row + row][k]);
        sums[row][0] = add_products(dy, w0, sums[row][0]);
        sums[row][1] = add_products(dy, w1, sums[row][1]);
      }
    }
  });

  auto* grad_input = static_cast<float*>(on.grad_input);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int place = lane + half * 32;
    if (place >= places) break;
    const int neuron = neurons[place];
    const float factor = on.factor_of(step, neuron);
#pragma unroll
    for (int row = 0; row < Tile::kRowsOfThread; ++row)
      if (own_row + row < rows)
        grad_input[static_cast<Offset>(first_row + own_row + row) * on.size + neuron] =
            sums[row][half] * factor;
  }
}

}  // namespace sdrop
