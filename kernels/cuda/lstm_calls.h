// One direction of a layer as a call: its tensors checked, and what the recurrence needs allocated.
// The products over all steps are site_product.h's.
#pragma once

#include "lstm_host.h"
#include "lstm_tensors.h"
#include "site_product.h"

namespace sdrop {

using MaybeTensor = std::optional<Tensor>;

// What the directions of a layer share.
struct Sequence {
  Tensor input;  // contiguous
  StepsArgument steps;
  Index features;

  Sequence(const Tensor& x, const MaybeTensor& batch_sizes)
      : input(torch::stable::contiguous(x)),
        steps(input, batch_sizes),
        features(input.size(input.dim() - 1)) {}

  Tensor rows() const {
    const std::array<Index, 2> shape{steps.rows(), features};
    return torch::stable::view(input, {shape.data(), shape.size()});
  }
};

struct Dropped {
  MaybeTensor kept, mask;
  double scale;
};

struct DirectionArguments {
  const Sequence& sequence;
  Tensor h_0, c_0, weight_ih, weight_hh;
  Dropped input, hidden;
  bool reverse;
  bool tf32;
};

// Both passes begin with these.
template <typename Element>
class Direction {
 public:
  static constexpr ScalarType kType = scalar_type_of<Element>();

  explicit Direction(const DirectionArguments& from)
      : sequence_(from.sequence),
        size_(from.h_0.size(from.h_0.dim() - 1)),
        steps_{from.sequence.steps.device(), from.reverse},
        input_product_(from.weight_ih, from.input.kept, from.input.mask, from.input.scale,
                       from.sequence.steps, from.tf32),
        site_(size_, from.hidden.kept, from.hidden.mask, from.hidden.scale, from.sequence.steps,
              from.sequence.input),
        h_0_(expect(from.h_0, kType, {batch(), size_}, "h_0")),
        c_0_(expect(from.c_0, kType, {batch(), size_}, "c_0")),
        weight_hh_(k_major(from.weight_hh, kType, "weight_hh")) {
    STD_TORCH_CHECK(input_product_.size() == sequence_.features &&
                        input_product_.columns() == 4 * size_ && weight_hh_.size(0) == size_ &&
                        weight_hh_.size(1) == 4 * size_,
                    "weights: expected (4H, input_size) and (4H, H)");
  }

  Index batch() const { return sequence_.steps.batch(); }
  Index rows() const { return sequence_.steps.rows(); }
  Index size() const { return size_; }
  int count() const { return steps_.count(); }

 protected:
  Tensor empty(const std::vector<Index>& shape) const {
    return torch::stable::new_empty(sequence_.input, shape);
  }
  Tensor empty_floats(const std::vector<Index>& shape) const {
    return torch::stable::new_empty(sequence_.input, shape, ScalarType::Float);
  }
  const Element* pack(const Division& division, Element* weight) const {
    pack_weight_to<Element>(weight, weight_hh_, division);
    return weight;
  }

  const Sequence& sequence_;
  Index size_;
  StepTable steps_;
  SiteProduct input_product_;
  HiddenSite site_;
  Tensor h_0_, c_0_, weight_hh_;
};

template <typename Element>
class ForwardDirection : public Direction<Element> {
 public:
  ForwardDirection(const DirectionArguments& from, const MaybeTensor& bias)
      : Direction<Element>(from),
        output(this->empty(with_features(from.sequence.input, this->size_))),
        h_n(this->empty({this->batch(), this->size_})),
        c_n(this->empty({this->batch(), this->size_})),
        cells(this->empty_floats({this->rows(), this->size_})),
        projected_(this->input_product_.forward(from.sequence.rows(), std::nullopt)),
        // In float32 the gates take the place of the products.
        gates(std::is_same_v<Element, float>
                  ? projected_
                  : this->empty_floats({this->rows(), 4 * this->size_})) {
    if (bias) bias_ = expect(*bias, this->kType, {4 * this->size_}, "bias");
  }

  // What the kernels are told; `weight` is room for W_h packed.
  ForwardLayer<Element> layer(const Division& division, Element* weight, unsigned* arrived) {
    columns_ = this->empty_floats({2, this->site_.table().most_kept(), division.padded_batch});
    return {this->steps_,
            this->site_.table(),
            this->pack(division, weight),
            read<Element>(projected_),
            bias_ ? read<Element>(*bias_) : nullptr,
            read<Element>(this->h_0_),
            read<Element>(this->c_0_),
            written<Element>(output),
            written<Element>(h_n),
            written<Element>(c_n),
            written<float>(gates),
            written<float>(cells),
            written<float>(*columns_),
            arrived};
  }

  const Tensor output, h_n, c_n, cells;

 private:
  Tensor projected_;

 public:
  const Tensor gates;

