// Packing, and filling tiles with pairs, on the target with bf16. low_rank_bf16.cpp includes this
// file between its attributes for the target.

namespace gradwire::kernels::low_rank::bf16 {
namespace {

// The parts of a right factor that belong to the strips of a panel are packed transposed, one after
// the other, padded with zeros.
HWY_INLINE float* part_of_strip(float* panel, std::size_t rank, std::size_t column) {
  return panel + column * rank;
}

HWY_INLINE float* column_in_strip(float* panel, std::size_t rank, std::size_t column) {
  return part_of_strip(panel, rank, column - column % kStripColumns) + column % kStripColumns;
}

void pack_strips(const float* right, std::size_t rank, Range columns, float* panel) {
  const std::size_t count = columns.end - columns.begin;
  std::fill(panel, panel + padded_width(count) * rank, 0.0F);
  for (std::size_t j = 0; j < count; ++j) {
    const float* source = right + (columns.begin + j) * rank;
    float* target = column_in_strip(panel, rank, j);
    for (std::size_t c = 0; c < rank; ++c) target[c * kStripColumns] = source[c];
  }
}

void unpack_strips(float* panel, std::size_t rank, Range columns, float* right) {
  for (std::size_t j = 0; j < columns.end - columns.begin; ++j) {
    const float* source = column_in_strip(panel, rank, j);
    float* target = right + (columns.begin + j) * rank;
    for (std::size_t c = 0; c < rank; ++c) target[c] = source[c * kStripColumns];
  }
}

// One vector of a row of a factor. Rows after the last are zero.
HWY_INLINE Vector row_of_factor(const float* factor, std::size_t rank, Range rows, std::size_t row,
                                std::size_t from) {
  const std::size_t count = row < rows.end ? rank - from : 0;
  return _mm512_maskz_loadu_ps(first_lanes(count), factor + row * rank + from);
}

// Packs pairs of neighbouring rows of a factor, padded with zeros.
void pack_pairs(const float* factor, std::size_t rank, Range rows, std::size_t padded_rows,
                Lines pairs) {
  for (std::size_t i = 0; i < padded_rows; i += 2) {
    for (std::size_t c = 0; c < rank; c += kLanes) {
      const Vector first = row_of_factor(factor, rank, rows, rows.begin + i, c);
      const Vector second = row_of_factor(factor, rank, rows, rows.begin + i + 1, c);
      _mm512_store_ps(pairs.at(i / 2, c), pairs_across(first, second));
    }
  }
}

TileBounds first_group(const TileBounds& tile) {
  return {tile.row, std::min(kStripRows, tile.rows), tile.column, tile.columns};
}

// Where the values of a tile come from. begin_panel() prepares a run of columns, and read() returns
// false if the values are not finite.

// The values are those of a matrix, finite or not.
struct MatrixValues {
  static constexpr bool kChecked = false;
  // Registers hold no sums here, so few rows at a time are best: they are read nearly in order.
  static constexpr std::size_t kGroupRows = 2;
  // Filling takes so little time that the next rows would come too late.
  static constexpr std::size_t kRowsAhead = 6;

  const float* matrix;
  std::size_t stride;

  void begin_panel(Range) const {}
  Prefetcher fetch_gradient(const TileBounds& rows) const {
    return {matrix, stride, {rows.row + kRowsAhead, rows.rows, rows.column, rows.columns}};
  }
  Prefetcher fetch_residual(const TileBounds&) const { return {}; }
  Prefetcher fetch_while_multiplying(const TileBounds& next) const {
    return {matrix, stride, first_group(next)};
  }

  template <std::size_t kRows>
  HWY_INLINE bool read(const TileBounds& strip, StripValues<kRows>& values) const {
    const Masks masks(strip.columns);
    const float* source = matrix + strip.row * stride + strip.column;
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < 2; ++v) {
        values[i][v] = _mm512_maskz_loadu_ps(masks.lanes[v], source + i * stride + v * kLanes);
      }
    }
    return true;
  }
};

// The values are A = M + E, which read() writes into the residual buffer too, if they are finite:
// the residual cannot be recovered from an infinite A.
struct SettledValues {
  static constexpr bool kChecked = true;
  static constexpr std::size_t kGroupRows = kStripRows;

  const EncodeStep& step;
  float* panel;
  std::size_t panel_begin = 0;

  void begin_panel(Range columns) {
    panel_begin = columns.begin;
    if (step.pending.left != nullptr) {
      pack_strips(step.pending.right, step.shape.rank, columns, panel);
    }
  }
  Prefetcher fetch_gradient(const TileBounds& rows) const {
    return {step.gradient, step.shape.columns, rows};
  }
  Prefetcher fetch_residual(const TileBounds& rows) const {
    return {step.residual, step.shape.columns, rows};
  }
  Prefetcher fetch_while_multiplying(const TileBounds& next) const {
    return fetch_residual(first_group(next));
  }

