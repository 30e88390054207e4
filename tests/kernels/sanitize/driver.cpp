// Runs the kernels on the cases of its arguments and holds the results against those in the files:
//
//   driver CASE...
//
// Meant to be built with sanitizers. Each case runs under each order of kOrders, which must give
// the same bits. Exits with 1 where a result is wrong; SDROP_CPU_CAPABILITY chooses the kernels.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iterator>
#include <numeric>

#include "case_file.h"
#include "exact.h"
#include "orders.h"

namespace sdrop {
namespace {

// max|a - b| / max|b|, as the tests in Python have them.
constexpr double kForwardTolerance = 2e-6;
constexpr double kGradientTolerance = 1e-5;
// Of bfloat16 weights, against equations that round nothing: other tests have closer ones.
constexpr double kBFloat16Tolerance = 5e-2;

using Half = std::uint16_t;
using Results = std::map<std::string, Exact<float>>;

bool is_bfloat16(const CaseFile& file) { return file.has("bfloat16"); }

const Kernels& kernels_for(const CaseFile& file) {
  return is_bfloat16(file) ? bfloat16_kernels().kernels : kernels();
}

// Of numbers that are bfloat16 already, and back.
std::vector<Half> upper_halves(const std::vector<float>& values) {
  std::vector<Half> halves(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    std::memcpy(&halves[i], reinterpret_cast<const char*>(&values[i]) + sizeof(Half), sizeof(Half));
  return halves;
}

float from_half(Half half) {
  const std::uint32_t bits = std::uint32_t{half} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class StepsOf {
 public:
  explicit StepsOf(const CaseFile& file) : sizes_(file.indices("sizes")), starts_(sizes_.size()) {
    std::exclusive_scan(sizes_.begin(), sizes_.end(), starts_.begin(), Index{0});
    steps = {static_cast<Index>(sizes_.size()), sizes_.front(), starts_.back() + sizes_.back(),
             sizes_.data(), starts_.data(), file.number("reverse") != 0};
  }
  StepsOf(const StepsOf&) = delete;
  StepsOf& operator=(const StepsOf&) = delete;

  Steps steps;

 private:
  std::vector<Index> sizes_, starts_;
};

class SiteOf {
 public:
  SiteOf(const CaseFile& file, const std::string& name)
      : weight_(file.floats(name + ".weight")),
        halves_(upper_halves(file.floats(name + ".weight"))),
        set_starts_(file.indices(name + ".set_starts")),
        kept_(with_readable(file, name)),
        factor_(file.has(name + ".factor") ? file.floats(name + ".factor") : std::vector<float>()) {
    const bool has_factor = file.has(name + ".factor");
    const void* weight = weight_.data();
    if (is_bfloat16(file)) weight = halves_.data();
    site = {weight, file.number(name + ".size"),
            static_cast<Index>(set_starts_.size()) - 1, kept_.data(), set_starts_.data(),
            file.floats(name + ".scale").at(0), has_factor ? factor_.data() : nullptr,
            has_factor ? file.indices(name + ".factor_strides").at(0) : 0,
            has_factor ? file.indices(name + ".factor_strides").at(1) : 0};
  }
  SiteOf(const SiteOf&) = delete;
  SiteOf& operator=(const SiteOf&) = delete;

  Site site;

 private:
  static std::vector<std::int32_t> with_readable(const CaseFile& file, const std::string& name) {
    auto kept = file.integers(name + ".kept");
    kept.resize(kept.size() + kReadableBehindKept,
                static_cast<std::int32_t>(file.number(name + ".size") - 1));
    return kept;
  }

  Exact<float> weight_;
  Exact<Half> halves_;
  std::vector<Index> set_starts_;
  Exact<std::int32_t> kept_;
  Exact<float> factor_;
};

// A result's memory, remembered under its name.
float* add(Results& results, const char* name, Index size) {
  return results.emplace(name, Exact<float>(size)).first->second.data();
}

// The same for the gradient of a weight, whose numbers may be bfloat16 until they are given out.
class WeightGradient {
 public:
  WeightGradient(Results& results, const CaseFile& file, const char* name, Index size)
      : result_(add(results, name, size)), halves_(is_bfloat16(file) ? size : 0) {}

  void* data() const {
    if (halves_.size() == 0) return result_;
    return halves_.data();
  }
  void give_out() const {
    std::transform(halves_.data(), halves_.data() + halves_.size(), result_, from_half);
  }

 private:
  float* result_;
  Exact<Half> halves_;
};

float* add_grad_input(Results& results, const CaseFile& file, Index size) {
  return file.number("needs_input_grad") ? add(results, "grad_input", size) : nullptr;
}

void expect_written(const Aligned& saved, const char* name) {
  for (Index i = 0; i < saved.size(); ++i)
    if (std::isnan(saved.data()[i])) throw std::runtime_error(std::string(name) + " is not whole");
}

Results run_lstm(const CaseFile& file, ParallelFor run) {
  const StepsOf steps_of(file);
  const SiteOf input_site(file, "input"), hidden_site(file, "hidden");
  const Steps& steps = steps_of.steps;
  const Index size = hidden_site.site.size, width = input_site.site.size;
  const Index rows = steps.rows, states = steps.batch * size, padded = padded_hidden_size(size);
  const Exact<float> x(file.floats("x")), h_0(file.floats("h_0")), c_0(file.floats("c_0"));
  const Exact<float> bias(file.has("bias") ? file.floats("bias") : std::vector<float>());
  const Aligned gates(rows * 4 * padded), cells(rows * padded);
  Results results;
  float* output = add(results, "output", rows * size);
  kernels_for(file).lstm_forward(
      {steps, input_site.site, hidden_site.site, size, x.data(), h_0.data(), c_0.data(),
       file.has("bias") ? bias.data() : nullptr, output,
       add(results, "h_n", states), add(results, "c_n", states), gates.data(), cells.data()},
      run);
  expect_written(gates, "gates");
  expect_written(cells, "cells");
  const Exact<float> grad_output(file.floats("grad_output"));
  const Exact<float> grad_h_n(file.floats("grad_h_n")), grad_c_n(file.floats("grad_c_n"));
  const WeightGradient grad_ih(results, file, "grad_weight_ih", width * 4 * size);
  const WeightGradient grad_hh(results, file, "grad_weight_hh", size * 4 * size);
  kernels_for(file).lstm_backward(
      {steps, input_site.site, hidden_site.site, size, grad_output.data(), grad_h_n.data(),
       grad_c_n.data(), x.data(), h_0.data(), c_0.data(), output, gates.data(), cells.data(),
       add_grad_input(results, file, rows * width), add(results, "grad_h_0", states),
       add(results, "grad_c_0", states), grad_ih.data(), grad_hh.data(),
       add(results, "grad_bias", 4 * size)},
      run);
  grad_ih.give_out();
  grad_hh.give_out();
  return results;
}

Results run_linear(const CaseFile& file, ParallelFor run) {
  const StepsOf steps_of(file);
  const SiteOf site_of(file, "input");
  const Site& site = site_of.site;
  const Index rows = steps_of.steps.rows, columns = file.number("columns");
  const Exact<float> x(file.floats("x"));
  const Exact<float> bias(file.has("bias") ? file.floats("bias") : std::vector<float>());
  Results results;
  kernels_for(file).linear_forward(
      {steps_of.steps, site, columns, x.data(), file.has("bias") ? bias.data() : nullptr,
       add(results, "output", rows * columns)},
      run);
  const Exact<float> grad_output(file.floats("grad_output"));
  const WeightGradient grad_weight(results, file, "grad_weight", site.size * columns);
  kernels_for(file).linear_backward(
      {steps_of.steps, site, columns, grad_output.data(), x.data(),
       add_grad_input(results, file, rows * site.size),
       grad_weight.data(), add(results, "grad_bias", columns)},
      run);
  grad_weight.give_out();
  return results;
}

// Infinite where an element is NaN or one of the two has more of them.
double relative_error(const Exact<float>& found, const std::vector<double>& expected) {
  if (found.size() != static_cast<Index>(expected.size())) return INFINITY;
  double difference = 0.0, largest = 0.0;
  for (Index i = 0; i < found.size(); ++i) {
    if (std::isnan(found.data()[i])) return INFINITY;
    difference = std::max(difference, std::abs(found.data()[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / (largest > 0.0 ? largest : 1.0);
}

bool same_bits(const Exact<float>& a, const Exact<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The largest error as a share of what is allowed.
double check(const std::string& path, const Results& results, const Results& first,
             const CaseFile& file, const char* order) {
  double worst = 0.0;
  for (const auto& [name, expected] : file.doubles()) {
    const double error = relative_error(results.at(name), expected);
    const bool is_gradient = name.rfind("grad_", 0) == 0;
    const double allowed = is_bfloat16(file) ? kBFloat16Tolerance
                           : is_gradient     ? kGradientTolerance
                                             : kForwardTolerance;
    const double share = error / allowed;
    const bool same = same_bits(results.at(name), first.at(name));
    if (!(share <= 1.0)) std::printf("%s, %s: %s is wrong by %.1e\n", path.c_str(), order,
                                     name.c_str(), error);
    if (!same) std::printf("%s, %s: %s has other bits\n", path.c_str(), order, name.c_str());
    worst = std::max(worst, same ? share : INFINITY);
  }
  return worst;
}

double run_case(const std::string& path) {
  const CaseFile file(path);
  const auto run = file.has("hidden.size") ? run_lstm : run_linear;
  const Results first = run(file, kOrders[0].run);
  double worst = check(path, first, first, file, kOrders[0].name);
  for (std::size_t i = 1; i < std::size(kOrders); ++i)
    worst = std::max(worst, check(path, run(file, kOrders[i].run), first, file, kOrders[i].name));
  return worst;
}

}  // namespace
}  // namespace sdrop

int main(int count, char** paths) {
  double worst = 0.0;
  try {
    for (int i = 1; i < count; ++i) worst = std::max(worst, sdrop::run_case(paths[i]));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("%s: %d cases, largest error %.2f of what is allowed\n", sdrop::kernels().name,
              count - 1, worst);
  return worst <= 1.0 ? 0 : 1;
}
