// torch.ops.sdrop.linear_cpu and its backward; schemas, fakes and autograd are in sdrop/ops.
#include <tuple>

#include "arguments.h"

namespace sdrop {
namespace {

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias,
              const std::optional<Tensor>& kept, const std::optional<Tensor>& mask, double scale,
              const std::optional<Tensor>& batch_sizes) {
  const StepsArgument steps(input, batch_sizes, false);
  const SiteArgument site(weight, kept, mask, scale, *steps);
  const Tensor x = floats(input, with_features(input, site->size), "input");
  std::optional<Tensor> b;
  if (bias) b = floats(*bias, {site.columns()}, "bias");
  const Tensor output = new_floats(with_features(input, site.columns()));
  kernels_for(site, site.columns())
      .linear_forward({*steps, *site, site.columns(), x.const_data_ptr<float>(), data_or_null(b),
                       output_data(output)},
                      on_torch_threads);
  return output;
}

std::tuple<Tensor, Tensor, Tensor> linear_backward(
    const Tensor& grad_output, const Tensor& input, const Tensor& weight,
    const std::optional<Tensor>& kept, const std::optional<Tensor>& mask, double scale,
    const std::optional<Tensor>& batch_sizes, bool needs_input_grad) {
  const StepsArgument steps(input, batch_sizes, false);
  const SiteArgument site(weight, kept, mask, scale, *steps);
  const Tensor x = floats(input, with_features(input, site->size), "input");
  const Tensor grad = floats(grad_output, with_features(input, site.columns()), "grad_output");
  const Tensor grad_x =
      needs_input_grad ? new_floats(with_features(input, site->size)) : new_floats({0});
  const Tensor grad_weight = site.new_gradient(), grad_bias = new_floats({site.columns()});
  kernels_for(site, site.columns())
      .linear_backward({*steps, *site, site.columns(), grad.const_data_ptr<float>(),
                        x.const_data_ptr<float>(), needs_input_grad ? output_data(grad_x) : nullptr,
                        gradient_data(grad_weight), output_data(grad_bias)},
                       on_torch_threads);
  return {grad_x, grad_weight, grad_bias};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, CPU, library) {
  library.impl("linear_cpu", TORCH_BOX(&linear));
  library.impl("linear_cpu_backward", TORCH_BOX(&linear_backward));
}

}  // namespace sdrop
