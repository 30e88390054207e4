// The row-skipping GEMMs, emulated, on cases that the reference wrote: linear_driver CASE...
#include "row_skip_launch.h"
#include "sites.h"

namespace sdrop {
namespace {

Results run(const CaseFile& file) {
  const Sequence sequence(file);
  const SharedSite site(file, "input");
  const int columns = static_cast<int>(file.number("columns"));
  const std::size_t rows = sequence.rows;
  const Floats x(file.floats("x")), grad_output(file.floats("grad_output"));
  const Floats bias(file.has("bias") ? file.floats("bias") : std::vector<float>(columns));
  const Floats packed = site.packed(sequence, x);
  const StepRows steps = site.steps(sequence);
  Floats output(rows * columns), grad_input(rows * site.size), grad_weight(site.weight.size());
  launch_row_skip_forward({steps, site.kept(), packed.data(), site.weight.data(), bias.data(),
                           output.data(), columns, 0},
                          nullptr);
  grad_input.clear();
  launch_row_skip_data_gradient({steps, site.kept(), grad_output.data(), site.weight.data(),
                                 site.factor(), site.scale, grad_input.data(), columns, site.size,
                                 0},
                                nullptr);
  launch_row_skip_weight_gradient({steps, site.kept(), packed.data(), grad_output.data(),
                                   grad_weight.data(), columns, site.size, 0, 0},
                                  nullptr);
  Results results;
  results.emplace("output", std::move(output));
  results.emplace("grad_input", std::move(grad_input));
  results.emplace("grad_weight", std::move(grad_weight));
  return results;
}

bool run_case(const std::string& path, const CaseFile& file) {
  return check(path, file, [&] { return run(file); });
}

}  // namespace
}  // namespace sdrop

int main(int count, char** paths) { return sdrop::run_cases(count, paths, sdrop::run_case); }
