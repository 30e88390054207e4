// Products of bfloat16 numbers in the processor's tile registers (AMX).
//
// A tile is up to 16 rows of 16 words, a word two numbers that are neighbours along the sum or one
// sum in float32. One instruction adds the product of a tile of A, (rows, 32 numbers), and one of B,
// (16 words along the sum, 16 columns), to a tile of sums, (rows, 16 columns), in 16 cycles: sixteen
// times as many multiply-adds as those of vectors.
#pragma once

#include <algorithm>

#include "precision.h"

namespace sdrop::SDROP_CAPABILITY {

constexpr Index kTileSide = 16;      // rows, words of a row
constexpr Index kTileNumbers = 32;   // bfloat16 numbers of a row
constexpr Index kTileWords = kTileSide * kTileSide;

// Of the eight registers four hold sums: an upper and a lower tile of rows, a left and a right one
// of columns. Each tile of A and of B is then used twice.
constexpr Index kBlockOfRows = 2 * kTileSide;

// The sums of up to kBlockOfRows rows and two tiles of columns. Without Lower there is one tile of
// rows, without Right one of columns; `right` is how far the right tile lies behind the left one.
// Rows of A lie one behind the other, those of the lower tile behind the upper one's.
#ifdef __AMX_TILE__

template <bool Lower, bool Right>
struct TileSums {
  Index upper;  // rows of the upper tile

  SDROP_INLINE void clear() const {
    _tile_zero(0);
    if constexpr (Right) _tile_zero(1);
    if constexpr (Lower) _tile_zero(2);
    if constexpr (Lower && Right) _tile_zero(3);
  }

  SDROP_INLINE void load(const float* from, Index row, Index right) const {
    const float* lower = from + upper * row;
    const Index stride = row * sizeof(float);
    _tile_loadd(0, from, stride);
    if constexpr (Right) _tile_loadd(1, from + right, stride);
    if constexpr (Lower) _tile_loadd(2, lower, stride);
    if constexpr (Lower && Right) _tile_loadd(3, lower + right, stride);
  }

  SDROP_INLINE void add(const float* a, const float* b, Index b_row, Index right) const {
    constexpr Index kStride = kTileSide * sizeof(float);
    const Index stride = b_row * sizeof(float);
    // GCC 12 does not know that a tile's load reads memory.
    asm volatile("" ::: "memory");
    _tile_loadd(4, a, kStride);
    _tile_loadd(6, b, stride);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Right) {
      _tile_loadd(7, b + right, stride);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Lower) {
      _tile_loadd(5, a + upper * kTileSide, kStride);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (Lower && Right) _tile_dpbf16ps(3, 5, 7);
  }

  SDROP_INLINE void store(float* to, Index row, Index right) const {
    float* lower = to + upper * row;
    const Index stride = row * sizeof(float);
    _tile_stored(0, to, stride);
    if constexpr (Right) _tile_stored(1, to + right, stride);
    if constexpr (Lower) _tile_stored(2, lower, stride);
    if constexpr (Lower && Right) _tile_stored(3, lower + right, stride);
    asm volatile("" ::: "memory");
  }
};

// How many rows the tiles have. Setting it takes as long as ten products.
class TileUnit {
 public:
  TileUnit() = default;
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;
  ~TileUnit() {
    if (upper_ > 0) _tile_release();
  }

  void set_rows(Index upper, Index lower) {
    if (upper == upper_ && lower == lower_) return;
    upper_ = upper;
    lower_ = lower;
    struct Shape {
      std::uint8_t palette = 1, start = 0, unused[14] = {};
      std::uint16_t bytes[16] = {};
      std::uint8_t rows[16] = {};
    };
    static_assert(sizeof(Shape) == 64);
    alignas(64) Shape shape;
    const Index rows[] = {upper, upper, lower, lower, upper, lower, kTileSide, kTileSide};
    for (int tile = 0; tile < 8; ++tile) {
      shape.rows[tile] = static_cast<std::uint8_t>(rows[tile]);
      shape.bytes[tile] = rows[tile] > 0 ? kTileSide * sizeof(float) : 0;
    }
    asm volatile("" ::: "memory");
    _tile_loadconfig(&shape);
  }

