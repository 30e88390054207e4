// Drawing masks on the CPU: torch.ops.sdrop.kept_indices and keep_mask with the bits that
// sdrop/ops/masks.py defines.
#include <cmath>

#include "arguments.h"
#include "philox.h"

namespace sdrop {
namespace {

// Words of neurons 0 .. size of one step and column of the batch.
void draw_words(std::uint64_t key, Index site, Index step, Index column, Index size,
                std::uint32_t* words) {
  for (Index first = 0; first < size; first += 4) {
    const Words lanes = philox({static_cast<std::uint32_t>(first / 4),
                                static_cast<std::uint32_t>(step),
                                static_cast<std::uint32_t>(column),
                                static_cast<std::uint32_t>(site)},
                               key);
    std::copy_n(lanes.begin(), std::min<Index>(4, size - first), words + first);
  }
}

std::uint64_t key_value(const Tensor& key) {
  STD_TORCH_CHECK(key.scalar_type() == ScalarType::Long && key.numel() == 1,
                  "key: expected one int64");
  return static_cast<std::uint64_t>(*key.const_data_ptr<std::int64_t>());
}

Tensor kept_indices(const Tensor& key, Index site, Index first_step, Index steps, Index size,
                    Index kept) {
  STD_TORCH_CHECK(kept >= 0 && kept <= size, "kept: expected at most ", size, ", got ", kept);
  const std::uint64_t value = key_value(key);
  const Tensor indices = torch::stable::new_empty(key, {steps, kept});
  auto* to = indices.mutable_data_ptr<std::int64_t>();
  std::vector<std::uint32_t> words(size);
  std::vector<std::uint64_t> ranked(size);
  for (Index t = 0; t < steps; ++t, to += kept) {
    if (kept == 0) continue;
    draw_words(value, site, first_step + t, 0, size, words.data());
    // The index in the low bits makes the words distinct, so that ties go to the lower index.
    for (Index j = 0; j < size; ++j) ranked[j] = std::uint64_t{words[j]} << 32 | j;
    const auto largest_kept = ranked.begin() + (kept - 1);
    std::nth_element(ranked.begin(), largest_kept, ranked.end());
    const std::uint64_t threshold = *largest_kept;
    Index found = 0;
    for (Index j = 0; j < size; ++j)
      if ((std::uint64_t{words[j]} << 32 | j) <= threshold) to[found++] = j;
  }
  return indices;
}

template <typename Element>
Tensor bernoulli(const Tensor& key, Index site, Index first_step, Index steps, Index batch,
                 Index size, double rate, ScalarType dtype) {
  const std::uint64_t value = key_value(key);
  const auto threshold = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(rate, 32)));
  const auto scale = static_cast<Element>(1.0 / (1.0 - rate));
  const Tensor mask = torch::stable::new_empty(key, {steps, batch, size}, dtype);
  auto* to = mask.mutable_data_ptr<Element>();
  std::vector<std::uint32_t> words(size);
  for (Index t = 0; t < steps; ++t)
    for (Index b = 0; b < batch; ++b, to += size) {
      draw_words(value, site, first_step + t, b, size, words.data());
      for (Index j = 0; j < size; ++j) to[j] = words[j] >= threshold ? scale : Element{0};
    }
  return mask;
}

Tensor keep_mask(const Tensor& key, Index site, Index first_step, Index steps, Index batch,
                 Index size, double rate, ScalarType dtype) {
  if (dtype == ScalarType::Double)
    return bernoulli<double>(key, site, first_step, steps, batch, size, rate, dtype);
  const Tensor mask =
      bernoulli<float>(key, site, first_step, steps, batch, size, rate, ScalarType::Float);
  return dtype == ScalarType::Float ? mask : torch::stable::to(mask, dtype);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, CPU, library) {
  library.impl("kept_indices", TORCH_BOX(&kept_indices));
  library.impl("keep_mask", TORCH_BOX(&keep_mask));
}

}  // namespace sdrop
