#include "wire/payload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace gradwire::wire {
namespace {

const PositionsShape adacomp_shape{1000, 300, true};
const PositionsShape topk_shape{1000, 300, false};

std::vector<std::byte> sign_payload() {
  std::vector<std::byte> buffer(kHeaderBytes + sign_bound(11) + sign_bound(8) + sign_bound(0));
  PayloadWriter writer(buffer, Method::sign);
  std::ranges::copy(std::vector{std::byte{0xFF}, std::byte{0x05}}, writer.begin_sign(11).begin());
  writer.end(0.5F);
  writer.abstain();
  writer.begin_sign(0);
  writer.end(0.0F);
  buffer.resize(writer.finish(1));
  return buffer;
}

std::vector<std::byte> adacomp_payload() {
  std::vector<std::byte> buffer(kHeaderBytes + 3 * adacomp_bound(adacomp_shape));
  PayloadWriter writer(buffer, Method::adacomp);
  writer.begin_adacomp(adacomp_shape).chunk(std::vector<std::uint32_t>{2, 3 * 2});
  writer.non_finite();  // replaces the record that has begun
  PositionsWriter& positions = writer.begin_adacomp(adacomp_shape);
  for (std::uint32_t c = 0; c < 4; ++c) positions.chunk(std::vector<std::uint32_t>{c, 100 + c});
  writer.end(2.0F);
  writer.abstain();
  buffer.resize(writer.finish(1));
  return buffer;
}

template <typename Word>
std::vector<std::byte> topk_payload(ValueType type, const std::vector<std::uint32_t>& positions,
                                    const std::vector<Word>& values) {
  std::vector<std::byte> buffer(kHeaderBytes + topk_bound(topk_shape, positions.size(), type) + 1);
  PayloadWriter writer(buffer, Method::topk, type);
  writer.topk(topk_shape, positions, values);
  const std::size_t before = writer.size();
  writer.abstain();
  EXPECT_EQ(writer.size(), before + 1);
  buffer.resize(writer.finish(0));
  return buffer;
}

TEST(Payload, SignRoundTrip) {
  const auto bytes = sign_payload();
  PayloadReader reader(bytes, Method::sign, 3);
  EXPECT_EQ(reader.header().contributors, 1U);
  EXPECT_EQ(reader.header().needed, bytes.size());
  EXPECT_FALSE(reader.header().non_finite);
  const SignRecord first = reader.sign(11);
  EXPECT_EQ(first.contribution, Contribution::present);
  EXPECT_EQ(first.scale, 0.5F);
  EXPECT_EQ(first.bits.size(), 2U);
  EXPECT_EQ(first.bits[1], std::byte{0x05});
  EXPECT_EQ(reader.sign(8).contribution, Contribution::abstains);
  EXPECT_EQ(reader.sign(0).bits.size(), 0U);
  reader.finish();
}

TEST(Payload, AdacompRoundTrip) {
  const auto bytes = adacomp_payload();
  PayloadReader reader(bytes, Method::adacomp, 3);
  EXPECT_TRUE(reader.header().non_finite);
  EXPECT_EQ(reader.adacomp(adacomp_shape).contribution, Contribution::non_finite);
  SparseRecord record = reader.adacomp(adacomp_shape);
  EXPECT_EQ(record.scale, 2.0F);
  std::vector<std::uint32_t> scratch(300);
  for (std::uint32_t c = 0; c < 4; ++c) {
    EXPECT_TRUE(std::ranges::equal(record.positions.next(scratch), std::vector{c, 100 + c}));
  }
  EXPECT_EQ(reader.adacomp(adacomp_shape).contribution, Contribution::abstains);
  reader.finish();
}

TEST(Payload, TopkRoundTrip) {
  const std::vector<std::uint32_t> positions{0, 299, 300, 999};
  const std::vector<float> floats{1.5F, -2.0F, std::numeric_limits<float>::denorm_min(), -0.0F};
  const auto bytes = topk_payload(ValueType::fp32, positions, floats);
  PayloadReader reader(bytes, Method::topk, 2, ValueType::fp32);
  SparseRecord record = reader.topk(topk_shape);
  EXPECT_EQ(reader.offset(), bytes.size() - 1);  // the record that abstains is left
  ASSERT_EQ(record.values.size(), 4U);
  std::vector<float> read(3);
  record.values.read(1, read);
  EXPECT_EQ(read, std::vector<float>(floats.begin() + 1, floats.end()));
  EXPECT_THROW(record.values.read(2, read), std::invalid_argument);
  std::vector<std::uint16_t> halves(1);
  EXPECT_THROW(record.values.read(0, halves), std::invalid_argument);
  EXPECT_EQ(reader.topk(topk_shape).contribution, Contribution::abstains);
  reader.finish();

  const std::vector<std::uint16_t> words{1, 0xFFFF, 0x8000, 7};
  const auto half_bytes = topk_payload(ValueType::bf16, positions, words);
  EXPECT_EQ(half_bytes.size(), bytes.size() - 8);
  PayloadReader half_reader(half_bytes, Method::topk, 2, ValueType::bf16);
  halves.resize(4);
  half_reader.topk(topk_shape).values.read(0, halves);
  EXPECT_EQ(halves, words);
}

TEST(Payload, HeaderIsReadableAloneAndSaysWhatIsMissing) {
  const auto bytes = adacomp_payload();
  const auto prefix = std::span(bytes).first(kHeaderBytes);
  EXPECT_EQ(read_header(prefix).needed, bytes.size());
  EXPECT_THROW(read_header(prefix.first(31)), WireError);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(PayloadReader(std::span(bytes).first(size), Method::adacomp, 3), WireError)
        << size;
  }
}

