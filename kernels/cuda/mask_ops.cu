// Drawing masks: torch.ops.sdrop.kept_indices_cuda and keep_mask_cuda, which on CUDA tensors are
// also what sdrop.kept_indices and sdrop.keep_mask run.
#include <torch/headeronly/util/BFloat16.h>
#include <torch/headeronly/util/Half.h>

#include <cmath>

#include "host.h"
#include "masks.cuh"

namespace sdrop {
namespace {

Draw draw_of(const Tensor& key, Index site, Index first_step, Index steps, Index batch,
             Index size) {
  STD_TORCH_CHECK(on_device(key) && key.dim() == 0 && key.scalar_type() == ScalarType::Long,
                  "key: expected a 0-dim int64 tensor on the CUDA device");
  STD_TORCH_CHECK(steps > 0 && batch > 0 && size > 0 && size <= INT32_MAX && steps <= INT32_MAX,
                  "expected at least one step, sequence and neuron");
  return {reinterpret_cast<const long long*>(key.const_data_ptr<std::int64_t>()),
          static_cast<unsigned>(site),
          static_cast<int>(first_step),
          static_cast<int>(steps),
          static_cast<int>(batch),
          static_cast<int>(size)};
}

Tensor kept_indices(const Tensor& key, Index site, Index first_step, Index steps, Index size,
                    Index kept) {
  const OnDeviceOf here(key);
  const Draw draw = draw_of(key, site, first_step, steps, 1, size);
  STD_TORCH_CHECK(kept >= 0 && kept <= size, "kept: expected 0 to ", size, ", got ", kept);
  const Tensor indices = torch::stable::new_empty(key, {steps, kept});
  if (kept > 0)
    launch({dim3(steps), dim3(kMaskThreads), 0, current_stream(key)}, draw_kept_indices, draw,
           static_cast<int>(kept),
           reinterpret_cast<long long*>(indices.mutable_data_ptr<std::int64_t>()));
  return indices;
}

template <typename Bits, typename Element>
void draw_elements(const Tensor& mask, const Draw& draw, double rate) {
  const auto scale = static_cast<Element>(1.0 / (1.0 - rate));
  Bits bits;
  static_assert(sizeof bits == sizeof scale);
  std::memcpy(&bits, &scale, sizeof bits);
  const auto threshold = static_cast<unsigned long long>(std::nearbyint(std::ldexp(rate, 32)));
  const Index groups = divide_up(draw.size, 4) * (Index{draw.steps} * draw.batch);
  launch({dim3((groups + kMaskThreads - 1) / kMaskThreads), dim3(kMaskThreads), 0,
          current_stream(mask)},
         draw_keep_mask<Bits>, draw, threshold, bits, static_cast<Bits*>(mask.data_ptr()));
}

Tensor keep_mask(const Tensor& key, Index site, Index first_step, Index steps, Index batch,
                 Index size, double rate, ScalarType dtype) {
  const OnDeviceOf here(key);
  const Draw draw = draw_of(key, site, first_step, steps, batch, size);
  const Tensor mask = torch::stable::new_empty(key, {steps, batch, size}, dtype);
  if (dtype == ScalarType::Float)
    draw_elements<unsigned, float>(mask, draw, rate);
  else if (dtype == ScalarType::Double)
    draw_elements<unsigned long long, double>(mask, draw, rate);
  else if (dtype == ScalarType::BFloat16)
    draw_elements<unsigned short, c10::BFloat16>(mask, draw, rate);
  else if (dtype == ScalarType::Half)
    draw_elements<unsigned short, c10::Half>(mask, draw, rate);
  else
    STD_TORCH_CHECK(false, "dtype: expected a floating-point type");
  return mask;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("kept_indices_cuda", TORCH_BOX(&kept_indices));
  library.impl("keep_mask_cuda", TORCH_BOX(&keep_mask));
#ifdef __CUDACC__  // emulated, they would take the place of the compiled CPU kernels
  library.impl("kept_indices", TORCH_BOX(&kept_indices));
  library.impl("keep_mask", TORCH_BOX(&keep_mask));
#endif
}

}  // namespace sdrop
