// torch.ops.sdrop.linear_cuda and its backward; schemas, fakes and autograd are in sdrop/ops.
#include <tuple>

#include "site_product.h"

namespace sdrop {
namespace {

using torch::stable::new_empty;

Tensor shaped(const Tensor& rows, const std::vector<Index>& shape) {
  return torch::stable::view(rows, {shape.data(), shape.size()});
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
              const std::optional<Tensor>& kept, const std::optional<Tensor>& mask, double scale,
              const std::optional<Tensor>& batch_sizes, bool tf32) {
  const OnDeviceOf here(input);
  const StepsArgument steps(input, batch_sizes);
  const SiteProduct site(weight, kept, mask, scale, steps, tf32);
  return shaped(site.forward(rows_of(input, steps), bias), with_features(input, site.columns()));
}

// The sum of the rows, in their type, below autocast.
Tensor sum_of_rows(const Tensor& rows) {
  Tensor sum = new_empty(rows, {rows.size(1)});
  const std::array<Index, 1> over{0};
  return torch::stable::sum_out(sum, rows, torch::headeronly::IntHeaderOnlyArrayRef(over.data(), 1));
}

std::tuple<Tensor, Tensor, Tensor> linear_backward(
    const Tensor& grad_output, const Tensor& input, const Tensor& weight,
    const std::optional<Tensor>& kept, const std::optional<Tensor>& mask, double scale,
    const std::optional<Tensor>& batch_sizes, bool needs_input_grad, bool tf32) {
  const OnDeviceOf here(input);
  const StepsArgument steps(input, batch_sizes);
  const SiteProduct site(weight, kept, mask, scale, steps, tf32);
  const Tensor dy = torch::stable::contiguous(rows_of(grad_output, steps));
  const Tensor dx = needs_input_grad
                        ? shaped(site.data_gradient(dy), with_features(input, site.size()))
                        : new_empty(dy, {0});
  const Tensor dw = site.weight_gradient(rows_of(input, steps), dy);
  return {dx, transposed(dw), sum_of_rows(dy)};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("linear_cuda", TORCH_BOX(&linear));
  library.impl("linear_cuda_backward", TORCH_BOX(&linear_backward));
}

}  // namespace sdrop
