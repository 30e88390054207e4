// dW[S_t] += X[:, S_t]^T dY, summed over the steps t, in float32: each row of dW takes part in the
// steps that keep its neuron and in no other.
//
// A block has 64 neurons by 128 columns of dW in shared memory. A set is ascending, so those of the
// 64 that step t keeps are consecutive in it: the warps share them out, sum over the step's rows in
// registers and add the result to shared memory. Which rows of dW a register stands for changes
// from step to step, which registers alone could not do; a sum over 20 rows pays for the addition.
// Rows that no step keeps are exactly 0. Steps are added in order, so the bits never change.
#pragma once

#include "pipeline.cuh"
#include "rows.cuh"

namespace sdrop {

struct WeightGradientOperands {
  StepRows steps;
  KeptSets kept;
  const float* packed;       // (rows, kept.pitch), X[:, S_t] times its factors
  const float* grad_output;  // (rows, columns)
  float* grad_weight;        // (size, columns)
  int columns;               // N
  int size;                  // K
  int chunk_rows;            // rows that are summed at once, a multiple of 4, at most kChunk
  int chunks_of_step;        // chunks that the largest step has
};

struct WeightGradientTile {
  static constexpr int kColumns = 128, kWarps = 4, kThreads = kWarps * 32, kStages = 2;
  static constexpr int kChunk = 24;
  static constexpr int kInputPitch = kChunk + 4;
  static constexpr int kSumsBytes = kNeuronTile * kColumns * 4;
  static constexpr int kGradsBytes = kStages * kChunk * kColumns * 4;
  static constexpr int kInputsBytes = kStages * kNeuronTile * kInputPitch * 4;
  static constexpr int kSharedBytes = kSumsBytes + kGradsBytes + kInputsBytes;
};

using WeightSums = float (*)[WeightGradientTile::kColumns];
using ChunkGrads = const float (*)[WeightGradientTile::kColumns];
using ChunkInputs = const float (*)[WeightGradientTile::kInputPitch];

// Adds to the sums of `live` neurons, at most Neurons, what `rows` rows (to a multiple of 4) give.
template <int Neurons>
__device__ __forceinline__ void add_chunk(WeightSums sums, const int* neurons, int first_neuron,
                                          int live, ChunkInputs inputs, ChunkGrads grads,
                                          int rows) {
  const int lane = threadIdx.x % 32;
  float own[Neurons][4] = {};
  for (int row = 0; row < rows; row += 4) {
    float4 dy[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) dy[i] = load4(&grads[row + i][lane * 4]);
#pragma unroll
    for (int neuron = 0; neuron < Neurons; ++neuron) {
      const float4 x = load4(&inputs[neuron][row]);
      const float xs[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        own[neuron][0] = fmaf(xs[i], dy[i].x, own[neuron][0]);
        own[neuron][1] = fmaf(xs[i], dy[i].y, own[neuron][1]);
        own[neuron][2] = fmaf(xs[i], dy[i].z, own[neuron][2]);
        own[neuron][3] = fmaf(xs[i], dy[i].w, own[neuron][3]);
      }
    }
  }
#pragma unroll
  for (int neuron = 0; neuron < Neurons; ++neuron) {
    if (neuron >= live) break;
    float* to = &sums[__ldg(neurons + neuron) - first_neuron][lane * 4];
    const float4 old = load4(to);
    store4(to, make_float4(old.x + own[neuron][0], old.y + own[neuron][1],
                           old.z + own[neuron][2], old.w + own[neuron][3]));
  }
}

template <int Bytes>
__global__ void __launch_bounds__(WeightGradientTile::kThreads)
    row_skip_weight_gradient(WeightGradientOperands on) {
  using Tile = WeightGradientTile;
  SDROP_DYNAMIC_SHARED(float, pool);
  const auto sums = reinterpret_cast<WeightSums>(pool);
  float* grads = pool + Tile::kSumsBytes / 4;
  float* inputs = grads + Tile::kGradsBytes / 4;
  constexpr int kGradsOfStage = Tile::kChunk * Tile::kColumns;
  constexpr int kInputsOfStage = kNeuronTile * Tile::kInputPitch;
  const int tile = blockIdx.x, first_neuron = tile * kNeuronTile;
  const int first_column = static_cast<int>(blockIdx.y) * Tile::kColumns;
  for (int i = threadIdx.x; i < kNeuronTile * Tile::kColumns; i += Tile::kThreads) pool[i] = 0.0f;

  struct Chunk {
    int step, first_row, rows, begin, live;
  };
  const auto chunk_at = [&](int number) {
    const int step = number / on.chunks_of_step;
    const int skipped = number % on.chunks_of_step * on.chunk_rows;
    const int* starts = on.kept.tile_starts + static_cast<Offset>(step) * (on.kept.tiles + 1);
    const int begin = __ldg(starts + tile);
    return Chunk{step, on.steps.first(step) + skipped,
                 max(0, min(on.chunk_rows, on.steps.rows(step) - skipped)), begin,
                 __ldg(starts + tile + 1) - begin};
  };
  const auto load = [&](int number, int slot) {
    const Chunk chunk = chunk_at(number);
    copy_tile<Tile::kChunk, Tile::kColumns, Tile::kColumns, Tile::kThreads, Bytes>(
        grads + slot * kGradsOfStage,
        [&](int row) {
          const Offset offset = static_cast<Offset>(chunk.first_row + row) * on.columns;
          return row < chunk.rows ? on.grad_output + offset : nullptr;
        },
        first_column, on.columns);
    float* to = inputs + slot * kInputsOfStage;
    const float* from =
        on.packed + static_cast<Offset>(chunk.first_row) * on.kept.pitch + chunk.begin;
    const int place = threadIdx.x % kNeuronTile;
    if (place >= chunk.live) return;
    for (int row = threadIdx.x / kNeuronTile; row < on.chunk_rows;
         row += Tile::kThreads / kNeuronTile)
      copy_async<4>(to + place * Tile::kInputPitch + row,
                    row < chunk.rows ? from + static_cast<Offset>(row) * on.kept.pitch + place
                                     : from,
                    row < chunk.rows);
  };

  int number = 0;
  run_pipeline<Tile::kStages>(on.steps.count * on.chunks_of_step, load, [&](int slot) {
    const Chunk chunk = chunk_at(number++);
    const int share = divide_up(divide_up(chunk.live, Tile::kWarps), 2) * 2;
    const int own = static_cast<int>(threadIdx.x) / 32 * share;
    const int live = min(share, chunk.live - own);
    if (live <= 0 || chunk.rows == 0) return;
    const int* neurons = on.kept.set(chunk.step) + chunk.begin + own;
    const auto x = reinterpret_cast<ChunkInputs>(inputs + slot * kInputsOfStage) + own;
    const auto dy = reinterpret_cast<ChunkGrads>(grads + slot * kGradsOfStage);
    const int rows = round_up(chunk.rows, 4);
    switch (share) {  // one code a number of registers
      case 2: return add_chunk<2>(sums, neurons, first_neuron, live, x, dy, rows);
      case 4: return add_chunk<4>(sums, neurons, first_neuron, live, x, dy, rows);
      case 6: return add_chunk<6>(sums, neurons, first_neuron, live, x, dy, rows);
      case 8: return add_chunk<8>(sums, neurons, first_neuron, live, x, dy, rows);
      case 10: return add_chunk<10>(sums, neurons, first_neuron, live, x, dy, rows);
      case 12: return add_chunk<12>(sums, neurons, first_neuron, live, x, dy, rows);
      case 14: return add_chunk<14>(sums, neurons, first_neuron, live, x, dy, rows);
      default: return add_chunk<16>(sums, neurons, first_neuron, live, x, dy, rows);
    }
  });

  for (int i = threadIdx.x; i < kNeuronTile * Tile::kColumns; i += Tile::kThreads) {
    const int neuron = first_neuron + i / Tile::kColumns;
    const int column = first_column + i % Tile::kColumns;
    if (neuron < on.size && column < on.columns)
      on.grad_weight[static_cast<Offset>(neuron) * on.columns + column] = pool[i];
  }
}

}  // namespace sdrop
