// See site_product.h. The kernels of all products are compiled here and nowhere else.
#include "site_product.h"

#include <array>

#include "pack.cuh"
#include "row_skip_launch.h"

namespace sdrop {
namespace {

const long long* kept_data(const Tensor& kept) {
  return reinterpret_cast<const long long*>(kept.const_data_ptr<std::int64_t>());
}

}  // namespace

Tensor matrix_product(const Tensor& a, const Tensor& b) {
  const Tensor product = torch::stable::new_empty(a, {a.size(0), b.size(1)});
  using torch::stable::detail::from;
  std::array<StableIValue, 3> stack{from(a), from(b), from(product)};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher("aten::mm", "out", stack.data(), TORCH_ABI_VERSION));
  (void)torch::stable::detail::to<Tensor>(stack[0]);
  return product;
}

SiteProduct::SiteProduct(const Tensor& weight, const std::optional<Tensor>& kept,
                         const std::optional<Tensor>& mask, double scale,
                         const StepsArgument& steps, bool tf32)
    : steps_(steps),
      type_(weight.scalar_type()),
      weight_(k_major(weight, type_, "weight")),
      stream_(current_stream(weight)),
      scale_(kept ? static_cast<float>(scale) : 1.0f),
      given_as_mask_(mask.has_value()) {
  STD_TORCH_CHECK(type_ == ScalarType::Float || type_ == ScalarType::BFloat16,
                  "weight: the CUDA kernels need float32 or bfloat16");
  STD_TORCH_CHECK(!(kept && mask), "expected kept indices or a mask, got both");
  if (kept) take_kept(*kept);
  if (mask) take_mask(*mask);
  const Precision precision = type_ == ScalarType::BFloat16 ? Precision::bfloat16
                              : tf32                        ? Precision::tf32
                                                            : Precision::float32;
  choice_ = &choose(precision, pattern_, set_steps().batch);
  if (uses(Method::masked) && kept) write_kept_factors(*kept);
  if (uses(Method::packed) || uses(Method::row_skip) || uses(Method::tensor_core))
    build_sets(kept);
}

Tensor SiteProduct::forward(const Tensor& rows, const std::optional<Tensor>& bias) const {
  const Tensor x = expect(rows, type_, {steps_.rows(), size()}, "input");
  std::optional<Tensor> b;
  if (bias) b = torch::stable::to(expect(*bias, type_, {columns()}, "bias"), ScalarType::Float);
  switch (choice_->forward) {
    case Method::whole: return with_bias(matrix_product(x, weight_), b);
    case Method::masked: return with_bias(matrix_product(multiplied(x), weight_), b);
    case Method::packed: return with_bias(matrix_product(pack(x), packed_weight()), b);
    default: return skip_forward(pack(x), b);
  }
}

Tensor SiteProduct::data_gradient(const Tensor& grad_rows) const {
  const Tensor dy = expect(grad_rows, type_, {steps_.rows(), columns()}, "grad_output");
  switch (choice_->data_gradient) {
    case Method::whole: return matrix_product(dy, transposed(weight_));
    case Method::masked: return multiplied(matrix_product(dy, transposed(weight_)));
    case Method::packed: return restored(matrix_product(dy, transposed(packed_weight())));
    default: return skip_data_gradient(dy);
  }
}

Tensor SiteProduct::weight_gradient(const Tensor& rows, const Tensor& grad_rows) const {
  const Tensor x = expect(rows, type_, {steps_.rows(), size()}, "input");
  const Tensor dy = expect(grad_rows, type_, {steps_.rows(), columns()}, "grad_output");
  switch (choice_->weight_gradient) {
    case Method::whole: return matrix_product(transposed(x), dy);
    case Method::masked: return matrix_product(transposed(multiplied(x)), dy);
    case Method::packed: return restored_rows(matrix_product(transposed(pack(x)), dy));
    default: return skip_weight_gradient(pack(x), dy);
  }
}

bool SiteProduct::uses(Method method) const {
  return choice_->forward == method || choice_->data_gradient == method ||
         choice_->weight_gradient == method;
}

