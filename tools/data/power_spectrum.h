#pragma once

#include <array>
#include <cstddef>

namespace gradwire::data {

inline constexpr std::size_t kFftPoints = 256;
inline constexpr std::size_t kSpectrumBins = kFftPoints / 2 + 1;  // from 0 to half the sample rate

// Squared magnitudes of the discrete Fourier transform of a real signal.
std::array<double, kSpectrumBins> power_spectrum(const std::array<double, kFftPoints>& signal);

}  // namespace gradwire::data
