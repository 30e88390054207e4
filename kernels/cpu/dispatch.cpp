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
  const char* set = std::getenv("SDROP_CPU_CAPABILITY");
  const auto asked_for = [set](const char* name) { return set && std::strcmp(set, name) == 0; };
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
  // No processor has timed the AVX-512 kernels yet: on an emulated one (Bochs 2.7, Skylake X) all
  // cases of the sanitizers' driver were right. SDROP_CPU_CAPABILITY=avx2 goes without them.
  if (asked_for("default")) return portable::kernels;
  if (has_avx512 && !asked_for("avx2")) return avx512::kernels;
  if (has_avx2) return avx2::kernels;
#endif
  return portable::kernels;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace sdrop
