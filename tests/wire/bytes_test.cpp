#include "wire/bytes.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <vector>

namespace gradwire::wire {
namespace {

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

TEST(Writer, IsLittleEndian) {
  std::array<std::byte, 19> buffer{};
  Writer writer(buffer);
  writer.u8(0x01);
  writer.u16(0x0302);
  writer.u32(0x07060504);
  writer.u64(0x0F0E0D0C0B0A0908);
  writer.f32(1.0F);
  EXPECT_EQ(std::vector(buffer.begin(), buffer.end()),
            bytes_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0x80, 0x3F}));
  Reader reader(buffer);
  EXPECT_EQ(reader.u8(""), 0x01);
  EXPECT_EQ(reader.u16(""), 0x0302);
  EXPECT_EQ(reader.u32(""), 0x07060504U);
  EXPECT_EQ(reader.u64(""), 0x0F0E0D0C0B0A0908U);
  EXPECT_EQ(reader.f32(""), 1.0F);
  EXPECT_TRUE(reader.rest().empty());
}

TEST(Writer, NeverWritesBeyondItsBuffer) {
  std::array<std::byte, 4> memory{};
  Writer writer(std::span<std::byte>(memory).first(3));
  writer.u16(0xFFFF);
  EXPECT_THROW(writer.u16(0xFFFF), std::length_error);
  EXPECT_EQ(memory[2], std::byte{0});
  EXPECT_EQ(memory[3], std::byte{0});
  EXPECT_EQ(writer.size(), 2U);
}

TEST(Reader, ReportsWhatIsMissingAndWhere) {
  const auto bytes = bytes_of({1, 2, 3});
  Reader reader(bytes, 100);
  reader.u16("first");
  try {
    reader.u32("contributors");
    FAIL() << "read past the end";
  } catch (const WireError& error) {
    EXPECT_EQ(error.offset(), 102U);
    EXPECT_STREQ(error.what(),
                 "[wire] contributors at byte 102: expected 4 bytes, got 1 (truncated)");
  }
  EXPECT_EQ(reader.u8("what is left"), 3);
}

TEST(Varint, RoundTripsAtEveryLength) {
  for (const std::uint32_t value :
       {0U, 1U, 127U, 128U, 16383U, 16384U, (1U << 21) - 1, 1U << 21, (1U << 28) - 1, 1U << 28,
        std::numeric_limits<std::uint32_t>::max()}) {
    std::array<std::byte, kLongestVarint> buffer{};
    Writer writer(buffer);
    writer.varint(value);
    EXPECT_EQ(writer.size(), varint_size(value)) << value;
    Reader reader(writer.written());
    EXPECT_EQ(reader.varint(""), value);
    EXPECT_TRUE(reader.rest().empty());
  }
}

TEST(Varint, RefusesAnythingButTheShortestFormBelow32Bits) {
  for (const auto& bytes : {bytes_of({0x80}), bytes_of({0x80, 0x00}), bytes_of({0xFF, 0x80, 0x00}),
                            bytes_of({0xFF, 0xFF, 0xFF, 0xFF, 0x10}),
                            bytes_of({0x80, 0x80, 0x80, 0x80, 0x80, 0x01}), bytes_of({})}) {
    Reader reader(bytes);
    EXPECT_THROW(reader.varint("count"), WireError);
  }
}

}  // namespace
}  // namespace gradwire::wire
