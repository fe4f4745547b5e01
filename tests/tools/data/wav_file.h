#pragma once

// WAV files, correct and damaged ones.

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>
#include <vector>

#include "files.h"

namespace gradwire::data {

using Sound = std::vector<std::int16_t>;

inline Bytes little_endian(std::uint32_t value, int width) {
  Bytes bytes;
  for (int i = 0; i < width; ++i) bytes.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  return bytes;
}

inline Bytes chunk(std::string_view name, const Bytes& content) {
  return bytes_of(name) + little_endian(static_cast<std::uint32_t>(content.size()), 4) + content +
         Bytes(content.size() % 2, 0);
}

inline Bytes format_chunk(std::uint32_t format = 1, std::uint32_t channels = 1,
                          std::uint32_t rate = 8000, std::uint32_t bits = 16) {
  return chunk("fmt ", little_endian(format, 2) + little_endian(channels, 2) +
                           little_endian(rate, 4) + little_endian(rate * channels * bits / 8, 4) +
                           little_endian(channels * bits / 8, 2) + little_endian(bits, 2));
}

inline Bytes data_chunk(const Sound& sound) {
  Bytes content;
  for (const std::int16_t sample : sound) {
    const Bytes bytes = little_endian(static_cast<std::uint16_t>(sample), 2);
    content.insert(content.end(), bytes.begin(), bytes.end());
  }
  return chunk("data", content);
}

inline Bytes riff(const Bytes& chunks) { return chunk("RIFF", bytes_of("WAVE") + chunks); }

inline Bytes wav(const Sound& sound) { return riff(format_chunk() + data_chunk(sound)); }

inline Sound tone(double hertz, double amplitude, std::size_t length) {
  Sound sound(length);
  for (std::size_t i = 0; i < length; ++i) {
    sound[i] = static_cast<std::int16_t>(std::lround(
        amplitude * std::sin(2 * std::numbers::pi * hertz * static_cast<double>(i) / 8000)));
  }
  return sound;
}

}  // namespace gradwire::data
