// One layer and direction as a call: its tensors checked, what the recurrence needs allocated, and
// the products over all steps, which are torch's.
#pragma once

#include <tuple>

#include "lstm_host.h"
#include "lstm_tensors.h"

namespace sdrop {

using MaybeTensor = std::optional<Tensor>;

// The arguments that the operators share, in the order of their schemas.
struct LayerArguments {
  const Tensor &input, &h_0, &c_0, &weight_ih, &weight_hh;
  const MaybeTensor &input_kept, &input_mask;
  double input_scale;
  const MaybeTensor &hidden_kept, &hidden_mask;
  double hidden_scale;
  const MaybeTensor& batch_sizes;
  bool reverse;
};

// Both passes begin with these.
template <typename Element>
class LayerCall {
 public:
  static constexpr ScalarType kType = scalar_type_of<Element>();

  explicit LayerCall(const LayerArguments& from)
      : steps_(from.input, from.batch_sizes, from.reverse),
        features_(from.input.size(from.input.dim() - 1)),
        size_(from.h_0.size(from.h_0.dim() - 1)),
        input_site_(features_, from.input_kept, from.input_mask, from.input_scale, steps_,
                    from.input),
        hidden_site_(size_, from.hidden_kept, from.hidden_mask, from.hidden_scale, steps_,
                     from.input),
        input_(expect(from.input, kType, with_features(from.input, features_), "input")),
        h_0_(expect(from.h_0, kType, {batch(), size_}, "h_0")),
        c_0_(expect(from.c_0, kType, {batch(), size_}, "c_0")),
        weight_ih_(k_major(from.weight_ih, kType, "weight_ih")),
        weight_hh_(k_major(from.weight_hh, kType, "weight_hh")),
        x_(torch::stable::view(input_, {rows(), features_})) {
    STD_TORCH_CHECK(weight_ih_.size(0) == features_ && weight_ih_.size(1) == 4 * size_ &&
                        weight_hh_.size(0) == size_ && weight_hh_.size(1) == 4 * size_,
                    "weights: expected (4H, input_size) and (4H, H)");
  }

  Index batch() const { return steps_.batch(); }
  Index rows() const { return steps_.rows(); }
  Index size() const { return size_; }
  int count() const { return steps_.table().count; }

 protected:
  Tensor empty(const std::vector<Index>& shape) const {
    return torch::stable::new_empty(input_, shape);
  }
  Tensor empty_floats(const std::vector<Index>& shape) const {
    return torch::stable::new_empty(input_, shape, ScalarType::Float);
  }
  static L2Window window_of(const Tensor& weight) {
    return {weight.const_data_ptr(), static_cast<std::size_t>(weight.numel()) * sizeof(Element)};
  }

  StepTensors steps_;
  Index features_, size_;
  SiteTensors input_site_, hidden_site_;
  Tensor input_, h_0_, c_0_, weight_ih_, weight_hh_, x_;
};

template <typename Element>
class ForwardCall : public LayerCall<Element> {
 public:
  using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

  ForwardCall(const LayerArguments& from, const MaybeTensor& bias)
      : LayerCall<Element>(from),
        output_(this->empty(with_features(from.input, this->size_))),
        h_n_(this->empty({this->batch(), this->size_})),
        c_n_(this->empty({this->batch(), this->size_})),
        gates_(this->empty_floats({this->rows(), 4 * this->size_})),
        cells_(this->empty_floats({this->rows(), this->size_})),
        projected_(std::is_same_v<Element, float>
                       ? gates_
                       : this->empty({this->rows(), 4 * this->size_})) {
    if (bias) bias_ = expect(*bias, this->kType, {4 * this->size_}, "bias");
    multiply_into(projected_, dropped<Element>(this->x_, this->steps_, this->input_site_),
                  this->weight_ih_);
  }

  // What the kernels are told; tensors of this call alone, `division` and `arrived` aside.
  ForwardLayer<Element> layer(const Division& division, unsigned* arrived) {
    weight_ = packed_weight<Element>(this->weight_hh_, division);
    columns_ = this->empty_floats({2, this->size_, division.padded_batch});
    return {this->steps_.table(),
            this->hidden_site_.table(),
            read<Element>(*weight_),
            read<Element>(projected_),
            bias_ ? read<Element>(*bias_) : nullptr,
            read<Element>(this->h_0_),
            read<Element>(this->c_0_),
            written<Element>(output_),
            written<Element>(h_n_),
            written<Element>(c_n_),
            written<float>(gates_),
            written<float>(cells_),
            written<float>(*columns_),
            arrived};
  }
  L2Window window() const { return this->window_of(*weight_); }
  Results results() const { return {output_, h_n_, c_n_, gates_, cells_}; }

 private:
  Tensor output_, h_n_, c_n_, gates_, cells_, projected_;
  MaybeTensor bias_, weight_, columns_;
};

template <typename Element>
class BackwardCall : public LayerCall<Element> {
 public:
  using Results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

