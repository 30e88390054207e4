// The recurrence, emulated, on cases that the reference wrote: lstm_driver CASE...
//
// Each case runs in every mode: W_h in shared memory, streamed, and a launch a step. The products
// over all steps, which other drivers check, are plain loops here.
#include "lstm_host.h"
#include "lstm_prepare.cuh"
#include "sites.h"

namespace sdrop {
namespace {

constexpr const char* kModes[] = {"resident", "streamed", "by_step"};

// The site of h_{t-1}, of any pattern; as HiddenSite of lstm_tensors.h.
class HiddenTables {
 public:
  HiddenTables(const CaseFile& file, const std::string& name)
      : size_(static_cast<int>(file.number(name + ".size"))),
        sets_(static_cast<int>(file.indices(name + ".set_starts").size()) - 1),
        factor_(file.has(name + ".factor") ? file.floats(name + ".factor") : std::vector<float>()),
        indices_(file.integers(name + ".kept")),
        counts_(sets_),
        kept_(sets_ * size_),
        positions_(sets_ * size_) {
    const bool has_factor = factor_.size() > 0;
    const auto strides = has_factor ? file.indices(name + ".factor_strides")
                                    : std::vector<std::int64_t>{0, 0};
    SiteSource source{size_, nullptr, 0, nullptr};
    if (has_factor && strides[1] == 0) {
      source.mask = factor_.data();
    } else if (!has_factor) {
      source.indices = indices_.data();
      source.count = static_cast<int>(indices_.size()) / sets_;
    }
    launch({dim3(sets_), dim3(32)}, prepare_site, source, counts_.data(), kept_.data(),
           positions_.data());
    table = {size_,
             sets_,
             counts_.data(),
             kept_.data(),
             positions_.data(),
             file.floats(name + ".scale").at(0),
             has_factor ? factor_.data() : nullptr,
             strides[0],
             strides[1]};
  }

  SiteTable table;

 private:
  const int size_, sets_;
  const Floats factor_;
  const Array<long long> indices_;
  const Array<int> counts_, kept_, positions_;
};

// Which factor x_j has at (t, b); by the file's own words, with no kernel.
double input_factor(const CaseFile& file, int t, int b, int j) {
  if (file.has("input.factor")) {
    const auto& strides = file.indices("input.factor_strides");
    return file.floats("input.factor")[t * strides[0] + b * strides[1] + j];
  }
  const auto& starts = file.indices("input.set_starts");
  const auto& kept = file.integers("input.kept");
  const std::size_t set = starts.size() == 2 ? 0 : t;
  for (auto k = starts[set]; k < starts[set + 1]; ++k)
    if (kept[k] == j) return file.floats("input.scale")[0];
  return 0.0;
}

// drop(x) W_x: (rows, 4H).
Floats project(const CaseFile& file, const Sequence& sequence, int columns) {
  const auto& x = file.floats("x");
  const auto& weight = file.floats("input.weight");
  const int width = static_cast<int>(file.number("input.size"));
  Floats to(static_cast<std::size_t>(sequence.rows) * columns);
  std::vector<double> sums(columns);
  for (int t = 0; t < sequence.count; ++t)
    for (int b = 0; b < sequence.size(t); ++b) {
      const std::size_t row = sequence.first(t) + b;
      std::fill(sums.begin(), sums.end(), 0.0);
      for (int j = 0; j < width; ++j) {
        const double value = x[row * width + j] * input_factor(file, t, b, j);
        if (value == 0.0) continue;
        for (int n = 0; n < columns; ++n) sums[n] += value * weight[j * columns + n];
      }
      std::copy(sums.begin(), sums.end(), to.data() + row * columns);
    }
  return to;
}

Floats packed_weight(const Floats& weight, int size, const Division& division) {
  Floats packed(static_cast<std::size_t>(division.tiles) * size * division.columns());
  launch({dim3(3, division.tiles), dim3(kPrepareThreads)}, pack_weight<float>,
         static_cast<const float*>(weight.data()), size, division.units, packed.data());
  return packed;
}

Floats sum_of_rows(const Floats& matrix, int rows, int columns) {
  Floats sums(static_cast<std::size_t>(columns));
  for (int n = 0; n < columns; ++n) {
    double sum = 0.0;
    for (int row = 0; row < rows; ++row) sum += matrix.data()[row * columns + n];
    sums.data()[n] = static_cast<float>(sum);
  }
  return sums;
}

Results run(const CaseFile& file) {
  const Sequence sequence(file);
  const HiddenTables hidden(file, "hidden");
  const int size = hidden.table.size, batch = sequence.batch, rows = sequence.rows;
  const StepTable steps{sequence.of_steps(), file.number("reverse") != 0};
  const Recurrence plan = plan_on(0, {batch, size, 1, sizeof(float)});
  const Division& division = plan.division;
  const std::size_t of_state = static_cast<std::size_t>(batch) * size;
  const std::size_t of_rows = static_cast<std::size_t>(rows) * size;
  const Floats weight = packed_weight(Floats(file.floats("hidden.weight")), size, division);
  const Floats h_0(file.floats("h_0")), c_0(file.floats("c_0"));
  const Floats bias(file.has("bias") ? file.floats("bias") : std::vector<float>(4 * size));
  const Floats gates = project(file, sequence, 4 * size);
  Floats output(of_rows), h_n(of_state), c_n(of_state), cells(of_rows);
  Floats columns(static_cast<std::size_t>(2) * size * division.padded_batch);
  Array<unsigned> arrived(1);
  const RecurrenceRun how{0, nullptr, plan, 1, sequence.count, {}, arrived.data()};
  Layers<ForwardLayer, float> forward{};
  forward.division = division;
  forward.layer[0] = {steps,        hidden.table, weight.data(), gates.data(), bias.data(),
                      h_0.data(),   c_0.data(),   output.data(), h_n.data(),   c_n.data(),
                      gates.data(), cells.data(), columns.data(), arrived.data()};
  run_forward(how, forward);

  const Floats grad_output(file.floats("grad_output")), grad_h_n(file.floats("grad_h_n"));
  const Floats grad_c_n(file.floats("grad_c_n"));
  Floats grad_gates(4 * of_rows), grad_h_0(of_state), grad_c_0(of_state), grad_cell(of_state);
  Floats partials(static_cast<std::size_t>(2) * size * division.tiles * division.padded_batch);
  Layers<BackwardLayer, float> backward{};
  backward.division = division;
  backward.layer[0] = {steps,           hidden.table,    weight.data(),     grad_output.data(),
                       grad_h_n.data(), grad_c_n.data(), c_0.data(),        gates.data(),
                       cells.data(),    grad_gates.data(), grad_h_0.data(), grad_c_0.data(),
                       grad_cell.data(), partials.data(), arrived.data()};
  run_backward(how, backward);

  Results results;
  if (file.has("bias")) results.emplace("grad_bias", sum_of_rows(grad_gates, rows, 4 * size));
  results.emplace("output", std::move(output));
  results.emplace("h_n", std::move(h_n));
  results.emplace("c_n", std::move(c_n));
  results.emplace("grad_h_0", std::move(grad_h_0));
  results.emplace("grad_c_0", std::move(grad_c_0));
  return results;
}

bool run_case(const std::string& path, const CaseFile& file) {
  bool right = true;
  for (const char* mode : kModes) {
    setenv("SDROP_CUDA_RECURRENCE", mode, 1);
    right &= check(path + ", " + mode, file, [&] { return run(file); });
  }
  return right;
}

}  // namespace
}  // namespace sdrop

int main(int count, char** paths) { return sdrop::run_cases(count, paths, sdrop::run_case); }
