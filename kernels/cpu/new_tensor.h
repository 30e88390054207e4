// New tensors, straight from torch's allocator: its dispatcher looks an operator up by name, and
// each tensor took a microsecond or two. A layer makes eleven a training step, and the ops of a layer
// of one unit took twice as long.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "interface.h"

namespace sdrop {

using torch::stable::Tensor;

template <typename Element>
std::int32_t dtype_of() {
  if constexpr (std::is_same_v<Element, std::int64_t>) return aoti_torch_dtype_int64();
  if constexpr (std::is_same_v<Element, double>) return aoti_torch_dtype_float64();
  if constexpr (std::is_same_v<Element, float>) return aoti_torch_dtype_float32();
}

// On the CPU, of unknown values.
inline Tensor new_strided(std::int32_t dtype, const std::vector<Index>& shape,
                          const std::vector<Index>& strides) {
  AtenTensorHandle made;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
      static_cast<Index>(shape.size()), shape.data(), strides.data(), dtype,
      aoti_torch_device_type_cpu(), 0, &made));
  return Tensor(made);
}

// Contiguous.
template <typename Element>
Tensor new_tensor(const std::vector<Index>& shape) {
  std::vector<Index> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<Index>(1, shape[i]);
  return new_strided(dtype_of<Element>(), shape, strides);
}

inline Tensor new_floats(const std::vector<Index>& shape) { return new_tensor<float>(shape); }

}  // namespace sdrop