void SiteProduct::take_kept(const Tensor& kept) {
  STD_TORCH_CHECK(kept.dim() == 2 && kept.scalar_type() == ScalarType::Long && on_device(kept) &&
                      (kept.size(0) == 1 || kept.size(0) == steps_.count()),
                  "kept: expected (1 or T, k) int64 on the device of the weight");
  sets_ = kept.size(0);
  pattern_ = sets_ == 1 ? Pattern::one_set : Pattern::set_a_step;
}

void SiteProduct::take_mask(const Tensor& mask) {
  STD_TORCH_CHECK(mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == steps_.count()) &&
                      (mask.size(1) == 1 || mask.size(1) == steps_.batch()),
                  "mask: expected (1 or T, 1 or B, ", size(), ")");
  sets_ = mask.size(0);
  factor_ = torch::stable::to(
      expect(mask, type_, {sets_, mask.size(1), size()}, "mask"), ScalarType::Float);
  factor_row_ = mask.size(1) == 1 ? 0 : size();
  factor_step_ = sets_ == 1 ? 0 : mask.size(1) * size();
  if (mask.size(1) > 1)
    pattern_ = Pattern::each_element;
  else
    pattern_ = sets_ == 1 ? Pattern::counted_on_device : Pattern::set_a_step;
}

// The steps that sets stand for: one with all rows where there is one set.
StepRows SiteProduct::set_steps() const { return sets_ == 1 ? steps_.as_one() : steps_.device(); }

void SiteProduct::write_kept_factors(const Tensor& kept) {
  const Tensor indices = torch::stable::contiguous(kept);
  factor_ = torch::stable::new_empty(weight_, {sets_, size()}, ScalarType::Float);
  clear(*factor_);
  factor_step_ = sets_ == 1 ? 0 : size();
  launch({dim3(sets_), dim3(kPackThreads), 0, stream_}, write_factors, kept_data(indices),
         static_cast<int>(kept.size(1)), static_cast<int>(size()), scale_,
         factor_->mutable_data_ptr<float>());
}

void SiteProduct::build_sets(const std::optional<Tensor>& kept) {
  const auto most = static_cast<int>(kept ? kept->size(1) : size());
  const int pitch = std::max(8, round_up(most, 8));
  const int tiles = divide_up(static_cast<int>(size()), kNeuronTile);
  neurons_ = torch::stable::new_empty(weight_, {sets_, pitch}, ScalarType::Int);
  counts_ = torch::stable::new_empty(weight_, {sets_}, ScalarType::Int);
  tile_starts_ = torch::stable::new_empty(weight_, {sets_, tiles + 1}, ScalarType::Int);
  const auto indices = kept ? std::optional(torch::stable::contiguous(*kept)) : std::nullopt;
  const KeptSetsBuild build{indices ? kept_data(*indices) : nullptr,
                            indices ? nullptr : factor_->const_data_ptr<float>(),
                            most,
                            static_cast<int>(size()),
                            neurons_->mutable_data_ptr<int>(),
                            counts_->mutable_data_ptr<int>(),
                            tile_starts_->mutable_data_ptr<int>(),
                            pitch,
                            tiles};
  launch({dim3(sets_), dim3(kKeptThreads), 0, stream_}, build_kept_sets, build);
  kept_sets_ = {build.neurons, build.counts, build.tile_starts, pitch, tiles};
}

void SiteProduct::clear(const Tensor& tensor) const {
  check_cuda(cudaMemsetAsync(tensor.data_ptr(), 0, tensor.numel() * tensor.element_size(),
                             stream_),
             "zeroing a tensor");
}

// Factors by (set, neuron) where sets were given as a mask, else null: `scale_` serves all.
const float* SiteProduct::factors_of_sets() const {
  return given_as_mask_ ? floats_or_null(factor_) : nullptr;
}

Tensor SiteProduct::pack(const Tensor& x) const {
  const Tensor packed = torch::stable::new_empty(x, {steps_.rows(), kept_sets_.pitch});
  with_element(type_, [&](auto element) {
    launch({dim3(steps_.rows()), dim3(kPackThreads), 0, stream_}, pack_columns<decltype(element)>,
           set_steps(), kept_sets_, elements(x, element), static_cast<int>(size()),
           factors_of_sets(), scale_, elements_to_write(packed, element));
  });
  return packed;
}

