// One block of CUDA threads: its fibers, barrier, warps, shared memory and asynchronous copies.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "fiber.h"
#include "order.h"

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace sdrop::emulation {

constexpr unsigned kWarp = 32;
constexpr std::size_t kStackBytes = 64 * 1024;  // virtual: pages come when they are touched
constexpr unsigned char kUnset = 0xff;          // bytes of NaN, so that what nobody wrote shows

enum class State : unsigned char { ready, at_barrier, at_collective, done };

// Memory of exactly the size asked for, so that AddressSanitizer sees what reaches beyond it.
struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Freed>;

inline Memory unset_memory(std::size_t bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 128, bytes + (bytes == 0)) != 0) throw std::bad_alloc();
  std::memset(memory, kUnset, bytes);
  return Memory(memory);
}

struct PendingCopy {
  void* to;
  const void* from;  // null: zeroes
  std::size_t bytes;
};

struct Warp;
using Collective = void (*)(Warp&, unsigned lane, unsigned mask);

struct Thread {
  Context context;
  uint3 index;
  unsigned linear = 0;
  State state = State::ready;
  unsigned mask = 0;  // of the warp collective that it waits in
  Collective collective = nullptr;
  void* argument = nullptr;
  std::vector<PendingCopy> open_copies;
  std::vector<std::vector<PendingCopy>> copy_groups;
};

struct Warp {
  Thread* lanes[kWarp] = {};
};

struct Block {
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Context scheduler;
  Thread* current = nullptr;
  uint3 index{};
  dim3 size, grid;
  unsigned live = 0, arrived = 0;
  int barrier_line = 0;
  bool only_spun = false;
  void (*entry)(const void*) = nullptr;
  const void* kernel = nullptr;
  std::string error;
  Memory dynamic;
  std::unordered_map<const void*, Memory> shared;
  std::unique_ptr<char[]> stacks;
  std::size_t stacks_bytes = 0;
  std::unique_ptr<Order> order;
};

inline Block* block = nullptr;  // the one that runs

inline void yield() {
  Block* here = block;
  Thread* me = here->current;
  switch_fiber(me->context, here->scheduler);
  block = here;
}

[[noreturn]] inline void fail(const std::string& what) {
  const uint3 b = block->index, t = block->current->index;
  if (block->error.empty()) {
    char place[120];
    std::snprintf(place, sizeof place, " [block %u,%u,%u thread %u,%u,%u]", b.x, b.y, b.z, t.x, t.y,
                  t.z);
    block->error = what + place;
  }
  block->current->state = State::done;
  yield();
  std::abort();
}

inline void fiber_main() {
  enter_fiber(block->scheduler);
  block->entry(block->kernel);
  if (!block->current->copy_groups.empty() || !block->current->open_copies.empty())
    fail("a thread ended with asynchronous copies that it never waited for");
  block->current->state = State::done;
  yield();
  std::abort();
}

inline void release_barrier(Block& here) {
  for (Thread& thread : here.threads)
    if (thread.state == State::at_barrier) thread.state = State::ready;
  here.arrived = 0;
}

inline void barrier(int line) {
  Block& here = *block;
  if (here.arrived == 0) here.barrier_line = line;
  if (here.barrier_line != line)
    fail("threads of one block met at different barriers: lines " +
         std::to_string(here.barrier_line) + " and " + std::to_string(line));
  if (++here.arrived == here.live) return release_barrier(here);
  here.current->state = State::at_barrier;
  yield();
}

// A thread that waits for another block says so, that the others get their turn.
inline void spin() {
  block->only_spun = true;
  yield();
}

// Shared memory that a kernel declares; `place` tells one declaration from another.
template <typename Type>
Type* shared(const void* place) {
  Memory& memory = block->shared[place];
  if (!memory) memory = unset_memory(sizeof(Type));
  return static_cast<Type*>(memory.get());
}

inline void start(Block& here, dim3 grid, dim3 size, unsigned linear, std::size_t shared_bytes) {
  const unsigned count = size.x * size.y * size.z;
  here.grid = grid;
  here.size = size;
  here.index = {linear % grid.x, linear / grid.x % grid.y, linear / (grid.x * grid.y)};
  here.live = count;
  here.arrived = 0;
  here.error.clear();
  here.shared.clear();
  here.dynamic = unset_memory(shared_bytes);
  here.threads.resize(count);
  here.warps.assign((count + kWarp - 1) / kWarp, Warp{});
  here.order = std::make_unique<Order>(count);
  if (here.stacks_bytes < count * kStackBytes) {
    here.stacks_bytes = count * kStackBytes;
    here.stacks.reset(new char[here.stacks_bytes]);
  }
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = here.threads[i];
    thread.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    thread.linear = i;
    thread.state = State::ready;
    prepare_fiber(thread.context, here.stacks.get() + i * kStackBytes, kStackBytes, fiber_main);
    here.warps[i / kWarp].lanes[i % kWarp] = &thread;
  }
}

// One turn for each thread that can go on. Returns whether any did more than spin.
inline bool run_round(Block& here) {
  bool ran = false, progress = false;
  for (const unsigned i : here.order->round()) {
    Thread& thread = here.threads[i];
    if (thread.state != State::ready) continue;
    ran = true;
    block = &here;
    here.current = &thread;
    here.only_spun = false;
    switch_fiber(here.scheduler, thread.context);
    if (!here.error.empty()) throw std::runtime_error(here.error);
    progress |= !here.only_spun;
    if (thread.state == State::done && --here.live > 0 && here.arrived == here.live)
      release_barrier(here);
  }
  if (!ran)
    throw std::runtime_error("deadlock: " + std::to_string(here.arrived) + " of " +
                             std::to_string(here.live) + " threads wait at the barrier of line " +
                             std::to_string(here.barrier_line) +
                             ", the others in warp collectives");
  return progress;
}

}  // namespace sdrop::emulation
