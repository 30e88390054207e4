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

// Up to so many floats, 128 MB, a call's memory is kept for the next one. Fresh pages have to be
// cleared, which took most of the time of packing weights; and where a virtual machine has given
// pages back, their first touch ran at 0.14 GB/s instead of 10.
constexpr Index kMostToKeep = Index{1} << 25;

// The memory of a call of a kernel, outside its loops: one a purpose at a time.
template <int Purpose>
class CallBuffer {
 public:
  explicit CallBuffer(Index size)
      : data_(size <= kMostToKeep ? scratch<Purpose>(size) : own_.reserve(size)) {}
  CallBuffer(const CallBuffer&) = delete;
  CallBuffer& operator=(const CallBuffer&) = delete;

  float* data() const { return data_; }

 private:
  Buffer own_;
  float* data_;
};

}  // namespace sdrop::SDROP_CAPABILITY
