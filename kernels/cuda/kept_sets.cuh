// Kept neurons as lists: from indices, or from a mask that the whole batch shares, whose number of
// kept neurons the host does not know.
#pragma once

#include "rows.cuh"

namespace sdrop {

struct KeptSetsBuild {
  const long long* kept;  // (sets, count), ascending, or null
  const float* mask;      // (sets, size), 0 where dropped; where there is no `kept`
  int count, size;
  int* neurons;           // (sets, pitch); these and the counts as in KeptSets
  int* counts;
  int* tile_starts;
  int pitch, tiles;
};

constexpr int kKeptThreads = 256;

// The places of the first neuron at or after `neuron` in an ascending list.
__device__ __forceinline__ int lower_bound(const int* list, int count, int neuron) {
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (list[middle] < neuron)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// How many of the block's threads before the calling one say yes, and how many in all.
__device__ __forceinline__ int count_before(bool yes, int (&of_warps)[kKeptThreads / 32],
                                            int* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned votes = __ballot_sync(kAllLanes, yes);
  if (lane == 0) of_warps[warp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1u << lane) - 1u));
  *total = 0;
  for (int i = 0; i < kKeptThreads / 32; ++i) {
    if (i < warp) before += of_warps[i];
    *total += of_warps[i];
  }
  __syncthreads();
  return before;
}

// One block a set.
static __global__ void __launch_bounds__(kKeptThreads) build_kept_sets(KeptSetsBuild on) {
  SDROP_SHARED(int, of_warps, [kKeptThreads / 32]);
  const Offset set = blockIdx.x;
  int* list = on.neurons + set * on.pitch;
  int found = 0;
  if (on.kept) {
    found = on.count;
    const long long* from = on.kept + set * on.count;
    for (int i = threadIdx.x; i < found; i += kKeptThreads) {
      SDROP_DEVICE_CHECK(from[i] >= 0 && from[i] < on.size, "kept: an index is out of range");
      SDROP_DEVICE_CHECK(i == 0 || from[i - 1] < from[i], "kept: indices are not ascending");
      list[i] = static_cast<int>(from[i]);
    }
  } else {
    for (int first = 0; first < on.size; first += kKeptThreads) {
      const int neuron = first + static_cast<int>(threadIdx.x);
      const bool kept = neuron < on.size && on.mask[set * on.size + neuron] != 0.0f;
      int total;
      const int before = count_before(kept, of_warps, &total);
      if (kept) list[found + before] = neuron;
      found += total;
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) on.counts[set] = found;
  int* starts = on.tile_starts + set * (on.tiles + 1);
  for (int tile = threadIdx.x; tile <= on.tiles; tile += kKeptThreads)
    starts[tile] = lower_bound(list, found, tile * kNeuronTile);
}

// (sets, size) factors of kept indices: `scale` where kept; the caller has zeroed them.
static __global__ void write_factors(const long long* kept, int count, int size, float scale,
                                     float* factors) {
  const Offset set = blockIdx.x;
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const long long neuron = kept[set * count + i];
    SDROP_DEVICE_CHECK(neuron >= 0 && neuron < size, "kept: an index is out of range");
    factors[set * size + neuron] = scale;
  }
}

}  // namespace sdrop
