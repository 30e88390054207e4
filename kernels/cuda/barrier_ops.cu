// torch.ops.sdrop.grid_barrier_rounds: nothing but grid barriers, so that one can be timed
// (kernels/gpu_check/rates.py declares it).
#include "grid_barrier.cuh"
#include "host.h"

namespace sdrop {
namespace {

__global__ void barrier_rounds(unsigned* arrived, unsigned rounds) {
  for (unsigned round = 1; round <= rounds; ++round) grid_barrier(arrived, gridDim.x, round);
}

// arrived: one int32, 0 at the start; it ends as blocks * rounds.
void grid_barrier_rounds(const Tensor& arrived, Index blocks, Index threads, Index rounds) {
  const OnDeviceOf guard(arrived);
  expect(arrived, ScalarType::Int, {1}, "arrived");
  Launch how{dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads))};
  how.stream = current_stream(arrived);
  how.cooperative = true;
  auto* counter = static_cast<unsigned*>(arrived.mutable_data_ptr());
  launch(how, barrier_rounds, counter, static_cast<unsigned>(rounds));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(sdrop, SDROP_DISPATCH_KEY, library) {
  library.impl("grid_barrier_rounds", TORCH_BOX(&grid_barrier_rounds));
}

}  // namespace sdrop
