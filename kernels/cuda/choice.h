// Which kernels compute the three products of a dropout site: one table, the first row that fits.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace sdrop {

enum class Precision { float32, tf32, bfloat16 };

// What the site's mask is. A set is of neurons that the whole batch keeps; of one that came as a
// mask (a Bernoulli draw) only the device knows how many there are.
enum class Pattern { keep_all, each_element, one_set, counted_on_device, set_a_step };

enum class Method {
  whole,        // torch's matmul, nothing dropped
  masked,       // the activation is multiplied by its factors, then torch's matmul, all of it
  packed,       // kept columns and rows are put together once, then torch's matmul of the rest
  row_skip,     // row_skip_*.cuh: float32, kept rows gathered as tiles are loaded
  tensor_core,  // tensor_core_gemm.cuh: the same on tensor cores
};

template <typename Choices>
constexpr unsigned only(Choices one) {
  return 1u << static_cast<unsigned>(one);
}

constexpr unsigned kAnyPrecision = ~0u;
constexpr unsigned kTensorCores = only(Precision::tf32) | only(Precision::bfloat16);
constexpr unsigned kSets = only(Pattern::counted_on_device) | only(Pattern::set_a_step);

struct Choice {
  unsigned precisions, patterns;
  std::int64_t least_rows;  // of a step (of all steps where one set serves them all)
  Method forward, data_gradient, weight_gradient;
  const char* reason;
};

// The reasons are arithmetic, not measurements.
constexpr Choice kChoices[] = {
    {kAnyPrecision, only(Pattern::keep_all), 0, Method::whole, Method::whole, Method::whole,
     "nothing is dropped: one large GEMM is cuBLAS's business"},
    {kAnyPrecision, only(Pattern::each_element), 0, Method::masked, Method::masked, Method::masked,
     "each sequence drops others: no row can be skipped"},
    {kAnyPrecision, only(Pattern::one_set), 0, Method::packed, Method::packed, Method::packed,
     "one set for all steps: packed once, the rest is cuBLAS's"},
    {only(Precision::float32), kSets, 0, Method::row_skip, Method::row_skip, Method::row_skip,
     "float32 FMAs are the limit, not the second-level cache, and those of dropped neurons are "
     "skipped"},
    {kTensorCores, kSets, 64, Method::tensor_core, Method::tensor_core, Method::masked,
     "64 rows or more a step pay for the way of the gathered rows from the second-level cache; "
     "the weight gradient's sums would go through shared memory once a step, which costs about "
     "what is skipped"},
    {kTensorCores, kSets, 0, Method::masked, Method::masked, Method::masked,
     "with few rows a step gathered tiles wait for the second-level cache: the whole product on "
     "tensor cores is no slower"},
};

// The row for a precision, a pattern and so many rows; null where there is none.
constexpr const Choice* find_choice(Precision precision, Pattern pattern, std::int64_t rows) {
  for (const Choice& choice : kChoices)
    if ((choice.precisions & only(precision)) && (choice.patterns & only(pattern)) &&
        rows >= choice.least_rows)
      return &choice;
  return nullptr;
}

constexpr bool every_case_has_a_row() {
  for (const auto precision : {Precision::float32, Precision::tf32, Precision::bfloat16})
    for (const auto pattern :
         {Pattern::keep_all, Pattern::each_element, Pattern::one_set, Pattern::counted_on_device,
          Pattern::set_a_step})
      if (!find_choice(precision, pattern, 0)) return false;
  return true;
}
static_assert(every_case_has_a_row(), "a precision and pattern without kernels");

constexpr const Choice& choose(Precision precision, Pattern pattern, std::int64_t rows) {
  return *find_choice(precision, pattern, rows);
}

}  // namespace sdrop
