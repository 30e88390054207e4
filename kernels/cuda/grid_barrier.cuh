// The one barrier between blocks. Every block that takes part must be on the device at once: only
// kernels launched cooperatively may call it.
#pragma once

#include "device.cuh"

namespace sdrop {

// Waits until `blocks` blocks have come here for the `round`th time, rounds counted from 1. What
// any thread of them wrote to global memory before is then seen by reads that pass the first-level
// cache (__ldcg, copies of 16 bytes), of any thread behind the barrier.
//
// `arrived` must be 0 when the kernel starts; it only grows, so that no block can mistake one round
// for another, and blocks * rounds must stay below 2^32.
//
// Why this is enough, in terms of the PTX memory model:
// - The first __syncthreads orders the writes of all threads of a block before what its thread 0
//   does next. Thread 0's __threadfence (fence.sc at the scope of the device) is cumulative: it
//   covers those writes, too, not its own alone. With the atomicAdd behind it, it is a release.
// - A volatile load goes to the second-level cache each time and is a strong read; once it sees the
//   last atomicAdd, or a later one, it has read from the chain of read-modify-writes that began
//   with every block's release (each atomicAdd continues the release sequences before it). The
//   fence behind the loop makes that an acquire: all blocks' earlier writes happen before.
// - The second __syncthreads hands this on to the other threads of the block, and keeps them from
//   running ahead. Lines of theirs in the first-level cache may be stale: hence the reads past it.
// - A wait for another block ends, because all are resident and none waits for anything but this.
__device__ __forceinline__ void grid_barrier(unsigned* arrived, unsigned blocks, unsigned round) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile unsigned*>(arrived) < blocks * round) SDROP_SPIN();
    __threadfence();
  }
  __syncthreads();
}

}  // namespace sdrop
