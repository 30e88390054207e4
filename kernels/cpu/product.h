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

// Kept rows of packed panels that are needed soon: asked for bit by bit between tiles, since memory
// answers slower than a tile lasts. They come into the second-level cache: the first has no room for
// another block, and what it lacks of this one the second gives fast enough. At H = 1150 and 1500
// recurrences measured 1.02 to 1.08 times as fast as with rows that came into the first.
template <typename Rows>
class Ahead {
 public:
  Ahead() = default;
  Ahead(Rows rows, Index count) : rows_(rows), count_(count) {}

  // In so many tiles from now on all shall have been asked for.
  void spread_over(Index tiles) { share_ = divide_up(count_, tiles); }

  SDROP_INLINE void ask() {
    for (const Index end = std::min(count_, asked_ + share_); asked_ < end; ++asked_)
      rows_.ask_far(asked_);
  }

 private:
  Rows rows_{};
  Index count_ = 0, share_ = 0, asked_ = 0;
};

// Activations that are needed soon. All of a sequence lie one behind the other, but a tile reads
// three columns of them, which no processor takes for a stream: 13 MB that came from behind the
// second-level cache measured 1.3 times as fast when they were asked for.
class Following {
 public:
  Following(const float* from, const float* end) : next_(from), end_(end) {}

  void spread_over(Index tiles) { share_ = round_up(divide_up(end_ - next_, tiles), 16); }

  SDROP_INLINE void ask() {
    for (const float* end = next_ + std::min<Index>(share_, end_ - next_); next_ < end; next_ += 16)
      prefetch(next_);
  }

 private:
  const float* next_;
  const float* end_;
  Index share_ = 0;
};

// target = start + A^T B for `tiles` tiles of Rows rows each.
template <int Rows, typename Weights, typename Soon>
__attribute__((noinline)) void multiply_tiles(Index tiles, Index count, Weights weights,
                                              const float* a, Index pitch, Source start,
                                              Target target, Soon& ahead) {
  for (Index tile = 0; tile < tiles; ++tile) {
    ahead.ask();
    multiply_tile<Rows, kPanelVectors>(count, weights, a, pitch, start, target);
    a += Rows;
    start.data += Rows * start.row;
    target.data += Rows * target.row;
  }
}

// target = start + A^T B for the rows of one chunk, in tiles of nearly equal height: first those of
// Most rows, then those of one less.
template <int Most = kTileRows, typename Weights, typename Soon>
SDROP_INLINE void multiply_rows(Index rows, Index count, Weights weights, const float* a,
                                Index pitch, Source start, Target target, Soon& ahead) {
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

// The first block of `count` rows, to be asked for while another block is multiplied.
template <typename Rows>
Ahead<Rows> first_block(const Rows& rows, Index count) {
  return {rows, divide_up(count, blocks_of(count))};
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
      ahead.spread_over(panels * divide_up(chunk.rows, kTileRows));
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
      for (Index j = 0; j < kPanelWidth; j += 16)
        prefetch(target + kept[first + kTileRows + i] * kPanelWidth + j);
    accumulate_tile<Precision, kTileRows>(rows, kept + first, a + grouped(first, rows), b, target);
  }
  if (whole < kept_count)
    accumulate_last_rows<Precision, kTileRows>(kept_count - whole, rows, kept + whole,
                                               a + grouped(whole, rows), b, target);
}

}  // namespace sdrop::SDROP_CAPABILITY
