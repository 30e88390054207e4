// How the recurrence is divided among a device's multiprocessors, and whether the persistent
// kernels fit: arithmetic on the device's published limits, nothing of CUDA or torch.
#pragma once

#include <cstddef>

#ifdef __CUDACC__
#define SDROP_ANYWHERE __host__ __device__
#else
#define SDROP_ANYWHERE
#endif

namespace sdrop {

constexpr int kRecurrenceThreads = 256;  // of a block
constexpr int kMostRegisters = 255;      // a thread can have
constexpr int kMostUnits = 16;           // a block owns
constexpr int kFewestUnits = 4;          // smaller pieces cost more exchange than they save work
constexpr std::size_t kSharedBytesOfAll = 48 * 1024;  // every device gives a block that much
constexpr int kMostRows = 64;            // sequences that a block works on at a time

// How a layer is divided: a block owns `units` neighbouring units with all their gates, and works
// on `row_tile` sequences at a time. A thread sums four gates of one unit for four sequences, which
// is called a slot.
struct Division {
  int units;         // U
  int tiles;         // ceil(H / U), the blocks of a layer
  int row_tile;      // a multiple of 4
  int row_tiles;     // so many make up the batch
  int chunk;         // so many live rows come to shared memory at a time
  int padded_batch;  // B rounded up to a multiple of 4
  bool resident;     // the block's columns of W_h stay in shared memory for the whole sequence

  SDROP_ANYWHERE int columns() const { return 4 * units; }
  SDROP_ANYWHERE int slots() const { return units * (row_tile / 4); }

