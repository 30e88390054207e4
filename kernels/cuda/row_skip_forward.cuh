// Y = X[:, S_t] W[S_t] in float32, where step t keeps S_t: the gather is in the tile load.
//
// Weights are (K, N), so that a kept neuron is one contiguous row, read by 16-byte copies. The kept
// columns of X come packed and scaled (pack.cuh), which is a small part of the traffic. A warp has
// all 128 columns of the tile and some rows: what it reads of X is one address for all lanes.
#pragma once

#include "pipeline.cuh"
#include "rows.cuh"

namespace sdrop {

struct ForwardOperands {
  StepRows steps;
  KeptSets kept;
  const void* packed;  // (rows, kept.pitch), X[:, S_t] times its factors, zeroes behind
  const void* weight;  // (K, columns)
  const float* bias;   // (columns), or null
  void* output;        // (rows, columns)
  int columns;         // N
  int tiles_of_step;   // tiles of rows that the largest step has
};

template <int Rows_, int RowsOfThread_, int Bytes_>
struct ForwardTile {
  static constexpr int kRows = Rows_, kRowsOfThread = RowsOfThread_, kBytes = Bytes_;
  static constexpr int kColumns = 128, kDepth = 16, kStages = 3;
  static constexpr int kThreads = kRows / kRowsOfThread * 32;
};

template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads) row_skip_forward(ForwardOperands on) {
  constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns, kDepth = Tile::kDepth;
  SDROP_SHARED(float, inputs, [Tile::kStages][kRows][kDepth]);
  SDROP_SHARED(float, weights, [Tile::kStages][kDepth][kColumns]);
  const int step = static_cast<int>(blockIdx.x) / on.tiles_of_step;
  const int skipped = static_cast<int>(blockIdx.x) % on.tiles_of_step * kRows;
  const int rows = on.steps.rows(step) - skipped;
  if (rows <= 0) return;
  const int first_row = on.steps.first(step) + skipped;
  const int first_column = static_cast<int>(blockIdx.y) * kColumns;
  const int count = on.kept.counts[step];
  const int* neurons = on.kept.set(step);
  const auto* packed = static_cast<const float*>(on.packed);
  const auto* weight = static_cast<const float*>(on.weight);

  const auto load = [&](int tile, int slot) {
    const int begin = tile * kDepth;
    copy_tile<kRows, kDepth, kDepth, Tile::kThreads, 16>(
        &inputs[slot][0][0],
        [&](int row) {
          const Offset offset = static_cast<Offset>(first_row + row) * on.kept.pitch;
          return row < rows ? packed + offset : nullptr;
        },
        begin, on.kept.pitch);
    copy_tile<kDepth, kColumns, kColumns, Tile::kThreads, Tile::kBytes>(
        &weights[slot][0][0],
        [&](int k) {
          if (begin + k >= count) return static_cast<const float*>(nullptr);
          return weight + static_cast<Offset>(__ldg(neurons + begin + k)) * on.columns;
        },
        first_column, on.columns);
  };

  const int lane = threadIdx.x % 32, own_row = threadIdx.x / 32 * Tile::kRowsOfThread;
  float sums[Tile::kRowsOfThread][4] = {};
  run_pipeline<Tile::kStages>(divide_up(count, kDepth), load, [&](int slot) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 4) {
      float4 w[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) w[i] = load4(&weights[slot][k + i][lane * 4]);
#pragma unroll
      for (int row = 0; row < Tile::kRowsOfThread; ++row) {
        const float4 x = load4(&inputs[slot][own_row + row][k]);
        float* sum = sums[row];
        const float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          sum[0] = fmaf(xs[i], w[i].x, sum[0]);
          sum[1] = fmaf(xs[i], w[i].y, sum[1]);
          sum[2] = fmaf(xs[i], w[i].z, sum[2]);
          sum[3] = fmaf(xs[i], w[i].w, sum[3]);
        }
      }
    }
  });

  auto* output = static_cast<float*>(on.output);
#pragma unroll
  for (int row = 0; row < Tile::kRowsOfThread; ++row) {
    if (own_row + row >= rows) break;
    float* to = output + static_cast<Offset>(first_row + own_row + row) * on.columns;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int column = first_column + lane * 4 + i;
      if (column < on.columns) to[column] = sums[row][i] + (on.bias ? on.bias[column] : 0.0f);
    }
  }
}

}  // namespace sdrop
