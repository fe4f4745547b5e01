#include "data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "data/fashion_mnist.h"
#include "files.h"

namespace gradwire::data {
namespace {

constexpr std::size_t kPixels = 28 * 28;

Bytes big_endian(std::uint32_t value) {
  return {static_cast<std::uint8_t>(value >> 24), static_cast<std::uint8_t>(value >> 16),
          static_cast<std::uint8_t>(value >> 8), static_cast<std::uint8_t>(value)};
}

// Every pixel of an image holds the image's number.
Bytes images(std::uint32_t count) {
  Bytes file = big_endian(0x803) + big_endian(count) + big_endian(28) + big_endian(28);
  for (std::uint32_t i = 0; i < count; ++i) file = file + Bytes(kPixels, static_cast<uint8_t>(i));
  return file;
}

Bytes labels(const Bytes& values) {
  return big_endian(0x801) + big_endian(static_cast<std::uint32_t>(values.size())) + values;
}

Bytes gzip(const Bytes& content) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, content.size()));
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

class Idx : public Files {
 protected:
  Idx() {
    write("train-images-idx3-ubyte", images(3));
    write("train-labels-idx1-ubyte", labels({5, 0, 9}));
    write("t10k-images-idx3-ubyte", images(2));
    write("t10k-labels-idx1-ubyte", labels({1, 2}));
  }

  // The message when the file `name` holds `bytes`, without the name of the folder.
  std::string refusal(const std::string& name, const Bytes& bytes) const {
    write(name, bytes);
    const std::string message = refusal_of("idx:" + folder());
    const std::string start = folder() + "/";
    return message.starts_with(start) ? message.substr(start.size()) : message;
  }
  // The same for the file `name`.gz in place of `name`.
  std::string packed_refusal(const std::string& name, const Bytes& bytes) const {
    std::filesystem::remove(path(name));
    return refusal(name + ".gz", bytes);
  }
};

TEST_F(Idx, IsReadPlainAndPacked) {
  std::filesystem::remove(path("train-images-idx3-ubyte"));
  std::filesystem::remove(path("t10k-labels-idx1-ubyte"));
  write("train-images-idx3-ubyte.gz", gzip(images(3)));
  write("t10k-labels-idx1-ubyte.gz", gzip(labels({1, 2})));
  const Dataset dataset = load("idx:" + folder());
  EXPECT_EQ(dataset.kind, Kind::images);
  EXPECT_EQ(dataset.sample_shape, (std::vector<std::int64_t>{1, 28, 28}));
  EXPECT_EQ(dataset.classes, 10);
  EXPECT_EQ(dataset.train.samples, 3U);
  EXPECT_EQ(dataset.train.labels, (Bytes{5, 0, 9}));
  EXPECT_EQ(dataset.train.bytes, Bytes(kPixels, 0) + Bytes(kPixels, 1) + Bytes(kPixels, 2));
  EXPECT_EQ(dataset.test.samples, 2U);
  EXPECT_EQ(dataset.test.labels, (Bytes{1, 2}));
  EXPECT_EQ(dataset.test.bytes, Bytes(kPixels, 0) + Bytes(kPixels, 1));
  ASSERT_EQ(dataset.mean.size(), 1U);
  EXPECT_FLOAT_EQ(dataset.mean[0], 1 / 255.0F);
  EXPECT_FLOAT_EQ(dataset.deviation[0], std::sqrt(2 / 3.0F) / 255);
}

TEST_F(Idx, HasADeviationToDivideByEvenWithoutVariation) {
  write("train-images-idx3-ubyte", images(1));
  write("train-labels-idx1-ubyte", labels({0}));
  EXPECT_EQ(load("idx:" + folder()).deviation, std::vector<float>{1});
}

TEST_F(Idx, NamesTheByteOfAWrongHeader) {
  const Bytes good = images(3);
  const auto with = [&](std::size_t at, std::uint32_t value) {
    Bytes bytes = good;
    std::ranges::copy(big_endian(value), bytes.begin() + static_cast<std::ptrdiff_t>(at));
    return refusal("train-images-idx3-ubyte", bytes);
  };
  EXPECT_EQ(with(0, 0x801),
            "train-images-idx3-ubyte, byte 0: expected the magic number 2051, found 2049");
  EXPECT_EQ(with(4, 0), "train-images-idx3-ubyte, byte 4: expected 1 to 1000000 samples, found 0");
  EXPECT_EQ(with(4, 0xFFFFFFFF),
            "train-images-idx3-ubyte, byte 4: expected 1 to 1000000 samples, found 4294967295");
  EXPECT_EQ(with(8, 29), "train-images-idx3-ubyte, byte 8: expected a height of 28, found 29");
  EXPECT_EQ(with(12, 27), "train-images-idx3-ubyte, byte 12: expected a width of 28, found 27");
}

TEST_F(Idx, RefusesWrongNumbersOfBytes) {
  Bytes promising = images(3);
  std::ranges::copy(big_endian(1'000'000), promising.begin() + 4);
  EXPECT_EQ(refusal("train-images-idx3-ubyte", promising),
            "train-images-idx3-ubyte, byte 2368: expected 784000000 bytes of pixels from byte 16 "
            "on, found the end after 2352");
  EXPECT_EQ(refusal("train-images-idx3-ubyte", images(3) + Bytes{0}),
            "train-images-idx3-ubyte, byte 2368: expected the end, found more bytes");
}

