// What the threads of a warp do together: shuffles, votes, tensor-core products.
#pragma once

#include <cstdint>

#include "block.h"

namespace sdrop::emulation {

inline unsigned lane_index() { return block->current->linear % kWarp; }

// Every lane of `mask` hands in what to do and with what; the last to come does it for all.
inline void together(unsigned mask, Collective collective, void* argument) {
  Thread* me = block->current;
  Warp& warp = block->warps[me->linear / kWarp];
  if (!(mask >> lane_index() & 1)) fail("the mask of a warp collective lacks the calling lane");
  me->mask = mask;
  me->collective = collective;
  me->argument = argument;
  me->state = State::at_collective;
  const auto takes_part = [&](unsigned lane) { return (mask >> lane & 1) && warp.lanes[lane]; };
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!takes_part(lane)) continue;
    const Thread& other = *warp.lanes[lane];
    if (other.state == State::done)
      fail("the mask of a warp collective names lane " + std::to_string(lane) +
           ", which has ended");
    if (other.state != State::at_collective) return yield();
    if (other.mask != mask || other.collective != collective)
      fail("lanes of one warp met in different collectives");
  }
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (takes_part(lane)) collective(warp, lane, mask);
  for (unsigned lane = 0; lane < kWarp; ++lane)
    if (takes_part(lane)) warp.lanes[lane]->state = State::ready;
}

template <typename Argument>
Argument& argument_of(Warp& warp, unsigned lane) {
  return *static_cast<Argument*>(warp.lanes[lane]->argument);
}

template <typename Value>
struct Shuffle {
  Value value, result;
  unsigned source;
};

// The value of lane `source`; where that lane takes no part, CUDA leaves it open: the own one here.
template <typename Value>
Value shuffle(unsigned mask, Value value, unsigned source) {
  Shuffle<Value> mine{value, value, source};
  together(
      mask,
      [](Warp& warp, unsigned lane, unsigned members) {
        auto& me = argument_of<Shuffle<Value>>(warp, lane);
        if (me.source < kWarp && (members >> me.source & 1) && warp.lanes[me.source])
          me.result = argument_of<Shuffle<Value>>(warp, me.source).value;
      },
      &mine);
  return mine.result;
}

struct Vote {
  bool yes;
  unsigned result;
};

inline unsigned ballot(unsigned mask, bool yes) {
  Vote mine{yes, 0};
  together(
      mask,
      [](Warp& warp, unsigned lane, unsigned members) {
        unsigned result = 0;
        for (unsigned i = 0; i < kWarp; ++i)
          if ((members >> i & 1) && warp.lanes[i] && argument_of<Vote>(warp, i).yes)
            result |= 1u << i;
        argument_of<Vote>(warp, lane).result = result;
      },
      &mine);
  return mine.result;
}

}  // namespace sdrop::emulation

template <typename Value>
Value __shfl_sync(unsigned mask, Value value, int source, int width = 32) {
  const int lane = static_cast<int>(sdrop::emulation::lane_index());
  const int first = lane & ~(width - 1);
  return sdrop::emulation::shuffle(mask, value, first | (source & (width - 1)));
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned delta, int width = 32) {
  const unsigned lane = sdrop::emulation::lane_index(), within = lane & (width - 1);
  const bool inside = within + delta < static_cast<unsigned>(width);
  return sdrop::emulation::shuffle(mask, value, inside ? lane + delta : lane);
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned delta, int width = 32) {
  const unsigned lane = sdrop::emulation::lane_index(), within = lane & (width - 1);
  return sdrop::emulation::shuffle(mask, value, within >= delta ? lane - delta : lane);
}
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int bits, int width = 32) {
  const unsigned lane = sdrop::emulation::lane_index(), source = lane ^ bits;
  const bool inside = source / width <= lane / width;
  return sdrop::emulation::shuffle(mask, value, inside ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool yes) {
  return sdrop::emulation::ballot(mask, yes);
}
inline bool __any_sync(unsigned mask, bool yes) {
  return sdrop::emulation::ballot(mask, yes) != 0;
}
inline bool __all_sync(unsigned mask, bool yes) {
  return sdrop::emulation::ballot(mask, !yes) == 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu) { sdrop::emulation::ballot(mask, true); }
