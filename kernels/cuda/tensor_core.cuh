// Tensor-core instructions: PTX for the GPU; for the CPU the fragment layout that the PTX manual
// documents ("Matrix fragments for mma.m16n8k8 / m16n8k16", "ldmatrix").
//
// Lane l has g = l / 4 and t = l % 4. A is (16, K) by rows, B is (K, 8) by columns, D is (16, 8):
// D: d[0], d[1] at row g, columns 2t and 2t + 1; d[2], d[3] at row g + 8.
// tf32, K = 8: A: a[0] at (g, t), a[1] (g + 8, t), a[2] (g, t + 4), a[3] (g + 8, t + 4);
//   B: b[0] at (t, g), b[1] (t + 4, g).
// bf16, K = 16, two neighbours along K a register, the lower index in the low half:
//   A: a[0] at (g, 2t), a[1] (g + 8, 2t), a[2] (g, 2t + 8), a[3] (g + 8, 2t + 8);
//   B: b[0] at (2t, g), b[1] (2t + 8, g).
#pragma once

#include "element.cuh"

#ifndef __CUDACC__
#include "tensor_core_emulation.h"
#endif

namespace sdrop {

// float32 rounded to tf32 (10 bits of fraction, to the nearest, ties away from zero).
__device__ __forceinline__ unsigned to_tf32(float value) {
#ifdef __CUDACC__
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  return bits;
#else
  return emulation::to_tf32(value);
#endif
}

__device__ __forceinline__ void multiply_tf32(float (&d)[4], const unsigned (&a)[4],
                                              const unsigned (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulation::multiply<emulation::Tf32Fragments>(d, a, b);
#endif
}

__device__ __forceinline__ void multiply_bfloat16(float (&d)[4], const unsigned (&a)[4],
                                                  const unsigned (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulation::multiply<emulation::Bfloat16Fragments>(d, a, b);
#endif
}

// A (16, 8) tile of 16-bit elements in shared memory, transposed into two registers of a lane:
// r[0] has elements (2t, g) and (2t + 1, g), r[1] those eight rows below. `row` is where row l % 16
// of the tile begins, a multiple of 16 bytes.
__device__ __forceinline__ void load_transposed(unsigned (&r)[2], const Bfloat16* row) {
#ifdef __CUDACC__
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(address)
               : "memory");
#else
  emulation::load_transposed(r, row);
#endif
}

}  // namespace sdrop
