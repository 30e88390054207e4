// Ways in which the pieces of a parallel loop may run: by interface.h on any threads and in any
// order, with the same result. All of them but the first cut finer than the kernels ask for, so
// that small cases have pieces too.
#pragma once

#include <algorithm>
#include <thread>

#include "interface.h"

namespace sdrop {

struct Order {
  const char* name;
  ParallelFor run;
};

inline void at_once(Index begin, Index end, Index, Body body, void* context) {
  body(begin, end, context);
}

inline void backwards(Index begin, Index end, Index, Body body, void* context) {
  for (Index i = end; i > begin; --i) body(i - 1, i, context);
}

// Pieces of three items; those at odd places first.
inline void odd_first(Index begin, Index end, Index, Body body, void* context) {
  for (const Index first : {begin + 3, begin})
    for (Index i = first; i < end; i += 6) body(i, std::min(i + 3, end), context);
}

// Every other item on another thread.
inline void two_threads(Index begin, Index end, Index, Body body, void* context) {
  const auto every_other = [=](Index first) {
    for (Index i = first; i < end; i += 2) body(i, i + 1, context);
  };
  std::thread other(every_other, begin + 1);
  every_other(begin);
  other.join();
}

constexpr Order kOrders[] = {{"at once", at_once},
                             {"backwards", backwards},
                             {"odd pieces first", odd_first},
                             {"two threads", two_threads}};

}  // namespace sdrop
