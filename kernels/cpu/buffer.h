// Memory for intermediate results, aligned to cache lines.
#pragma once

#include <cstdlib>
#include <memory>
#include <new>

#include "huge_pages.h"
#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size) { reserve(size); }

  // At least `size` floats of unknown value; what was there is lost when it has to grow.
  float* reserve(Index size) {
    if (size > size_) {
      std::size_t bytes = static_cast<std::size_t>(round_up(size + 16, 16)) * sizeof(float);
      const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
      bytes = (bytes + alignment - 1) / alignment * alignment;
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
      if (!memory_) throw std::bad_alloc();
      prefer_huge_pages(memory_.get(), bytes);
      size_ = size;
    }
    return memory_.get();
  }

  float* data() const { return memory_.get(); }

 private:
  std::unique_ptr<float, FreeMemory> memory_;
  Index size_ = 0;
};

// One scratch area a thread and purpose, kept from call to call.
template <int Purpose>
float* scratch(Index size) {
  static thread_local Buffer buffer;
  return buffer.reserve(size);
}

}  // namespace sdrop::SDROP_CAPABILITY
