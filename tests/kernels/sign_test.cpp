#include "kernels/sign.h"

#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "every_target.h"
#include "inputs.h"
#include "kernels/roll_back.h"
#include "sign_reference.h"

namespace gradwire::kernels {
namespace {

struct Encoder {
  std::vector<std::uint8_t> bits;
  std::vector<double> block_sums;

  std::size_t operator()(std::span<const float> gradient, std::span<float> residual,
                         float pending) {
    bits.assign(sign_bytes(gradient.size()), 0xAA);
    block_sums.assign(sign_blocks(gradient.size()), -1);
    return encode_signs(gradient, residual, pending, bits, block_sums);
  }
};

TEST(EncodeSigns, AgreesWithTheReference) {
  for (std::size_t size : kSizes) {
    SCOPED_TRACE(size);
    const auto gradient = gradient_like(size, 1);
    const auto residual = gradient_like(size, 2);
    const auto expected = reference::encode_signs(gradient, residual, 0.375F);
    on_every_target([&] {
      Unaligned<float> moved_gradient(gradient);
      Unaligned<float> state(residual);
      Encoder encode;
      ASSERT_EQ(encode(moved_gradient.span(), state.span(), 0.375F), size);
      EXPECT_EQ(bits_of(state.span()), bits_of(expected.residual));
      EXPECT_EQ(encode.bits, expected.bits);
      EXPECT_NEAR(sum_blocks(encode.block_sums), expected.sum, 1e-6 * expected.sum);
    });
  }
}

TEST(EncodeSigns, SumsAreTheSameOnEveryTarget) {
  const auto gradient = gradient_like(40001, 3);
  std::optional<std::vector<double>> first;
  on_every_target([&] {
    std::vector<float> residual(gradient.size());
    Encoder encode;
    encode(gradient, residual, 0);
    if (!first) first = encode.block_sums;
    EXPECT_EQ(encode.block_sums, *first);
  });
}

TEST(EncodeSigns, SplittingAtBlocksChangesNothing) {
  const auto gradient = gradient_like(3 * kSignBlock + 77, 4);
  const auto residual = gradient_like(gradient.size(), 5);
  auto whole = residual;
  Encoder encode_whole;
  encode_whole(gradient, whole, 0.5F);

  auto parts = residual;
  std::vector<std::uint8_t> bits(sign_bytes(gradient.size()));
  std::vector<double> sums(sign_blocks(gradient.size()));
  const std::size_t cut = 2 * kSignBlock;
  const std::span<const float> all(gradient);
  encode_signs(all.subspan(cut), std::span(parts).subspan(cut), 0.5F,
               std::span(bits).subspan(cut / 8), std::span(sums).subspan(2));
  encode_signs(all.first(cut), std::span(parts).first(cut), 0.5F, bits, sums);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(bits, encode_whole.bits);
  EXPECT_EQ(sums, encode_whole.block_sums);
}

TEST(EncodeSigns, LosesNothing) {
  // All values are multiples of 1/64 below 2^10, so every sum and difference is exact.
  std::mt19937 random(6);
  std::vector<float> gradient(5000);
  std::vector<float> before(5000);
  for (float& value : gradient)
    value = static_cast<float>(static_cast<int>(random() % 512) - 256) / 64;
  for (float& value : before)
    value = static_cast<float>(static_cast<int>(random() % 512) - 256) / 64;
  const float pending = 0.25F;
  const float scale = 1.5F;
  on_every_target([&] {
    auto state = before;
    Encoder encode;
    encode(gradient, state, pending);
    settle_residual(state, scale);
    for (std::size_t i = 0; i < state.size(); ++i) {
      const float sent = reference::bit(encode.bits.data(), i) ? scale : -scale;
      ASSERT_EQ(sent + state[i], gradient[i] + reference::settled(before[i], pending)) << i;
    }
  });
}

TEST(EncodeSigns, LeavesTheResidualAloneFromTheFirstBadBlockOn) {
  for (float bad : {FloatLimits::infinity(), -FloatLimits::infinity(), FloatLimits::quiet_NaN()}) {
    for (std::size_t at : {std::size_t{0}, kSignBlock + 13, 3 * kSignBlock + 40}) {
      auto gradient = gradient_like(3 * kSignBlock + 41, 7);
      gradient[at] = bad;
      const auto before = gradient_like(gradient.size(), 8);
      on_every_target([&] {
        auto state = before;
        Encoder encode;
        const std::size_t encoded = encode(gradient, state, 0.5F);
        ASSERT_EQ(encoded, at / kSignBlock * kSignBlock);
        const auto untouched = std::span(state).subspan(encoded);
        EXPECT_EQ(bits_of(untouched), bits_of(std::span(before).subspan(encoded)));
        roll_back(std::span(gradient).first(encoded), std::span(state).first(encoded));
        settle_residual(untouched, 0.5F);
        for (std::size_t i = 0; i < state.size(); ++i) {
          ASSERT_NEAR(state[i], reference::settled(before[i], 0.5F), 1e-6F) << i;
        }
      });
    }
  }
}

TEST(EncodeSigns, RefusesASumThatOverflows) {
  on_every_target([&] {
    std::vector<float> gradient(100, FloatLimits::max());
    std::vector<float> state(100, 1.0F);
    state[50] = FloatLimits::max();
    const auto before = state;
    Encoder encode;
    EXPECT_EQ(encode(gradient, state, 0), 0U);
    EXPECT_EQ(state, before);
  });
}

TEST(EncodeSigns, HugeButFiniteIsFine) {
  on_every_target([&] {
    const std::vector<float> gradient(1000, FloatLimits::max());
    std::vector<float> state(1000);
    Encoder encode;
    ASSERT_EQ(encode(gradient, state, 0), 1000U);
    EXPECT_EQ(sum_blocks(encode.block_sums) / 1000, static_cast<double>(FloatLimits::max()));
  });
}

TEST(SettleResidual, AgreesWithTheReference) {
  for (std::size_t size : kSizes) {
    const auto residual = gradient_like(size, 9);
    std::vector<float> expected;
    for (float value : residual) expected.push_back(reference::settled(value, 0.3F));
    on_every_target([&] {
      Unaligned<float> state(residual);
      settle_residual(state.span(), 0.3F);
      EXPECT_EQ(bits_of(state.span()), bits_of(expected)) << size;
    });
  }
}

TEST(DecodeSigns, AgreesWithTheReference) {
  std::mt19937 random(10);
  for (std::size_t workers : {0, 1, 2, 3, 4, 5, 7, 8, 13}) {
    for (std::size_t size : kSizes) {
      std::vector<std::vector<std::uint8_t>> bits(workers);
      std::vector<SignPayload> payloads;
      for (auto& own : bits) {
        own.resize(sign_bytes(size) + 1);
        for (auto& byte : own) byte = static_cast<std::uint8_t>(random());
        payloads.push_back({own.data() + 1, 1e-3F * static_cast<float>(random() % 1000)});
      }
      if (workers > 2) payloads[1].scale = 0;
      const auto expected = reference::decode_signs(payloads, 0.3F, size);
      on_every_target([&] {
        Unaligned<float> result(std::vector<float>(size, FloatLimits::quiet_NaN()));
        decode_signs(payloads, 0.3F, result.span());
        EXPECT_EQ(bits_of(result.span()), bits_of(expected)) << workers << " x " << size;
      });
    }
  }
}

}  // namespace
}  // namespace gradwire::kernels