 private:
  MaybeTensor bias_, columns_;
};

struct BackwardTensors {
  Tensor grad_output, grad_h_n, grad_c_n, output, gates, cells;
};

template <typename Element>
class BackwardDirection : public Direction<Element> {
 public:
  BackwardDirection(const DirectionArguments& from, const BackwardTensors& of)
      : Direction<Element>(from),
        grad_h_0(this->empty({this->batch(), this->size_})),
        grad_c_0(this->empty({this->batch(), this->size_})),
        hidden_product_(from.weight_hh, from.hidden.kept, from.hidden.mask, from.hidden.scale,
                        from.sequence.steps, from.tf32),
        grad_gates_(this->empty({this->rows(), 4 * this->size_})) {
    const std::vector<Index> state{this->batch(), this->size_};
    const auto shape = with_features(from.sequence.input, this->size_);
    saved_ = {expect(of.grad_output, this->kType, shape, "grad_output"),
              expect(of.grad_h_n, this->kType, state, "grad_h_n"),
              expect(of.grad_c_n, this->kType, state, "grad_c_n"),
              expect(of.output, this->kType, shape, "output"),
              expect(of.gates, ScalarType::Float, {this->rows(), 4 * this->size_}, "gates"),
              expect(of.cells, ScalarType::Float, {this->rows(), this->size_}, "cells")};
  }

  BackwardLayer<Element> layer(const Division& division, Element* weight, unsigned* arrived) {
    grad_cell_ = this->empty_floats({this->batch(), this->size_});
    partials_ = this->empty_floats(
        {2, this->site_.table().most_kept(), division.tiles, division.padded_batch});
    return {this->steps_,
            this->site_.table(),
            this->pack(division, weight),
            read<Element>(saved_.grad_output),
            read<Element>(saved_.grad_h_n),
            read<Element>(saved_.grad_c_n),
            read<Element>(this->c_0_),
            read<float>(saved_.gates),
            read<float>(saved_.cells),
            written<Element>(grad_gates_),
            written<Element>(grad_h_0),
            written<Element>(grad_c_0),
            written<float>(*grad_cell_),
            written<float>(*partials_),
            arrived};
  }

  // Behind the recurrence: the gradients that need no order in time.
  Tensor grad_input() const { return this->input_product_.data_gradient(grad_gates_); }
  Tensor grad_weight_ih() const {
    return transposed(this->input_product_.weight_gradient(this->sequence_.rows(), grad_gates_));
  }
  Tensor grad_weight_hh() const {
    const Tensor before = this->empty({this->rows(), this->size_});
    const Index blocks = (this->batch() * this->size_ + kPrepareThreads - 1) / kPrepareThreads;
    const dim3 grid(this->count(), static_cast<unsigned>(std::min<Index>(blocks, 64)));
    launch({grid, dim3(kPrepareThreads), 0, current_stream(before)}, hidden_before<Element>,
           this->steps_, static_cast<int>(this->size_), read<Element>(this->h_0_),
           read<Element>(saved_.output), written<Element>(before));
    return transposed(hidden_product_.weight_gradient(before, grad_gates_));
  }
  Tensor grad_bias() const {
    Tensor sum = this->empty({4 * this->size_});
    const std::array<Index, 1> over{0};
    return torch::stable::sum_out(sum, grad_gates_, {{over.data(), over.size()}});
  }

  Tensor grad_h_0, grad_c_0;

 private:
  SiteProduct hidden_product_;
  Tensor grad_gates_;
  BackwardTensors saved_;
  MaybeTensor grad_cell_, partials_;
};

// Runs the recurrences of all directions in the same launches.
template <template <typename> class Layer, typename Element, typename Directions>
void run_together(const Directions& directions, const Tensor& on,
                  void (*run)(const RecurrenceRun&, const Layers<Layer, Element>&)) {
  const auto& first = directions[0];
  const auto count = static_cast<int>(directions.size());
  const int device = on.is_cpu() ? 0 : on.get_device();
  const RecurrenceShape shape{static_cast<int>(first->batch()), static_cast<int>(first->size()),
                              count, sizeof(Element)};
  const Recurrence plan = plan_on(device, shape);
  const Tensor arrived = new_ints(on, count);
  auto* counters = static_cast<unsigned*>(arrived.mutable_data_ptr());
  const Index elements = packed_elements(first->size(), plan.division);
  const Tensor weights = torch::stable::new_empty(on, {count * elements});
  auto* packed = written<Element>(weights);
  Layers<Layer, Element> layers{};
  layers.division = plan.division;
  for (int i = 0; i < count; ++i)
    layers.layer[i] = directions[i]->layer(plan.division, packed + i * elements, counters + i);
  const L2Window window{packed, static_cast<std::size_t>(count * elements) * sizeof(Element)};
  run({device, current_stream(on), plan, count, first->count(), window, counters}, layers);
}

}  // namespace sdrop
