// What the library is and what it finds, for sdrop/ops/native_cuda.py: nothing here starts CUDA.
#include <string>

#include "choice.h"

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#endif

#define SDROP_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr const char* kMethods[] = {"whole", "masked", "packed", "row_skip", "tensor_core"};

const char* name_of(sdrop::Method method) { return kMethods[static_cast<int>(method)]; }

}  // namespace

// How choice.h computes forward, data gradient and weight gradient, and why, in a line. `precision`
// and `pattern` are places in its enumerations; the text stays until the next call.
SDROP_EXPORT const char* sdrop_cuda_method(int precision, int pattern, long long rows) {
  static thread_local std::string said;
  const sdrop::Choice& found = sdrop::choose(static_cast<sdrop::Precision>(precision),
                                             static_cast<sdrop::Pattern>(pattern), rows);
  said = name_of(found.forward);
  said += std::string(", ") + name_of(found.data_gradient) + ", " + name_of(found.weight_gradient);
  said += std::string(": ") + found.reason;
  return said.c_str();
}

#ifdef __CUDACC__  // the emulation has no driver and no architecture

// "sm_80,sm_86,...": the architectures that were compiled; later ones get the last as PTX.
SDROP_EXPORT const char* sdrop_cuda_architectures() { return SDROP_CUDA_ARCHITECTURES; }

// CUDA's version that the library was built with, as 1000 * major + 10 * minor.
SDROP_EXPORT int sdrop_cuda_runtime_version() { return CUDART_VERSION; }

// The newest CUDA that the installed driver knows, written the same; 0 where there is no driver.
SDROP_EXPORT int sdrop_cuda_driver_version() {
  int version = 0;
  return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}
#endif
