// Steps and dropout sites of a case file as the CUDA kernels take them.
#pragma once

#include <numeric>

#include "check.h"
#include "pack.cuh"

namespace sdrop {

class Sequence {
 public:
  explicit Sequence(const CaseFile& file) : sizes_(file.indices("sizes")), starts_(sizes_.size() + 1) {
    starts_.data()[0] = 0;
    std::partial_sum(sizes_.begin(), sizes_.end(), starts_.data() + 1);
    count = static_cast<int>(sizes_.size());
    batch = static_cast<int>(sizes_.front());
    rows = starts_.data()[count];
  }

  StepRows of_steps() const {
    return {sizes_.back() == batch ? nullptr : starts_.data(), count, batch};
  }
  StepRows as_one_step() const { return {nullptr, 1, rows}; }
  int first(int step) const { return starts_.data()[step]; }
  int size(int step) const { return static_cast<int>(sizes_[step]); }

  int count, batch, rows;

 private:
  std::vector<std::int64_t> sizes_;
  Array<int> starts_;
};

// A site whose whole batch drops the same neurons.
class SharedSite {
 public:
  SharedSite(const CaseFile& file, const std::string& name)
      : sets(static_cast<int>(file.indices(name + ".set_starts").size()) - 1),
        size(static_cast<int>(file.number(name + ".size"))),
        scale(file.floats(name + ".scale").at(0)),
        weight(file.floats(name + ".weight")),
        factors(file.has(name + ".factor") ? file.floats(name + ".factor") : std::vector<float>()),
        pitch_(std::max(8, round_up(most(file, name), 8))),
        tiles_(divide_up(size, kNeuronTile)),
        neurons_(sets * pitch_),
        counts_(sets),
        tile_starts_(sets * (tiles_ + 1)) {
    const Array<long long> kept(file.integers(name + ".kept"));
    const KeptSetsBuild build{factors.size() ? nullptr : kept.data(),
                              factors.size() ? factors.data() : nullptr,
                              static_cast<int>(kept.size()) / sets,
                              size,
                              neurons_.data(),
                              counts_.data(),
                              tile_starts_.data(),
                              pitch_,
                              tiles_};
    launch({dim3(sets), dim3(kKeptThreads)}, build_kept_sets, build);
  }

  KeptSets kept() const {
    return {neurons_.data(), counts_.data(), tile_starts_.data(), pitch_, tiles_};
  }
  StepRows steps(const Sequence& sequence) const {
    return sets == 1 ? sequence.as_one_step() : sequence.of_steps();
  }
  const float* factor() const { return factors.size() ? factors.data() : nullptr; }

  // The kept columns of x, scaled.
  Floats packed(const Sequence& sequence, const Floats& x) const {
    Floats to(static_cast<std::size_t>(sequence.rows) * pitch_);
    launch({dim3(sequence.rows), dim3(kPackThreads)}, pack_columns<float>, steps(sequence), kept(),
           x.data(), size, factor(), scale, to.data());
    return to;
  }

  const int sets, size;
  const float scale;
  const Floats weight, factors;

 private:
  // A mask may keep any number of neurons, and the host does not know how many.
  int most(const CaseFile& file, const std::string& name) const {
    if (factors.size()) return size;
    return static_cast<int>(file.integers(name + ".kept").size()) / sets;
  }

  const int pitch_, tiles_;
  const Array<int> neurons_, counts_, tile_starts_;
};

}  // namespace sdrop
