#include "data/spoken_words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "data/wav.h"

namespace gradwire::data {
namespace {

// Neighbouring frames hardly differ, so every third one is enough.
constexpr std::size_t kFramesPerSample = 3;
constexpr std::size_t kFilesPerTestFile = 5;
constexpr std::size_t kMostLabels = 256;  // a label is a byte
constexpr double kLeastDeviation = 1e-3;  // of an energy's logarithm; sounds vary by far more

using FilesByLabel = std::map<std::string, std::vector<std::string>>;

// The parts before and after the last underscore.
std::pair<std::string, std::string> split_last(const std::string& name) {
  const std::size_t at = name.rfind('_');
  if (at == std::string::npos) return {"", name};
  return {name.substr(0, at), name.substr(at + 1)};
}

std::string label_of(const std::filesystem::path& path) {
  const auto [label_and_speaker, index] = split_last(path.stem().string());
  const auto [label, speaker] = split_last(label_and_speaker);
  const bool is_number = index.find_first_not_of("0123456789") == std::string::npos;
  if (label.empty() || speaker.empty() || index.empty() || !is_number) {
    throw DataError(path.string(), 0, "a name like LABEL_speaker_index.wav",
                    path.filename().string());
  }
  return label;
}

FilesByLabel find_files(const std::string& folder) {
  std::error_code failure;
  FilesByLabel files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().extension() != ".wav") continue;
    files[label_of(entry.path())].push_back(entry.path().string());
  }
  if (failure) throw DataError(folder, 0, "a folder to read", failure.message());
  if (files.size() < 2 || files.size() > kMostLabels) {
    throw DataError(folder, 0, "2 to 256 labels in files LABEL_speaker_index.wav",
                    std::to_string(files.size()));
  }
  for (auto& [label, paths] : files) std::ranges::sort(paths);
  return files;
}

void append_sample(const std::vector<MelFrame>& frames, std::size_t centre, Part& part) {
  for (std::size_t i = 0; i <= 2 * kContextFrames; ++i) {
    const std::size_t shifted = std::max(centre + i, kContextFrames) - kContextFrames;
    const MelFrame& frame = frames[std::min(shifted, frames.size() - 1)];
    part.features.insert(part.features.end(), frame.begin(), frame.end());
  }
}

void append_file(const std::string& path, std::uint8_t label, Part& part) {
  const std::vector<std::int16_t> sound = read_wav(path);
  const std::vector<MelFrame> frames = mel_frames(without_silence(sound));
  if (frames.empty()) {
    throw DataError(path, 0, "at least " + std::to_string(kWindow) + " samples, a window's worth",
                    std::to_string(sound.size()));
  }
  for (std::size_t centre = 0; centre < frames.size(); centre += kFramesPerSample) {
    append_sample(frames, centre, part);
    part.labels.push_back(label);
    ++part.samples;
  }
}

// Gives each feature a mean of 0 and a deviation of 1.
struct Normalisation {
  std::array<double, kSampleFeatures> mean{};
  std::array<double, kSampleFeatures> deviation{};

  explicit Normalisation(const Part& part) {
    const auto count = static_cast<double>(part.samples);
    for (std::size_t i = 0; i < part.features.size(); ++i) {
      mean[i % kSampleFeatures] += part.features[i] / count;
    }
    for (std::size_t i = 0; i < part.features.size(); ++i) {
      const double distance = part.features[i] - mean[i % kSampleFeatures];
      deviation[i % kSampleFeatures] += distance * distance / count;
    }
    // A feature that varies only by rounding must not be amplified.
    for (double& value : deviation) {
      value = value > kLeastDeviation * kLeastDeviation ? std::sqrt(value) : 1;
    }
  }

  void apply(Part& part) const {
    for (std::size_t i = 0; i < part.features.size(); ++i) {
      const std::size_t feature = i % kSampleFeatures;
      part.features[i] =
          static_cast<float>((part.features[i] - mean[feature]) / deviation[feature]);
    }
  }
};

}  // namespace

Dataset load_spoken_words(const std::string& folder) {
  Dataset dataset{.kind = Kind::frames,
                  .sample_shape = {kSampleFeatures},
                  .classes = 0,
                  .mean = {},
                  .deviation = {},
                  .train = {},
                  .test = {}};
  for (const auto& [label, paths] : find_files(folder)) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const bool is_test = i % kFilesPerTestFile == kFilesPerTestFile - 1;
      append_file(paths[i], static_cast<std::uint8_t>(dataset.classes),
                  is_test ? dataset.test : dataset.train);
    }
    ++dataset.classes;
  }
  if (dataset.test.samples == 0) {
    throw DataError(folder, 0, "five files of one label, so that the fifth is a test file",
                    "fewer");
  }
  const Normalisation normalisation(dataset.train);
  normalisation.apply(dataset.train);
  normalisation.apply(dataset.test);
  return dataset;
}

}  // namespace gradwire::data
