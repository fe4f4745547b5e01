#pragma once

#include <hwy/base.h>
#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>

#include "kernels/low_rank_panel.h"

namespace gradwire::kernels::low_rank {

// Fetches the cache lines of a later tile, a few at a time, so that memory is busy while the
// current tile is being multiplied. The hardware's prefetchers do not follow the jump from row to
// row. Lines are fetched in the order of memory, which is faster than the order of their use.
class Prefetcher {
 public:
  Prefetcher() = default;
  Prefetcher(const float* matrix, std::size_t columns, const TileBounds& tile)
      : row_(matrix + tile.row * columns + tile.column),
        stride_(columns),
        rows_(tile.rows),
        columns_(tile.columns) {}

  // How many lines each of `calls` calls must fetch to cover the tile.
  std::size_t lines_per_call(std::size_t calls) const {
    const std::size_t lines = rows_ * (columns_ / kLineFloats + 1);
    return lines / std::max<std::size_t>(calls, 1) + 1;
  }

  HWY_INLINE void fetch(std::size_t lines) {
    for (; lines > 0 && rows_ > 0; --lines) {
      hwy::Prefetch(row_ + column_);
      column_ += kLineFloats;
      if (column_ >= columns_) {
        column_ = 0;
        row_ += stride_;
        --rows_;
      }
    }
  }

 private:
  const float* row_ = nullptr;
  std::size_t stride_ = 0;
  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  std::size_t column_ = 0;
};

}  // namespace gradwire::kernels::low_rank
