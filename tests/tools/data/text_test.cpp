#include "data/text.h"

#include "files.h"

namespace gradwire::data {
namespace {

class Text : public Files {
 protected:
  std::string refusal(const std::string& text) const {
    write("text", bytes_of(text));
    return refusal_of("text:" + path("text"));
  }
};

TEST_F(Text, IsIndicesIntoItsSortedCharacters) {
  write("text", bytes_of("cab\xFF"
                         "abcabc"
                         "cabcabcaba"));
  const Dataset dataset = load("text:" + path("text"));
  EXPECT_EQ(dataset.kind, Kind::characters);
  EXPECT_TRUE(dataset.sample_shape.empty());
  EXPECT_EQ(dataset.classes, 4);
  EXPECT_EQ(dataset.train.samples, 18U);
  EXPECT_EQ(dataset.train.bytes, (Bytes{2, 0, 1, 3, 0, 1, 2, 0, 1, 2, 2, 0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(dataset.test.samples, 2U);
  EXPECT_EQ(dataset.test.bytes, (Bytes{1, 0}));
}

TEST_F(Text, MayHoldEveryByte) {
  Bytes all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  write("text", all);
  const Dataset dataset = load("text:" + path("text"));
  EXPECT_EQ(dataset.classes, 256);
  EXPECT_EQ(dataset.train.bytes + dataset.test.bytes, all);
}

TEST_F(Text, MustBeLongEnoughForATestPart) {
  const std::string text = "abababababab";
  for (std::size_t length = 0; length < 10; ++length) {
    const std::string bytes = std::to_string(length);
    EXPECT_EQ(refusal(text.substr(0, length)),
              path("text") + ", byte " + bytes +
                  ": expected at least 10 characters, found the end after " + bytes);
  }
  EXPECT_EQ(refusal(text.substr(0, 10)), "accepted");
}

TEST_F(Text, MustHaveTwoDifferentCharacters) {
  EXPECT_EQ(refusal("aaaaaaaaaaaa"),
            path("text") + ", byte 0: expected at least two different characters, found only one");
}

TEST_F(Text, NamesAMissingFile) {
  EXPECT_EQ(refusal_of("text:" + path("text")),
            path("text") + ", byte 0: expected a file to read, found No such file or directory");
  EXPECT_EQ(refusal_of("text:" + folder()),
            folder() + ", byte 0: expected a file, found something else of that name");
}

}  // namespace
}  // namespace gradwire::data
