#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// AdaComp over bins of consecutive elements (the last of a parameter may be short):
//   G = E + g ;  H = G + g ;  gmax(bin) = max |G| in the bin
//   element i is sent where |H_i| >= gmax(its bin) > 0, as sign(G_i) * scale
//   scale = mean of gmax over all bins of the parameter ;  E = G - what was sent
//
// The scale is known only at the end, so encoding is one streaming pass that leaves G in the
// residual and gives out what is selected, block by block, to be entropy-coded at once; afterwards
// only the sent elements are touched again. No list of all of them is ever held.
//
// A *selection* is a list of entries 2 * position + (1 if G is negative), ascending, positions
// counted from the start of the block: what the coder of positions takes and gives back.
//
// To undo a step: add_signed(residual, selection, scale) for every block whose sent elements were
// settled, then take_back() of the gradient from every element done. Gives the old E up to
// rounding.
namespace gradwire::kernels {

// Elements of one block: whole bins, no more than 65536 elements unless a single bin is longer.
// Blocks may be encoded in any order and on any thread, always at these boundaries.
std::size_t adacomp_block_length(std::size_t bin_length);

struct AdacompBlock {
  // Elements whose residual now holds G. Fewer than the block's if G is not finite in the bin that
  // starts there: that bin and all after it are untouched.
  std::size_t done = 0;
  std::size_t selected = 0;
  // Over the bins done, in order: the same on every target. The caller adds up blocks in order.
  double gmax_sum = 0;
};

// Replaces the residual E of one block by G and writes its selection, for which there must be room
// for as many entries as the block has elements (less than 2^31). bin_length >= 1.
AdacompBlock adacomp_select(std::span<const float> gradient, std::span<float> residual,
                            std::size_t bin_length, std::uint32_t* selection);

// values[position] += scale, or -= scale where the entry is negative. With minus the scale it
// settles the residual of the sent elements; on a result it adds one worker's contribution.
void add_signed(std::span<float> values, std::span<const std::uint32_t> selection, float scale);

}  // namespace gradwire::kernels
