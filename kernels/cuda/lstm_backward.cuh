// One time step of a block's units, backward: gradients of gates and cell, and what they send back
// to h_{t-1} through the live rows of W_h. The kernels of lstm_step.cuh and lstm_persistent.cuh are
// loops around it.
//
// A block multiplies the gradients of its own gates, which never leave it, with its own columns of
// W_h: the same ones as forward, and again only their live rows. So each block has a share in the
// gradient of every live neuron, and those are what travels: `partials` has at (position % 2, k,
// tile, b) the share of `tile` in what position sends to row k of its kept set. The owner of a unit
// adds the shares up, always in the same order. Handing round the gradients of all gates instead
// would move four numbers a neuron, dropped ones too, where this moves one a live neuron.
#pragma once

#include "lstm_pointwise.cuh"
#include "lstm_stage.cuh"

namespace sdrop {

template <typename Element>
class BackwardStep {
 public:
  __device__ BackwardStep(const BackwardLayer<Element>& layer, const Piece<Element>& piece)
      : layer_(layer), piece_(piece), division_(piece.division) {}

  // Computes `position` for sequences [first_row, first_row + row_tile) from what the one behind it
  // sent back, and sends back in turn. Position -1 ends with the gradients of h_0 and c_0.
  __device__ void operator()(int position, int first_row) {
    const Shares shares = collect(position + 1, first_row);
    const int units = division_.units, items = units * division_.row_tile;
    for (int i = threadIdx.x; i < items; i += kRecurrenceThreads) {
      const int unit = i % units, r = i / units;
      const int j = piece_.first_unit() + unit, b = first_row + r;
      const Gates grad = j < piece_.hidden_size ? differentiate_at(position, b, j, r, shares)
                                                : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      float* to = grads() + 4 * unit * division_.row_tile + r;
      to[0] = grad.x;
      to[division_.row_tile] = grad.y;
      to[2 * division_.row_tile] = grad.z;
      to[3 * division_.row_tile] = grad.w;
    }
    __syncthreads();
    if (position >= 0) multiply(position, first_row);
    __syncthreads();  // the next tile writes over gradients and sums
  }

 private:
  // Where the sums of a position's shares are in shared memory.
  struct Shares {
    int first;   // the block's live units have these rows of the kept set: first ... first + live
    int live;
    int splits;  // so many threads share a sum
  };

  __device__ __forceinline__ Offset at(Offset row, int j) const {
    return row * piece_.hidden_size + j;
  }
  __device__ __forceinline__ int quads() const { return division_.row_tile / 4; }
  __device__ __forceinline__ float* grads() const { return reinterpret_cast<float*>(piece_.pool); }
  __device__ __forceinline__ char* behind_grads() const {
    return piece_.pool + division_.columns() * division_.row_tile * sizeof(float);
  }
  __device__ __forceinline__ float* partials(int position, int k, int tile) const {
    const Offset row = (position & 1) * static_cast<Offset>(layer_.site.most_kept()) + k;
    return layer_.partials + (row * division_.tiles + tile) * division_.padded_batch;
  }

  // Adds up what `position` sent to the block's live units; how, the threads agree on by
  // themselves.
  __device__ Shares collect(int position, int first_row) const {
    Shares shares{0, 0, 1};
    if (position >= layer_.steps.count()) return shares;
    const int t = layer_.steps.step(position);
    const int end = min(piece_.first_unit() + division_.units, piece_.hidden_size);
    for (int j = end - 1; j >= piece_.first_unit(); --j) {
      const int k = layer_.site.position(t, j);
      if (k < 0) continue;
      shares.first = k;
      ++shares.live;
    }
    if (shares.live > 0) shares.splits = min(16, kRecurrenceThreads / (shares.live * quads()));
    const int quad = threadIdx.x % quads(), split = threadIdx.x / quads() % shares.splits;
    const int row = threadIdx.x / (quads() * shares.splits);
    const int b = first_row + 4 * quad;
    if (row < shares.live) {
      float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (b < division_.padded_batch) {
#pragma unroll 8
        for (int tile = split; tile < division_.tiles; tile += shares.splits) {
          const float* from = partials(position, shares.first + row, tile) + b;
          const float4 share = __ldcg(reinterpret_cast<const float4*>(from));
          sum.x += share.x;
          sum.y += share.y;
          sum.z += share.z;
          sum.w += share.w;
        }
      }
      store4(sum_of(shares, row, split) + 4 * quad, sum);
    }
    __syncthreads();
    return shares;
  }

  __device__ __forceinline__ float* sum_of(const Shares& shares, int row, int split) const {
    return reinterpret_cast<float*>(behind_grads()) +
           (row * shares.splits + split) * division_.row_tile;
  }

  __device__ __forceinline__ float total(const Shares& shares, int row, int r) const {
    float sum = sum_of(shares, row, 0)[r];
    for (int split = 1; split < shares.splits; ++split) sum += sum_of(shares, row, split)[r];
    return sum;
  }