TEST(Payload, PaddingUpToTheCapacityIsIgnored) {
  auto bytes = sign_payload();
  bytes.resize(bytes.size() + 100, std::byte{0xEE});
  PayloadReader reader(bytes, Method::sign, 3);
  reader.sign(11);
  reader.sign(8);
  reader.sign(0);
  EXPECT_NO_THROW(reader.finish());
}

TEST(Payload, RefusesAnotherPlan) {
  const auto bytes = sign_payload();
  EXPECT_THROW(PayloadReader(bytes, Method::adacomp, 3), WireError);
  EXPECT_THROW(PayloadReader(bytes, Method::sign, 2), WireError);
  EXPECT_THROW(
      PayloadReader(topk_payload<float>(ValueType::fp32, {}, {}), Method::topk, 2, ValueType::bf16),
      WireError);
  PayloadReader wrong_size(bytes, Method::sign, 3);
  EXPECT_THROW(wrong_size.sign(1000), WireError);
  PayloadReader wrong_tail(bytes, Method::sign, 3);
  EXPECT_THROW(wrong_tail.sign(10), WireError);  // bit 10 is set
  PayloadReader unfinished(bytes, Method::sign, 3);
  unfinished.sign(11);
  EXPECT_THROW(unfinished.finish(), WireError);
}

TEST(Payload, RefusesEveryDamagedHeaderByteThatMatters) {
  const auto bytes = sign_payload();
  for (const std::size_t at : {0, 1, 2, 3, 4, 5, 6, 20, 21, 22, 23, 24, 31}) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x40};
    EXPECT_THROW(PayloadReader(damaged, Method::sign, 3), WireError) << at;
  }
  auto negative_scale = bytes;
  negative_scale[kHeaderBytes + 4] ^= std::byte{0x80};
  PayloadReader reader(negative_scale, Method::sign, 3);
  EXPECT_THROW(reader.sign(11), WireError);
}

TEST(Payload, WriterRefusesMisuse) {
  std::vector<std::byte> buffer(1000);
  EXPECT_THROW(PayloadWriter(buffer, Method::topk), std::logic_error);
  EXPECT_THROW(PayloadWriter(std::span(buffer).first(31), Method::sign), std::length_error);
  PayloadWriter writer(buffer, Method::adacomp);
  EXPECT_THROW(writer.end(1.0F), std::logic_error);
  EXPECT_THROW(writer.begin_sign(3), std::logic_error);
  EXPECT_THROW(writer.begin_adacomp(topk_shape), std::logic_error);
  writer.begin_adacomp(adacomp_shape);
  EXPECT_THROW(writer.begin_adacomp(adacomp_shape), std::logic_error);
  EXPECT_THROW(writer.end(1.0F), std::logic_error);  // chunks are missing
  EXPECT_THROW(writer.finish(1), std::logic_error);
}

}  // namespace
}  // namespace gradwire::wire
