#include "data/spoken_words.h"

#include <algorithm>
#include <map>

#include "wav_file.h"

namespace gradwire::data {
namespace {

// Five files for each of two labels, each with a tone: four training files and a test file.
class SpokenWords : public Files {
 protected:
  SpokenWords() {
    for (int i = 0; i < 5; ++i) {
      const std::string name = "_ann_" + std::to_string(i) + ".wav";
      write("low" + name, wav(tone(300 + 20 * i, 8000, 200 + 80 * 30)));
      write("high" + name, wav(tone(2000 + 100 * i, 8000, 200 + 80 * 30)));
    }
    write("README.md", bytes_of("not a word"));
  }

  std::string refusal(const std::string& name, const Bytes& bytes) const {
    write(name, bytes);
    return refusal_of("wav:" + folder());
  }
};

TEST_F(SpokenWords, AreEveryThirdFrameWithItsLabel) {
  const Dataset dataset = load("wav:" + folder());
  EXPECT_EQ(dataset.kind, Kind::frames);
  EXPECT_EQ(dataset.sample_shape, std::vector<std::int64_t>{840});
  EXPECT_EQ(dataset.classes, 2);
  EXPECT_TRUE(dataset.mean.empty());
  EXPECT_EQ(dataset.train.samples, 2 * 4 * 11U);  // 31 frames per file
  EXPECT_EQ(dataset.test.samples, 2 * 11U);
  EXPECT_EQ(dataset.train.features.size(), 840 * dataset.train.samples);
  EXPECT_EQ(dataset.test.features.size(), 840 * dataset.test.samples);
  EXPECT_EQ(dataset.train.labels, Bytes(44, 0) + Bytes(44, 1));
  EXPECT_EQ(dataset.test.labels, Bytes(11, 0) + Bytes(11, 1));
}

TEST_F(SpokenWords, AreNormalisedOverTheTrainingPart) {
  const Part train = load("wav:" + folder()).train;
  for (std::size_t feature = 0; feature < kSampleFeatures; ++feature) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = feature; i < train.features.size(); i += kSampleFeatures) {
      sum += train.features[i];
      squares += train.features[i] * train.features[i];
    }
    ASSERT_NEAR(sum / static_cast<double>(train.samples), 0, 1e-5);
    ASSERT_NEAR(squares / static_cast<double>(train.samples), 1, 1e-4);
  }
}

TEST_F(SpokenWords, RepeatTheFramesAtTheEnds) {
  const std::vector<float> features = load("wav:" + folder()).test.features;
  // Every feature is normalised by itself, so equal frames at different places differ. The first
  // two samples are three frames apart, and both have copies of the first frame at these places.
  for (std::size_t i = 0; i < 7 * kMelBands; ++i) {
    ASSERT_EQ(features[i], features[kSampleFeatures + i]) << i;
  }
}

TEST_F(SpokenWords, AreTheSameEveryTime) {
  EXPECT_EQ(load("wav:" + folder()).train.features, load("wav:" + folder()).train.features);
}

TEST_F(SpokenWords, MayHaveUnderscoresInTheirLabels) {
  write("very_low_ann_0.wav", wav(tone(100, 8000, 1000)));
  EXPECT_EQ(load("wav:" + folder()).classes, 3);
}

TEST_F(SpokenWords, AreFiniteEvenIfNothingIsToBeHeard) {
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    if (entry.path().extension() == ".wav") write(entry.path().filename(), wav(Sound(1000)));
  }
  for (const float value : load("wav:" + folder()).train.features) ASSERT_EQ(value, 0);
}

TEST_F(SpokenWords, NeedNamesThatTellTheLabel) {
  for (const std::string name :
       {"low.wav", "low_ann.wav", "_ann_1.wav", "low_ann_x.wav", "low__1.wav", "low_ann_.wav"}) {
    EXPECT_EQ(refusal(name, wav(Sound(1000))),
              path(name) + ", byte 0: expected a name like LABEL_speaker_index.wav, found " + name);
    std::filesystem::remove(path(name));
  }
}

TEST_F(SpokenWords, NeedAWindowOfSound) {
  EXPECT_EQ(refusal("low_ann_0.wav", wav(Sound(199))),
            path("low_ann_0.wav") +
                ", byte 0: expected at least 200 samples, a window's worth, found 199");
}

TEST_F(SpokenWords, PassOnWhatIsWrongWithAFile) {
  EXPECT_EQ(refusal("low_ann_0.wav", prefix(wav(Sound(1000)), 100)),
            path("low_ann_0.wav") + ", byte 4: expected the size of what follows, 92, found 2036");
}

TEST_F(SpokenWords, NeedTwoLabelsAndATestFile) {
  std::filesystem::remove(path("low_ann_0.wav"));
  std::filesystem::remove(path("high_ann_0.wav"));
  EXPECT_EQ(refusal_of("wav:" + folder()), folder() +
                                               ", byte 0: expected five files of one label, so "
                                               "that the fifth is a test file, found fewer");
  for (int i = 1; i < 5; ++i)
    std::filesystem::remove(path("low_ann_" + std::to_string(i) + ".wav"));
  EXPECT_EQ(
      refusal_of("wav:" + folder()),
      folder() + ", byte 0: expected 2 to 256 labels in files LABEL_speaker_index.wav, found 1");
  EXPECT_EQ(
      refusal_of("wav:" + path("nowhere")),
      path("nowhere") + ", byte 0: expected a folder to read, found No such file or directory");
}

}  // namespace
}  // namespace gradwire::data