 private:
  Index upper_ = 0, lower_ = 0;
};

#else

// The same in plain loops, for tests on processors that have no tiles.
template <bool Lower, bool Right>
struct TileSums {
  Index upper;

  static inline thread_local float sums[2][2][kTileSide][kTileSide];
  static inline thread_local Index rows[2];

  template <typename Each>
  void each(const Each& each) const {
    for (Index i = 0; i <= Index{Lower}; ++i)
      for (Index j = 0; j <= Index{Right}; ++j)
        for (Index row = 0; row < rows[i]; ++row)
          for (Index column = 0; column < kTileSide; ++column)
            each(sums[i][j][row][column], i * upper + row, j, column);
  }

  void clear() const {
    each([](float& sum, Index, Index, Index) { sum = 0.0f; });
  }
  void load(const float* from, Index row, Index right) const {
    each([&](float& sum, Index i, Index j, Index column) {
      sum = from[i * row + j * right + column];
    });
  }
  void add(const float* a, const float* b, Index b_row, Index right) const {
    const auto number = [](const float* words, Index place) {
      Half half;
      std::memcpy(&half, reinterpret_cast<const char*>(words) + place * sizeof half, sizeof half);
      const std::uint32_t bits = std::uint32_t{half} << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    };
    each([&](float& sum, Index i, Index j, Index column) {
      for (Index k = 0; k < kTileNumbers; ++k)
        sum += number(a + i * kTileSide, k) *
               number(b + k / 2 * b_row + j * right + column, k % 2);
    });
  }
  void store(float* to, Index row, Index right) const {
    each([&](float& sum, Index i, Index j, Index column) {
      to[i * row + j * right + column] = sum;
    });
  }
};

class TileUnit {
 public:
  void set_rows(Index upper, Index lower) {
    const auto set = [&](Index(&rows)[2]) { rows[0] = upper, rows[1] = lower; };
    set(TileSums<false, false>::rows);
    set(TileSums<false, true>::rows);
    set(TileSums<true, false>::rows);
    set(TileSums<true, true>::rows);
  }
};

#endif

// Calls body(sums) for so many rows, at most kBlockOfRows, and one or two tiles of columns.
template <typename Body>
SDROP_INLINE void in_tiles(TileUnit& unit, Index rows, bool two_columns, const Body& body) {
  const Index upper = rows > kTileSide ? divide_up(rows, 2) : rows;
  unit.set_rows(upper, rows - upper);
  if (upper < rows) {
    if (two_columns)
      body(TileSums<true, true>{upper});
    else
      body(TileSums<true, false>{upper});
  } else if (two_columns) {
    body(TileSums<false, true>{upper});
  } else {
    body(TileSums<false, false>{upper});
  }
}

// sums += A B along `blocks` tiles each. `make(block)` writes what a block of A or B is read from,
// while the one before it is multiplied.
template <typename Sums, typename Make, typename A, typename B>
SDROP_INLINE void add_blocks(const Sums& sums, Index blocks, const Make& make, const A& a,
                             const B& b, Index b_row, Index right) {
  if (blocks > 0) make(Index{0});
  for (Index block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) make(block + 1);
    sums.add(a(block), b(block), b_row, right);
  }
}

// Rows of A as tiles read them: kTileNumbers numbers of all rows, then the next ones.
struct TiledRows {
  float* data;
  Index rows;

  static constexpr Index size(Index numbers, Index rows) {  // in words
    return divide_up(numbers, kTileNumbers) * rows * kTileSide;
  }

  float* block(Index block, Index row) const { return data + (block * rows + row) * kTileSide; }
  Half* at(Index row, Index number) const {
    return reinterpret_cast<Half*>(block(number / kTileNumbers, row)) + number % kTileNumbers;
  }

  // Zeroes behind the last of `numbers` numbers.
  void clear_last_block(Index numbers) const {
    if (numbers % kTileNumbers > 0)
      std::fill_n(block(numbers / kTileNumbers, 0), rows * kTileSide, 0.0f);
  }
};

}  // namespace sdrop::SDROP_CAPABILITY
