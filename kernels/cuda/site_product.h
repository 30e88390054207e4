// The three products of a dropout and the weight W behind it: Y = drop(X) W, dX and dW.
//
// For a linear layer, and for the input and recurrent weights of an LSTM over a whole sequence. How
// each is computed says choice.h. Nothing here waits for the device.
#pragma once

#include "choice.h"
#include "rows.cuh"
#include "steps_argument.h"

namespace sdrop {

// torch's own matrix product, below autocast: types are settled by now.
Tensor matrix_product(const Tensor& a, const Tensor& b);

inline Tensor transposed(const Tensor& matrix) { return torch::stable::transpose(matrix, 0, 1); }

// action(Element{}) for the type of elements.
template <typename Action>
void with_element(ScalarType type, const Action& action) {
  if (type == ScalarType::Float) return action(float{});
  action(Bfloat16{});
}

template <typename Element>
const Element* elements(const Tensor& tensor, Element = {}) {
  return static_cast<const Element*>(tensor.data_ptr());
}
template <typename Element>
Element* elements_to_write(const Tensor& tensor, Element = {}) {
  return static_cast<Element*>(tensor.data_ptr());
}

class SiteProduct {
 public:
  // weight: (N, K) of float32 or bfloat16, read without a copy where its memory is K-major.
  // kept: (1 or T, k) int64; mask: (1 or T, 1 or B, K), already scaled; at most one of them.
  // tf32: whether float32 products may be computed in it. `steps` must outlive this.
  SiteProduct(const Tensor& weight, const std::optional<Tensor>& kept,
              const std::optional<Tensor>& mask, double scale, const StepsArgument& steps,
              bool tf32);
  SiteProduct(const SiteProduct&) = delete;
  SiteProduct& operator=(const SiteProduct&) = delete;

  Index size() const { return weight_.size(0); }     // K
  Index columns() const { return weight_.size(1); }  // N
  const Choice& choice() const { return *choice_; }

  // drop(rows) W + bias: (rows, K) -> (rows, N).
  Tensor forward(const Tensor& rows, const std::optional<Tensor>& bias) const;
  // The gradient of the rows from that of the result: (rows, N) -> (rows, K).
  Tensor data_gradient(const Tensor& grad_rows) const;
  // The gradient of W: (K, N), exactly 0 in rows of neurons that no step keeps.
  Tensor weight_gradient(const Tensor& rows, const Tensor& grad_rows) const;

 private:
  void take_kept(const Tensor& kept);
  void take_mask(const Tensor& mask);
  void write_kept_factors(const Tensor& kept);
  void build_sets(const std::optional<Tensor>& kept);

  bool uses(Method method) const;
  StepRows set_steps() const;
  const float* factors_of_sets() const;
  void clear(const Tensor& tensor) const;

  Tensor pack(const Tensor& x) const;
  Tensor packed_weight() const;
  Tensor restored(const Tensor& packed) const;
  Tensor restored_rows(const Tensor& packed) const;
  Tensor multiplied(const Tensor& x) const;
  Tensor with_bias(const Tensor& output, const std::optional<Tensor>& bias) const;

  Tensor skip_forward(const Tensor& packed, const std::optional<Tensor>& bias) const;
  Tensor skip_data_gradient(const Tensor& dy) const;
  Tensor skip_weight_gradient(const Tensor& packed, const Tensor& dy) const;

  const StepsArgument& steps_;
  ScalarType type_;
  Tensor weight_;  // (K, N)
  cudaStream_t stream_;
  float scale_;
  bool given_as_mask_;
  Pattern pattern_ = Pattern::keep_all;
  const Choice* choice_ = nullptr;
  Index sets_ = 1;
  std::optional<Tensor> factor_, neurons_, counts_, tile_starts_;
  Index factor_step_ = 0, factor_row_ = 0;  // strides of `factor_`
  KeptSets kept_sets_{};
};

}  // namespace sdrop