  // The gradients of the gates of sequence b, which is row r of the tile, and unit j.
  __device__ __forceinline__ Gates differentiate_at(int position, int b, int j, int r,
                                                    const Shares& shares) const {
    const StepTable& steps = layer_.steps;
    const Gates none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const bool runs = b < steps.size_at(position), ran = b < steps.size_at(position + 1);
    if (!runs && !ran) return none;
    float grad_hidden, grad_cell;
    if (ran) {
      const int t = steps.step(position + 1), k = layer_.site.position(t, j);
      grad_hidden = k < 0 ? 0.0f
                          : total(shares, k - shares.first, r) * layer_.site.factor_of(t, b, j);
      grad_cell = layer_.grad_cell[at(b, j)];
    } else {
      grad_hidden = to_float(layer_.grad_h_n[at(b, j)]);
      grad_cell = to_float(layer_.grad_c_n[at(b, j)]);
    }
    if (!runs) {  // the sequence began behind this position
      layer_.grad_h_0[at(b, j)] = from_float<Element>(grad_hidden);
      layer_.grad_c_0[at(b, j)] = from_float<Element>(grad_cell);
      return none;
    }
    return differentiate_step(position, b, j, grad_hidden, grad_cell);
  }

  __device__ __forceinline__ Gates differentiate_step(int position, int b, int j,
                                                      float grad_hidden, float grad_cell) const {
    const StepTable& steps = layer_.steps;
    const int size = piece_.hidden_size;
    const Offset row = steps.start_at(position) + b, first = row * 4 * size + j;
    const float before = b < steps.size_at(position - 1)
                             ? layer_.cells[at(steps.start_at(position - 1) + b, j)]
                             : to_float(layer_.c_0[at(b, j)]);
    const float* gate = layer_.gates + first;
    const Gates gates = make_float4(gate[0], gate[size], gate[2 * size], gate[3 * size]);
    grad_hidden += to_float(layer_.grad_output[at(row, j)]);
    const PointwiseGradient found =
        differentiate(gates, before, layer_.cells[at(row, j)], grad_hidden, grad_cell);
    layer_.grad_cell[at(b, j)] = found.cell_before;
    Element* to = layer_.grad_gates + first;
    to[0] = from_float<Element>(found.gates.x);
    to[size] = from_float<Element>(found.gates.y);
    to[2 * size] = from_float<Element>(found.gates.z);
    to[3 * size] = from_float<Element>(found.gates.w);
    return found.gates;
  }

  // The block's shares in the gradients of all live neurons.
  __device__ void multiply(int position, int first_row) const {
    const int t = layer_.steps.step(position);
    const LiveRows<Element> live{piece_, layer_.site.kept_at(t), layer_.site.count(t)};
    if (division_.resident) {
      const auto row = [&](int k) {
        return piece_.resident + live.kept[k] * division_.columns();
      };
      return multiply_rows(position, first_row, 0, live.count, row);
    }
    const int chunks = divide_up(live.count, division_.chunk);
    if (chunks > 0) stage(live, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (chunk + 1 < chunks) stage(live, chunk + 1);
      if (chunk + 1 < chunks)
        wait_copies<1>();
      else
        wait_copies<0>();
      __syncthreads();
      const int first = chunk * division_.chunk, here = min(division_.chunk, live.count - first);
      const char* staged = weight_stage(chunk);
      multiply_rows(position, first_row, first, here,
                    [&](int k) { return live.row(staged, k); });
      __syncthreads();
    }
  }

  __device__ __forceinline__ char* weight_stage(int chunk) const {
    return behind_grads() + (chunk & 1) * division_.weight_stage_bytes(sizeof(Element));
  }

  __device__ __forceinline__ void stage(const LiveRows<Element>& live, int chunk) const {
    live.stage(chunk * division_.chunk, weight_stage(chunk));
    commit_copies();
  }

  // Rows [first, first + count) of the kept set, of which row_at(k) is the k-th's weights: a
  // thread has four of them, for four sequences.
  template <typename RowAt>
  __device__ __forceinline__ void multiply_rows(int position, int first_row, int first, int count,
                                                const RowAt& row_at) const {
    const int distance = divide_up(count, 4);
    for (int i = threadIdx.x; i < distance * quads(); i += kRecurrenceThreads) {
      const int quad = i % quads(), k = i / quads(), b = first_row + 4 * quad;
      const Element* weight[4];
      float4 sum[4];
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        weight[v] = row_at(min(k + v * distance, count - 1));
        sum[v] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      }
      for (int unit = 0; unit < division_.units; ++unit) {
        const float* grad = grads() + 4 * unit * division_.row_tile + 4 * quad;
        const float4 of_gate[4] = {load4(grad), load4(grad + division_.row_tile),
                                   load4(grad + 2 * division_.row_tile),
                                   load4(grad + 3 * division_.row_tile)};
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          const float4 w = load_quad(weight[v] + 4 * unit);
          add_scaled(sum[v], of_gate[0], w.x);
          add_scaled(sum[v], of_gate[1], w.y);
          add_scaled(sum[v], of_gate[2], w.z);
          add_scaled(sum[v], of_gate[3], w.w);
        }
      }
      if (b >= division_.padded_batch) continue;
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (k + v * distance < count)
          __stcg(reinterpret_cast<float4*>(
                     partials(position, first + k + v * distance, piece_.tile) + b),
                 sum[v]);
    }
  }

  __device__ static __forceinline__ void add_scaled(float4& sum, const float4& grad, float weight) {
    sum.x = fmaf(grad.x, weight, sum.x);
    sum.y = fmaf(grad.y, weight, sum.y);
    sum.z = fmaf(grad.z, weight, sum.z);
    sum.w = fmaf(grad.w, weight, sum.w);
  }

  const BackwardLayer<Element>& layer_;
  const Piece<Element>& piece_;
  const Division& division_;
};

}  // namespace sdrop
