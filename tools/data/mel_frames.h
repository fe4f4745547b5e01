#pragma once

// The usual input of a speech recogniser: the energy in frequency bands that are as wide as those
// of the human ear, a hundred times per second.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gradwire::data {

inline constexpr std::size_t kSampleRate = 8000;
inline constexpr std::size_t kWindow = kSampleRate / 40;  // 25 ms
inline constexpr std::size_t kHop = kSampleRate / 100;    // 10 ms
inline constexpr std::size_t kMelBands = 40;              // from 0 to 4 kHz

using MelFrame = std::array<float, kMelBands>;

// The frequency in Hz at which a band is most sensitive.
double mel_band_centre(std::size_t band);

// The logarithm of each band's energy, in every window that fits into the samples. Fewer samples
// than kWindow have no window.
std::vector<MelFrame> mel_frames(std::span<const std::int16_t> samples);

// The samples from the first to the last window whose energy is within 40 dB of the loudest.
std::span<const std::int16_t> without_silence(std::span<const std::int16_t> samples);

}  // namespace gradwire::data
