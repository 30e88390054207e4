// Runs CUDA kernel source on the CPU; for tests alone.
//
// Each CUDA thread is a fiber, all on one thread of the processor, and changes turns at barriers,
// warp collectives and spin hints. What this finds: threads of a block at different barriers,
// deadlocks, reads of unset shared memory (NaN), missing barriers (results change with the order of
// threads), asynchronous copies read or overwritten too early, unaligned ones, and with
// -fsanitize=address,undefined,bounds whatever reaches outside an array. What it cannot find:
// missing memory fences, blocks that the device cannot hold at once, bank conflicts.
//
// Rules for kernel source: launched by sdrop::launch (launch.h), shared memory by SDROP_SHARED and
// SDROP_DYNAMIC_SHARED, SDROP_SPIN() in loops that wait, PTX inside the wrappers of device.cuh and
// tensor_core.cuh, no cooperative_groups, no textures.
#pragma once

#define __global__ __attribute__((unused))  // a header's kernels are static
#define __device__
#define __host__
#define __forceinline__ inline
#define __constant__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#include "async_copy.h"
#include "block.h"
#include "grid.h"
#include "intrinsics.h"
#include "runtime.h"
#include "warp.h"

#define threadIdx (sdrop::emulation::block->current->index)
#define blockIdx (sdrop::emulation::block->index)
#define blockDim (sdrop::emulation::block->size)
#define gridDim (sdrop::emulation::block->grid)
#define warpSize 32
#define __syncthreads() sdrop::emulation::barrier(__LINE__)
