#include "data/mel_frames.h"

#include <algorithm>
#include <complex>
#include <random>

#include "data/power_spectrum.h"
#include "wav_file.h"

namespace gradwire::data {
namespace {

Sound noise(std::size_t length, int amplitude) {
  std::mt19937 random(1);
  Sound sound(length);
  for (auto& sample : sound) {
    sample =
        static_cast<std::int16_t>(static_cast<int>(random() % (2 * amplitude + 1)) - amplitude);
  }
  return sound;
}

TEST(PowerSpectrum, IsThatOfTheDefinition) {
  std::array<double, kFftPoints> signal;
  std::ranges::copy(noise(kFftPoints, 100), signal.begin());
  const auto power = power_spectrum(signal);
  for (std::size_t bin = 0; bin < kSpectrumBins; ++bin) {
    std::complex<double> sum = 0;
    for (std::size_t i = 0; i < kFftPoints; ++i) {
      sum += signal[i] *
             std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(bin * i) / kFftPoints);
    }
    ASSERT_NEAR(power[bin], std::norm(sum), 1e-6) << bin;
  }
}

TEST(MelFrames, ComeEveryTenMilliseconds) {
  EXPECT_EQ(mel_frames(Sound(199)).size(), 0U);
  EXPECT_EQ(mel_frames(Sound(200)).size(), 1U);
  EXPECT_EQ(mel_frames(Sound(279)).size(), 1U);
  EXPECT_EQ(mel_frames(Sound(280)).size(), 2U);
  EXPECT_EQ(mel_frames(Sound(8000)).size(), 98U);
}

TEST(MelFrames, HaveBandsFromZeroToFourKilohertz) {
  for (std::size_t band = 1; band < kMelBands; ++band) {
    EXPECT_GT(mel_band_centre(band), mel_band_centre(band - 1));
  }
  EXPECT_GT(mel_band_centre(0), 0);
  EXPECT_LT(mel_band_centre(kMelBands - 1), 4000);
}

// Low bands are as narrow as the window's resolution of about 50 Hz, so neighbours share a tone.
TEST(MelFrames, PeakWhereTheToneIs) {
  for (std::size_t band = 0; band < kMelBands; ++band) {
    const double hertz = mel_band_centre(band);
    const auto distance = static_cast<std::ptrdiff_t>(hertz < 300 ? 1 : 0);
    for (const MelFrame& frame : mel_frames(tone(hertz, 10000, 1000))) {
      const auto peak = std::ranges::max_element(frame) - frame.begin();
      ASSERT_LE(std::abs(peak - static_cast<std::ptrdiff_t>(band)), distance) << hertz << " Hz";
    }
  }
}

TEST(MelFrames, OfSilenceAreFiniteAndEqual) {
  for (const MelFrame& frame : mel_frames(Sound(1000))) {
    for (const float value : frame) {
      ASSERT_TRUE(std::isfinite(value));
      ASSERT_EQ(value, frame[0]);
    }
  }
}

TEST(MelFrames, ShiftByAConstantWithTheVolume) {
  const Sound quiet = noise(2000, 8000);
  Sound loud = quiet;
  for (auto& sample : loud) sample = static_cast<std::int16_t>(2 * sample);
  const auto quiet_frames = mel_frames(quiet);
  const auto loud_frames = mel_frames(loud);
  for (std::size_t i = 0; i < quiet_frames.size(); ++i) {
    for (std::size_t band = 0; band < kMelBands; ++band) {
      ASSERT_NEAR(loud_frames[i][band] - quiet_frames[i][band], std::log(4), 1e-5);
    }
  }
}

TEST(WithoutSilence, KeepsTheSoundAndNothingElse) {
  Sound sound(8000);
  std::ranges::copy(tone(500, 10000, 1600), sound.begin() + 3200);
  const auto kept = without_silence(sound);
  const auto begin = kept.data() - sound.data();
  const auto end = begin + static_cast<std::ptrdiff_t>(kept.size());
  EXPECT_GT(begin, 3200 - static_cast<std::ptrdiff_t>(kWindow));
  EXPECT_LE(begin, 3200);
  EXPECT_GE(end, 4800);
  EXPECT_LT(end, 4800 + static_cast<std::ptrdiff_t>(kWindow));
}

TEST(WithoutSilence, KeepsPausesWithinAWord) {
  Sound sound(4000);
  std::ranges::copy(tone(500, 10000, 400), sound.begin());
  std::ranges::copy(tone(500, 10000, 400), sound.end() - 400);
  EXPECT_EQ(without_silence(sound).size(), 3960U);  // whole hops
}

TEST(WithoutSilence, LeavesNothingButSilenceAsItIs) {
  EXPECT_EQ(without_silence(Sound(1000)).size(), 1000U);
  EXPECT_EQ(without_silence(Sound(10)).size(), 10U);
  EXPECT_EQ(without_silence(Sound()).size(), 0U);
}

}  // namespace
}  // namespace gradwire::data
