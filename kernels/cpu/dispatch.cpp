// Which of the compilations this processor runs.
#include <cstdlib>
#include <cstring>

#include "interface.h"

namespace sdrop {

namespace portable {
extern const Kernels kernels;
}
#ifdef SDROP_X86
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
#endif

namespace {

const Kernels& choose() {
#ifdef SDROP_X86
  const char* asked = std::getenv("SDROP_CPU_CAPABILITY");
  const bool at_most_portable = asked && std::strcmp(asked, "default") == 0;
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  // On request alone, until it has been checked and measured on a processor that has it.
  const bool wants_avx512 = asked && std::strcmp(asked, "avx512") == 0;
  if (has_avx512 && wants_avx512) return avx512::kernels;
  if (has_avx2 && !at_most_portable) return avx2::kernels;
#endif
  return portable::kernels;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace sdrop
