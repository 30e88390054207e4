// What Python asks the library beside its operators.
#include "interface.h"

extern "C" __attribute__((visibility("default"))) const char* sdrop_cpu_capability() {
  return sdrop::kernels().name;
}
