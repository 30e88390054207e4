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

// How many of the words are at most `bound`. No branch depends on a word: half of such branches
// would be guessed wrong, and the guesses would take longer than all else here.
Index count_at_most(const std::vector<std::uint32_t>& words, std::uint32_t bound) {
  std::uint32_t count = 0;
  for (const std::uint32_t word : words) count += word <= bound;
  return count;
}

// A bound that exactly `kept` of the words do not exceed, bit by bit from the highest: mostly few
// bits tell. Where equal words forbid it, the smallest bound that at least so many do not exceed.
std::uint32_t bound_of(const std::vector<std::uint32_t>& words, Index kept) {
  std::uint32_t bound = 0xFFFFFFFFu;
  for (std::uint32_t bit = 0x80000000u; bit > 0; bit >>= 1) {
    const Index count = count_at_most(words, bound - bit);
    if (count >= kept) bound -= bit;
    if (count == kept) break;
  }
  return bound;
}

Tensor kept_indices(const Tensor& key, Index site, Index first_step, Index steps, Index size,
                    Index kept) {
  STD_TORCH_CHECK(kept >= 0 && kept <= size, "kept: expected at most ", size, ", got ", kept);
  const std::uint64_t value = key_value(key);
  const Tensor indices = new_tensor<std::int64_t>({steps, kept});
  auto* to = indices.mutable_data_ptr<std::int64_t>();
  std::vector<std::uint32_t> words(size);
  std::vector<std::int64_t> found(size + 1);
  for (Index t = 0; t < steps; ++t, to += kept) {
    draw_words(value, site, first_step + t, 0, size, words.data());
    const std::uint32_t bound = bound_of(words, kept);
    Index count = 0;
    for (Index j = 0; j < size; ++j) {
      found[count] = j;
      count += words[j] <= bound;
    }
    // More than wanted only where words are equal: ties go to the lower index.
    for (Index i = count - 1; count > kept; --i)
      if (words[found[i]] == bound) {
        std::copy(found.begin() + i + 1, found.begin() + count, found.begin() + i);
        --count;
      }
    std::copy_n(found.begin(), kept, to);
  }
  return indices;
}

template <typename Element>
Tensor bernoulli(const Tensor& key, Index site, Index first_step, Index steps, Index batch,
                 Index size, double rate) {
  const std::uint64_t value = key_value(key);
  const auto threshold = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(rate, 32)));
  const auto scale = static_cast<Element>(1.0 / (1.0 - rate));
  const Tensor mask = new_tensor<Element>({steps, batch, size});
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
    return bernoulli<double>(key, site, first_step, steps, batch, size, rate);
  const Tensor mask = bernoulli<float>(key, site, first_step, steps, batch, size, rate);
  return dtype == ScalarType::Float ? mask : torch::stable::to(mask, dtype);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, CPU, library) {
  library.impl("kept_indices", TORCH_BOX(&kept_indices));
  library.impl("keep_mask", TORCH_BOX(&keep_mask));
}

}  // namespace sdrop
