// Every SIMD target quantises, averages and decodes as the scalar reference, bit for bit, on any
// floats at all. Records of arbitrary bytes are read without harm.

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "fuzz_input.h"
#include "kernels/quant.h"
#include "kernels/simd.h"
#include "quant_reference.h"

using namespace gradwire;

namespace {

constexpr std::size_t kWorkers = 3;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>,
                            std::bit_cast<std::uint32_t, float>);
}

void compare(kernels::QuantFormat format, const std::vector<float>& gradient,
             const std::vector<float>& before) {
  const std::size_t size = gradient.size();
  const auto sent = kernels::reference::quantise(format, gradient, before);
  auto residual = before;
  std::vector<std::uint8_t> records(format.bytes(size), 0xAA);
  const bool finite = kernels::quantise(format, gradient, residual, records);
  fuzz::require(finite == sent.all_finite(), "the same blocks are finite");
  fuzz::require(records == sent.records, "the same records");
  fuzz::require(same_bits(residual, sent.residual), "the same residual");
  fuzz::require(std::ranges::all_of(residual, [](float x) { return std::isfinite(x); }),
                "the residual stays finite");

  const std::vector<const std::uint8_t*> parts(kWorkers, records.data());
  const auto mean = kernels::reference::average_quantised(format, parts, size, residual);
  std::vector<std::uint8_t> average(records.size(), 0xAA);
  const bool mean_finite = kernels::average_quantised(format, parts, size, residual, average);
  fuzz::require(mean_finite == mean.all_finite(), "the same averages are finite");
  fuzz::require(average == mean.records, "the same averages");
  fuzz::require(same_bits(residual, mean.residual), "the same residual of the owner");

  std::vector<float> result(size);
  kernels::dequantise(format, average, result);
  for (std::size_t i = 0; i < size; ++i) {
    const float expected = kernels::reference::decoded(format, average.data(), i);
    const bool same = std::isnan(expected) ? std::isnan(result[i]) : result[i] == expected;
    fuzz::require(same, "the same result");
  }
}

void read_anything(kernels::QuantFormat format, std::span<const std::byte> bytes) {
  std::size_t elements = bytes.size() * 8 / static_cast<std::size_t>(format.bits);
  while (elements > 0 && format.bytes(elements) > bytes.size()) --elements;
  if (elements == 0) return;
  std::vector<std::uint8_t> records(format.bytes(elements));
  std::memcpy(records.data(), bytes.data(), records.size());
  const std::vector<const std::uint8_t*> parts(kWorkers, records.data());
  std::vector<std::uint8_t> average(records.size());
  std::vector<float> residual(elements);
  kernels::average_quantised(format, parts, elements, residual, average);
  fuzz::require(std::ranges::all_of(residual, [](float x) { return std::isfinite(x); }),
                "the residual stays finite");
  kernels::dequantise(format, records, residual);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const int bits = 1 << input.between(0, 3);
  const kernels::QuantFormat format{bits, 8 * std::size_t{input.between(1, 40)}};
  const bool small_integers = input.coin();
  const auto bytes = input.rest();
  std::vector<float> gradient, residual;
  while (!input.empty()) {
    for (auto* values : {&gradient, &residual}) {
      float value =
          small_integers ? static_cast<float>(input.number<std::int8_t>()) : input.number<float>();
      // A residual is finite, whatever the gradient is.
      if (values == &residual && !(std::abs(value) < 0x1p126F)) value = 0;
      values->push_back(value);
    }
  }
  for (std::int64_t rest = kernels::supported_targets(); rest != 0; rest &= rest - 1) {
    fuzz::require(kernels::pin_target(kernels::best_target(rest)), "a supported target");
    if (!gradient.empty()) compare(format, gradient, residual);
    read_anything(format, bytes);
  }
  return 0;
}
