// What the library is and what it finds, for sdrop/ops/native_cuda.py: nothing here starts CUDA.
#ifdef __CUDACC__  // the emulation has nothing to tell
#include <cuda_runtime_api.h>

#define SDROP_EXPORT extern "C" __attribute__((visibility("default")))

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
