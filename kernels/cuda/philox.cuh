// Philox4x32-10 (Salmon et al., SC 2011), word for word as sdrop/ops/philox.py has it.
#pragma once

#include "device.cuh"

namespace sdrop {

struct Words {
  unsigned lane[4];
};

__device__ __forceinline__ Words philox(unsigned c0, unsigned c1, unsigned c2, unsigned c3,
                                        unsigned long long key) {
  auto key_low = static_cast<unsigned>(key), key_high = static_cast<unsigned>(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned low0 = c0 * 0xD2511F53u, high0 = __umulhi(c0, 0xD2511F53u);
    const unsigned low2 = c2 * 0xCD9E8D57u, high2 = __umulhi(c2, 0xCD9E8D57u);
    c0 = high2 ^ c1 ^ key_low;
    c1 = low2;
    c2 = high0 ^ c3 ^ key_high;
    c3 = low0;
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace sdrop