Tensor SiteProduct::packed_weight() const {
  const Tensor packed = torch::stable::new_empty(weight_, {kept_sets_.pitch, columns()});
  with_element(type_, [&](auto element) {
    launch({dim3(kept_sets_.pitch), dim3(kPackThreads), 0, stream_}, pack_rows<decltype(element)>,
           kept_sets_, elements(weight_, element), static_cast<int>(columns()),
           elements_to_write(packed, element));
  });
  return packed;
}

Tensor SiteProduct::restored(const Tensor& packed) const {
  const Tensor whole = torch::stable::new_empty(packed, {steps_.rows(), size()});
  clear(whole);
  with_element(type_, [&](auto element) {
    launch({dim3(steps_.rows()), dim3(kPackThreads), 0, stream_},
           restore_columns<decltype(element)>, kept_sets_, elements(packed, element),
           kept_sets_.pitch, static_cast<int>(size()), scale_,
           elements_to_write(whole, element));
  });
  return whole;
}

Tensor SiteProduct::restored_rows(const Tensor& packed) const {
  const Tensor whole = torch::stable::new_empty(packed, {size(), columns()});
  with_element(type_, [&](auto element) {
    launch({dim3(size()), dim3(kPackThreads), 0, stream_}, restore_rows<decltype(element)>,
           kept_sets_, elements(packed, element), static_cast<int>(columns()),
           elements_to_write(whole, element));
  });
  return whole;
}

Tensor SiteProduct::multiplied(const Tensor& x) const {
  const Tensor dropped = torch::stable::new_empty(x, {steps_.rows(), size()});
  with_element(type_, [&](auto element) {
    launch({dim3(steps_.rows()), dim3(kPackThreads), 0, stream_},
           multiply_by_factor<decltype(element)>, steps_.device(), elements(x, element),
           static_cast<int>(size()), factor_->const_data_ptr<float>(), Offset{factor_step_},
           Offset{factor_row_}, elements_to_write(dropped, element));
  });
  return dropped;
}

Tensor SiteProduct::with_bias(const Tensor& output, const std::optional<Tensor>& bias) const {
  if (!bias) return output;
  with_element(type_, [&](auto element) {
    launch({dim3(steps_.rows()), dim3(kPackThreads), 0, stream_}, add_bias<decltype(element)>,
           floats_or_null(bias), static_cast<int>(columns()),
           elements_to_write(output, element));
  });
  return output;
}

Tensor SiteProduct::skip_forward(const Tensor& packed, const std::optional<Tensor>& bias) const {
  const Tensor output = torch::stable::new_empty(packed, {steps_.rows(), columns()});
  const ForwardOperands on{set_steps(),         kept_sets_,
                           packed.data_ptr(),   weight_.data_ptr(),
                           floats_or_null(bias), output.data_ptr(),
                           static_cast<int>(columns()), 0};
  if (choice_->forward == Method::row_skip)
    launch_row_skip_forward(on, stream_);
  else
    with_element(type_, [&](auto element) {
      launch_tensor_core_forward<decltype(element)>(on, stream_);
    });
  return output;
}

Tensor SiteProduct::skip_data_gradient(const Tensor& dy) const {
  const Tensor dx = torch::stable::new_empty(dy, {steps_.rows(), size()});
  clear(dx);
  const DataGradientOperands on{set_steps(),       kept_sets_,
                                dy.data_ptr(),     weight_.data_ptr(),
                                factors_of_sets(), scale_,
                                dx.data_ptr(),     static_cast<int>(columns()),
                                static_cast<int>(size()), 0};
  if (choice_->data_gradient == Method::row_skip)
    launch_row_skip_data_gradient(on, stream_);
  else
    with_element(type_, [&](auto element) {
      launch_tensor_core_data_gradient<decltype(element)>(on, stream_);
    });
  return dx;
}

Tensor SiteProduct::skip_weight_gradient(const Tensor& packed, const Tensor& dy) const {
  const Tensor dw = torch::stable::new_empty(dy, {size(), columns()});
  const WeightGradientOperands on{
      set_steps(), kept_sets_, packed.const_data_ptr<float>(), dy.const_data_ptr<float>(),
      dw.mutable_data_ptr<float>(), static_cast<int>(columns()), static_cast<int>(size()), 0, 0};
  launch_row_skip_weight_gradient(on, stream_);
  return dw;
}

}  // namespace sdrop
