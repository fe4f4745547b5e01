#include "kernels/vote.h"

#include <gtest/gtest.h>

#include "every_target.h"
#include "inputs.h"
#include "sign_reference.h"

namespace gradwire::kernels {
namespace {

TEST(PackSigns, OneBitPerElement) {
  for (std::size_t size : kSizes) {
    const auto gradient = gradient_like(size, 1);
    std::vector<std::uint8_t> expected(sign_bytes(size));
    for (std::size_t i = 0; i < size; ++i) {
      if (gradient[i] >= 0) expected[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8));
    }
    on_every_target([&] {
      Unaligned<float> moved(gradient);
      std::vector<std::uint8_t> bits(sign_bytes(size), 0xAA);
      EXPECT_TRUE(pack_signs(moved.span(), bits));
      EXPECT_EQ(bits, expected) << size;
    });
  }
}

TEST(PackSigns, FindsEveryNonFiniteElement) {
  for (float bad : {FloatLimits::infinity(), -FloatLimits::infinity(), FloatLimits::quiet_NaN()}) {
    on_every_target([&] {
      std::vector<float> gradient(101, FloatLimits::max());
      std::vector<std::uint8_t> bits(sign_bytes(gradient.size()));
      EXPECT_TRUE(pack_signs(gradient, bits));
      for (std::size_t at = 0; at < gradient.size(); ++at) {
        gradient[at] = bad;
        EXPECT_FALSE(pack_signs(gradient, bits)) << at;
        gradient[at] = -1.0F;
      }
    });
  }
}

TEST(Majority, CountsEveryVote) {
  std::mt19937 random(2);
  for (std::size_t voters : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 64, 100, 1024, 1025}) {
    for (std::size_t bytes : {0, 1, 7, 16, 31, 32, 33, 100}) {
      std::vector<std::vector<std::uint8_t>> votes(voters, std::vector<std::uint8_t>(bytes + 1));
      std::vector<const std::uint8_t*> pointers;
      for (auto& own : votes) {
        for (auto& byte : own) byte = static_cast<std::uint8_t>(random());
        pointers.push_back(own.data() + 1);
      }
      // In byte 0 every count from none to all occurs. The counts of random votes are near the
      // middle.
      for (std::size_t w = 0; w < voters && bytes > 0; ++w) {
        votes[w][1] = static_cast<std::uint8_t>(w * 8 < voters * (random() % 9) ? 0xF0 : 0x00) |
                      (w % 2 == 0 ? 0x01 : 0x02);
      }
      std::vector<std::uint8_t> expected(bytes);
      for (std::size_t i = 0; i < 8 * bytes; ++i) {
        std::size_t count = 0;
        for (const std::uint8_t* own : pointers) count += reference::bit(own, i) ? 1 : 0;
        if (2 * count >= voters) expected[i / 8] |= static_cast<std::uint8_t>(1U << (i % 8));
      }
      on_every_target([&] {
        Unaligned<std::uint8_t> outcome(std::vector<std::uint8_t>(bytes, 0x55));
        majority(pointers, outcome.span());
        const auto span = outcome.span();
        EXPECT_EQ(std::vector<std::uint8_t>(span.begin(), span.end()), expected)
            << voters << " x " << bytes;
      });
    }
  }
}

TEST(Majority, EveryCountAgainstTheQuorum) {
  for (std::size_t voters = 1; voters <= 70; ++voters) {
    const std::uint8_t yes = 0xFF;
    const std::uint8_t no = 0x00;
    for (std::size_t count = 0; count <= voters; ++count) {
      std::vector<const std::uint8_t*> pointers(voters, &no);
      std::fill_n(pointers.begin(), count, &yes);
      on_every_target([&] {
        std::uint8_t outcome = 0x55;
        majority(pointers, {&outcome, 1});
        EXPECT_EQ(outcome, 2 * count >= voters ? 0xFF : 0x00) << count << " of " << voters;
      });
    }
  }
}

TEST(ExpandSigns, InvertsPackSigns) {
  for (std::size_t size : kSizes) {
    const auto gradient = gradient_like(size, 3);
    on_every_target([&] {
      std::vector<std::uint8_t> bits(sign_bytes(size));
      pack_signs(gradient, bits);
      std::vector<float> result(size);
      expand_signs(bits, 2.5F, result);
      for (std::size_t i = 0; i < size; ++i) {
        ASSERT_EQ(result[i], 2.5F * reference::sign(gradient[i])) << i << " of " << size;
      }
    });
  }
}

}  // namespace
}  // namespace gradwire::kernels