TEST_F(Idx, RefusesLabelsThatDoNotFit) {
  EXPECT_EQ(refusal("train-labels-idx1-ubyte", labels({5, 10, 9})),
            "train-labels-idx1-ubyte, byte 9: expected a label from 0 to 9, found 10");
  EXPECT_EQ(refusal("train-labels-idx1-ubyte", labels({5, 0})),
            "train-labels-idx1-ubyte, byte 4: expected as many labels as images, 3, found 2");
  EXPECT_EQ(refusal("train-labels-idx1-ubyte", images(3)),
            "train-labels-idx1-ubyte, byte 0: expected the magic number 2049, found 2051");
}

TEST_F(Idx, RefusesDamagedGzip) {
  const Bytes good = gzip(labels({5, 0, 9}));
  const std::string name = "train-labels-idx1-ubyte";
  EXPECT_EQ(packed_refusal(name, good), "accepted");
  const std::string size = std::to_string(good.size());
  EXPECT_EQ(
      refusal(name + ".gz", good + Bytes{0}),
      name + ".gz, byte " + size + ": expected the end after the gzip stream, found more bytes");
  EXPECT_EQ(
      refusal(name + ".gz", good + good),
      name + ".gz, byte " + size + ": expected the end after the gzip stream, found more bytes");
  EXPECT_NE(refusal(name + ".gz", labels({5, 0, 9})).find("incorrect header check"),
            std::string::npos);
  Bytes wrong_sum = good;
  wrong_sum[good.size() - 6] ^= 1;
  EXPECT_NE(refusal(name + ".gz", wrong_sum).find("incorrect data check"), std::string::npos);
  EXPECT_EQ(refusal(name + ".gz", gzip(labels({5, 0, 11}))),
            name + ".gz (unpacked), byte 10: expected a label from 0 to 9, found 11");
}

TEST_F(Idx, StopsUnpackingWhereTheHeaderSaysTheEndIs) {
  const Bytes bomb = gzip(images(3) + Bytes(50'000'000, 0));
  EXPECT_EQ(packed_refusal("train-images-idx3-ubyte", bomb),
            "train-images-idx3-ubyte.gz (unpacked), byte 2368: expected the end, found more bytes");
}

TEST_F(Idx, RefusesEveryTruncation) {
  for (const std::string name : {"t10k-labels-idx1-ubyte", "t10k-images-idx3-ubyte"}) {
    at_every_truncation(name, [&](std::size_t length) {
      const std::string start = path(name) + ", byte " + std::to_string(length) + ": ";
      ASSERT_TRUE(refusal_of("idx:" + folder()).starts_with(start)) << length;
    });
    write("t10k-labels-idx1-ubyte", labels({1, 2}));
  }
}

TEST_F(Idx, RefusesEveryTruncationOfGzip) {
  const std::string name = "t10k-labels-idx1-ubyte";
  EXPECT_EQ(packed_refusal(name, gzip(labels({1, 2}))), "accepted");
  at_every_truncation(name + ".gz", [&](std::size_t length) {
    ASSERT_EQ(refusal_of("idx:" + folder()),
              path(name) + ".gz, byte " + std::to_string(length) +
                  ": expected the rest of the gzip stream, found the end");
  });
}

// Some bits of a gzip file do not matter, such as the time at which it was made.
TEST_F(Idx, NeverHasOtherContentForAFlippedBitOfGzip) {
  const std::string name = "t10k-labels-idx1-ubyte";
  const Bytes good = gzip(labels({1, 2}));
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    Bytes damaged = good;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1 << bit % 8);
    if (packed_refusal(name, damaged) == "accepted") {
      ASSERT_EQ(load("idx:" + folder()).test.labels, (Bytes{1, 2})) << bit;
    }
  }
}

TEST_F(Idx, NamesAMissingFile) {
  std::filesystem::remove(path("t10k-images-idx3-ubyte"));
  EXPECT_EQ(refusal_of("idx:" + folder()), path("t10k-images-idx3-ubyte") +
                                               ", byte 0: expected this file, or the same with "
                                               ".gz, found neither");
  std::filesystem::create_directory(path("t10k-images-idx3-ubyte"));
  EXPECT_EQ(refusal_of("idx:" + folder()),
            path("t10k-images-idx3-ubyte") +
                ", byte 0: expected a file, found something else of that name");
}

TEST(FashionMnist, IsReadFromDebiansPackage) {
  if (!std::filesystem::exists(kFashionMnistFolder)) GTEST_SKIP() << "dataset-fashion-mnist";
  const Dataset dataset = load("fashion-mnist");
  EXPECT_EQ(dataset.train.samples, 60000U);
  EXPECT_EQ(dataset.test.samples, 10000U);
  EXPECT_EQ(dataset.train.bytes.size(), 60000 * kPixels);
  EXPECT_EQ(dataset.test.bytes.size(), 10000 * kPixels);
  for (std::uint8_t label = 0; label < 10; ++label) {
    EXPECT_EQ(std::ranges::count(dataset.train.labels, label), 6000);
    EXPECT_EQ(std::ranges::count(dataset.test.labels, label), 1000);
  }
  EXPECT_NEAR(dataset.mean.at(0), 0.2860, 1e-4);
  EXPECT_NEAR(dataset.deviation.at(0), 0.3530, 1e-4);
}

TEST(FashionMnist, NamesThePackageToInstall) {
  try {
    load_fashion_mnist("/nowhere");
    FAIL() << "accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("apt-get install dataset-fashion-mnist"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace gradwire::data
