// One compilation of the kernels: SDROP_CAPABILITY names it and SDROP_VECTOR_BYTES is its width.
#include "linear.h"
#include "lstm_backward.h"
#include "lstm_forward.h"

#define SDROP_TEXT(name) #name
#define SDROP_NAME(name) SDROP_TEXT(name)

namespace sdrop::SDROP_CAPABILITY {

extern const Kernels kernels;
const Kernels kernels = {SDROP_NAME(SDROP_CAPABILITY), lstm_forward, lstm_backward, linear_forward,
                         linear_backward};

}  // namespace sdrop::SDROP_CAPABILITY
