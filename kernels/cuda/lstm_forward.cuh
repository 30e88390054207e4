// One time step of a block's units, forward: the recurrent product over the live rows, gates, cell
// and hidden state. The kernels of lstm_step.cuh and lstm_persistent.cuh are loops around it.
//
// What travels between blocks is h, dropped and scaled, of the live neurons alone: `columns` has at
// (position % 2, k, b) what sequence b adds to row k of the kept set of that position. A block
// writes its own units' columns for the next position, and reads all of this one's.
#pragma once

#include "lstm_pointwise.cuh"
#include "lstm_stage.cuh"

namespace sdrop {

// Sums of four sequences, each with the four gates of a unit.
struct SlotSums {
  float4 of[4];
};

__device__ __forceinline__ void add_product(float4& sum, float h, const float4& weight) {
  sum.x = fmaf(h, weight.x, sum.x);
  sum.y = fmaf(h, weight.y, sum.y);
  sum.z = fmaf(h, weight.z, sum.z);
  sum.w = fmaf(h, weight.w, sum.w);
}

__device__ __forceinline__ void add(float4& sum, const float4& more) {
  sum.x += more.x;
  sum.y += more.y;
  sum.z += more.z;
  sum.w += more.w;
}

template <typename Element>
class ForwardStep {
 public:
  __device__ ForwardStep(const ForwardLayer<Element>& layer, const Piece<Element>& piece)
      : layer_(layer), piece_(piece), division_(piece.division) {}

  // Computes `position` for sequences [first_row, first_row + row_tile), and hands h to the next
  // one. Position -1 does the latter alone, with h_0.
  __device__ void operator()(int position, int first_row) {
    if (position >= 0) multiply(position, first_row);
    const int items = division_.units * division_.row_tile;
    for (int i = threadIdx.x; i < items; i += kRecurrenceThreads) {
      const int slot = i % division_.slots(), r = i / division_.slots();
      const int j = piece_.first_unit() + slot % division_.units;
      const int b = first_row + slot / division_.units * 4 + r;
      if (j >= piece_.hidden_size) continue;
      float hidden;
      if (b < layer_.steps.size_at(position))
        hidden = finish(position, b, j, total(slot, r));
      else if (b < layer_.steps.size_at(position + 1))
        hidden = to_float(layer_.h_0[at(b, j)]);  // a sequence that begins there
      else
        continue;
      publish(position + 1, b, j, hidden);
    }
    __syncthreads();  // the next tile writes over the sums
  }

 private:
  __device__ __forceinline__ Offset at(Offset row, int j) const {
    return row * piece_.hidden_size + j;
  }
  __device__ __forceinline__ float* columns(int position) const {
    return layer_.columns +
           (position & 1) * static_cast<Offset>(layer_.site.most_kept()) * division_.padded_batch;
  }
  // So many threads share a slot, each with every splits()-th live row.
  __device__ __forceinline__ int splits() const { return kRecurrenceThreads / division_.slots(); }
  __device__ __forceinline__ float4* sums() const { return reinterpret_cast<float4*>(piece_.pool); }

  __device__ __forceinline__ char* weight_stage(int chunk) const {
    const auto bytes = division_.weight_stage_bytes(sizeof(Element));
    return piece_.pool + (chunk & 1) * bytes;
  }
  __device__ __forceinline__ float* column_stage(int chunk) const {
    char* first = piece_.pool + 2 * division_.weight_stage_bytes(sizeof(Element));
    return reinterpret_cast<float*>(first + (chunk & 1) * division_.column_stage_bytes());
  }

  // The products of all slots, to shared memory: what each thread summed on its own.
  __device__ void multiply(int position, int first_row) {
    const int t = layer_.steps.step(position);
    const LiveRows<Element> live{piece_, layer_.site.kept_at(t), layer_.site.count(t)};
    SlotSums sum{};
    const int chunks = divide_up(live.count, division_.chunk);
    if (chunks > 0) stage(live, position, first_row, 0);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (chunk + 1 < chunks) stage(live, position, first_row, chunk + 1);
      if (chunk + 1 < chunks)
        wait_copies<1>();
      else
        wait_copies<0>();
      __syncthreads();
      accumulate(live, chunk, sum);
      __syncthreads();
    }
    if (static_cast<int>(threadIdx.x) < splits() * division_.slots()) {
      const int slot = threadIdx.x % division_.slots(), split = threadIdx.x / division_.slots();
#pragma unroll
      for (int r = 0; r < 4; ++r) sums()[(split * 4 + r) * division_.slots() + slot] = sum.of[r];
    }
    __syncthreads();
  }

