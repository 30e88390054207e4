// In which order the threads of a block, and the blocks of a grid, take their turns.
//
// CUDA promises none between two barriers. A kernel that lacks a barrier gives other results in one
// of the orders.
#pragma once

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace sdrop::emulation {

// 0 is forward, 1 is backward; any other value is the seed of orders that change all the time.
inline unsigned thread_order = 0;

class Order {
 public:
  explicit Order(unsigned count) : turns_(count), random_(thread_order) {
    std::iota(turns_.begin(), turns_.end(), 0u);
    if (thread_order == 1) std::reverse(turns_.begin(), turns_.end());
  }

  // Whose turn it is, one after the other, for one round.
  const std::vector<unsigned>& round() {
    if (thread_order > 1) std::shuffle(turns_.begin(), turns_.end(), random_);
    return turns_;
  }

 private:
  std::vector<unsigned> turns_;
  std::minstd_rand random_;
};

}  // namespace sdrop::emulation
