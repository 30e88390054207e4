// See steps_argument.h.
#include "steps_argument.h"

namespace sdrop {
namespace {

constexpr int kStartsAtOnce = 512;

// A piece of StepRows::starts, by value: a launch that is captured in a graph keeps it.
struct StartsPiece {
  int values[kStartsAtOnce];
};

__global__ void write_starts(StartsPiece piece, int count, int* starts) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) starts[i] = piece.values[i];
}

}  // namespace

// By kernels that carry the values: a copy from host memory could not be captured in a graph.
void StepsArgument::write_device_starts(const Tensor& input) {
  device_starts_ = torch::stable::new_empty(input, {count() + 1}, ScalarType::Int);
  int* to = device_starts_->mutable_data_ptr<int>();
  for (Index done = 0; done <= count(); done += kStartsAtOnce) {
    StartsPiece piece{};
    const auto here = static_cast<int>(std::min<Index>(kStartsAtOnce, count() + 1 - done));
    for (int i = 0; i < here; ++i) piece.values[i] = static_cast<int>(starts_[done + i]);
    launch({dim3(1), dim3(128), 0, current_stream(input)}, write_starts, piece, here, to + done);
  }
}

}  // namespace sdrop
