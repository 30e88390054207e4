// Products of more rows than a tile has, in blocks of kept neurons that stay in the first cache.
#pragma once

#include <algorithm>

#include "blocking.h"
#include "tile.h"

namespace sdrop::SDROP_CAPABILITY {

// Up to kChunk rows of a batch whose transposes, (neurons, pitch), lie behind those of the chunks
// before it.
struct Chunk {
  Index first_row;
  Index rows;

  Index vectors() const { return divide_up(rows, kLanes); }
  Index pitch() const { return vectors() * kLanes; }
  Index offset(Index neurons) const { return first_row * neurons; }
};

// The chunk of `rows` rows that row `row` is in.
inline Chunk chunk_of(Index row, Index rows) {
  const Index first = row / kChunk * kChunk;
  return {first, std::min(kChunk, rows - first)};
}

// Floats of all chunks.
constexpr Index transposed_size(Index neurons, Index rows) {
  return neurons * round_up(rows, kLanes);
}

// What is needed soon is asked for meanwhile, since memory answers slower than a tile lasts. A core
// waits for no more than some twenty lines at a time. With AVX-512 a tile's share is several times
// that, and best asked for bit by bit, with each of its rows: with all of it before each tile,
// forward passes took 1.05 times as long at B = 20, H = 650 on a Zen 4 processor, 1.07 to 1.18 times
// at H = 1500, and 1.09 times at B = 80, H = 1150. A smaller tile has a share of a dozen lines, and
// the requests in its shorter loop took 1.05 times as long as those before it.
constexpr bool kAskInTile = SDROP_VECTOR_BYTES == 64;

// Kept rows of packed panels. They come into the second-level cache: the first has no room for
// another block, and what it lacks of this one the second gives fast enough. At H = 1150 and 1500
// recurrences measured 1.02 to 1.08 times as fast as with rows that came into the first.
template <typename Rows>
class RowsAhead {
 public:
  explicit RowsAhead(const Rows& rows) : rows_(rows), lines_(rows.pitch / kLine) {}

  // In so many tiles of so many rows from now on all shall have been asked for.
  void spread_over(Index tiles, Index rows) {
    all_ = kAskInTile ? lines_ : rows;
    share_ = divide_up(all_, tiles);
  }

  // What the next tile does with its row k: it asks for its share of the lines of row k, or has
  // asked for its share of the rows.
  SDROP_INLINE auto next_tile() {
    const Index first = asked_, end = std::min(all_, asked_ + share_);
    asked_ = end;
    if constexpr (kAskInTile) {
      return [first, end, rows = rows_](Index k) __attribute__((always_inline)) {
        for (Index line = first; line < end; ++line) rows.ask_far(k, line);
      };
    } else {
      for (Index k = first; k < end; ++k)
        for (Index line = 0; line < lines_; ++line) rows_.ask_far(k, line);
      return [](Index) {};
    }
  }

 private:
  Rows rows_;
  Index lines_, all_ = 0, share_ = 0, asked_ = 0;
};

// Activations. All of a sequence lie one behind the other, but a tile reads three columns of them,
// which no processor takes for a stream: 13 MB that came from behind the second-level cache measured
// 1.3 times as fast when they were asked for.
class ActivationsAhead {
 public:
  ActivationsAhead(const float* from, Index size) : from_(from), size_(size) {}

  void spread_over(Index tiles, Index rows) {
    requests_ = kAskInTile ? rows : divide_up(size_, tiles * kLine);
    step_ = kAskInTile ? divide_up(size_, std::max<Index>(1, tiles * rows)) : kLine;
  }

  SDROP_INLINE auto next_tile() {
    const auto ask = [from = from_, step = step_](Index k) __attribute__((always_inline)) {
      prefetch(from + k * step);
    };
    from_ += requests_ * step_;
    if constexpr (kAskInTile) {
      return ask;
    } else {
      for (Index k = 0; k < requests_; ++k) ask(k);
      return [](Index) {};
    }
  }

