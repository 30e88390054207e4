// What the recurrence kernels are told: steps, the dropout on h_{t-1}, tensors, and how the work is
// divided. Everything here lies on the device or is passed by value.
#pragma once

#include "element.cuh"
#include "occupancy.h"
#include "rows.cuh"

namespace sdrop {

// The recurrence runs through positions 0 .. count() - 1, from the last step to the first if
// `reverse`.
struct StepTable {
  StepRows rows;
  bool reverse;

  __host__ __device__ __forceinline__ int count() const { return rows.count; }
  __device__ __forceinline__ int step(int position) const {
    return reverse ? rows.count - 1 - position : position;
  }
  // Sequences at `position`; none before the first and behind the last.
  __device__ __forceinline__ int size_at(int position) const {
    return position < 0 || position >= rows.count ? 0 : rows.rows(step(position));
  }
  __device__ __forceinline__ Offset start_at(int position) const {
    return rows.first(step(position));
  }
};

// A dropout site as index sets: `sets` is 1 where all steps keep the same neurons, else T.
struct SiteTable {
  int size;              // H
  int sets;
  const int* counts;     // (sets), how many each set keeps
  const int* kept;       // (sets, size), the kept neurons in ascending order; behind them anything
  const int* positions;  // (sets, size), where a neuron stands in `kept`, or -1
  float scale;           // of a kept element, where there is no factor
  const float* factor;   // or null: element (t, b, j) has factor[t * step + b * row + j]
  Offset factor_step;
  Offset factor_row;
  int most = 0;          // no set keeps more; 0 where only the device knows

  // Rows of the exchange buffers.
  __host__ __device__ __forceinline__ int most_kept() const { return most > 0 ? most : size; }
  __device__ __forceinline__ Offset set(int t) const { return sets == 1 ? 0 : t; }
  __device__ __forceinline__ int count(int t) const { return counts[set(t)]; }
  __device__ __forceinline__ const int* kept_at(int t) const { return kept + set(t) * size; }
  __device__ __forceinline__ int position(int t, int j) const {
    return positions[set(t) * size + j];
  }
  __device__ __forceinline__ float factor_of(int t, int b, int j) const {
    return factor ? factor[t * factor_step + b * factor_row + j] : scale;
  }
};

constexpr int kMostLayers = 2;  // that one launch takes

template <typename Element>
struct ForwardLayer {
  StepTable steps;
  SiteTable site;
  const Element* weight;     // W_h packed: (tiles, H, units, 4), zeroes for units beyond H
  const Element* projected;  // (rows, 4H), the input's share of the gates
  const Element* bias;       // (4H), or null
  const Element* h_0;        // (B, H)
  const Element* c_0;        // (B, H)
  Element* output;           // (rows, H)
  Element* h_n;              // (B, H)
  Element* c_n;              // (B, H)
  float* gates;              // (rows, 4H), after their nonlinearities; may be `projected`
  float* cells;              // (rows, H)
  float* columns;            // (2, most, padded B): live h; see lstm_forward.cuh
  unsigned* arrived;         // the barrier's counter
};

template <typename Element>
struct BackwardLayer {
  StepTable steps;
  SiteTable site;
  const Element* weight;  // as above
  const Element* grad_output;
  const Element* grad_h_n;
  const Element* grad_c_n;
  const Element* c_0;
  const float* gates;
  const float* cells;
  Element* grad_gates;    // (rows, 4H), of the gates before their nonlinearities
  Element* grad_h_0;
  Element* grad_c_0;
  float* grad_cell;       // (B, H), the gradient of c on its way back
  float* partials;        // (2, most, tiles, padded B): see lstm_backward.cuh
  unsigned* arrived;
};

template <template <typename> class Layer, typename Element>
struct Layers {
  Layer<Element> layer[kMostLayers];
  Division division;
};

}  // namespace sdrop
