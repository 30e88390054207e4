// One compilation of the kernels: SDROP_CAPABILITY names it, SDROP_VECTOR_BYTES is its width, and
// SDROP_FLOAT32 and SDROP_BFLOAT16 say what numbers it is for.
#include "linear.h"
#include "lstm_backward.h"
#include "lstm_forward.h"

#define SDROP_TEXT(name) #name
#define SDROP_NAME(name) SDROP_TEXT(name)

namespace sdrop::SDROP_CAPABILITY {

template <typename Precision>
constexpr Kernels kernels_of() {
  return {SDROP_NAME(SDROP_CAPABILITY), lstm_forward<Precision>, lstm_backward<Precision>,
          linear_forward<Precision>, linear_backward<Precision>};
}

#ifdef SDROP_FLOAT32
extern const Kernels float32_kernels;
const Kernels float32_kernels = kernels_of<Float32>();
#endif
#ifdef SDROP_BFLOAT16
extern const Kernels bfloat16_kernels;
const Kernels bfloat16_kernels = kernels_of<BFloat16>();
#endif

}  // namespace sdrop::SDROP_CAPABILITY
