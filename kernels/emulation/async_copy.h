// Asynchronous copies to shared memory, with the two mistakes that they invite made visible.
//
// What is copied arrives as late as the rules allow, at the wait. Until then the destination is
// unset: a kernel that reads it too early, or asks for a copy over what others still read, gets NaN.
#pragma once

#include "block.h"

namespace sdrop::emulation {

inline void copy_async(void* to, const void* from, std::size_t bytes, bool valid) {
  const auto aligned = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % bytes == 0; };
  if (!aligned(to) || (valid && !aligned(from)))
    fail("an asynchronous copy of " + std::to_string(bytes) + " bytes between unaligned addresses");
  std::memset(to, kUnset, bytes);
  block->current->open_copies.push_back({to, valid ? from : nullptr, bytes});
}

inline void commit_copies() {
  Thread& me = *block->current;
  me.copy_groups.emplace_back();
  me.copy_groups.back().swap(me.open_copies);
}

// All groups but the latest `pending` have arrived.
inline void wait_copies(std::size_t pending) {
  auto& groups = block->current->copy_groups;
  for (; groups.size() > pending; groups.erase(groups.begin()))
    for (const PendingCopy& copy : groups.front()) {
      if (copy.from)
        std::memcpy(copy.to, copy.from, copy.bytes);
      else
        std::memset(copy.to, 0, copy.bytes);
    }
}

}  // namespace sdrop::emulation
