#pragma once

// The data sets of `gradwire train --data SPEC`.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/data_error.h"

namespace gradwire::data {

enum class Kind { images, characters, frames };

// Training or test samples.
struct Part {
  std::size_t samples = 0;
  // The pixels of all images, or a text as indices into its vocabulary. Each character of a text
  // counts as a sample.
  std::vector<std::uint8_t> bytes;
  std::vector<float> features;       // of all frames
  std::vector<std::uint8_t> labels;  // one per image or frame
};

struct Dataset {
  Kind kind;
  std::vector<std::int64_t> sample_shape;  // {1, 28, 28}, {3, 32, 32}, {840}; {} for characters
  std::int64_t classes;                    // labels, or distinct characters
  // Of each channel of the training images, with pixels scaled to [0, 1]. Frames are normalised
  // already.
  std::vector<float> mean, deviation;
  Part train, test;
};

// SPEC is one of
//   fashion-mnist   Debian's package dataset-fashion-mnist
//   idx:DIR         files in the format of MNIST, gzipped or not
//   cifar10:DIR     CIFAR-10, binary version
//   text:FILE       characters; the last tenth is the test part
//   wav:DIR         spoken words, LABEL_speaker_index.wav; every fifth file of a label is a test
//   file
// The same files give the same data set. Throws a DataError that names the file, the first wrong
// byte, what was expected there and what was found.
Dataset load(const std::string& spec);

}  // namespace gradwire::data
