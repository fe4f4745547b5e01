#pragma once

#include <cstddef>
#include <string>

#include "data/dataset.h"
#include "data/mel_frames.h"

namespace gradwire::data {

inline constexpr std::size_t kContextFrames = 10;  // on either side of a sample's centre
inline constexpr std::size_t kSampleFeatures = (2 * kContextFrames + 1) * kMelBands;

// Reads the files LABEL_speaker_index.wav of a folder and ignores files that do not end in .wav.
// The classes are the sorted labels. The 5th, 10th, ... file of each label, sorted by name, are the
// test part. Silence at both ends of a file is dropped. Every third frame is a sample, together
// with its neighbours; beyond the ends of a file its first or last frame is repeated. In the
// training part every feature has mean 0 and deviation 1.
Dataset load_spoken_words(const std::string& folder);

}  // namespace gradwire::data
