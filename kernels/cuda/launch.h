// Launching kernels; host code that knows CUDA and nothing of torch.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "device.cuh"

namespace sdrop {

// Of a kernel: blocks, threads a block, bytes of dynamic shared memory, stream; cooperative where
// blocks wait for one another, so that all must be on the device at once.
struct Launch {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
};

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
}

#ifdef __CUDACC__

// Shared memory beyond this must be asked for, once a kernel and device; asking again costs little.
constexpr std::size_t kSharedBytesForFree = 48 * 1024;

template <typename... Parameters, typename... Arguments>
void launch(const Launch& how, void (*kernel)(Parameters...), Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments), "arguments of the kernel");
  const auto* function = reinterpret_cast<const void*>(kernel);
  if (how.shared_bytes > kSharedBytesForFree)
    check_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(how.shared_bytes)),
               "shared memory of a CUDA kernel");
  std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  const auto status = std::apply(
      [&](Parameters&... each) {
        void* pointers[] = {&each...};
        if (how.cooperative)
          return cudaLaunchCooperativeKernel(function, how.grid, how.block, pointers,
                                             how.shared_bytes, how.stream);
        return cudaLaunchKernel(function, how.grid, how.block, pointers, how.shared_bytes,
                                how.stream);
      },
      values);
  check_cuda(status, "launch of a CUDA kernel");
}

#else

template <typename... Parameters, typename... Arguments>
void launch(const Launch& how, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const std::tuple<Parameters...> values(std::forward<Arguments>(arguments)...);
  emulation::run_grid(how.grid, how.block, how.shared_bytes, how.cooperative,
                      [&] { std::apply(kernel, values); });
}

#endif

inline int device_attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, attribute, device), "attribute of a CUDA device");
  return value;
}

}  // namespace sdrop
