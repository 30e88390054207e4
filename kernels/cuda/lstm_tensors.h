// The dropout on h_{t-1} and W_h as tensors on the device, as the recurrence reads them.
#pragma once

#include <type_traits>

#include "lstm_prepare.cuh"
#include "steps_argument.h"

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

// The dropout on h_{t-1}: kept indices, a mask, or all neurons.
class HiddenSite {
 public:
  HiddenSite(Index size, const std::optional<Tensor>& kept, const std::optional<Tensor>& mask,
              double scale, const StepsArgument& steps, const Tensor& like) {
    const Index count = steps.count();
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
      source.count = table_.most = static_cast<int>(kept->size(1));
      table_.sets = static_cast<int>(kept->size(0));
    } else if (mask) {
      take_mask(*mask, count, steps.batch(), source);
    }
    write(source, like);
  }

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

  std::optional<Tensor> indices_, factor_, sets_;
  SiteTable table_{};
};

// Elements of W_h as the blocks of a division read it.
inline Index packed_elements(Index hidden_size, const Division& division) {
  return hidden_size * division.tiles * division.columns();
}

template <typename Element>
void pack_weight_to(Element* packed, const Tensor& weight, const Division& division) {
  const Index size = weight.size(0), elements = size * division.columns();
  const Index blocks = std::min<Index>((elements + kPrepareThreads - 1) / kPrepareThreads, 32);
  launch({dim3(static_cast<unsigned>(blocks), division.tiles), dim3(kPrepareThreads), 0,
          current_stream(weight)},
         pack_weight<Element>, read<Element>(weight), static_cast<int>(size), division.units,
         packed);
}

}  // namespace sdrop
