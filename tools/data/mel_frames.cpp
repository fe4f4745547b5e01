#include "data/mel_frames.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/power_spectrum.h"

namespace gradwire::data {
namespace {

constexpr double kLeastEnergy = 1e-10;  // less than the last bit of a 16-bit signal
constexpr double kSilence = 1e-4;       // 40 dB below the loudest window
constexpr double kHertzPerBin = static_cast<double>(kSampleRate) / kFftPoints;

static_assert(kWindow <= kFftPoints);

double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }
double hertz(double mel) { return 700 * (std::pow(10, mel / 2595) - 1); }

// The frequency at which band `i` - 1 is most sensitive and its neighbours end. The distances are
// equal in mel.
double band_edge(std::size_t i) {
  return hertz(mel(kSampleRate / 2.0) * static_cast<double>(i) / (kMelBands + 1));
}

std::array<double, kWindow> hamming_window() {
  std::array<double, kWindow> window;
  for (std::size_t i = 0; i < kWindow; ++i) {
    window[i] =
        0.54 - 0.46 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / (kWindow - 1));
  }
  return window;
}

using Filter = std::array<double, kSpectrumBins>;

// A triangle over the band's edges.
Filter filter(std::size_t band) {
  const double low = band_edge(band);
  const double centre = band_edge(band + 1);
  const double high = band_edge(band + 2);
  Filter weights;
  for (std::size_t bin = 0; bin < kSpectrumBins; ++bin) {
    const double at = static_cast<double>(bin) * kHertzPerBin;
    const double side = at < centre ? (at - low) / (centre - low) : (high - at) / (high - centre);
    weights[bin] = std::max(0.0, side);
  }
  return weights;
}

std::array<Filter, kMelBands> all_filters() {
  std::array<Filter, kMelBands> filters;
  for (std::size_t band = 0; band < kMelBands; ++band) filters[band] = filter(band);
  return filters;
}

MelFrame frame(std::span<const std::int16_t, kWindow> samples) {
  static const auto window = hamming_window();
  static const auto filters = all_filters();
  std::array<double, kFftPoints> signal{};
  for (std::size_t i = 0; i < kWindow; ++i) signal[i] = window[i] * samples[i] / 32768;
  const auto power = power_spectrum(signal);
  MelFrame result;
  for (std::size_t band = 0; band < kMelBands; ++band) {
    double energy = 0;
    for (std::size_t bin = 0; bin < kSpectrumBins; ++bin) energy += filters[band][bin] * power[bin];
    result[band] = static_cast<float>(std::log(std::max(energy, kLeastEnergy)));
  }
  return result;
}

std::size_t windows_in(std::span<const std::int16_t> samples) {
  return samples.size() < kWindow ? 0 : (samples.size() - kWindow) / kHop + 1;
}

std::vector<double> window_energies(std::span<const std::int16_t> samples) {
  std::vector<double> energies(windows_in(samples));
  for (std::size_t i = 0; i < energies.size(); ++i) {
    for (const double sample : samples.subspan(i * kHop, kWindow)) energies[i] += sample * sample;
  }
  return energies;
}

}  // namespace

double mel_band_centre(std::size_t band) { return band_edge(band + 1); }

std::vector<MelFrame> mel_frames(std::span<const std::int16_t> samples) {
  std::vector<MelFrame> frames(windows_in(samples));
  for (std::size_t i = 0; i < frames.size(); ++i) {
    frames[i] = frame(samples.subspan(i * kHop).first<kWindow>());
  }
  return frames;
}

std::span<const std::int16_t> without_silence(std::span<const std::int16_t> samples) {
  const std::vector<double> energies = window_energies(samples);
  if (energies.empty()) return samples;
  const double threshold = kSilence * std::ranges::max(energies);
  const auto loud = [&](double energy) { return energy >= threshold; };
  const auto first = std::find_if(energies.begin(), energies.end(), loud) - energies.begin();
  const auto after = energies.rend() - std::find_if(energies.rbegin(), energies.rend(), loud);
  const auto hops = static_cast<std::size_t>(after - 1 - first);
  return samples.subspan(static_cast<std::size_t>(first) * kHop, hops * kHop + kWindow);
}

}  // namespace gradwire::data