 private:
  const float* from_;
  Index size_, requests_ = 0, step_ = 0;
};

struct NothingAhead {
  void spread_over(Index, Index) const {}
  SDROP_INLINE auto next_tile() const {
    return [](Index) {};
  }
};

// target = start + A^T B for `tiles` tiles of Rows rows each.
template <int Rows, typename Weights, typename Ahead>
__attribute__((noinline)) void multiply_tiles(Index tiles, Index count, Weights weights,
                                              const float* a, Index pitch, Source start,
                                              Target target, Ahead& ahead) {
  for (Index tile = 0; tile < tiles; ++tile) {
    multiply_tile<Rows, kPanelVectors>(count, weights, a, pitch, start, target, ahead.next_tile());
    a += Rows;
    start.data += Rows * start.row;
    target.data += Rows * target.row;
  }
}

// target = start + A^T B for the rows of one chunk, in tiles of nearly equal height: first those of
// Most rows, then those of one less.
template <int Most = kTileRows, typename Weights, typename Ahead>
SDROP_INLINE void multiply_rows(Index rows, Index count, Weights weights, const float* a,
                                Index pitch, Source start, Target target, Ahead& ahead) {
  const Index tiles = divide_up(rows, kTileRows), most = divide_up(rows, tiles);
  if constexpr (Most > 1)
    if (most < Most)
      return multiply_rows<Most - 1>(rows, count, weights, a, pitch, start, target, ahead);
  const Index higher = rows - tiles * (Most - 1);
  multiply_tiles<Most>(higher, count, weights, a, pitch, start, target, ahead);
  if constexpr (Most > 1) {
    const Index done = higher * Most;
    start.data += done * start.row;
    target.data += done * target.row;
    multiply_tiles<Most - 1>(tiles - higher, count, weights, a + done, pitch, start, target, ahead);
  }
}

// How many nearly equal blocks `count` rows make.
constexpr Index blocks_of(Index count) {
  return std::max<Index>(1, (count + kBlockRows / 2) / kBlockRows);
}

// One panel of columns: the weights, and where its sums start from and go to.
template <typename Weights>
struct PanelProduct {
  Weights weights;
  Source start;
  Target target;
};

// What comes after a block: `left` kept rows of weights from `first` on, or where none are left
// whatever the caller goes on with; and the activations, where the block has had `size` floats.
struct Next {
  Index first, left;
  const float* activations;
  Index size;
};

// target = start + A^T B[kept] for `panels` panels that lie side by side, and any number of rows,
// in blocks of about kBlockRows. A holds the `count` kept neurons alone, transposed in chunks.
// ahead_of(next) is what to ask for during a block.
template <typename Weights, typename AheadOf>
void multiply_panels(Index panels, const PanelProduct<Weights>* products, Index rows, Index count,
                     const float* a, const AheadOf& ahead_of) {
  for (Index row = 0; row < rows; row += kChunk) {
    const Chunk chunk = chunk_of(row, rows);
    const float* columns = a + chunk.offset(count);
    const bool last_chunk = row + kChunk >= rows;
    Index blocks = blocks_of(count);
    for (Index first = 0; blocks > 0; --blocks) {
      const Index here = divide_up(count - first, blocks), behind = first + here;
      const Index next = behind < count || last_chunk ? behind : 0;
      auto ahead = ahead_of(
          Next{next, count - next, columns + behind * chunk.pitch(), here * chunk.pitch()});
      ahead.spread_over(panels * divide_up(chunk.rows, kTileRows), here);
      for (Index panel = 0; panel < panels; ++panel) {
        const auto& [weights, start, target] = products[panel];
        const Target sums{target.data + row * target.row, target.row, target.vector};
        const Source from = first > 0 ? Source{sums.data, sums.row, sums.vector}
                                      : Source{start.data + row * start.row, start.row,
                                               start.vector};
        multiply_rows(chunk.rows, here, weights.from(first), columns + first * chunk.pitch(),
                      chunk.pitch(), from, sums, ahead);
      }
      first = behind;
    }
  }
}

// Where column `column` of A begins, when its columns come in groups of a tile's height. Groups are
// read from end to end; columns of a row-major A would be read a cache line a row, 64 streams at
// B = 64, more than a processor follows.
constexpr Index grouped(Index column, Index rows) {
  return column / kTileRows * rows * kTileRows + column % kTileRows;
}

// The tile of `height` rows, fewer than Most.
template <typename Precision, int Most>
SDROP_INLINE void accumulate_last_rows(Index height, Index rows, const std::int32_t* kept,
                                       const float* a, const float* b, float* target) {
  if constexpr (Most > 1) {
    if (height < Most - 1)
      return accumulate_last_rows<Precision, Most - 1>(height, rows, kept, a, b, target);
    accumulate_tile<Precision, Most - 1>(rows, kept, a, b, target);
  }
}

// target[kept] += A^T B: A is (kept_count / kTileRows, rows, kTileRows), B (rows, kPanelWidth), the
// target (size, kPanelWidth). The next tile's targets are asked for meanwhile.
template <typename Precision>
__attribute__((noinline)) void accumulate_panel(Index kept_count, const std::int32_t* kept,
                                                Index rows, const float* a, const float* b,
                                                float* target) {
  static_assert(kTileRows <= kReadableBehindKept);
  const Index whole = kept_count / kTileRows * kTileRows;
  for (Index first = 0; first < whole; first += kTileRows) {
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i)
#pragma GCC unroll 4
      for (Index j = 0; j < kPanelWidth; j += kLine)
        prefetch(target + kept[first + kTileRows + i] * kPanelWidth + j);
    accumulate_tile<Precision, kTileRows>(rows, kept + first, a + grouped(first, rows), b, target);
  }
  if (whole < kept_count)
    accumulate_last_rows<Precision, kTileRows>(kept_count - whole, rows, kept + whole,
                                               a + grouped(whole, rows), b, target);
}

}  // namespace sdrop::SDROP_CAPABILITY
