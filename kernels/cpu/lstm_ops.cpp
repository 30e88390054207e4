// torch.ops.sdrop.lstm_cpu and its backward; schemas, fakes and autograd are in sdrop/ops/lstm.
#include <tuple>

#include "arguments.h"

namespace sdrop {
namespace {

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lstm(
    const Tensor& input, const Tensor& h_0, const Tensor& c_0, const Tensor& weight_ih,
    const Tensor& weight_hh, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& input_kept, const std::optional<Tensor>& input_mask,
    double input_scale, const std::optional<Tensor>& hidden_kept,
    const std::optional<Tensor>& hidden_mask, double hidden_scale,
    const std::optional<Tensor>& batch_sizes, bool reverse) {
  const StepsArgument steps(input, batch_sizes, reverse);
  const SiteArgument input_site(weight_ih, input_kept, input_mask, input_scale, *steps);
  const SiteArgument hidden_site(weight_hh, hidden_kept, hidden_mask, hidden_scale, *steps);
  const Index size = hidden_site->size, batch = steps->batch, rows = steps->rows;
  STD_TORCH_CHECK(input_site.columns() == 4 * size && hidden_site.columns() == 4 * size,
                  "weights: expected (4H, input_size) and (4H, H)");
  STD_TORCH_CHECK(input_site.of_bfloat16() == hidden_site.of_bfloat16(),
                  "weights: expected two of one type");
  const Tensor x = floats(input, with_features(input, input_site->size), "input");
  const Tensor h = floats(h_0, {batch, size}, "h_0"), c = floats(c_0, {batch, size}, "c_0");
  std::optional<Tensor> b;
  if (bias) b = floats(*bias, {4 * size}, "bias");
  const Index padded = padded_hidden_size(size);
  const Tensor output = new_floats(with_features(input, size));
  const Tensor h_n = new_floats({batch, size}), c_n = new_floats({batch, size});
  const Tensor gates = new_floats({rows, 4 * padded}), cells = new_floats({rows, padded});
  kernels_for(input_site, size).lstm_forward(
      {*steps, *input_site, *hidden_site, size, x.const_data_ptr<float>(),
       h.const_data_ptr<float>(), c.const_data_ptr<float>(), data_or_null(b),
       output_data(output), output_data(h_n), output_data(c_n), output_data(gates),
       output_data(cells)},
      on_torch_threads);
  return {output, h_n, c_n, gates, cells};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> lstm_backward(
    const Tensor& grad_output, const std::optional<Tensor>& grad_h_n,
    const std::optional<Tensor>& grad_c_n, const Tensor& input, const Tensor& h_0,
    const Tensor& c_0, const Tensor& weight_ih, const Tensor& weight_hh,
    const std::optional<Tensor>& input_kept,
    const std::optional<Tensor>& input_mask, double input_scale,
    const std::optional<Tensor>& hidden_kept, const std::optional<Tensor>& hidden_mask,
    double hidden_scale, const std::optional<Tensor>& batch_sizes, bool reverse,
    const Tensor& output, const Tensor& gates, const Tensor& cells, bool needs_input_grad) {
  const StepsArgument steps(input, batch_sizes, reverse);
  const SiteArgument input_site(weight_ih, input_kept, input_mask, input_scale, *steps);
  const SiteArgument hidden_site(weight_hh, hidden_kept, hidden_mask, hidden_scale, *steps);
  const Index size = hidden_site->size, batch = steps->batch, rows = steps->rows;
  const Index padded = padded_hidden_size(size);
  const auto shape = with_features(input, size);
  const Tensor grad = floats(grad_output, shape, "grad_output");
  std::optional<Tensor> grad_h, grad_c;
  if (grad_h_n) grad_h = floats(*grad_h_n, {batch, size}, "grad_h_n");
  if (grad_c_n) grad_c = floats(*grad_c_n, {batch, size}, "grad_c_n");
  const Tensor x = floats(input, with_features(input, input_site->size), "input");
  const Tensor h = floats(h_0, {batch, size}, "h_0"), c = floats(c_0, {batch, size}, "c_0");
  const Tensor y = floats(output, shape, "output");
  const Tensor saved_gates = floats(gates, {rows, 4 * padded}, "gates");
  const Tensor saved_cells = floats(cells, {rows, padded}, "cells");
  const Tensor grad_x =
      needs_input_grad ? new_floats(with_features(input, input_site->size)) : new_floats({0});
  const Tensor grad_h_0 = new_floats({batch, size}), grad_c_0 = new_floats({batch, size});
  const Tensor grad_ih = input_site.new_gradient(), grad_hh = hidden_site.new_gradient();
  const Tensor grad_bias = new_floats({4 * size});
  kernels_for(input_site, size).lstm_backward(
      {*steps, *input_site, *hidden_site, size, grad.const_data_ptr<float>(),
       data_or_null(grad_h), data_or_null(grad_c), x.const_data_ptr<float>(),
       h.const_data_ptr<float>(), c.const_data_ptr<float>(), y.const_data_ptr<float>(),
       saved_gates.const_data_ptr<float>(), saved_cells.const_data_ptr<float>(),
       needs_input_grad ? output_data(grad_x) : nullptr, output_data(grad_h_0),
       output_data(grad_c_0), gradient_data(grad_ih), gradient_data(grad_hh),
       output_data(grad_bias)},
      on_torch_threads);
  return {grad_x, grad_h_0, grad_c_0, grad_ih, grad_hh, grad_bias};
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, CPU, library) {
  library.impl("lstm_cpu", TORCH_BOX(&lstm));
  library.impl("lstm_cpu_backward", TORCH_BOX(&lstm_backward));
}

}  // namespace sdrop