  __device__ __forceinline__ void stage(const LiveRows<Element>& live, int position, int first_row,
                                        int chunk) const {
    const int first = chunk * division_.chunk, here = min(division_.chunk, live.count - first);
    live.stage(first, weight_stage(chunk));
    const int quads = division_.row_tile / 4;
    const float* from = columns(position);
    for (int i = threadIdx.x; i < here * quads; i += kRecurrenceThreads) {
      const int b = first_row + i % quads * 4;
      const bool valid = b < division_.padded_batch;
      const Offset row = static_cast<Offset>(first + i / quads) * division_.padded_batch;
      copy_async<16>(column_stage(chunk) + 4 * i, from + (valid ? row + b : 0), valid);
    }
    commit_copies();
  }

  __device__ __forceinline__ void accumulate(const LiveRows<Element>& live, int chunk,
                                             SlotSums& sum) const {
    const int slot = threadIdx.x % division_.slots(), split = threadIdx.x / division_.slots();
    if (split >= splits()) return;
    const int unit = slot % division_.units, quad = slot / division_.units;
    const int here = min(division_.chunk, live.count - chunk * division_.chunk);
    const char* staged = weight_stage(chunk);
    const float* column = column_stage(chunk) + 4 * quad;
#pragma unroll 4
    for (int k = split; k < here; k += splits()) {
      const float4 weight = load_quad(live.row(staged, k) + 4 * unit);
      const float4 h = load4(column + k * division_.row_tile);
      add_product(sum.of[0], h.x, weight);
      add_product(sum.of[1], h.y, weight);
      add_product(sum.of[2], h.z, weight);
      add_product(sum.of[3], h.w, weight);
    }
  }

  __device__ __forceinline__ Gates total(int slot, int r) const {
    Gates sum = sums()[r * division_.slots() + slot];
    for (int split = 1; split < splits(); ++split)
      add(sum, sums()[(split * 4 + r) * division_.slots() + slot]);
    return sum;
  }

  // From the recurrent share of the gates to h_t of sequence b and unit j.
  __device__ __forceinline__ float finish(int position, int b, int j, Gates gates) const {
    const int size = piece_.hidden_size;
    const Offset row = layer_.steps.start_at(position) + b, first = row * 4 * size + j;
    add(gates, gates_at(layer_.projected + first));
    if (layer_.bias) add(gates, gates_at(layer_.bias + j));
    gates = activate(gates);
    const float before = b < layer_.steps.size_at(position - 1)
                             ? layer_.cells[at(layer_.steps.start_at(position - 1) + b, j)]
                             : to_float(layer_.c_0[at(b, j)]);
    const float cell = next_cell(gates, before);
    // Rounded here, so that the gradient is that of the h that was given out.
    const auto hidden = from_float<Element>(hidden_of(gates, cell));
    layer_.gates[first] = gates.x;
    layer_.gates[first + size] = gates.y;
    layer_.gates[first + 2 * size] = gates.z;
    layer_.gates[first + 3 * size] = gates.w;
    layer_.cells[at(row, j)] = cell;
    layer_.output[at(row, j)] = hidden;
    if (b >= layer_.steps.size_at(position + 1)) {
      layer_.h_n[at(b, j)] = hidden;
      layer_.c_n[at(b, j)] = from_float<Element>(cell);
    }
    return to_float(hidden);
  }

  __device__ __forceinline__ Gates gates_at(const Element* from) const {
    const int size = piece_.hidden_size;
    return make_float4(to_float(from[0]), to_float(from[size]), to_float(from[2 * size]),
                       to_float(from[3 * size]));
  }

  // Into the columns of the next position, if it keeps unit j and has sequence b.
  __device__ __forceinline__ void publish(int position, int b, int j, float hidden) const {
    if (b >= layer_.steps.size_at(position)) return;
    const int t = layer_.steps.step(position), k = layer_.site.position(t, j);
    if (k < 0) return;
    float* to = columns(position) + static_cast<Offset>(k) * division_.padded_batch + b;
    __stcg(to, hidden * layer_.site.factor_of(t, b, j));
  }

  const ForwardLayer<Element>& layer_;
  const Piece<Element>& piece_;
  const Division& division_;
};

}  // namespace sdrop
