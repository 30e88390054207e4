// What is done once a sequence, before and behind the recurrence: tables of kept sets, W_h in the
// order in which blocks read it, and the hidden states that steps started from.
#pragma once

#include "lstm_layer.cuh"

namespace sdrop {

constexpr int kPrepareThreads = 256;

// The tables of a SiteTable, one block a set. Kept neurons come as indices, ascending, or as a mask
// that the batch shares; with neither, all are kept.
struct SiteSource {
  int size;
  const long long* indices;  // (sets, count), or null
  int count;
  const float* mask;         // (sets, size), or null
};

static __global__ void __launch_bounds__(32)
    prepare_site(SiteSource source, int* counts, int* kept, int* positions) {
  const Offset set = blockIdx.x;
  const int lane = threadIdx.x;
  kept += set * source.size;
  positions += set * source.size;
  if (source.indices) {
    for (int j = lane; j < source.size; j += 32) positions[j] = -1;
    __syncwarp();
    for (int k = lane; k < source.count; k += 32) {
      const long long j = source.indices[set * source.count + k];
      SDROP_DEVICE_CHECK(j >= 0 && j < source.size, "kept: an index is out of range");
      kept[k] = static_cast<int>(j);
      positions[j] = k;
    }
    if (lane == 0) counts[set] = source.count;
    return;
  }
  int found = 0;
  for (int first = 0; first < source.size; first += 32) {
    const int j = first + lane;
    const bool keeps =
        j < source.size && (!source.mask || source.mask[set * source.size + j] != 0.0f);
    const unsigned kept_lanes = __ballot_sync(kAllLanes, keeps);
    const int k = found + __popc(kept_lanes & ((1u << lane) - 1));
    if (keeps) kept[k] = j;
    if (j < source.size) positions[j] = keeps ? k : -1;
    found += __popc(kept_lanes);
  }
  if (lane == 0) counts[set] = found;
}

// W_h (H, 4H) -> (tiles, H, units, 4): what a block reads of a row lies together, and the gates of
// a unit side by side. Zeroes for units beyond H. Grid: (pieces of a tile's rows, tiles).
template <typename Element>
__global__ void __launch_bounds__(kPrepareThreads)
    pack_weight(const Element* weight, int size, int units, Element* packed) {
  const int elements = size * units * 4;
  packed += static_cast<Offset>(blockIdx.y) * elements;
  for (int i = blockIdx.x * kPrepareThreads + threadIdx.x; i < elements;
       i += gridDim.x * kPrepareThreads) {
    // Neighbouring threads read neighbouring units, which is what lies together in W_h.
    const int unit = i % units, gate = i / units % 4, k = i / (4 * units);
    const int j = blockIdx.y * units + unit;
    packed[(static_cast<Offset>(k) * units + unit) * 4 + gate] =
        j < size ? weight[(static_cast<Offset>(k) * 4 + gate) * size + j]
                 : from_float<Element>(0.0f);
  }
}

// What each row's step started from, whole: (rows, H). Grid: (T, pieces of a step).
template <typename Element>
__global__ void __launch_bounds__(kPrepareThreads)
    hidden_before(StepTable steps, int size, const Element* h_0, const Element* output,
                  Element* to) {
  const int position = blockIdx.x;
  const Offset first = steps.start_at(position) * size;
  const Offset elements = static_cast<Offset>(steps.size_at(position)) * size;
  const Offset ran = static_cast<Offset>(steps.size_at(position - 1)) * size;
  const Element* before = ran > 0 ? output + steps.start_at(position - 1) * size : output;
  for (Offset i = blockIdx.y * kPrepareThreads + threadIdx.x; i < elements;
       i += gridDim.y * kPrepareThreads)
    to[first + i] = i < ran ? before[i] : h_0[i];
}

// a += b, the gradients of an input that two directions share.
template <typename Element>
__global__ void __launch_bounds__(kPrepareThreads)
    add_elements(Offset count, const Element* b, Element* a) {
  for (Offset i = static_cast<Offset>(blockIdx.x) * kPrepareThreads + threadIdx.x; i < count;
       i += static_cast<Offset>(gridDim.x) * kPrepareThreads)
    a[i] = from_float<Element>(to_float(a[i]) + to_float(b[i]));
}

}  // namespace sdrop
