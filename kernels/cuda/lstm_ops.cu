// torch.ops.sdrop.lstm_cuda and its backward: one direction of a layer, or both of them in the same
// launches. Schemas, fakes and autograd are in sdrop/ops/lstm/cuda.py.
#include <memory>

#include "lstm_calls.h"

namespace sdrop {
namespace {

using Tensors = std::vector<Tensor>;

// The arguments of a direction each; lists that may be empty stand for "none".
struct LayerArguments {
  const Tensor& input;
  const Tensors &h_0, &c_0, &weight_ih, &weight_hh;
  const MaybeTensor &input_kept, &input_mask;
  double input_scale;
  const Tensors &hidden_kept, &hidden_mask;
  double hidden_scale;
  const MaybeTensor& batch_sizes;
  bool reverse, tf32;

  std::size_t directions() const { return h_0.size(); }

  void check() const {
    const auto count = directions();
    STD_TORCH_CHECK(count >= 1 && count <= static_cast<std::size_t>(kMostLayers) &&
                        c_0.size() == count && weight_ih.size() == count &&
                        weight_hh.size() == count && !(count == 2 && reverse),
                    "expected one direction, or a forward and a reverse one, got ", count);
    for (const Tensors* each : {&hidden_kept, &hidden_mask})
      STD_TORCH_CHECK(each->empty() || each->size() == count,
                      "expected a mask of h for each direction, or none");
  }
  DirectionArguments direction(const Sequence& sequence, std::size_t i) const {
    return {sequence,
            h_0[i],
            c_0[i],
            weight_ih[i],
            weight_hh[i],
            {input_kept, input_mask, input_scale},
            {at(hidden_kept, i), at(hidden_mask, i), hidden_scale},
            reverse || i == 1,
            tf32};
  }
  static MaybeTensor at(const Tensors& tensors, std::size_t i) {
    return tensors.empty() ? MaybeTensor() : MaybeTensor(tensors[i]);
  }
};

template <typename Element>
Tensors forward(const LayerArguments& layer, const Tensors& bias) {
  const Sequence sequence(layer.input, layer.batch_sizes);
  std::vector<std::unique_ptr<ForwardDirection<Element>>> directions;
  for (std::size_t i = 0; i < layer.directions(); ++i)
    directions.push_back(std::make_unique<ForwardDirection<Element>>(layer.direction(sequence, i),
                                                                     layer.at(bias, i)));
  run_together<ForwardLayer, Element>(directions, layer.input, run_forward<Element>);
  Tensors results;
  for (const auto& each : directions) results.push_back(each->output);
  for (const auto& each : directions) results.push_back(each->h_n);
  for (const auto& each : directions) results.push_back(each->c_n);
  for (const auto& each : directions) results.push_back(each->gates);
  for (const auto& each : directions) results.push_back(each->cells);
  return results;
}

Tensors lstm(const Tensor& input, const Tensors& h_0, const Tensors& c_0, const Tensors& weight_ih,
             const Tensors& weight_hh, const Tensors& bias, const MaybeTensor& input_kept,
             const MaybeTensor& input_mask, double input_scale, const Tensors& hidden_kept,
             const Tensors& hidden_mask, double hidden_scale, const MaybeTensor& batch_sizes,
             bool reverse, bool tf32) {
  const OnDeviceOf guard(input);
  const LayerArguments layer{input,      h_0,          c_0,         weight_ih,   weight_hh,
                             input_kept, input_mask,   input_scale, hidden_kept, hidden_mask,
                             hidden_scale, batch_sizes, reverse,    tf32};
  layer.check();
  STD_TORCH_CHECK(bias.empty() || bias.size() == h_0.size(), "expected a bias each, or none");
  if (input.scalar_type() == ScalarType::BFloat16) return forward<Bfloat16>(layer, bias);
  return forward<float>(layer, bias);
}

template <typename Element>
Tensor sum_over_directions(
    const std::vector<std::unique_ptr<BackwardDirection<Element>>>& directions) {
  const Tensor sum = directions[0]->grad_input();
  for (std::size_t i = 1; i < directions.size(); ++i) {
    const Tensor more = directions[i]->grad_input();
    const Index blocks = (sum.numel() + kPrepareThreads - 1) / kPrepareThreads;
    launch({dim3(static_cast<unsigned>(std::min<Index>(blocks, 4096))), dim3(kPrepareThreads), 0,
            current_stream(sum)},
           add_elements<Element>, Offset{sum.numel()}, read<Element>(more), written<Element>(sum));
  }
  return sum;
}

template <typename Element>
Tensors backward(const LayerArguments& layer, const Tensors& grads, const Tensors& saved,
                 bool needs_input_grad) {
  const Sequence sequence(layer.input, layer.batch_sizes);
  const auto count = layer.directions();
  std::vector<std::unique_ptr<BackwardDirection<Element>>> directions;
  for (std::size_t i = 0; i < count; ++i)
    directions.push_back(std::make_unique<BackwardDirection<Element>>(
        layer.direction(sequence, i),
        BackwardTensors{grads[i], grads[count + i], grads[2 * count + i], saved[i],
                        saved[count + i], saved[2 * count + i]}));
  run_together<BackwardLayer, Element>(directions, layer.input, run_backward<Element>);
  Tensors results;
  if (needs_input_grad) {
    const auto shape = with_features(layer.input, sequence.features);
    results.push_back(torch::stable::view(sum_over_directions<Element>(directions),
                                          {shape.data(), shape.size()}));
  } else {
    results.push_back(torch::stable::new_empty(layer.input, {0}));
  }
  for (const auto& each : directions) results.push_back(each->grad_h_0);
  for (const auto& each : directions) results.push_back(each->grad_c_0);
  for (const auto& each : directions) results.push_back(each->grad_weight_ih());
  for (const auto& each : directions) results.push_back(each->grad_weight_hh());
  for (const auto& each : directions) results.push_back(each->grad_bias());
  return results;
}

// grads: of output, h_n and c_n; saved: output, gates and cells; each of all directions.
Tensors lstm_backward(const Tensors& grads, const Tensor& input, const Tensors& h_0,
                      const Tensors& c_0, const Tensors& weight_ih, const Tensors& weight_hh,
                      const MaybeTensor& input_kept, const MaybeTensor& input_mask,
                      double input_scale, const Tensors& hidden_kept, const Tensors& hidden_mask,
                      double hidden_scale, const MaybeTensor& batch_sizes, bool reverse, bool tf32,
                      const Tensors& saved, bool needs_input_grad) {
  const OnDeviceOf guard(input);
  const LayerArguments layer{input,      h_0,          c_0,         weight_ih,   weight_hh,
                             input_kept, input_mask,   input_scale, hidden_kept, hidden_mask,
                             hidden_scale, batch_sizes, reverse,    tf32};
  layer.check();
  STD_TORCH_CHECK(grads.size() == 3 * h_0.size() && saved.size() == 3 * h_0.size(),
                  "expected three gradients and three saved tensors a direction");
  const auto run = input.scalar_type() == ScalarType::BFloat16 ? backward<Bfloat16>
                                                               : backward<float>;
  return run(layer, grads, saved, needs_input_grad);
}

}  // namespace

// How a layer would run on the device: 0 resident, 1 streamed, 2 by_step (see occupancy.h).
extern "C" __attribute__((visibility("default"))) int sdrop_recurrence_mode(
    int device, int batch, int hidden_size, int directions, int element_bytes) {
  return static_cast<int>(
      plan_on(device, {batch, hidden_size, directions, element_bytes}).mode);
}

// Sets `bytes` of the device's second-level cache aside for W_h, 0 for none (see l2_window.h).
// Returns what the device gave, or -1 where it failed.
extern "C" __attribute__((visibility("default"))) long long sdrop_keep_weights_in_l2(
    [[maybe_unused]] int device, long long bytes) {
  std::size_t given = bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
#ifdef __CUDACC__
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return -1;
  int most = 0;
  bool done = cudaDeviceGetAttribute(&most, cudaDevAttrMaxPersistingL2CacheSize, device) ==
              cudaSuccess;
  given = std::min(given, static_cast<std::size_t>(most));
  done = done && cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, given) == cudaSuccess;
  if (given == 0) done = cudaCtxResetPersistingL2Cache() == cudaSuccess && done;
  if (cudaSetDevice(before) != cudaSuccess || !done) return -1;
#endif
  l2_set_aside = given;
  return static_cast<long long>(given);
}

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("lstm_cuda", TORCH_BOX(&lstm));
  library.impl("lstm_cuda_backward", TORCH_BOX(&lstm_backward));
}

}  // namespace sdrop
