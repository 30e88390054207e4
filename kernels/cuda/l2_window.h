// Keeping W_h in the second-level cache, for the paths that read it from there each step.
//
// Off unless asked for: the share of the cache that is set aside for it is the whole device's, and
// is missing for everything else that runs there. On, every launch of a recurrence says that its
// packed W_h is to persist, and what else it reads and writes is to pass through. The window is an
// attribute of the launch, so a CUDA graph keeps it and no stream is left changed.
#pragma once

#include <algorithm>
#include <atomic>

#include "launch.h"

namespace sdrop {

// Of W_h; no bytes: no window.
struct L2Window {
  const void* first = nullptr;
  std::size_t bytes = 0;
};

// Bytes that sdrop_keep_weights_in_l2 has set aside; per process, as devices rarely differ.
inline std::atomic<std::size_t> l2_set_aside{0};

// The part of the window's lines that may persist, so that they do not push one another out.
inline float hit_ratio(std::size_t window_bytes, std::size_t set_aside) {
  if (window_bytes <= set_aside) return 1.0f;
  return static_cast<float>(set_aside) / static_cast<float>(window_bytes);
}

#ifdef __CUDACC__

// As launch(), with the window.
template <typename... Parameters, typename... Arguments>
void launch_recurrence(const Launch& how, const L2Window& window, int most_window_bytes,
                       void (*kernel)(Parameters...), Arguments&&... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (how.shared_bytes > kSharedBytesForFree)
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(how.shared_bytes)),
               "shared memory of a CUDA kernel");
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t config{how.grid, how.block, how.shared_bytes, how.stream, attributes, 0};
  if (how.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  if (window.bytes > 0 && l2_set_aside > 0) {
    const auto bytes = std::min(window.bytes, static_cast<std::size_t>(most_window_bytes));
    attributes[config.numAttrs].id = cudaLaunchAttributeAccessPolicyWindow;
    attributes[config.numAttrs++].val.accessPolicyWindow = {
        const_cast<void*>(window.first), bytes, hit_ratio(bytes, l2_set_aside),
        cudaAccessPropertyPersisting, cudaAccessPropertyStreaming};
  }
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const auto status = std::apply(
      [&](Parameters&... each) {
        void* pointers[] = {&each...};
        return cudaLaunchKernelExC(&config, function, pointers);
      },
      values);
  check_cuda(status, "launch of a CUDA kernel");
}

#else

template <typename... Parameters, typename... Arguments>
void launch_recurrence(const Launch& how, const L2Window&, int, void (*kernel)(Parameters...),
                       Arguments&&... arguments) {
  launch(how, kernel, std::forward<Arguments>(arguments)...);
}

#endif

}  // namespace sdrop
