// What is done once a sequence, before and behind the recurrence: tables of steps and kept sets,
// W_h in the order in which blocks read it, and dropped activations for the products of torch.
#pragma once

#include "lstm_layer.cuh"

namespace sdrop {

constexpr int kPrepareThreads = 256;

// So many numbers travel as an argument of a kernel: a copy from the host's memory would have to
// outlive the launch, which a CUDA graph repeats.
constexpr int kStepsALaunch = 384;

struct SomeSteps {
  int first, count;
  Offset first_row;
  int sizes[kStepsALaunch];
};

// Writes steps [first, first + count) of the tables that StepTable has.
static __global__ void __launch_bounds__(kPrepareThreads)
    write_steps(SomeSteps some, int* sizes, Offset* starts) {
  for (int i = threadIdx.x; i < some.count; i += kPrepareThreads) {
    Offset start = some.first_row;
    for (int before = 0; before < i; ++before) start += some.sizes[before];
    sizes[some.first + i] = some.sizes[i];
    starts[some.first + i] = start;
  }
}

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

// x (rows, size), dropped and scaled; `to` may be x. Grid: (pieces of a step, T).
template <typename Element>
__global__ void __launch_bounds__(kPrepareThreads)
    drop_rows(StepTable steps, SiteTable site, const Element* x, Element* to) {
  const int position = blockIdx.y, t = steps.step(position), size = site.size;
  const Offset first = steps.start_at(position) * size;
  const Offset elements = static_cast<Offset>(steps.size_at(position)) * size;
  for (Offset i = blockIdx.x * kPrepareThreads + threadIdx.x; i < elements;
       i += gridDim.x * kPrepareThreads) {
    const int j = static_cast<int>(i % size), b = static_cast<int>(i / size);
    // Not a product with 0: what is dropped may be infinite.
    const float value = site.position(t, j) < 0
                            ? 0.0f
                            : to_float(x[first + i]) * site.factor_of(t, b, j);
    to[first + i] = from_float<Element>(value);
  }
}

// What each row's step got of h_{t-1}: (rows, H). Grid as above.
template <typename Element>
__global__ void __launch_bounds__(kPrepareThreads)
    drop_hidden(StepTable steps, SiteTable site, const Element* h_0, const Element* output,
                Element* to) {
  const int position = blockIdx.y, t = steps.step(position), size = site.size;
  const Offset first = steps.start_at(position) * size;
  const Offset elements = static_cast<Offset>(steps.size_at(position)) * size;
  const int before = steps.size_at(position - 1);
  const Offset first_before = before > 0 ? steps.start_at(position - 1) * size : 0;
  for (Offset i = blockIdx.x * kPrepareThreads + threadIdx.x; i < elements;
       i += gridDim.x * kPrepareThreads) {
    const int j = static_cast<int>(i % size), b = static_cast<int>(i / size);
    float value = 0.0f;
    if (site.position(t, j) >= 0)
      value = to_float(b < before ? output[first_before + i] : h_0[i]) * site.factor_of(t, b, j);
    to[first + i] = from_float<Element>(value);
  }
}

}  // namespace sdrop
