// Philox4x32-10 (Salmon et al., SC 2011), word for word as sdrop/ops/philox.py has it.
#pragma once

#include <array>
#include <cstdint>

namespace sdrop {

using Words = std::array<std::uint32_t, 4>;

inline Words philox(Words counter, std::uint64_t key) {
  auto key_low = static_cast<std::uint32_t>(key), key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{counter[0]} * 0xD2511F53u;
    const std::uint64_t product2 = std::uint64_t{counter[2]} * 0xCD9E8D57u;
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32);
    const auto high2 = static_cast<std::uint32_t>(product2 >> 32);
    counter = {high2 ^ counter[1] ^ key_low, static_cast<std::uint32_t>(product2),
               high0 ^ counter[3] ^ key_high, static_cast<std::uint32_t>(product0)};
    key_low += 0x9E3779B9u;
    key_high += 0xBB67AE85u;
  }
  return counter;
}

}  // namespace sdrop
