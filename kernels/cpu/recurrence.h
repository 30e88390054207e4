// Which step runs when, and the state that it starts from.
#pragma once

#include "dropped.h"

namespace sdrop::SDROP_CAPABILITY {

// Step t in the order in which the recurrence runs.
inline Index step_in_order(const Steps& steps, Index position) {
  return steps.reverse ? steps.count - 1 - position : position;
}

// States (rows, width) after each step, and the ones (B, initial_width) before the first.
struct States {
  const Steps& steps;
  const float* after;
  Index width;
  const float* initial;
  Index initial_width;

  // The state that sequence b brings into the step at `position`.
  const float* before(Index position, Index b) const {
    if (position > 0) {
      const Index previous = step_in_order(steps, position - 1);
      if (b < steps.sizes[previous]) return after + (steps.starts[previous] + b) * width;
    }
    return initial + b * initial_width;
  }
};

// h_{t-1}, dropped and transposed to (chunks of sequences, H, kChunk): what the hidden GEMM of a step reads. Two of
// them, since the units of a step that are done already write the next one's.
class HiddenColumns {
 public:
  HiddenColumns(const Site& site, Index batch)
      : site_(site) {
    for (Buffer& buffer : buffers_) {
      buffer.reserve(site.size * round_up(batch, kChunk));
      buffer.zero();
    }
  }

  Index chunk_size() const { return site_.size * kChunk; }
  float* of_step(Index position) const { return buffers_[position % 2].data(); }

  // Sequences [first, end) begin at step t with their h_0.
  void begin_sequences(Index position, Index t, Index first, Index end, const float* h_0) {
    float* columns = of_step(position);
    for (Index b = first; b < end; ++b) {
      const Factors factors = factors_at(site_, t, b);
      for (Index j = 0; j < site_.size; ++j)
        columns[chunked(b, site_.size) + j * kChunk] = h_0[b * site_.size + j] * factors.at(j);
    }
  }

 private:
  Site site_;
  Buffer buffers_[2];
};

}  // namespace sdrop::SDROP_CAPABILITY
