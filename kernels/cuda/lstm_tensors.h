// Steps, dropout sites and weights as tensors on the device, with the tables that kernels read.
#pragma once

#include <type_traits>

#include "host.h"
#include "lstm_prepare.cuh"

namespace sdrop {

inline Tensor new_ints(const Tensor& like, Index count) {
  return torch::stable::new_empty(like, {count}, ScalarType::Int);
}

template <typename Element>
constexpr ScalarType scalar_type_of() {
  return std::is_same_v<Element, float> ? ScalarType::Float : ScalarType::BFloat16;
}

template <typename Element>
const Element* read(const Tensor& tensor) {
  return static_cast<const Element*>(tensor.const_data_ptr());
}
template <typename Element>
Element* written(const Tensor& tensor) {
  return static_cast<Element*>(tensor.mutable_data_ptr());
}

// out = a b, by torch. Its out variant, which autocast leaves alone.
inline void multiply_into(const Tensor& out, const Tensor& a, const Tensor& b) {
  StableIValue stack[] = {torch::stable::detail::from(a), torch::stable::detail::from(b),
                          torch::stable::detail::from(out)};
  STABLE_TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::mm", "out", stack, TORCH_ABI_VERSION));
  torch::stable::detail::to<Tensor>(stack[0]);
}

// The steps of (T, B, ...) activations, or of packed (rows, ...) ones.
class StepTensors {
 public:
  StepTensors(const Tensor& input, const std::optional<Tensor>& batch_sizes, bool reverse) {
    if (batch_sizes) {
      STD_TORCH_CHECK(batch_sizes->scalar_type() == ScalarType::Long && batch_sizes->is_cpu() &&
                          batch_sizes->dim() == 1 && input.dim() == 2,
                      "batch_sizes: expected (T,) int64 on the CPU beside packed (rows, features)");
      const Tensor sizes = torch::stable::contiguous(*batch_sizes);
      const auto* data = sizes.const_data_ptr<std::int64_t>();
      sizes_.assign(data, data + sizes.numel());
    } else {
      STD_TORCH_CHECK(input.dim() == 3, "input: expected (T, B, features)");
      sizes_.assign(input.size(0), input.size(1));
    }
    STD_TORCH_CHECK(!sizes_.empty() && sizes_.back() > 0 &&
                        std::is_sorted(sizes_.rbegin(), sizes_.rend()),
                    "expected at least one step, and step sizes that are positive and never grow");
    for (const Index size : sizes_) rows_ += size;
    STD_TORCH_CHECK(input.numel() == rows_ * input.size(input.dim() - 1),
                    "batch_sizes: they do not add up to the rows of the input");
    STD_TORCH_CHECK(sizes_.size() <= 65535, "expected at most 65535 steps, got ", sizes_.size());
    table_ = {static_cast<int>(sizes_.size()), static_cast<int>(sizes_.front()), reverse, nullptr,
              nullptr};
    if (sizes_.front() != sizes_.back()) write(input);
  }

  const StepTable& table() const { return table_; }
  Index rows() const { return rows_; }
  Index batch() const { return table_.batch; }
  // A grid for kernels that go through all steps' (size, features), with T in y.
  dim3 grid(Index features) const {
    const Index blocks = (table_.batch * features + kPrepareThreads - 1) / kPrepareThreads;
    return dim3(static_cast<unsigned>(std::min<Index>(blocks, 64)), table_.count);
  }

 private:
  void write(const Tensor& like) {
    const int count = table_.count;
    size_table_ = new_ints(like, count);
    start_table_ = torch::stable::new_empty(like, {count}, ScalarType::Long);
    auto* sizes = written<int>(*size_table_);
    auto* starts = written<Offset>(*start_table_);
    Offset first_row = 0;
    for (int first = 0; first < count; first += kStepsALaunch) {
      SomeSteps some{first, std::min(kStepsALaunch, count - first), first_row, {}};
      for (int i = 0; i < some.count; ++i) {
        some.sizes[i] = static_cast<int>(sizes_[first + i]);
        first_row += some.sizes[i];
      }
      launch({dim3(1), dim3(kPrepareThreads), 0, current_stream(like)}, write_steps, some, sizes,
             starts);
    }
    table_.sizes = sizes;
    table_.starts = starts;
  }

