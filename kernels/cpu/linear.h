// A linear layer with the dropout in front of it.
#pragma once

#include "all_rows.h"

namespace sdrop::SDROP_CAPABILITY {

template <typename Precision>
void linear_forward(const LinearForward& layer, ParallelFor run) {
  const Panels panels{layer.columns, false};
  ForwardProduct<Precision>(layer.site, layer.steps, panels, layer.input, run)(
      layer.bias, MatrixRows{layer.output, layer.columns});
}

template <typename Precision>
void linear_backward(const LinearBackward& layer, ParallelFor run) {
  const Index columns = layer.columns;
  const Panels panels{columns, false};
  if (layer.grad_input)
    all_data_gradients<Precision>(
        layer.site, layer.steps, columns,
        [&](const Segment& segment, ColumnBlock block, float* to) {
          constexpr Index kPerWord = Precision::kPerWord;
          const float* from =
              layer.grad_output + segment.first_row * columns + kPerWord * block.first;
          transpose_rows<Precision>(from, columns, segment.rows, kPerWord * block.count, to);
        },
        layer.grad_input, run);
  all_weight_gradients<Precision>(
      layer.site, layer.steps, panels,
      [&](Index row) { return layer.input + row * layer.site.size; },
      [&](Index panel, const Segment& segment) {
        float* packed = scratch<1>(segment.rows * kPanelWidth);
        const float* from = layer.grad_output + segment.first_row * columns;
        pack_panel(from, columns, segment.rows, panels.at(panel), packed);
        // The next segment's piece of each row is in another page; it comes while this one is used.
        for (Index i = segment.rows; i < 2 * segment.rows; ++i)
          for (Index j = 0; j < kPanelWidth; j += kLine)
            prefetch(from + i * columns + panel * kPanelWidth + j);
        return packed;
      },
      layer.grad_weight, layer.grad_bias, run);
}

}  // namespace sdrop::SDROP_CAPABILITY
