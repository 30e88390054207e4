// Arrays on the emulated device, and results held against those of a case file in every order of
// threads.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "case_file.h"
#include "launch.h"

namespace sdrop {

// max|a - b| / max|b|, as the tests in Python have them.
constexpr double kTolerance = 1e-5;
constexpr unsigned kOrders[] = {0, 1, 7};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// Aligned as torch's tensors are, and not an element longer than was asked for, so that a sanitizer
// sees what reaches beyond. Bits of unknown value are NaN.
template <typename Element>
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, size * sizeof(Element)) != 0) throw std::bad_alloc();
    std::memset(memory, 0xff, size * sizeof(Element));
    memory_.reset(static_cast<Element*>(memory));
  }
  template <typename Other>
  explicit Array(const std::vector<Other>& values) : Array(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }

  Element* data() const { return memory_.get(); }
  std::size_t size() const { return size_; }
  void clear() const { std::memset(data(), 0, size_ * sizeof(Element)); }

 private:
  std::size_t size_;
  std::unique_ptr<Element, Free> memory_;
};

using Floats = Array<float>;
using Results = std::map<std::string, Floats>;

// Infinite where an element is NaN or one of the two has more of them.
inline double relative_error(const Floats& found, const std::vector<double>& expected) {
  if (found.size() != expected.size()) return INFINITY;
  double difference = 0.0, largest = 0.0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(found.data()[i])) return INFINITY;
    difference = std::max(difference, std::abs(found.data()[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return difference / (largest > 0.0 ? largest : 1.0);
}

// Whether all results are right, and have the same bits in every order.
inline bool check(const std::string& path, const CaseFile& file,
                  const std::function<Results()>& compute) {
  Results first;
  bool right = true;
  for (const unsigned order : kOrders) {
    emulation::thread_order = order;
    Results found = compute();
    for (const auto& [name, values] : found) {
      const double error = relative_error(values, file.doubles().at(name));
      if (!(error <= kTolerance)) {
        std::printf("%s, order %u: %s is wrong by %.1e\n", path.c_str(), order, name.c_str(), error);
        right = false;
      }
      const auto before = first.find(name);
      if (before != first.end() && std::memcmp(before->second.data(), values.data(),
                                               values.size() * sizeof(float)) != 0) {
        std::printf("%s, order %u: %s has other bits\n", path.c_str(), order, name.c_str());
        right = false;
      }
    }
    if (first.empty()) first = std::move(found);
  }
  return right;
}

// main() of a driver: runs each case of the arguments; 1 where something is wrong.
inline int run_cases(int count, char** paths, bool (*run)(const std::string&, const CaseFile&)) {
  bool right = true;
  try {
    for (int i = 1; i < count; ++i) right &= run(paths[i], CaseFile(paths[i]));
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  std::printf("%d cases\n", count - 1);
  return right ? 0 : 1;
}

}  // namespace sdrop
