// A loop on the caller's threads.
#pragma once

#include <algorithm>

#include "blocking.h"

namespace sdrop::SDROP_CAPABILITY {

// Runs loop(begin, end) over pieces of [0, count), with so many in a piece that it is worth a
// thread: `work` is the number of multiply-adds of one item.
template <typename Loop>
void parallel(ParallelFor run, Index count, Index work, const Loop& loop) {
  if (count <= 0) return;
  const Index grain = std::max<Index>(1, kThreadWork / std::max<Index>(1, work));
  run(0, count, grain,
      [](Index begin, Index end, void* context) {
        (*static_cast<const Loop*>(context))(begin, end);
      },
      const_cast<Loop*>(&loop));
}

}  // namespace sdrop::SDROP_CAPABILITY
