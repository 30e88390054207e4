// Drawing masks on the device, with the bits that sdrop/ops/masks.py defines: the word of neuron j
// at step t and batch column b is lane j % 4 of philox((j / 4, t, b, site), key).
#pragma once

#include "philox.cuh"

namespace sdrop {

struct Draw {
  const long long* key;  // one, on the device
  unsigned site;
  int first_step;
  int steps, batch, size;
};

constexpr int kMaskThreads = 256;
constexpr int kMaskWarps = kMaskThreads / 32;
constexpr int kDigits = 256;  // of 8 bits of a word
static_assert(kDigits == kMaskThreads, "a thread counts for each digit");

// The sum over the threads before the calling one, and over all of the block.
__device__ __forceinline__ unsigned sum_before(unsigned own, unsigned (&of_warps)[kMaskWarps],
                                               unsigned* total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const unsigned other = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += other;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  unsigned before = sum - own;
  *total = 0;
#pragma unroll
  for (int i = 0; i < kMaskWarps; ++i) {
    if (i < warp) before += of_warps[i];
    *total += of_warps[i];
  }
  __syncthreads();
  return before;
}

// A word's bits above `shift + 8`, which say whether a search by digits still counts it.
__device__ __forceinline__ unsigned upper_bits(unsigned word, int shift) {
  return shift == 24 ? 0u : word >> (shift + 8);
}

// The `kept` smallest words of each step, ties to the lower index, as ascending indices: (steps,
// kept). One block a step. The largest word that is kept is found digit by digit; words are drawn
// anew in each pass, which is cheaper than keeping them.
static __global__ void __launch_bounds__(kMaskThreads)
    draw_kept_indices(Draw draw, int kept, long long* indices) {
  SDROP_SHARED(int, of_digit, [kDigits]);
  SDROP_SHARED(unsigned, of_warps, [kMaskWarps]);
  SDROP_SHARED(int, chosen, [2]);  // the digit, and how many words with lower ones there are
  const auto step = static_cast<unsigned>(draw.first_step + static_cast<int>(blockIdx.x));
  const auto key = static_cast<unsigned long long>(*draw.key);
  const int groups = divide_up(draw.size, 4);
  const auto words_at = [&](int group) {
    return philox(static_cast<unsigned>(group), step, 0u, draw.site, key);
  };

  unsigned largest = 0;  // its upper bits, as far as they are known
  int wanted = kept;     // of the words that begin with them, in order
  for (int shift = 24; shift >= 0; shift -= 8) {
    of_digit[threadIdx.x] = 0;
    __syncthreads();
    for (int group = threadIdx.x; group < groups; group += kMaskThreads) {
      const Words words = words_at(group);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (group * 4 + i < draw.size &&
            upper_bits(words.lane[i], shift) == upper_bits(largest, shift))
          atomicAdd(&of_digit[words.lane[i] >> shift & 255u], 1);
    }
    __syncthreads();
    const auto own = static_cast<unsigned>(of_digit[threadIdx.x]);  // a thread has a digit
    unsigned total;
    const unsigned before = sum_before(own, of_warps, &total);
    if (before < static_cast<unsigned>(wanted) && static_cast<unsigned>(wanted) <= before + own) {
      chosen[0] = static_cast<int>(threadIdx.x);
      chosen[1] = static_cast<int>(before);
    }
    __syncthreads();
    largest |= static_cast<unsigned>(chosen[0]) << shift;
    wanted -= chosen[1];
  }

  // `wanted` is now how many of the words equal to `largest` are kept.
  long long* to = indices + static_cast<Offset>(blockIdx.x) * kept;
  int lower = 0, equal = 0;  // so many words were lower and equal before this round
  for (int first = 0; first < groups; first += kMaskThreads) {
    const int group = first + static_cast<int>(threadIdx.x);
    const Words words = words_at(group);
    unsigned own = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (group * 4 + i < draw.size)
        own += (words.lane[i] < largest ? 1u : 0u) + (words.lane[i] == largest ? 0x10000u : 0u);
    unsigned total;
    const unsigned before = sum_before(own, of_warps, &total);
    int lower_here = lower + static_cast<int>(before & 0xffffu);
    int equal_here = equal + static_cast<int>(before >> 16);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int neuron = group * 4 + i;
      if (neuron >= draw.size) break;
      const bool is_lower = words.lane[i] < largest, is_equal = words.lane[i] == largest;
      if (is_lower || (is_equal && equal_here < wanted))
        to[lower_here + min(equal_here, wanted)] = neuron;
      lower_here += is_lower;
      equal_here += is_equal;
    }
    lower += static_cast<int>(total & 0xffffu);
    equal += static_cast<int>(total >> 16);
  }
}

// (steps, batch, size): `scale`, given as an element's bits, where the word is at least
// `threshold`, else 0. A thread has four neurons.
template <typename Bits>
__global__ void __launch_bounds__(kMaskThreads)
    draw_keep_mask(Draw draw, unsigned long long threshold, Bits scale, Bits* mask) {
  const int groups = divide_up(draw.size, 4);
  const Offset place = static_cast<Offset>(blockIdx.x) * kMaskThreads + threadIdx.x;
  const Offset row = place / groups;
  if (row >= static_cast<Offset>(draw.steps) * draw.batch) return;
  const int group = static_cast<int>(place % groups);
  const auto step = static_cast<unsigned>(draw.first_step + row / draw.batch);
  const auto column = static_cast<unsigned>(row % draw.batch);
  const Words words = philox(static_cast<unsigned>(group), step, column, draw.site,
                             static_cast<unsigned long long>(*draw.key));
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (group * 4 + i < draw.size)
      mask[row * draw.size + group * 4 + i] = words.lane[i] >= threshold ? scale : Bits{0};
}

}  // namespace sdrop
