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
  // Images: samples x sample size, pixels. Characters: the text as indices into the vocabulary;
  // `samples` is its length.
  std::vector<std::uint8_t> bytes;
  std::vector<float> features;       // frames: samples x sample size
  std::vector<std::uint8_t> labels;  // images and frames: one per sample
};

struct Dataset {
  Kind kind;
  std::vector<std::int64_t> sample_shape;  // {1, 28, 28}, {3, 32, 32}, {840}; {} for characters
  std::int64_t classes;                    // labels, or distinct characters
  std::vector<std::string> class_names;    // words; characters, a byte each; none for images
  // Per channel of images, of the training pixels scaled to [0, 1]. Frames come normalised.
  std::vector<float> mean, deviation;
  Part train, test;
};

// SPEC is one of
//   fashion-mnist   Debian's package dataset-fashion-mnist
//   idx:DIR         files in the format of MNIST, gzipped or not
//   cifar10:DIR     CIFAR-10, binary version
//   text:FILE       characters; the last tenth is the test part
//   wav:DIR         spoken words, LABEL_speaker_index.wav; every fifth of a label is for the test
// The same files give the same data set. Throws DataError, whose message names the file, the byte
// that is wrong, what was expected there and what was found.
Dataset load(const std::string& spec);

}  // namespace gradwire::data
