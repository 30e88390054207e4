// The mean cross-entropy of logits, which become their own gradient in place: after the decoder's
// GEMM wrote them they are read and written once more, not once for each of scores, log-softmax
// and gradient.
#pragma once

#include "element.cuh"

namespace sdrop {

constexpr int kLossThreads = 256;
constexpr int kLossWarps = kLossThreads / 32;

struct CrossEntropy {
  const long long* target;  // (rows), or `ignored`
  long long ignored;
  int rows, classes;
  const float* bias;  // (classes), or null; added to the logits, which lack it
  float* losses;      // (rows), 0 where ignored
  int* counted;       // how many rows are not ignored
  float* loss;        // the mean over these; NaN where there are none

  __device__ __forceinline__ bool counts(Offset row) const { return target[row] != ignored; }
};

// The sum over the block's threads, added in the same order always, on every thread.
__device__ __forceinline__ float block_sum(float value, float (&of_warps)[kLossWarps]) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kLossWarps; ++i) sum += of_warps[i];
  __syncthreads();
  return sum;
}

__device__ __forceinline__ float block_max(float value, float (&of_warps)[kLossWarps]) {
  value = warp_max(value);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  float largest = of_warps[0];
#pragma unroll
  for (int i = 1; i < kLossWarps; ++i) largest = fmaxf(largest, of_warps[i]);
  __syncthreads();
  return largest;
}

// One block.
static __global__ void __launch_bounds__(kLossThreads) count_targets(CrossEntropy on) {
  SDROP_SHARED(float, of_warps, [kLossWarps]);
  int own = 0;
  for (int row = threadIdx.x; row < on.rows; row += kLossThreads) {
    if (!on.counts(row)) continue;
    SDROP_DEVICE_CHECK(on.target[row] >= 0 && on.target[row] < on.classes,
                       "target: a class is out of range");
    ++own;
  }
  // In two parts, each exact in float32.
  const float low = block_sum(static_cast<float>(own & 0xfff), of_warps);
  const float high = block_sum(static_cast<float>(own >> 12), of_warps);
  if (threadIdx.x == 0) *on.counted = static_cast<int>(low) + (static_cast<int>(high) << 12);
}

// One block a row. Without `want_grad` the logits stay as they are.
template <typename Element>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_rows(CrossEntropy on, Element* logits, bool want_grad) {
  SDROP_SHARED(float, of_warps, [kLossWarps]);
  const Offset row = blockIdx.x;
  Element* own = logits + row * on.classes;
  const bool counts = on.counts(row);
  if (!counts) {
    if (threadIdx.x == 0) on.losses[row] = 0.0f;
    if (want_grad)
      for (int i = threadIdx.x; i < on.classes; i += kLossThreads) own[i] = Element{};
    return;
  }
  const auto score = [&](int i) { return to_float(own[i]) + (on.bias ? on.bias[i] : 0.0f); };

  // One pass: the sum of exp(score - largest) for the largest so far, then put together.
  float largest = -INFINITY, sum = 0.0f;
  for (int i = threadIdx.x; i < on.classes; i += kLossThreads) {
    const float x = score(i);
    if (x > largest) {
      sum *= expf(largest - x);
      largest = x;
    }
    if (x != -INFINITY) sum += expf(x - largest);  // a class that is ruled out adds nothing
  }
  const float all_largest = block_max(largest, of_warps);
  sum = block_sum(largest == -INFINITY ? sum : sum * expf(largest - all_largest), of_warps);

  const auto wanted = static_cast<int>(on.target[row]);
  if (threadIdx.x == 0) on.losses[row] = logf(sum) + (all_largest - score(wanted));
  if (!want_grad) return;
  __syncthreads();  // the wanted score is read before it is overwritten
  const float scale = 1.0f / static_cast<float>(*on.counted);
  const float inverse = 1.0f / sum;
  for (int i = threadIdx.x; i < on.classes; i += kLossThreads) {
    const float probability = expf(score(i) - all_largest) * inverse;
    own[i] = from_float<Element>((probability - (i == wanted ? 1.0f : 0.0f)) * scale);
  }
}

// One block.
static __global__ void __launch_bounds__(kLossThreads) mean_loss(CrossEntropy on) {
  SDROP_SHARED(float, of_warps, [kLossWarps]);
  float own = 0.0f;
  for (int row = threadIdx.x; row < on.rows; row += kLossThreads) own += on.losses[row];
  const float sum = block_sum(own, of_warps);
  if (threadIdx.x == 0) *on.loss = sum / static_cast<float>(*on.counted);
}

}  // namespace sdrop
