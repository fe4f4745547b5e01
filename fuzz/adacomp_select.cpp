// Every SIMD target selects as the scalar reference, bit for bit, on any floats at all.

#include <bit>
#include <cmath>
#include <vector>

#include "adacomp_reference.h"
#include "fuzz_input.h"
#include "kernels/adacomp.h"
#include "kernels/simd.h"

using namespace gradwire;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

void compare(const std::vector<float>& gradient, const std::vector<float>& before,
             std::size_t bin_length) {
  auto expected_residual = before;
  const auto expected = kernels::adacomp_select_reference(gradient, expected_residual, bin_length);
  auto residual = before;
  std::vector<std::uint32_t> selection(gradient.size());
  const auto block = kernels::adacomp_select(gradient, residual, bin_length, selection.data());
  selection.resize(block.selected);
  fuzz::require(block.done == expected.block.done, "the same bins are done");
  fuzz::require(block.gmax_sum == expected.block.gmax_sum, "the same sum of maxima");
  fuzz::require(selection == expected.selection, "the same selection");
  fuzz::require(same_bits(residual, expected_residual), "the same residual");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const std::size_t bin_length = input.between(1, 130);
  const bool small_integers = input.coin();
  std::vector<float> gradient, residual;
  while (!input.empty()) {
    for (auto* values : {&gradient, &residual}) {
      // A residual is finite, whatever the gradient is.
      float value =
          small_integers ? static_cast<float>(input.number<std::int8_t>()) : input.number<float>();
      if (values == &residual && !std::isfinite(value)) value = 0;
      values->push_back(value);
    }
  }
  for (std::int64_t rest = kernels::supported_targets(); rest != 0; rest &= rest - 1) {
    fuzz::require(kernels::pin_target(kernels::best_target(rest)), "a supported target");
    compare(gradient, residual, bin_length);
  }
  return 0;
}
