#include "data/cifar10.h"

#include <cmath>

#include "files.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kPlane = 32 * 32;

Bytes record(std::uint8_t label, std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
  return Bytes{label} + Bytes(kPlane, red) + Bytes(kPlane, green) + Bytes(kPlane, blue);
}

class Cifar10 : public Files {
 protected:
  Cifar10() {
    write("data_batch_1.bin", record(3, 0, 0, 255));
    write("data_batch_3.bin", record(4, 102, 0, 255) + record(9, 0, 51, 255));
    write("test_batch.bin", record(7, 1, 2, 3));
  }

  std::string refusal(const std::string& name, const Bytes& bytes) const {
    write(name, bytes);
    return refusal_of("cifar10:" + folder());
  }
};

TEST_F(Cifar10, ReadsTheBatchesThatAreThereInOrder) {
  const Dataset dataset = load("cifar10:" + folder());
  EXPECT_EQ(dataset.kind, Kind::images);
  EXPECT_EQ(dataset.sample_shape, (std::vector<std::int64_t>{3, 32, 32}));
  EXPECT_EQ(dataset.classes, 10);
  EXPECT_EQ(dataset.train.samples, 3U);
  EXPECT_EQ(dataset.train.labels, (Bytes{3, 4, 9}));
  ASSERT_EQ(dataset.train.bytes.size(), 3 * 3 * kPlane);
  EXPECT_EQ(dataset.train.bytes[3 * kPlane], 102);
  EXPECT_EQ(dataset.train.bytes[7 * kPlane], 51);
  EXPECT_EQ(dataset.test.labels, Bytes{7});
  EXPECT_EQ(dataset.test.bytes, Bytes(kPlane, 1) + Bytes(kPlane, 2) + Bytes(kPlane, 3));
}

TEST_F(Cifar10, MeasuresEveryChannelOfTheTrainingPart) {
  const Dataset dataset = load("cifar10:" + folder());
  ASSERT_EQ(dataset.mean.size(), 3U);
  EXPECT_NEAR(dataset.mean[0], 0.4 / 3, 1e-6);
  EXPECT_NEAR(dataset.mean[1], 0.2 / 3, 1e-6);
  EXPECT_NEAR(dataset.mean[2], 1, 1e-6);
  EXPECT_NEAR(dataset.deviation[0], 0.4 * std::sqrt(2) / 3, 1e-6);
  EXPECT_NEAR(dataset.deviation[1], 0.2 * std::sqrt(2) / 3, 1e-6);
  EXPECT_EQ(dataset.deviation[2], 1);
}

TEST_F(Cifar10, RefusesALabelAbove9) {
  EXPECT_EQ(refusal("test_batch.bin", record(1, 0, 0, 0) + record(10, 0, 0, 0)),
            path("test_batch.bin") + ", byte 3073: expected a label from 0 to 9, found 10");
}

TEST_F(Cifar10, RefusesEveryTruncation) {
  at_every_truncation("test_batch.bin", [&](std::size_t length) {
    const std::string bytes = std::to_string(length);
    ASSERT_EQ(refusal_of("cifar10:" + folder()),
              path("test_batch.bin") + ", byte " + bytes +
                  ": expected records of 3073 bytes, found the end after " + bytes +
                  " bytes of one");
  });
}

TEST_F(Cifar10, RefusesMoreThanTheOriginalHolds) {
  EXPECT_EQ(refusal("data_batch_1.bin", Bytes(10'000 * 3073 + 1)),
            path("data_batch_1.bin") + ", byte 30730000: expected the end, found more bytes");
}

TEST_F(Cifar10, NamesMissingFiles) {
  std::filesystem::remove(path("test_batch.bin"));
  EXPECT_EQ(refusal_of("cifar10:" + folder()),
            path("test_batch.bin") +
                ", byte 0: expected a file to read, found No such file or directory");
  std::filesystem::remove(path("data_batch_1.bin"));
  std::filesystem::remove(path("data_batch_3.bin"));
  EXPECT_EQ(refusal_of("cifar10:" + folder()),
            path("data_batch_1.bin") +
                ", byte 0: expected at least one of data_batch_1.bin to _5.bin, found none");
}

}  // namespace
}  // namespace gradwire::data