  template <std::size_t kRows>
  HWY_INLINE bool read(const TileBounds& strip, StripValues<kRows>& values) const {
    const std::size_t stride = step.shape.columns;
    const std::size_t rank = step.pending.left == nullptr ? 0 : step.shape.rank;
    outer_product<kRows>(step.pending.left + strip.row * rank, rank,
                         part_of_strip(panel, rank, strip.column - panel_begin), values);
    const Masks masks(strip.columns);
    const float* gradient = step.gradient + strip.row * stride + strip.column;
    float* residual = step.residual + strip.row * stride + strip.column;
    const Vector zero = _mm512_setzero_ps();
    Vector check[2] = {zero, zero};  // stays zero, or becomes NaN
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < 2; ++v) {
        const std::size_t at = i * stride + v * kLanes;
        const Vector settled =
            _mm512_sub_ps(_mm512_maskz_loadu_ps(masks.lanes[v], residual + at), values[i][v]);
        values[i][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(masks.lanes[v], gradient + at), settled);
        check[v] = _mm512_fmadd_ps(values[i][v], zero, check[v]);
      }
    }
    if (_mm512_cmp_ps_mask(_mm512_add_ps(check[0], check[1]), zero, _CMP_EQ_OQ) != 0xFFFF) {
      return false;
    }
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < 2; ++v) {
        _mm512_mask_storeu_ps(residual + i * stride + v * kLanes, masks.lanes[v], values[i][v]);
      }
    }
    return true;
  }
};

// How a tile's pairs lie: beside each other in a row, for products along the rows, ...
struct PairsInRows {
  static Lines lines(float* tile, std::size_t columns) { return {tile, line_stride(columns / 2)}; }

  template <std::size_t kRows>
  HWY_INLINE static void store(const StripValues<kRows>& values, Lines tile, std::size_t row,
                               std::size_t column) {
#pragma GCC unroll 12
    for (std::size_t i = 0; i < kRows; ++i) {
      _mm512_store_ps(tile.at(row + i, column / 2), pairs_along(values[i][0], values[i][1]));
    }
  }
};

// ... or below each other, for products along the columns. A last odd row is paired with zeros.
struct PairsInColumns {
  static Lines lines(float* tile, std::size_t columns) { return {tile, line_stride(columns)}; }

  template <std::size_t kRows>
  HWY_INLINE static void store(const StripValues<kRows>& values, Lines tile, std::size_t row,
                               std::size_t column) {
#pragma GCC unroll 6
    for (std::size_t i = 0; i < kRows; i += 2) {
#pragma GCC unroll 2
      for (std::size_t v = 0; v < 2; ++v) {
        const Vector below = i + 1 < kRows ? values[i + 1][v] : _mm512_setzero_ps();
        _mm512_store_ps(tile.at((row + i) / 2, column + v * kLanes),
                        pairs_across(values[i][v], below));
      }
    }
  }
};

template <class Pairs, std::size_t kRows, class Source>
HWY_INLINE bool fill_strip(const Source& source, const TileBounds& strip, Lines tile,
                           std::size_t row, std::size_t column) {
  if (strip.rows == kRows) {
    StripValues<kRows> values;
    if (!source.template read<kRows>(strip, values)) return false;
    Pairs::template store<kRows>(values, tile, row, column);
    return true;
  }
  if constexpr (kRows > 1) {
    return fill_strip<Pairs, kRows - 1>(source, strip, tile, row, column);
  }
  return true;
}

// Fills a tile with pairs. Returns the first strip that is not finite, or one without rows.
template <class Pairs, class Source>
HWY_INLINE TileBounds fill_tile(const Source& source, const TileBounds& tile, Lines pairs,
                                const TileBounds& next) {
  for (std::size_t i = 0; i < tile.rows; i += Source::kGroupRows) {
    const std::size_t rows = std::min(Source::kGroupRows, tile.rows - i);
    const TileBounds below{tile.row + i + rows, std::min(Source::kGroupRows, tile.rows - i - rows),
                           tile.column, tile.columns};
    Prefetcher gradient = source.fetch_gradient(below.rows > 0 ? below : first_group(next));
    Prefetcher residual = source.fetch_residual(below);
    for (std::size_t j = 0; j < tile.columns; j += kStripColumns) {
      const TileBounds strip{tile.row + i, rows, tile.column + j,
                             std::min(kStripColumns, tile.columns - j)};
      gradient.fetch(2 * Source::kGroupRows);
      residual.fetch(2 * Source::kGroupRows);
      if (!fill_strip<Pairs, Source::kGroupRows>(source, strip, pairs, i, j)) return strip;
    }
  }
  return {tile.row + tile.rows, 0, tile.column + tile.columns, 0};
}

}  // namespace
}  // namespace gradwire::kernels::low_rank::bf16
