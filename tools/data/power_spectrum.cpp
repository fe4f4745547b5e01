#include "data/power_spectrum.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <utility>

namespace gradwire::data {
namespace {

using Complex = std::complex<double>;
using Points = std::array<Complex, kFftPoints>;

// exp(-2 pi i k / n)
std::array<Complex, kFftPoints / 2> make_roots() {
  std::array<Complex, kFftPoints / 2> roots;
  for (std::size_t k = 0; k < roots.size(); ++k) {
    roots[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) / kFftPoints);
  }
  return roots;
}

void reverse_index_bits(Points& points) {
  for (std::size_t i = 1, reversed = 0; i < kFftPoints; ++i) {
    std::size_t bit = kFftPoints / 2;
    for (; (reversed & bit) != 0; bit /= 2) reversed ^= bit;
    reversed ^= bit;
    if (i < reversed) std::swap(points[i], points[reversed]);
  }
}

// Radix 2, in place. A few thousand transforms of this size take milliseconds, so a library would
// save no time and would be one more package to install.
void transform(Points& points) {
  static const auto roots = make_roots();
  reverse_index_bits(points);
  for (std::size_t half = 1; half < kFftPoints; half *= 2) {
    for (std::size_t start = 0; start < kFftPoints; start += 2 * half) {
      for (std::size_t k = 0; k < half; ++k) {
        const Complex root = roots[k * (kFftPoints / 2 / half)];
        Complex& low = points[start + k];
        Complex& high = points[start + k + half];
        // The product of std::complex would also check for infinities.
        const Complex turned(high.real() * root.real() - high.imag() * root.imag(),
                             high.real() * root.imag() + high.imag() * root.real());
        high = low - turned;
        low += turned;
      }
    }
  }
}

}  // namespace

std::array<double, kSpectrumBins> power_spectrum(const std::array<double, kFftPoints>& signal) {
  Points points;
  for (std::size_t i = 0; i < kFftPoints; ++i) points[i] = signal[i];
  transform(points);
  std::array<double, kSpectrumBins> power;
  for (std::size_t i = 0; i < kSpectrumBins; ++i) power[i] = std::norm(points[i]);
  return power;
}

}  // namespace gradwire::data
