// Arrays of exactly the size that interface.h promises and no better aligned, so that a sanitizer
// sees what reaches beyond it.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "interface.h"

namespace sdrop {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Elements up to the end of their memory, one behind its aligned begin.
template <typename Element>
class Exact {
 public:
  explicit Exact(const std::vector<Element>& values) : Exact(static_cast<Index>(values.size())) {
    std::copy(values.begin(), values.end(), data());
  }
  // Of unknown value: NaN, which shows where nobody writes and somebody reads.
  explicit Exact(Index size)
      : size_(size), memory_(static_cast<Element*>(std::malloc((size + 1) * sizeof(Element)))) {
    if (!memory_) throw std::bad_alloc();
    std::fill_n(memory_.get(), size + 1, std::numeric_limits<Element>::quiet_NaN());
  }

  Element* data() const { return memory_.get() + 1; }
  Index size() const { return size_; }

 private:
  Index size_;
  std::unique_ptr<Element, Free> memory_;
};

// What kernels keep for themselves between the passes: rows of whole vectors, aligned to them.
class Aligned {
 public:
  explicit Aligned(Index size)
      : size_(size),
        memory_(static_cast<float*>(std::aligned_alloc(64, size * sizeof(float)))) {
    if (!memory_) throw std::bad_alloc();
    std::fill_n(data(), size, std::numeric_limits<float>::quiet_NaN());
  }

  float* data() const { return memory_.get(); }
  Index size() const { return size_; }

 private:
  Index size_;
  std::unique_ptr<float, Free> memory_;
};

}  // namespace sdrop