  std::vector<Index> sizes_;
  std::optional<Tensor> size_table_, start_table_;
  Index rows_ = 0;
  StepTable table_{};
};

// A dropout site: kept indices, a mask, or all neurons.
class SiteTensors {
 public:
  SiteTensors(Index size, const std::optional<Tensor>& kept, const std::optional<Tensor>& mask,
              double scale, const StepTensors& steps, const Tensor& like)
      : drops_(kept || mask) {
    const Index count = steps.table().count;
    SiteSource source{static_cast<int>(size), nullptr, 0, nullptr};
    table_.size = source.size;
    table_.sets = 1;
    table_.scale = kept ? static_cast<float>(scale) : 1.0f;
    if (kept) {
      STD_TORCH_CHECK(kept->dim() == 2 && (kept->size(0) == 1 || kept->size(0) == count) &&
                          kept->size(1) <= size,
                      "kept: expected (1 or T, k) int64, k not above ", size);
      indices_ = expect(*kept, ScalarType::Long, {kept->size(0), kept->size(1)}, "kept");
      source.indices = read<long long>(*indices_);
      source.count = static_cast<int>(kept->size(1));
      table_.sets = static_cast<int>(kept->size(0));
    } else if (mask) {
      take_mask(*mask, count, steps.batch(), source);
    }
    write(source, like);
  }

  bool drops() const { return drops_; }
  const SiteTable& table() const { return table_; }

 private:
  void take_mask(const Tensor& mask, Index count, Index batch, SiteSource& source) {
    STD_TORCH_CHECK(mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == count) &&
                        (mask.size(1) == 1 || mask.size(1) == batch) &&
                        mask.size(2) == table_.size,
                    "mask: expected (1 or T, 1 or B, ", table_.size, ")");
    const Tensor factors = torch::stable::to(mask, ScalarType::Float);
    factor_ =
        expect(factors, ScalarType::Float, {mask.size(0), mask.size(1), mask.size(2)}, "mask");
    table_.factor = read<float>(*factor_);
    table_.factor_row = mask.size(1) == 1 ? 0 : table_.size;
    table_.factor_step = mask.size(0) == 1 ? 0 : mask.size(1) * table_.size;
    if (mask.size(1) > 1) return;  // each sequence drops its own: nothing can be skipped
    source.mask = table_.factor;
    table_.sets = static_cast<int>(mask.size(0));
  }

  void write(const SiteSource& source, const Tensor& like) {
    const Index sets = table_.sets, size = table_.size;
    sets_ = new_ints(like, sets * (2 * size + 1));
    auto* counts = written<int>(*sets_);
    auto* kept = counts + sets;
    auto* positions = kept + sets * size;
    launch({dim3(table_.sets), dim3(32), 0, current_stream(like)}, prepare_site, source, counts,
           kept, positions);
    table_.counts = counts;
    table_.kept = kept;
    table_.positions = positions;
  }

  bool drops_;
  std::optional<Tensor> indices_, factor_, sets_;
  SiteTable table_{};
};

// W_h as the blocks of a division read it.
template <typename Element>
Tensor packed_weight(const Tensor& weight, const Division& division) {
  const Index size = weight.size(0), elements = size * division.columns();
  const Tensor packed = torch::stable::new_empty(weight, {division.tiles * elements});
  const Index blocks = std::min<Index>((elements + kPrepareThreads - 1) / kPrepareThreads, 32);
  launch({dim3(static_cast<unsigned>(blocks), division.tiles), dim3(kPrepareThreads), 0,
          current_stream(weight)},
         pack_weight<Element>, read<Element>(weight), static_cast<int>(size), division.units,
         written<Element>(packed));
  return packed;
}

// x (rows, features), dropped: x itself where nothing is.
template <typename Element>
Tensor dropped(const Tensor& x, const StepTensors& steps, const SiteTensors& site) {
  if (!site.drops()) return x;
  const Tensor to = torch::stable::empty_like(x);
  launch({steps.grid(site.table().size), dim3(kPrepareThreads), 0, current_stream(x)},
         drop_rows<Element>, steps.table(), site.table(), read<Element>(x), written<Element>(to));
  return to;
}

}  // namespace sdrop
