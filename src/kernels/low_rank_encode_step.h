#pragma once

#include "kernels/low_rank.h"
#include "kernels/low_rank_panel.h"

namespace gradwire::kernels::low_rank {

// What an encode step of either factor reads and writes.
struct EncodeStep {
  const Shape& shape;
  const float* gradient;
  float* residual;
  FactorPair pending;
};

// How far a step came: it has done all columns before `panel`, in the panel all tiles before
// `tile`, in the tile all rows before `strip`, and in the strip's rows all columns before it.
struct Progress {
  bool complete;
  Range panel;
  TileBounds tile;
  TileBounds strip;
};

}  // namespace gradwire::kernels::low_rank
