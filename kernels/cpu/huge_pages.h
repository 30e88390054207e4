// Large pages for large results.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace sdrop {

// The size that Linux gives such a page on the processors with kernels of their own.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

// Asks for large pages where [memory, memory + bytes) covers whole ones. Panels of columns are read
// and written row by row, and with small pages each row begins with a look-up of its address: linear
// layers with outputs of 100 to 130 MB measured 1.15 to 1.3 times as fast forward with large ones.
// A hint: nothing fails without.
inline void prefer_huge_pages(void* memory, std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t end = (begin + bytes) / kHugePage * kHugePage;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#else
  static_cast<void>(memory);
  static_cast<void>(bytes);
#endif
}

}  // namespace sdrop