  BackwardCall(const LayerArguments& from, const Tensor& grad_output, const Tensor& grad_h_n,
               const Tensor& grad_c_n, const Tensor& output, const Tensor& gates,
               const Tensor& cells)
      : LayerCall<Element>(from),
        grad_output_(expect(grad_output, this->kType, with_features(from.input, this->size_),
                            "grad_output")),
        grad_h_n_(expect(grad_h_n, this->kType, {this->batch(), this->size_}, "grad_h_n")),
        grad_c_n_(expect(grad_c_n, this->kType, {this->batch(), this->size_}, "grad_c_n")),
        output_(expect(output, this->kType, with_features(from.input, this->size_), "output")),
        gates_(expect(gates, ScalarType::Float, {this->rows(), 4 * this->size_}, "gates")),
        cells_(expect(cells, ScalarType::Float, {this->rows(), this->size_}, "cells")),
        grad_gates_(this->empty({this->rows(), 4 * this->size_})),
        grad_h_0_(this->empty({this->batch(), this->size_})),
        grad_c_0_(this->empty({this->batch(), this->size_})) {}

  BackwardLayer<Element> layer(const Division& division, unsigned* arrived) {
    weight_ = packed_weight<Element>(this->weight_hh_, division);
    grad_cell_ = this->empty_floats({this->batch(), this->size_});
    partials_ = this->empty_floats({2, this->size_, division.tiles, division.padded_batch});
    return {this->steps_.table(),
            this->hidden_site_.table(),
            read<Element>(*weight_),
            read<Element>(grad_output_),
            read<Element>(grad_h_n_),
            read<Element>(grad_c_n_),
            read<Element>(this->c_0_),
            read<float>(gates_),
            read<float>(cells_),
            written<Element>(grad_gates_),
            written<Element>(grad_h_0_),
            written<Element>(grad_c_0_),
            written<float>(*grad_cell_),
            written<float>(*partials_),
            arrived};
  }
  L2Window window() const { return this->window_of(*weight_); }

  // Behind the recurrence: the gradients that need no order in time.
  Results results(bool needs_input_grad) const {
    const Index columns = 4 * this->size_;
    const Tensor grad_ih = this->empty({this->features_, columns});
    const Tensor grad_hh = this->empty({this->size_, columns});
    const Tensor x = dropped<Element>(this->x_, this->steps_, this->input_site_);
    multiply_into(grad_ih, torch::stable::transpose(x, 0, 1), grad_gates_);
    multiply_into(grad_hh, torch::stable::transpose(hidden_before(), 0, 1), grad_gates_);
    const Index rows_dimension[] = {0};
    const Tensor grad_bias =
        torch::stable::sum(grad_gates_, rows_dimension, false, ScalarType::Float);
    return {needs_input_grad ? grad_input() : this->empty({0}),
            grad_h_0_,
            grad_c_0_,
            torch::stable::transpose(grad_ih, 0, 1),
            torch::stable::transpose(grad_hh, 0, 1),
            torch::stable::to(grad_bias, this->kType)};
  }

 private:
  Tensor hidden_before() const {
    const Tensor to = this->empty({this->rows(), this->size_});
    launch({this->steps_.grid(this->size_), dim3(kPrepareThreads), 0, current_stream(to)},
           drop_hidden<Element>, this->steps_.table(), this->hidden_site_.table(),
           read<Element>(this->h_0_), read<Element>(output_), written<Element>(to));
    return to;
  }
  Tensor grad_input() const {
    const Tensor found = torch::stable::empty_like(this->input_);
    const Tensor flat = torch::stable::view(found, {this->rows(), this->features_});
    multiply_into(flat, grad_gates_, torch::stable::transpose(this->weight_ih_, 0, 1));
    if (this->input_site_.drops())
      launch({this->steps_.grid(this->features_), dim3(kPrepareThreads), 0, current_stream(flat)},
             drop_rows<Element>, this->steps_.table(), this->input_site_.table(),
             read<Element>(flat), written<Element>(flat));
    return found;
  }

  Tensor grad_output_, grad_h_n_, grad_c_n_, output_, gates_, cells_;
  Tensor grad_gates_, grad_h_0_, grad_c_0_;
  MaybeTensor weight_, grad_cell_, partials_;
};

// Runs the recurrences of `calls`, which do not depend on one another, in the same launches; all of
// the same shape.
template <template <typename> class Layer, typename Element, typename Call>
void run_together(const std::vector<Call*>& calls, const Tensor& on,
                  void (*run)(const RecurrenceRun&, const Layers<Layer, Element>&)) {
  const int count = static_cast<int>(calls.size());
  const int device = on.is_cpu() ? 0 : on.get_device();
  const RecurrenceShape shape{static_cast<int>(calls[0]->batch()),
                              static_cast<int>(calls[0]->size()), count, sizeof(Element)};
  const Recurrence plan = plan_recurrence(limits_of_device(device), shape);
  const Tensor arrived = new_ints(on, count);
  auto* counters = static_cast<unsigned*>(arrived.mutable_data_ptr());
  Layers<Layer, Element> layers{};
  layers.division = plan.division;
  for (int i = 0; i < count; ++i) layers.layer[i] = calls[i]->layer(plan.division, counters + i);
  run({device, current_stream(on), plan, count, calls[0]->count(), calls[0]->window(), counters},
      layers);
}

}  // namespace sdrop
