#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// AdaComp over bins of consecutive elements (the last of a parameter may be short):
//   G = E + g ;  H = G + g ;  gmax(bin) = max |G| in the bin
//   element i is sent where |H_i| >= gmax(its bin) > 0, as sign(G_i) * scale
//   scale = mean of gmax over all bins of the parameter ;  E = G - what was sent
//
// The scale is known only at the end. So encoding is one pass that leaves G in the residual and
// returns the selected elements block by block, so that they can be coded at once. Afterwards only
// the sent elements are touched again. No list of all of them is needed.
//
// A *selection* is an ascending list of entries 2 * position + (1 if G is negative). Positions
// count from the start of the block. The coder of positions takes and returns the same entries.
//
// To roll a step back, call add_signed(residual, selection, scale) for every block whose sent
// elements were settled, then roll_back() for every element done. This gives the old E up to
// rounding.
namespace gradwire::kernels {

struct AdacompBlock {
  // The number of elements whose residual now holds G. If G is not finite in some bin, this is the
  // position of that bin, and the bin and all after it are untouched.
  std::size_t done = 0;
  std::size_t selected = 0;
  // The sum over the bins done, in their order, so it is the same on every target. The caller must
  // add up the blocks in order.
  double gmax_sum = 0;
};

// Replaces the residual E of one block, which is made of whole bins, by G and writes its selection.
// There must be room for as many entries as the block has elements (fewer than 2^31). bin_length
// >= 1.
AdacompBlock adacomp_select(std::span<const float> gradient, std::span<float> residual,
                            std::size_t bin_length, std::uint32_t* selection);

// values[position] += scale, or -= scale where the entry is negative. With the negative scale it
// settles the residual of the sent elements. On a result it adds one worker's contribution.
void add_signed(std::span<float> values, std::span<const std::uint32_t> selection, float scale);

}  // namespace gradwire::kernels