  // Bytes of shared memory. First the resident columns of W_h, if any: (H, units, 4), to a multiple
  // of the 16 bytes that what stands behind them is read by.
  SDROP_ANYWHERE std::size_t resident_bytes(int hidden_size, int element_bytes) const {
    const std::size_t bytes = static_cast<std::size_t>(hidden_size) * columns() * element_bytes;
    return resident ? (bytes + 15) / 16 * 16 : 0;
  }
  // A stage of streamed rows of W_h: (chunk, units, 4); resident ones are looked up by (chunk)
  // indices instead.
  SDROP_ANYWHERE std::size_t weight_stage_bytes(int element_bytes) const {
    return static_cast<std::size_t>(chunk) * (resident ? sizeof(int) : columns() * element_bytes);
  }
  // A stage of live columns of h: (chunk, row_tile).
  SDROP_ANYWHERE std::size_t column_stage_bytes() const {
    return static_cast<std::size_t>(chunk) * row_tile * sizeof(float);
  }
  // Two stages; behind them, in the same place, partial sums: 16 a thread.
  SDROP_ANYWHERE std::size_t forward_bytes(int hidden_size, int element_bytes) const {
    const std::size_t stages = 2 * (weight_stage_bytes(element_bytes) + column_stage_bytes());
    const std::size_t sums = kRecurrenceThreads * 16 * sizeof(float);
    return resident_bytes(hidden_size, element_bytes) + (stages > sums ? stages : sums);
  }
  // The gradients of the block's gates, (units, 4, row_tile); then two stages of weights, or
  // before them, in the same place, partial sums: 4 a thread.
  SDROP_ANYWHERE std::size_t backward_bytes(int hidden_size, int element_bytes) const {
    const std::size_t grads = static_cast<std::size_t>(columns()) * row_tile * sizeof(float);
    const std::size_t stages = resident ? 0 : 2 * weight_stage_bytes(element_bytes);
    const std::size_t sums = kRecurrenceThreads * 4 * sizeof(float);
    return resident_bytes(hidden_size, element_bytes) + grads + (stages > sums ? stages : sums);
  }
  std::size_t shared_bytes(int hidden_size, int element_bytes) const {
    const std::size_t forward = forward_bytes(hidden_size, element_bytes);
    const std::size_t backward = backward_bytes(hidden_size, element_bytes);
    return forward > backward ? forward : backward;
  }
};

// What is asked of a device; cudaDeviceGetAttribute's names are in lstm_host.h.
struct DeviceLimits {
  int multiprocessors;
  int shared_bytes;  // that one block can ask for
  int registers;     // of a multiprocessor
  int l2_bytes;
  bool cooperative;  // launches that hold all blocks at once
};

struct RecurrenceShape {
  int batch;
  int hidden_size;
  int layers;         // independent ones in one launch
  int element_bytes;  // of W_h
};

enum class RecurrenceMode {
  resident,  // one launch a sequence, W_h in shared memory
  streamed,  // one launch a sequence, live rows of W_h from the second-level cache each step
  by_step,   // one launch a time step
};

struct Recurrence {
  RecurrenceMode mode;
  Division division;
  std::size_t shared_bytes;  // of a block
};

inline int whole_parts(int a, int b) { return (a + b - 1) / b; }

inline Division divide(const RecurrenceShape& shape, int blocks, bool resident, int chunk) {
  const int all = whole_parts(shape.hidden_size, blocks > 0 ? blocks : 1);
  const int units = all < kFewestUnits ? kFewestUnits : all > kMostUnits ? kMostUnits : all;
  const int row_tiles = whole_parts(shape.batch, kMostRows);
  const int row_tile = 4 * whole_parts(whole_parts(shape.batch, row_tiles), 4);
  return {units,
          whole_parts(shape.hidden_size, units),
          row_tile,
          whole_parts(shape.batch, row_tile),
          chunk,
          4 * whole_parts(shape.batch, 4),
          resident};
}

// The largest chunk with which the kernels' shared memory fits into `limit`, or none.
inline bool fit(const RecurrenceShape& shape, int blocks, bool resident, std::size_t limit,
                RecurrenceMode mode, Recurrence& found) {
  for (int chunk = 128; chunk >= 16; chunk /= 2) {
    const Division division = divide(shape, blocks, resident, chunk);
    const std::size_t bytes = division.shared_bytes(shape.hidden_size, shape.element_bytes);
    if (bytes > limit) continue;
    found = {mode, division, bytes};
    return true;
  }
  return false;
}

// Of W_h of all layers, packed.
inline std::size_t layers_bytes(const Division& division, const RecurrenceShape& shape) {
  const std::size_t columns = static_cast<std::size_t>(division.tiles) * division.columns();
  return columns * shape.hidden_size * shape.element_bytes * shape.layers;
}

// The persistent kernels hold one block a multiprocessor, so that all of them are resident and
// each has all of its shared memory. They need
// - cooperative launches, and registers for a block of threads with as many as they can have;
// - a block for every piece of every layer: layers * ceil(H / U) <= multiprocessors, U <= 16;
// - room for the block's columns of W_h beside the stages (resident), or else all of W_h in three
//   quarters of the second-level cache, beside what else passes through it (streamed): from memory
//   a launch a step is no slower.
// Everything else runs a launch a step, several blocks a multiprocessor; so does whatever would be
// above `highest`.
inline Recurrence plan_recurrence(const DeviceLimits& device, const RecurrenceShape& shape,
                                  RecurrenceMode highest = RecurrenceMode::resident) {
  const int blocks = device.multiprocessors / shape.layers;
  const auto limit = static_cast<std::size_t>(device.shared_bytes);
  const bool registers_fit = kRecurrenceThreads * (kMostRegisters + 1) <= device.registers;
  const bool pieces_fit = blocks > 0 && divide(shape, blocks, false, 16).tiles <= blocks;
  Recurrence found{};
  if (device.cooperative && registers_fit && pieces_fit && highest != RecurrenceMode::by_step) {
    if (highest == RecurrenceMode::resident &&
        fit(shape, blocks, true, limit, RecurrenceMode::resident, found))
      return found;
    const std::size_t weights = layers_bytes(divide(shape, blocks, false, 16), shape);
    if (weights <= static_cast<std::size_t>(device.l2_bytes) / 4 * 3 &&
        fit(shape, blocks, false, limit, RecurrenceMode::streamed, found))
      return found;
  }
  fit(shape, blocks, false, kSharedBytesOfAll, RecurrenceMode::by_step, found);
  return found;
}

}  // namespace sdrop
