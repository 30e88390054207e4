// torch.ops.sdrop.lstm_cuda and its backward; schemas, fakes and autograd are in
// sdrop/ops/lstm/cuda.py.
#include "lstm_calls.h"

namespace sdrop {
namespace {

template <typename Element>
typename ForwardCall<Element>::Results forward(const LayerArguments& layer,
                                               const MaybeTensor& bias) {
  ForwardCall<Element> call(layer, bias);
  run_together<ForwardLayer, Element>(std::vector{&call}, layer.input, run_forward<Element>);
  return call.results();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> lstm(
    const Tensor& input, const Tensor& h_0, const Tensor& c_0, const Tensor& weight_ih,
    const Tensor& weight_hh, const MaybeTensor& bias, const MaybeTensor& input_kept,
    const MaybeTensor& input_mask, double input_scale, const MaybeTensor& hidden_kept,
    const MaybeTensor& hidden_mask, double hidden_scale, const MaybeTensor& batch_sizes,
    bool reverse) {
  const OnDeviceOf guard(input);
  const LayerArguments layer{input,       h_0,         c_0,          weight_ih,   weight_hh,
                             input_kept,  input_mask,  input_scale,  hidden_kept, hidden_mask,
                             hidden_scale, batch_sizes, reverse};
  if (input.scalar_type() == ScalarType::BFloat16) return forward<Bfloat16>(layer, bias);
  return forward<float>(layer, bias);
}

template <typename Element>
typename BackwardCall<Element>::Results backward(const LayerArguments& layer,
                                                 const Tensor& grad_output, const Tensor& grad_h_n,
                                                 const Tensor& grad_c_n, const Tensor& output,
                                                 const Tensor& gates, const Tensor& cells,
                                                 bool needs_input_grad) {
  BackwardCall<Element> call(layer, grad_output, grad_h_n, grad_c_n, output, gates, cells);
  run_together<BackwardLayer, Element>(std::vector{&call}, layer.input, run_backward<Element>);
  return call.results(needs_input_grad);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> lstm_backward(
    const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n,
    const Tensor& input, const Tensor& h_0, const Tensor& c_0, const Tensor& weight_ih,
    const Tensor& weight_hh, const MaybeTensor& input_kept, const MaybeTensor& input_mask,
    double input_scale, const MaybeTensor& hidden_kept, const MaybeTensor& hidden_mask,
    double hidden_scale, const MaybeTensor& batch_sizes, bool reverse, const Tensor& output,
    const Tensor& gates, const Tensor& cells, bool needs_input_grad) {
  const OnDeviceOf guard(input);
  const LayerArguments layer{input,       h_0,         c_0,          weight_ih,   weight_hh,
                             input_kept,  input_mask,  input_scale,  hidden_kept, hidden_mask,
                             hidden_scale, batch_sizes, reverse};
  const auto run = input.scalar_type() == ScalarType::BFloat16 ? backward<Bfloat16>
                                                               : backward<float>;
  return run(layer, grad_output, grad_h_n, grad_c_n, output, gates, cells, needs_input_grad);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("lstm_cuda", TORCH_BOX(&lstm));
  library.impl("lstm_cuda_backward", TORCH_BOX(&lstm_backward));
}

}  // namespace sdrop
