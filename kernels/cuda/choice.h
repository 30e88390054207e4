// Which kernels compute the three products of a dropout site: one table, first row that fits.
#pragma once

#include <cstdint>

namespace sdrop {

enum class Precision { float32, tf32, bfloat16 };

// What the site's mask is. `sets` are neurons that the whole batch shares; where their number is
// only known on the device (a Bernoulli draw) they are `counted_on_device`.
enum class Pattern { keep_all, each_element, one_set, counted_on_device, set_a_step };

enum class Method {
  whole,        // torch's matmul, nothing dropped
  masked,       // the activation is multiplied by its factors, then torch's matmul, all of it
  packed,       // kept columns and rows are put together once, then torch's matmul of the rest
  row_skip,     // row_skip_*.cuh: float32, kept rows gathered as tiles are loaded
  tensor_core,  // tensor_core_gemm.cuh: the same on tensor cores
};

struct Choice {
  Precision precision;
  Pattern pattern;
  std::int64_t least_rows;  // of a step (of all steps where one set serves them all)
  Method forward, data_gradient, weight_gradient;
  const char* reason;
};

constexpr const char* kNothingDropped = "nothing is dropped: one large GEMM is cuBLAS's business";
constexpr const char* kNothingShared = "each sequence drops others: no row can be skipped";
constexpr const char* kPackOnce = "one set for all steps: packed once, the rest is cuBLAS's";
constexpr const char* kSkip32 =
    "float32 FMAs are the limit, not the second-level cache, and half of them are skipped";
constexpr const char* kSkipTensorCore =
    "64 rows or more a step amortise the gathered rows' way from the second-level cache; the "
    "weight gradient's sums would go to shared memory once a step, which costs what is skipped";
constexpr const char* kMaskTensorCore =
    "with few rows a step gathered tiles are bound by the second-level cache (arithmetic, not a "
    "measurement): the whole product on tensor cores is no slower";

constexpr Choice kChoices[] = {
#define SDROP_FOR_ALL_ROWS(precision)                                                            \
  {precision, Pattern::keep_all, 0, Method::whole, Method::whole, Method::whole,                 \
   kNothingDropped},                                                                             \
      {precision, Pattern::each_element, 0, Method::masked, Method::masked, Method::masked,      \
       kNothingShared},                                                                          \
      {precision, Pattern::one_set, 0, Method::packed, Method::packed, Method::packed, kPackOnce}
#define SDROP_ON_TENSOR_CORES(precision, pattern)                                                \
  {precision, pattern, 64, Method::tensor_core, Method::tensor_core, Method::masked,             \
   kSkipTensorCore},                                                                             \
      {precision, pattern, 0, Method::masked, Method::masked, Method::masked, kMaskTensorCore}
    SDROP_FOR_ALL_ROWS(Precision::float32),
    SDROP_FOR_ALL_ROWS(Precision::tf32),
    SDROP_FOR_ALL_ROWS(Precision::bfloat16),
    {Precision::float32, Pattern::counted_on_device, 0, Method::row_skip, Method::row_skip,
     Method::row_skip, kSkip32},
    {Precision::float32, Pattern::set_a_step, 0, Method::row_skip, Method::row_skip,
     Method::row_skip, kSkip32},
    SDROP_ON_TENSOR_CORES(Precision::tf32, Pattern::counted_on_device),
    SDROP_ON_TENSOR_CORES(Precision::tf32, Pattern::set_a_step),
    SDROP_ON_TENSOR_CORES(Precision::bfloat16, Pattern::counted_on_device),
    SDROP_ON_TENSOR_CORES(Precision::bfloat16, Pattern::set_a_step),
#undef SDROP_FOR_ALL_ROWS
#undef SDROP_ON_TENSOR_CORES
};

constexpr const Choice& choose(Precision precision, Pattern pattern, std::int64_t rows) {
  for (const Choice& choice : kChoices)
    if (choice.precision == precision && choice.pattern == pattern && rows >= choice.least_rows)
      return choice;
  return kChoices[0];  // not reached: each precision and pattern has a row for 0 rows
}

}  // namespace sdrop
