// Tensors as the kernels take them. Torch's stable ABI only, so that one binary serves many
// versions of torch.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "huge_pages.h"
#include "interface.h"
#include "new_tensor.h"

namespace sdrop {

using torch::headeronly::ScalarType;

inline void on_torch_threads(Index begin, Index end, Index grain, Body body, void* context) {
  STABLE_TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, body, context));
}

// torch's own, but where there is nothing to do: asking it to do nothing takes a microsecond.
inline Tensor in_one_piece(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

inline bool is_float32(const Tensor& tensor) { return tensor.scalar_type() == ScalarType::Float; }
inline bool is_bfloat16(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::BFloat16;
}

inline void check_floats(const Tensor& tensor, const char* name) {
  STD_TORCH_CHECK(tensor.is_cpu() && is_float32(tensor), name,
                  ": expected a float32 tensor on the CPU");
}

// The tensor as contiguous float32 of the expected shape.
inline Tensor floats(const Tensor& tensor, const std::vector<Index>& shape, const char* name) {
  check_floats(tensor, name);
  bool fits = tensor.dim() == static_cast<Index>(shape.size());
  for (std::size_t i = 0; fits && i < shape.size(); ++i)
    fits = tensor.size(static_cast<Index>(i)) == shape[i];
  STD_TORCH_CHECK(fits, name, ": unexpected shape");
  return in_one_piece(tensor);
}

// The shape of `input` with another number of features.
inline std::vector<Index> with_features(const Tensor& input, Index features) {
  std::vector<Index> shape;
  for (Index i = 0; i + 1 < input.dim(); ++i) shape.push_back(input.size(i));
  shape.push_back(features);
  return shape;
}

// Where a new tensor is to be written, of float32 or, if a gradient of a weight, of its numbers.
inline void* gradient_data(const Tensor& tensor) {
  void* data = tensor.mutable_data_ptr();
  prefer_huge_pages(data, static_cast<std::size_t>(tensor.numel() * tensor.element_size()));
  return data;
}
inline float* output_data(const Tensor& tensor) {
  return static_cast<float*>(gradient_data(tensor));
}

inline const float* data_or_null(const std::optional<Tensor>& tensor) {
  return tensor ? tensor->const_data_ptr<float>() : nullptr;
}

// What holds a weight (N, K) as a contiguous (K, N): itself where it is K-major.
inline Tensor k_major(const Tensor& weight) {
  STD_TORCH_CHECK(weight.dim() == 2, "weight: expected two dimensions");
  STD_TORCH_CHECK(weight.is_cpu() && (is_float32(weight) || is_bfloat16(weight)),
                  "weight: expected a float32 or bfloat16 tensor on the CPU");
  if (weight.stride(0) == 1 && weight.stride(1) == weight.size(0)) return weight;
  return in_one_piece(torch::stable::transpose(weight, 0, 1));
}

// The steps of (T, B, ...) activations, or of packed (rows, ...) ones.
class StepsArgument {
 public:
  StepsArgument(const Tensor& input, const std::optional<Tensor>& batch_sizes, bool reverse) {
    if (batch_sizes) {
      STD_TORCH_CHECK(batch_sizes->scalar_type() == ScalarType::Long && batch_sizes->is_cpu() &&
                          batch_sizes->dim() == 1 && input.dim() == 2,
                      "batch_sizes: expected (T,) int64 on the CPU beside packed (rows, features)");
      const Tensor sizes = in_one_piece(*batch_sizes);
      const auto* data = sizes.const_data_ptr<std::int64_t>();
      sizes_.assign(data, data + sizes.numel());
    } else {
      STD_TORCH_CHECK(input.dim() == 3, "input: expected (T, B, features)");
      sizes_.assign(input.size(0), input.size(1));
    }
    STD_TORCH_CHECK(!sizes_.empty() && sizes_.back() > 0 &&
                        std::is_sorted(sizes_.rbegin(), sizes_.rend()),
                    "expected at least one step, and step sizes that are positive and never grow");
    starts_.resize(sizes_.size());
    std::exclusive_scan(sizes_.begin(), sizes_.end(), starts_.begin(), Index{0});
    steps_ = {static_cast<Index>(sizes_.size()), sizes_.front(), starts_.back() + sizes_.back(),
              sizes_.data(), starts_.data(), reverse};
    STD_TORCH_CHECK(input.numel() == steps_.rows * input.size(input.dim() - 1),
                    "batch_sizes: they do not add up to the rows of the input");
  }
  StepsArgument(const StepsArgument&) = delete;
  StepsArgument& operator=(const StepsArgument&) = delete;

  const Steps& operator*() const { return steps_; }
  const Steps* operator->() const { return &steps_; }

 private:
  std::vector<Index> sizes_, starts_;
  Steps steps_;
};

// A dropout site with what it keeps as index sets: given ones, those of a mask that the whole batch
// shares, or all neurons.
class SiteArgument {
 public:
  SiteArgument(const Tensor& weight, const std::optional<Tensor>& kept,
               const std::optional<Tensor>& mask, double scale, const Steps& steps)
      : weight_(k_major(weight)), size_(weight.size(1)), columns_(weight.size(0)) {
    site_.scale = kept ? static_cast<float>(scale) : 1.0f;
    if (kept)
      take_kept(*kept, steps);
    else if (mask)
      take_mask(*mask, steps);
    else
      keep_all();
    kept_.resize(kept_.size() + kReadableBehindKept, 0);
    site_.weight = weight_.const_data_ptr();
    site_.size = size_;
    site_.sets = static_cast<Index>(starts_.size()) - 1;
    site_.kept = kept_.data();
    site_.set_starts = starts_.data();
  }
  SiteArgument(const SiteArgument&) = delete;
  SiteArgument& operator=(const SiteArgument&) = delete;

  const Site& operator*() const { return site_; }
  const Site* operator->() const { return &site_; }
  Index columns() const { return columns_; }
  bool of_bfloat16() const { return is_bfloat16(weight_); }

  // The gradient of the weight, with the shape and the strides of a K-major parameter.
  Tensor new_gradient() const {
    const auto dtype = of_bfloat16() ? aoti_torch_dtype_bfloat16() : dtype_of<float>();
    return new_strided(dtype, {columns_, size_}, {1, columns_});
  }

 private:
  void keep_all() {
    kept_.resize(size_);
    std::iota(kept_.begin(), kept_.end(), 0);
    starts_ = {0, size_};
  }

  void take_kept(const Tensor& kept, const Steps& steps) {
    STD_TORCH_CHECK(kept.dim() == 2 && kept.scalar_type() == ScalarType::Long && kept.is_cpu() &&
                        (kept.size(0) == 1 || kept.size(0) == steps.count),
                    "kept: expected (1 or T, k) int64 on the CPU");
    const Tensor indices = in_one_piece(kept);
    const auto* data = indices.const_data_ptr<std::int64_t>();
    kept_.resize(indices.numel());
    for (std::size_t i = 0; i < kept_.size(); ++i) {
      STD_TORCH_CHECK(data[i] >= 0 && data[i] < size_, "kept: index ", data[i],
                      " is out of range for ", size_, " neurons");
      kept_[i] = static_cast<std::int32_t>(data[i]);
    }
    for (Index set = 0; set <= kept.size(0); ++set) starts_.push_back(set * kept.size(1));
  }

  void take_mask(const Tensor& mask, const Steps& steps) {
    STD_TORCH_CHECK(mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == steps.count) &&
                        (mask.size(1) == 1 || mask.size(1) == steps.batch),
                    "mask: expected (1 or T, 1 or B, ", size_, ")");
    mask_ = floats(mask, {mask.size(0), mask.size(1), size_}, "mask");
    site_.factor = mask_->const_data_ptr<float>();
    site_.factor_row = mask.size(1) == 1 ? 0 : size_;
    site_.factor_step = mask.size(0) == 1 ? 0 : mask.size(1) * size_;
    if (mask.size(1) > 1) return keep_all();
    starts_ = {0};
    for (Index set = 0; set < mask.size(0); ++set) {
      for (Index j = 0; j < size_; ++j)
        if (site_.factor[set * size_ + j] != 0.0f) kept_.push_back(static_cast<std::int32_t>(j));
      starts_.push_back(static_cast<Index>(kept_.size()));
    }
  }

  Tensor weight_;
  Index size_, columns_;
  std::optional<Tensor> mask_;
  std::vector<std::int32_t> kept_;
  std::vector<Index> starts_;
  Site site_{};
};

// The kernels for such weights, of which pairs of columns have to be whole in each piece.
inline const Kernels& kernels_for(const SiteArgument& site, Index piece) {
  if (!site.of_bfloat16()) return kernels();
  STD_TORCH_CHECK(piece % 2 == 0, "bfloat16 weights: expected an even size, got ", piece);
  return bfloat16_kernels().kernels;
}

}  // namespace sdrop
