// Running a recurrence: limits of the device, then one launch a sequence or one a step. Knows CUDA
// and nothing of torch.
#pragma once

#include <cstdlib>
#include <string>

#include "l2_window.h"
#include "lstm_persistent.cuh"
#include "lstm_step.cuh"

namespace sdrop {

inline DeviceLimits limits_of_device(int device) {
  return {device_attribute(cudaDevAttrMultiProcessorCount, device),
          device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
          device_attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device),
          device_attribute(cudaDevAttrL2CacheSize, device),
          device_attribute(cudaDevAttrCooperativeLaunch, device) != 0};
}

// SDROP_CUDA_RECURRENCE=streamed or by_step asks for a lower mode than would fit: for tests, and to
// compare. Read at each call.
inline RecurrenceMode highest_mode() {
  const char* asked = std::getenv("SDROP_CUDA_RECURRENCE");
  const std::string name = asked ? asked : "";
  if (name == "streamed") return RecurrenceMode::streamed;
  if (name == "by_step") return RecurrenceMode::by_step;
  if (!name.empty() && name != "resident")
    throw std::runtime_error("SDROP_CUDA_RECURRENCE=" + name +
                             ": expected resident, streamed or by_step");
  return RecurrenceMode::resident;
}

inline Recurrence plan_on(int device, const RecurrenceShape& shape) {
  return plan_recurrence(limits_of_device(device), shape, highest_mode());
}

// Where a recurrence runs, how it is divided, and its W_h for the second-level cache.
struct RecurrenceRun {
  int device;
  cudaStream_t stream;
  Recurrence plan;
  int layers;
  int steps;
  L2Window window;
  unsigned* arrived;  // (layers), what the layers' barriers count
};

template <template <typename> class Layer, typename Element>
void run_recurrence(const RecurrenceRun& run, const Layers<Layer, Element>& layers,
                    void (*persistent)(Layers<Layer, Element>),
                    void (*step)(Layers<Layer, Element>, int), int first, int end, int stride) {
  const Division& division = run.plan.division;
  const auto count = static_cast<unsigned>(run.layers);
  Launch how{dim3(division.tiles, 1, count), dim3(kRecurrenceThreads), run.plan.shared_bytes,
             run.stream};
  const int most = device_attribute(cudaDevAttrMaxAccessPolicyWindowSize, run.device);
  if (run.plan.mode == RecurrenceMode::by_step) {
    how.grid = dim3(division.tiles, division.row_tiles, count);
    for (int position = first; position != end; position += stride)
      launch_recurrence(how, run.window, most, step, layers, position);
    return;
  }
  check_cuda(cudaMemsetAsync(run.arrived, 0, count * sizeof(unsigned), run.stream),
             "resetting a barrier");
  how.cooperative = true;
  const bool resident = run.plan.mode == RecurrenceMode::resident;
  launch_recurrence(how, resident ? L2Window{} : run.window, most, persistent, layers);
}

template <typename Element>
void run_forward(const RecurrenceRun& run, const Layers<ForwardLayer, Element>& layers) {
  run_recurrence(run, layers, lstm_forward_persistent<Element>, lstm_forward_step<Element>, -1,
                 run.steps, 1);
}

template <typename Element>
void run_backward(const RecurrenceRun& run, const Layers<BackwardLayer, Element>& layers) {
  run_recurrence(run, layers, lstm_backward_persistent<Element>, lstm_backward_step<Element>,
                 run.steps - 1, -2, -1);
}

}  // namespace sdrop
