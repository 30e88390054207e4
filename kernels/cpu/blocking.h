// How the three products of a site are cut into blocks, and the measurement behind each number.
#pragma once

#include "vector.h"

namespace sdrop::SDROP_CAPABILITY {

// Vectors of a panel of columns. In an LSTM they are the four gates of the same units.
constexpr int kPanelVectors = 4;
constexpr Index kPanelWidth = kPanelVectors * kLanes;

// Activations are transposed in chunks of at most so many rows: their lanes fill as many vectors.
constexpr int kChunkVectors = 4;
constexpr Index kChunk = kChunkVectors * kLanes;

// Rows of weights between two visits of a sum to memory. With AVX2 a block of both operands and what
// is asked for ahead of time just fit a first-level cache of 32 KB: of 48 to 164, blocks of 82 to 96
// measured best. The wider tile of AVX-512 reads weights half as often and bears them coming from the
// second level: 320 measured best there for M = 20.
constexpr Index kForwardBlock = SDROP_VECTOR_BYTES == 64 ? 320 : 96;

// Bytes of transposed gradients that one pass over the kept neurons reads: half a first-level cache.
constexpr Index kGradientBytes = 16384;

// Rows that are taken together where all steps keep the same neurons.
constexpr Index kConstantRows = 48;

// Multiply-adds below which a second thread costs more than it brings.
constexpr Index kThreadWork = 40000;

}  // namespace sdrop::SDROP_CAPABILITY
