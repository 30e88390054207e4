// How the three products of a site are cut into blocks, and the measurement behind each number.
#pragma once

#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

// Whether bfloat16 numbers are multiplied in tiles (tiles.h).
#ifdef SDROP_TILES
constexpr bool kInTiles = true;
#else
constexpr bool kInTiles = false;
#endif

// Vectors of a panel of columns. In an LSTM they are the four gates of the same units.
constexpr int kPanelVectors = 4;
constexpr Index kPanelWidth = kPanelVectors * kLanes;

// Activations are transposed in chunks of at most so many rows: their lanes fill as many vectors.
constexpr int kChunkVectors = 4;
constexpr Index kChunk = kChunkVectors * kLanes;

// About so many rows of weights are between two visits of a sum to memory. With AVX2 a block of
// both operands fills half of a first-level cache of 32 KB, which another thread of the core may
// share: blocks of 48 measured as fast as any up to 110 on a quiet core and a third faster on a busy
// one. The wider tile of AVX-512 reads weights half as often and bears them coming from the second
// level: at B = 20, H = 1500 a forward pass took 163 ms with blocks of 48 and of 128 on a Zen 4
// processor, and 177 with 320; at H = 650 all were the same.
constexpr Index kBlockRows = SDROP_VECTOR_BYTES == 64 ? 128 : 48;

// Panels of weights that lie side by side and are multiplied block by block together: the longer a
// piece of a kept row, the faster memory gives it, and activations are read half as often. A step of
// the recurrence at H = 1500, which reads 12 MB of weights, measured 1.3 times as fast with two as
// with one, and a linear layer of 1150 x 4600 at B = 80, T = 70, which has 13 MB of activations, 1.15
// times; at H = 650 it made no difference, and four were slower.
constexpr Index kPanelsTogether = 2;
constexpr Index kGroupWidth = kPanelsTogether * kPanelWidth;

// Bytes of transposed gradients that one pass over the kept neurons reads: half a first-level
// cache.
constexpr Index kGradientBytes = kInTiles ? 32768 : 16384;

// Rows that are taken together where all steps keep the same neurons.
constexpr Index kConstantRows = 48;

// Multiply-adds below which a second thread costs more than it brings.
constexpr Index kThreadWork = 40000;

}  // namespace sdrop::SDROP_CAPABILITY
