#include "data/wav.h"

#include "wav_file.h"

namespace gradwire::data {
namespace {

const Sound kSound = {0, 1, -1, 32767, -32768};

class Wav : public Files {
 protected:
  Sound read(const Bytes& bytes) const {
    write("a.wav", bytes);
    return read_wav(path("a.wav"));
  }
  // The message without the name of the file.
  std::string refusal(const Bytes& bytes) const {
    try {
      read(bytes);
    } catch (const DataError& error) {
      return std::string(error.what()).substr(path("a.wav").size() + 2);
    }
    return "accepted";
  }
};

TEST_F(Wav, IsRead) {
  EXPECT_EQ(read(wav(kSound)), kSound);
  EXPECT_EQ(read(wav({})), Sound{});
}

TEST_F(Wav, MayHaveItsChunksInAnyOrderAndUnknownOnes) {
  const Bytes odd = chunk("LIST", {1, 2, 3});
  EXPECT_EQ(read(riff(data_chunk(kSound) + format_chunk())), kSound);
  EXPECT_EQ(read(riff(odd + format_chunk() + odd + data_chunk(kSound) + odd)), kSound);
}

TEST_F(Wav, MustBeEightKilohertzMono16BitPcm) {
  const auto with = [&](const Bytes& format) { return refusal(riff(format + data_chunk(kSound))); };
  EXPECT_EQ(with(format_chunk(3)), "byte 20: expected the format of plain PCM, 1, found 3");
  EXPECT_EQ(with(format_chunk(1, 2)), "byte 22: expected a number of channels of 1, found 2");
  EXPECT_EQ(with(format_chunk(1, 1, 44100)),
            "byte 24: expected a sample rate of 8000, found 44100");
  EXPECT_EQ(with(format_chunk(1, 1, 8000, 8)),
            "byte 34: expected a sample width in bits of 16, found 8");
  EXPECT_EQ(with(chunk("fmt ", Bytes(14))),
            "byte 16: expected a format of at least 16 bytes, found 14");
}

TEST_F(Wav, MustNameItsParts) {
  Bytes not_riff = wav(kSound);
  not_riff[3] = 'X';
  EXPECT_EQ(refusal(not_riff), "byte 0: expected \"RIFF\", found other bytes");
  Bytes not_wave = wav(kSound);
  not_wave[8] = 'w';
  EXPECT_EQ(refusal(not_wave), "byte 8: expected \"WAVE\", found other bytes");
}

TEST_F(Wav, MustHaveOneFormatAndOneSound) {
  const Bytes format = format_chunk();
  const Bytes data = data_chunk(kSound);
  EXPECT_EQ(refusal(riff(format)), "byte 36: expected a chunk \"data\", found the end");
  EXPECT_EQ(refusal(riff(data)), "byte 30: expected a chunk \"fmt \", found the end");
  EXPECT_EQ(refusal(riff(format + data + data)),
            "byte 54: expected one chunk of a kind, found a second");
  EXPECT_EQ(refusal(riff(format + format + data)),
            "byte 36: expected one chunk of a kind, found a second");
}

TEST_F(Wav, MustHaveSizesThatAreTrue) {
  const Bytes good = wav(kSound);
  EXPECT_EQ(refusal(good + Bytes{0}), "byte 4: expected the size of what follows, 47, found 46");
  for (const std::uint32_t size : {11U, 12U, 0x7FFFFFFFU, 0xFFFFFFF8U, 0xFFFFFFFFU}) {
    Bytes wrong = good;
    std::ranges::copy(little_endian(size, 4), wrong.begin() + 40);
    EXPECT_EQ(refusal(wrong),
              "byte 40: expected a chunk of at most 10 bytes, found " + std::to_string(size));
  }
  EXPECT_EQ(refusal(riff(format_chunk() + chunk("data", {1, 2, 3}))),
            "byte 40: expected an even number of bytes, found 3");
  EXPECT_EQ(refusal(riff(format_chunk() + bytes_of("data"))),
            "byte 40: expected the header of a chunk at byte 36, found the end");
}

TEST_F(Wav, MustNotBeLongerThanAWord) {
  EXPECT_EQ(refusal(wav(Sound(1 << 19))), "byte 1048576: expected the end, found more bytes");
}

TEST_F(Wav, IsRefusedAtEveryTruncation) {
  const Bytes good = riff(chunk("LIST", {1, 2, 3}) + format_chunk() + data_chunk(kSound));
  for (std::size_t length = 0; length < good.size(); ++length) {
    Bytes shorter = prefix(good, length);
    ASSERT_NE(refusal(shorter), "accepted") << length;
    if (length < 12) continue;
    // Now the size in the header is right, so another check must notice.
    std::ranges::copy(little_endian(static_cast<std::uint32_t>(length - 8), 4),
                      shorter.begin() + 4);
    ASSERT_NE(refusal(shorter), "accepted") << length;
  }
}

TEST_F(Wav, SurvivesEveryWrongByte) {
  const Bytes good = wav(kSound);
  for (std::size_t at = 0; at < 44; ++at) {
    for (const int value : {0, 1, 0x7F, 0x80, 0xFF}) {
      Bytes wrong = good;
      wrong[at] = static_cast<std::uint8_t>(value);
      const std::string said = refusal(wrong);
      ASSERT_TRUE(said == "accepted" || said.starts_with("byte ")) << said;
    }
  }
}

}  // namespace
}  // namespace gradwire::data
