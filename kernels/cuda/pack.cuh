// Putting kept columns and rows together, and back into their places; dropping without packing.
//
// Blocks are one a row (or kept neuron), threads go along it. All of these read or write an operand
// once, a small part of the GEMM that follows.
#pragma once

#include "element.cuh"
#include "kept_sets.cuh"

namespace sdrop {

constexpr int kPackThreads = 128;

// packed[row, i] = x[row, S_t[i]] times its factor; zeroes behind the last kept neuron.
template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    pack_columns(StepRows steps, KeptSets kept, const Element* x, int size, const float* factor,
                 float scale, Element* packed) {
  const Offset row = blockIdx.x;
  const int step = steps.step_of(static_cast<int>(row));
  const int* set = kept.set(step);
  const float* factors = factor ? factor + static_cast<Offset>(step) * size : nullptr;
  const Element* from = x + row * size;
  Element* to = packed + row * kept.pitch;
  const int count = kept.counts[step];
  for (int i = threadIdx.x; i < kept.pitch; i += kPackThreads) {
    float value = 0.0f;
    if (i < count) {
      const int neuron = set[i];
      value = to_float(from[neuron]) * (factors ? factors[neuron] : scale);
    }
    to[i] = from_float<Element>(value);
  }
}

// packed[i, :] = w[S[i], :] of one set, zeroes behind its last; a block a row of `packed`.
template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    pack_rows(KeptSets kept, const Element* w, int columns, Element* packed) {
  const int place = blockIdx.x;
  const bool live = place < kept.counts[0];
  const Element* from = w + static_cast<Offset>(live ? kept.neurons[place] : 0) * columns;
  Element* to = packed + static_cast<Offset>(place) * columns;
  for (int column = threadIdx.x; column < columns; column += kPackThreads)
    to[column] = live ? from[column] : Element{};
}

// The other way: whole[S[i], :] = packed[i, :]; rows of neurons that are not kept are zeroes.
template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    restore_rows(KeptSets kept, const Element* packed, int columns, Element* whole) {
  const int neuron = blockIdx.x;
  const int place = lower_bound(kept.neurons, kept.counts[0], neuron);
  const bool live = place < kept.counts[0] && kept.neurons[place] == neuron;
  const Element* from = packed + static_cast<Offset>(place) * columns;
  Element* to = whole + static_cast<Offset>(neuron) * columns;
  for (int column = threadIdx.x; column < columns; column += kPackThreads)
    to[column] = live ? from[column] : Element{};
}

// whole[row, S[i]] = packed[row, i] * scale of one set; the caller has zeroed `whole`.
template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    restore_columns(KeptSets kept, const Element* packed, int packed_columns, int size,
                    float scale, Element* whole) {
  const Offset row = blockIdx.x;
  const Element* from = packed + row * packed_columns;
  for (int i = threadIdx.x; i < kept.counts[0]; i += kPackThreads)
    whole[row * size + kept.neurons[i]] = from_float<Element>(to_float(from[i]) * scale);
}

// to[row, j] = x[row, j] * factor[t, b, j]: dropping in the whole width. `to` may be `x`.
template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    multiply_by_factor(StepRows steps, const Element* x, int size, const float* factor,
                       Offset factor_step, Offset factor_row, Element* to) {
  const Offset row = blockIdx.x;
  const int step = steps.step_of(static_cast<int>(row));
  const int column = static_cast<int>(row) - steps.first(step);
  const float* factors = factor + step * factor_step + column * factor_row;
  for (int j = threadIdx.x; j < size; j += kPackThreads)
    to[row * size + j] = from_float<Element>(to_float(x[row * size + j]) * factors[j]);
}

template <typename Element>
__global__ void __launch_bounds__(kPackThreads)
    add_bias(const float* bias, int columns, Element* output) {
  const Offset row = blockIdx.x;
  for (int column = threadIdx.x; column < columns; column += kPackThreads) {
    Element* at = output + row * columns + column;
    *at = from_float<Element>(to_float(*at) + bias[column]);
  }
}

}  // namespace sdrop
