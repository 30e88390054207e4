// Launching a grid: block by block, or all blocks in turn where they wait for one another.
#pragma once

#include <mutex>

#include "block.h"

namespace sdrop::emulation {

template <typename Kernel>
void call(const void* kernel) {
  (*static_cast<const Kernel*>(kernel))();
}

// Runs `kernel`, a function object, on each thread of the grid. Errors are std::runtime_error.
template <typename Kernel>
void run_grid(dim3 grid, dim3 size, std::size_t shared_bytes, bool cooperative,
              const Kernel& kernel) {
  static std::mutex one_grid;
  const std::lock_guard<std::mutex> lock(one_grid);
  const unsigned count = grid.x * grid.y * grid.z;
  if (size.x * size.y * size.z > 1024 || size.x * size.y * size.z == 0 || count == 0 ||
      grid.y > 65535 || grid.z > 65535)
    throw std::runtime_error("a launch of no threads, or of more than the hardware takes");
  const unsigned resident = cooperative ? count : 1;
  std::vector<Block> blocks(resident);
  for (Block& one : blocks) {
    one.entry = call<Kernel>;
    one.kernel = &kernel;
  }
  Order order(count);
  if (!cooperative) {
    for (const unsigned linear : order.round()) {
      start(blocks[0], grid, size, linear, shared_bytes);
      while (blocks[0].live > 0) run_round(blocks[0]);
    }
    return;
  }
  for (unsigned i = 0; i < count; ++i) start(blocks[i], grid, size, i, shared_bytes);
  for (bool live = true; live;) {
    live = false;
    bool progress = false;
    for (const unsigned i : order.round()) {
      // A block runs until all its threads wait for others.
      while (blocks[i].live > 0 && run_round(blocks[i])) progress = true;
      live |= blocks[i].live > 0;
    }
    if (live && !progress) throw std::runtime_error("deadlock: all blocks wait for one another");
  }
}

}  // namespace sdrop::emulation
