#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/half.h"

// Exact selection of the k elements of largest |G|, G = gradient + residual; of equal |G| the lower
// index wins.
//
// Almost all elements can be dismissed while they stream by, if one knows roughly where the cut
// will fall. So:
//   1. estimate_floor samples G and names a magnitude that somewhat more than k elements reach;
//   2. accumulate adds the gradient to the residual and gathers the elements that reach the floor;
//   3. select_largest finds the exact cut among those gathered. If the floor was too high (fewer
//      than k) or too low (more than there was room for), it searches the whole residual instead.
// The outcome is the same either way; a poor estimate costs time only.
//
// Step 2 may be split between threads at multiples of kTopkBlock elements, each thread with room of
// its own for candidates.
namespace gradwire::kernels {

inline constexpr std::size_t kTopkBlock = 4096;

// Elements gathered from one range: ascending indices, and |G| as the bits of a float.
struct Candidates {
  std::span<std::uint32_t> indices;
  std::span<std::uint32_t> magnitudes;  // as long as `indices`
  std::size_t count = 0;                // above indices.size() if there was not room for all
};

// How many candidates to make room for, in all ranges together: 8 bytes each, at most 4 % of the
// gradient's bytes. 0 where the selection searches the residual at once: with few elements, or with
// so many of them wanted that gathering does not pay.
std::size_t candidate_capacity(std::size_t size, std::size_t k);

// Samples as many elements as `sample` has room for (a quarter of all at most); kTopkSample is
// ample. To be called before accumulate, and only where candidate_capacity is not 0.
inline constexpr std::size_t kTopkSample = 8192;
float estimate_floor(std::span<const float> gradient, std::span<const float> residual,
                     std::size_t k, std::span<std::uint32_t> sample);

// residual += gradient, and every element with |G| >= floor is appended to the candidates. The
// range begins at element `first` of the parameter. Returns the number of elements updated: less
// than all if a block holds, or comes to hold, an inf or NaN. That block and those behind it are
// untouched; take_back (undo.h) undoes the others.
std::size_t accumulate(std::span<const float> gradient, std::span<float> residual,
                       std::uint32_t first, float floor, Candidates& candidates);

// Writes the ascending indices of the k = selected.size() elements of largest |residual|, k >= 1
// and at most residual.size(). `ranges` holds what accumulate gathered with one floor from all
// ranges of the parameter, in their order, or nothing. True if the candidates sufficed.
bool select_largest(std::span<const Candidates> ranges, std::span<const float> residual,
                    std::span<std::uint32_t> selected);

// Moves the elements at `indices` out of the residual into `values`, leaving 0.
void take(std::span<float> residual, std::span<const std::uint32_t> indices,
          std::span<float> values);

// The same, rounded; what the rounding left over stays in the residual. An element beyond the range
// of the format is sent as the largest finite number, the excess staying.
void take_rounded(HalfFormat format, std::span<float> residual,
                  std::span<const std::uint32_t> indices, std::span<std::uint16_t> values);

// target[indices[i]] += factor * values[i], rounded after the product and after the sum.
void add_scaled(std::span<float> target, std::span<const std::uint32_t> indices,
                std::span<const float> values, float factor);

}  // namespace gradwire::kernels
