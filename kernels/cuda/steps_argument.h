// The steps of (T, B, ...) activations, or of packed (rows, ...) ones, on the host and the device.
#pragma once

#include <numeric>

#include "host.h"
#include "rows.cuh"

namespace sdrop {

class StepsArgument {
 public:
  StepsArgument(const Tensor& input, const std::optional<Tensor>& batch_sizes) {
    if (batch_sizes)
      take_sizes(input, *batch_sizes);
    else
      take_padded(input);
    STD_TORCH_CHECK(!sizes_.empty() && sizes_.back() > 0 &&
                        std::is_sorted(sizes_.rbegin(), sizes_.rend()),
                    "expected at least one step, and step sizes that are positive and never grow");
    starts_.resize(sizes_.size() + 1);
    std::partial_sum(sizes_.begin(), sizes_.end(), starts_.begin() + 1);
    STD_TORCH_CHECK(input.numel() == rows() * input.size(input.dim() - 1),
                    "batch_sizes: they do not add up to the rows of the input");
    STD_TORCH_CHECK(rows() <= INT32_MAX, "input: more than 2^31 rows");
    if (sizes_.front() != sizes_.back()) write_device_starts(input);
  }
  StepsArgument(const StepsArgument&) = delete;
  StepsArgument& operator=(const StepsArgument&) = delete;

  Index count() const { return static_cast<Index>(sizes_.size()); }  // T
  Index batch() const { return sizes_.front(); }                     // B
  Index rows() const { return starts_.back(); }
  Index size(Index step) const { return sizes_[step]; }              // sequences that reach it
  Index first(Index step) const { return starts_[step]; }            // its first row
  StepRows device() const {
    return {device_starts_ ? device_starts_->const_data_ptr<int>() : nullptr,
            static_cast<int>(count()), static_cast<int>(batch())};
  }
  // All rows as one step, for sets that serve all.
  StepRows as_one() const { return {nullptr, 1, static_cast<int>(rows())}; }

 private:
  void take_padded(const Tensor& input) {
    STD_TORCH_CHECK(input.dim() == 3, "input: expected (T, B, features)");
    sizes_.assign(input.size(0), input.size(1));
  }

  void take_sizes(const Tensor& input, const Tensor& batch_sizes) {
    STD_TORCH_CHECK(batch_sizes.scalar_type() == ScalarType::Long && batch_sizes.is_cpu() &&
                        batch_sizes.dim() == 1 && input.dim() == 2,
                    "batch_sizes: expected (T,) int64 on the CPU beside packed (rows, features)");
    const Tensor sizes = torch::stable::contiguous(batch_sizes);
    const auto* data = sizes.const_data_ptr<std::int64_t>();
    sizes_.assign(data, data + sizes.numel());
  }

  void write_device_starts(const Tensor& input);

  std::vector<Index> sizes_, starts_;
  std::optional<Tensor> device_starts_;
};

// (T, B, features) or packed activations as a matrix, a row a step and sequence.
inline Tensor rows_of(const Tensor& tensor, const StepsArgument& steps) {
  const Index shape[] = {steps.rows(), tensor.size(tensor.dim() - 1)};
  return torch::stable::reshape(tensor, {shape, 2});
}

}  // namespace sdrop
