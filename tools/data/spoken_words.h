#pragma once

#include <cstddef>
#include <string>

#include "data/dataset.h"
#include "data/mel_frames.h"

namespace gradwire::data {

inline constexpr std::size_t kContextFrames = 10;  // on either side of a sample's centre
inline constexpr std::size_t kSampleFeatures = (2 * kContextFrames + 1) * kMelBands;

// The files LABEL_speaker_index.wav of a folder; files that do not end in .wav are ignored. The
// classes are the sorted labels. Of the files of a label, sorted by name, the 5th, 10th, ... are
// the test part. Silence at both ends is dropped; every third frame is a sample: it and its
// neighbours, the frames at the ends repeated where there are none. Every feature has mean 0 and
// deviation 1 in the training part.
Dataset load_spoken_words(const std::string& folder);

}  // namespace gradwire::data
