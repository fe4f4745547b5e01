#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/half.h"

// Exact selection of the k elements of largest |G|, where G = gradient + residual. Of equal |G| the
// lower index wins.
//
// If one knows roughly where the cut will be, almost all elements can be dismissed in the pass that
// computes G:
//   1. estimate_floor samples G and finds a magnitude that somewhat more than k elements reach.
//   2. accumulate adds the gradient to the residual and gathers the elements that reach this floor.
//   3. select_largest finds the exact cut among those gathered. If the floor was too high (fewer
//      than k elements) or too low (no room for all), it searches the whole residual instead.
// The result is the same in both cases. A poor estimate only costs time.
//
// Step 2 may be split between threads at multiples of kTopkBlock elements. Each thread then has
// room of its own for candidates.
namespace gradwire::kernels {

inline constexpr std::size_t kTopkBlock = 4096;

// The elements gathered from one range: ascending indices, and |G| as the bits of a float.
struct Candidates {
  std::span<std::uint32_t> indices;
  std::span<std::uint32_t> magnitudes;  // as long as `indices`
  std::size_t count = 0;                // is above indices.size() if there was no room for all
};

// How many candidates to make room for, in all ranges together. They need 8 bytes each, at most 4 %
// of the gradient's bytes. The result is 0 where gathering does not pay, because there are few
// elements or k is large. Then the selection searches the residual at once.
std::size_t candidate_capacity(std::size_t size, std::size_t k);

// Samples as many elements as `sample` has room for, but at most a quarter of all. kTopkSample is
// more than enough. Must be called before accumulate, and only where candidate_capacity is not 0.
inline constexpr std::size_t kTopkSample = 8192;
float estimate_floor(std::span<const float> gradient, std::span<const float> residual,
                     std::size_t k, std::span<std::uint32_t> sample);

// residual += gradient, and every element with |G| >= floor is appended to the candidates. The
// range begins at element `first` of the parameter. Returns the number of elements updated: less
// than all if a block holds, or comes to hold, an inf or NaN. That block and those behind it are
// untouched; roll_back (roll_back.h) restores the others.
std::size_t accumulate(std::span<const float> gradient, std::span<float> residual,
                       std::uint32_t first, float floor, Candidates& candidates);

// Writes the ascending indices of the k = selected.size() elements of largest |residual|,
// 1 <= k <= residual.size(). `ranges` holds what accumulate gathered with one floor from all ranges
// of the parameter, in their order, or nothing. Returns whether the candidates sufficed.
bool select_largest(std::span<const Candidates> ranges, std::span<const float> residual,
                    std::span<std::uint32_t> selected);

// Moves the elements at `indices` from the residual into `values` and leaves 0.
void take(std::span<float> residual, std::span<const std::uint32_t> indices,
          std::span<float> values);

// The same with rounded values. The rounding error stays in the residual. An element beyond the
// range of the format is sent as the largest finite number, and the excess stays too.
void take_rounded(HalfFormat format, std::span<float> residual,
                  std::span<const std::uint32_t> indices, std::span<std::uint16_t> values);

// target[indices[i]] += factor * values[i], rounded after the product and again after the sum.
void add_scaled(std::span<float> target, std::span<const std::uint32_t> indices,
                std::span<const float> values, float factor);

}  // namespace gradwire::kernels
