// torch.ops.sdrop.linear_cross_entropy_cuda: a decoder and its loss over one buffer of logits.
#include <tuple>

#include "cross_entropy.cuh"
#include "site_product.h"

namespace sdrop {
namespace {

using torch::stable::new_empty;

// Returns the loss in float32, and its gradient by the logits, empty without `want_grad`.
std::tuple<Tensor, Tensor> linear_cross_entropy(
    const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
    const Tensor& target, const std::optional<Tensor>& kept, const std::optional<Tensor>& mask,
    double scale, const std::optional<Tensor>& batch_sizes, Index ignore_index, bool want_grad,
    bool tf32) {
  const OnDeviceOf here(input);
  const StepsArgument steps(input, batch_sizes);
  const SiteProduct site(weight, kept, mask, scale, steps, tf32);
  const std::array<Index, 1> flat{-1};
  const Tensor targets = expect(torch::stable::reshape(target, {flat.data(), 1}),
                                ScalarType::Long, {steps.rows()}, "target");
  std::optional<Tensor> b;
  if (bias)
    b = torch::stable::to(expect(*bias, input.scalar_type(), {site.columns()}, "bias"),
                          ScalarType::Float);
  const Tensor logits = site.forward(rows_of(input, steps), std::nullopt);
  const Tensor losses = new_empty(input, {steps.rows()}, ScalarType::Float);
  const Tensor counted = new_empty(input, {1}, ScalarType::Int);
  const Tensor loss = new_empty(input, {}, ScalarType::Float);
  const CrossEntropy on{
      reinterpret_cast<const long long*>(targets.const_data_ptr<std::int64_t>()),
      ignore_index,
      static_cast<int>(steps.rows()),
      static_cast<int>(site.columns()),
      floats_or_null(b),
      losses.mutable_data_ptr<float>(),
      counted.mutable_data_ptr<int>(),
      loss.mutable_data_ptr<float>()};
  const cudaStream_t stream = current_stream(input);
  launch({dim3(1), dim3(kLossThreads), 0, stream}, count_targets, on);
  with_element(input.scalar_type(), [&](auto element) {
    launch({dim3(on.rows), dim3(kLossThreads), 0, stream}, cross_entropy_rows<decltype(element)>,
           on, elements_to_write(logits, element), want_grad);
  });
  launch({dim3(1), dim3(kLossThreads), 0, stream}, mean_loss, on);
  return {loss, want_grad ? logits : new_empty(logits, {0})};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("linear_cross_entropy_cuda", TORCH_BOX(&linear_cross_entropy));
}

}  // namespace sdrop
