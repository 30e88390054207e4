// What Python asks the library beside its operators.
#include "interface.h"

extern "C" __attribute__((visibility("default"))) const char* sdrop_cpu_capability() {
  return sdrop::kernels().name;
}

// Whether products of bfloat16 numbers have instructions of their own.
extern "C" __attribute__((visibility("default"))) bool sdrop_cpu_bfloat16() {
  return sdrop::bfloat16_kernels().native;
}
