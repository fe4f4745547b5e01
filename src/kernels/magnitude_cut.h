#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

// Finds the k-th largest of a sequence of magnitudes digit by digit, from histograms. This is exact
// and takes three passes over the sequence, without a copy of it.
namespace gradwire::kernels {

// |value| as an integer. Larger magnitudes give larger integers.
inline std::uint32_t magnitude_bits(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFF;
}

// All elements above `magnitude` are selected, and the first `ties` of those equal to it.
struct MagnitudeCut {
  std::uint32_t magnitude;
  std::size_t ties;
};

// The caller gives the elements as a function `for_each(floor, visit)`. It must call
// visit(magnitude, index) for every element whose magnitude is at least `floor`, in the same order
// each time. It may visit others too.

// 1 <= k <= number of elements.
template <class ForEach>
MagnitudeCut find_cut(ForEach&& for_each, std::size_t k) {
  std::uint32_t prefix = 0;
  unsigned known_from = 31;  // the digits from this bit up are known
  for (unsigned shift : {20U, 10U, 0U}) {
    std::array<std::uint32_t, 2048> histogram{};
    const std::uint32_t digit_mask = (1U << (known_from - shift)) - 1;
    for_each(prefix << known_from, [&](std::uint32_t magnitude, std::uint32_t) {
      if (magnitude >> known_from == prefix) ++histogram[(magnitude >> shift) & digit_mask];
    });
    std::uint32_t digit = digit_mask;
    for (; histogram[digit] < k; --digit) k -= histogram[digit];
    prefix = prefix << (known_from - shift) | digit;
    known_from = shift;
  }
  return {prefix, k};
}

// Writes the indices of the selected.size() largest, in the order of the elements.
template <class ForEach>
void select_by_cut(ForEach&& for_each, std::span<std::uint32_t> selected) {
  const MagnitudeCut cut = find_cut(for_each, selected.size());
  std::size_t ties = cut.ties;
  std::size_t count = 0;
  for_each(cut.magnitude, [&](std::uint32_t magnitude, std::uint32_t index) {
    if (count == selected.size()) return;
    // A branch on the magnitude would be mispredicted all the time.
    const bool tie = magnitude == cut.magnitude && ties != 0;
    selected[count] = index;
    count += magnitude > cut.magnitude || tie;
    ties -= tie;
  });
}

}  // namespace gradwire::kernels
