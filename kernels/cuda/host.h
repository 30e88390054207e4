// Tensors as the CUDA host code takes them, by torch's stable ABI alone; the same source serves the
// emulation, whose tensors lie on the CPU.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#ifdef __CUDACC__
#include <dlfcn.h>
#endif

#include "launch.h"

#ifdef __CUDACC__
#define SDROP_DISPATCH_KEY CUDA
#else
#define SDROP_DISPATCH_KEY CPU
#endif

namespace sdrop {

using Index = std::int64_t;
using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Makes the device of a tensor the current one; an op's first statement.
class OnDeviceOf {
 public:
#ifdef __CUDACC__
  explicit OnDeviceOf(const Tensor& tensor) : guard_(tensor.get_device()) {}

 private:
  torch::stable::accelerator::DeviceGuard guard_;
#else
  explicit OnDeviceOf(const Tensor&) {}
#endif
};

#ifdef __CUDACC__
namespace detail {

using CurrentStream = AOTITorchError (*)(std::int32_t, void**);

// Torch loads its libraries without making their symbols global, and a library that names this one
// would not load beside a torch without CUDA: so it is looked up in the loaded libtorch_cuda.so.
inline CurrentStream find_current_stream() {
  void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  void* symbol = library ? dlsym(library, "aoti_torch_get_current_cuda_stream") : nullptr;
  return reinterpret_cast<CurrentStream>(symbol);
}

}  // namespace detail
#endif

// The stream that torch would use now on the tensor's device.
inline cudaStream_t current_stream([[maybe_unused]] const Tensor& tensor) {
  void* stream = nullptr;
#ifdef __CUDACC__
  static const detail::CurrentStream find = detail::find_current_stream();
  STD_TORCH_CHECK(find, "no CUDA stream: this PyTorch has no CUDA");
  STABLE_TORCH_ERROR_CODE_CHECK(find(tensor.get_device(), &stream));
#endif
  return static_cast<cudaStream_t>(stream);
}

inline bool on_device(const Tensor& tensor) {
#ifdef __CUDACC__
  return tensor.is_cuda();
#else
  return tensor.is_cpu();
#endif
}

// The tensor, contiguous, of the expected type and shape.
inline Tensor expect(const Tensor& tensor, ScalarType type, const std::vector<Index>& shape,
                     const char* name) {
  STD_TORCH_CHECK(on_device(tensor), name, ": expected a tensor on the CUDA device");
  STD_TORCH_CHECK(tensor.scalar_type() == type, name, ": expected another type of elements");
  bool fits = tensor.dim() == static_cast<Index>(shape.size());
  for (std::size_t i = 0; fits && i < shape.size(); ++i)
    fits = tensor.size(static_cast<Index>(i)) == shape[i];
  STD_TORCH_CHECK(fits, name, ": unexpected shape");
  return torch::stable::contiguous(tensor);
}

// A weight (N, K) in torch's shape as contiguous (K, N): no copy where its memory is K-major.
inline Tensor k_major(const Tensor& weight, ScalarType type, const char* name) {
  STD_TORCH_CHECK(weight.dim() == 2, name, ": expected two dimensions");
  return expect(torch::stable::transpose(weight, 0, 1), type, {weight.size(1), weight.size(0)},
                name);
}

// The shape of `input` with another number of features.
inline std::vector<Index> with_features(const Tensor& input, Index features) {
  std::vector<Index> shape;
  for (Index i = 0; i + 1 < input.dim(); ++i) shape.push_back(input.size(i));
  shape.push_back(features);
  return shape;
}

inline const float* floats_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

}  // namespace sdrop
