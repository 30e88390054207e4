// What the bindings and the kernels say to each other: raw pointers and sizes, nothing of torch, so
// that the kernels can be compiled once a capability and run by a program without Python.
#pragma once

#include <cstdint>

namespace sdrop {

using Index = std::int64_t;

// Runs body(begin, end, context) on pieces of [begin, end) on any threads and in any order; pieces
// shorter than `grain` are not worth a thread. Results depend on neither. Kernels never wait inside
// a body: all pieces may run on one thread.
using Body = void (*)(Index begin, Index end, void* context);
using ParallelFor = void (*)(Index begin, Index end, Index grain, Body body, void* context);

// Activations are rows of a matrix, one row a step and sequence: all sequences at t = 0, then all
// that reach t = 1, and so on.
struct Steps {
  Index count;         // T
  Index batch;         // B, the number of sequences
  Index rows;          // the sum of `sizes`
  const Index* sizes;  // (T), how many sequences reach step t, never growing
  const Index* starts; // (T), the first row of step t
  bool reverse;        // run from the last step to the first
};

// So many entries behind the last kept neuron can be read (they are valid indices): kernels ask for
// rows ahead of time.
constexpr Index kReadableBehindKept = 16;

// A dropout and the weight of the GEMM behind it, y = drop(x) W. Only the kept rows of W are read.
struct Site {
  const void* weight;      // (size, columns), contiguous: float32 numbers, or bfloat16 ones
  Index size;              // K
  Index sets;              // 1 where all steps keep the same neurons, else T
  const std::int32_t* kept; // the kept neurons, ascending, one set after the other
  const Index* set_starts; // (sets + 1), where each set begins in `kept`
  float scale;             // of a kept element, where there is no factor
  const float* factor;     // or null: element (t, b, j) has factor[t * step + b * row + j]
  Index factor_step;
  Index factor_row;
};

struct LstmForward {
  Steps steps;
  Site input_site;
  Site hidden_site;
  Index hidden_size;   // H
  const float* input;  // (rows, input_site.size)
  const float* h_0;    // (B, H)
  const float* c_0;    // (B, H)
  const float* bias;   // (4H), or null
  float* output;       // (rows, H)
  float* h_n;          // (B, H)
  float* c_n;          // (B, H)
  float* gates;        // rows * 4 * padded H, the gates after their nonlinearities
  float* cells;        // rows * padded H; both for the backward pass of the same capability alone
};

struct LstmBackward {
  Steps steps;
  Site input_site;
  Site hidden_site;
  Index hidden_size;
  const float* grad_output; // (rows, H)
  const float* grad_h_n;    // (B, H), or null where nobody used h_n
  const float* grad_c_n;    // (B, H), or null likewise
  const float* input;
  const float* h_0;
  const float* c_0;
  const float* output;
  const float* gates;
  const float* cells;
  float* grad_input;        // (rows, input_site.size), or null where nobody wants it
  float* grad_h_0;          // (B, H)
  float* grad_c_0;          // (B, H)
  void* grad_weight_ih;     // (input_site.size, 4H), of the same numbers as the weights
  void* grad_weight_hh;     // (H, 4H)
  float* grad_bias;         // (4H)
};

struct LinearForward {
  Steps steps;
  Site site;
  Index columns;      // N
  const float* input; // (rows, site.size)
  const float* bias;  // (N), or null
  float* output;      // (rows, N)
};

struct LinearBackward {
  Steps steps;
  Site site;
  Index columns;
  const float* grad_output; // (rows, N)
  const float* input;
  float* grad_input;  // (rows, site.size), or null
  void* grad_weight;  // (site.size, N), of the same numbers as the weight
  float* grad_bias;   // (N)
};

// The hidden size to which gates and cells are padded: a multiple of the widest vector, so that
// they have room for the panels of every capability.
constexpr Index padded_hidden_size(Index hidden_size) { return (hidden_size + 15) / 16 * 16; }

// One compilation of the kernels.
struct Kernels {
  const char* name;
  void (*lstm_forward)(const LstmForward&, ParallelFor);
  void (*lstm_backward)(const LstmBackward&, ParallelFor);
  void (*linear_forward)(const LinearForward&, ParallelFor);
  void (*linear_backward)(const LinearBackward&, ParallelFor);
};

// The kernels for this processor, or lower ones where SDROP_CPU_CAPABILITY asks for them.
const Kernels& kernels();

// The same for bfloat16 weights, whose products are those of bfloat16 numbers with sums in float32;
// an LSTM's H or a linear layer's N is even. Where the processor has no instructions for them they
// are slow, and `native` is false.
struct BFloat16Kernels {
  const Kernels& kernels;
  bool native;
};
BFloat16Kernels bfloat16_kernels();

}  // namespace sdrop
