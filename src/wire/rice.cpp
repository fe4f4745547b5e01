#include "wire/rice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/bytes.h"

namespace gradwire::wire {
namespace {

// A 64-bit word read or written at any bit offset holds at least this many usable bits.
constexpr unsigned usable_bits = 57;

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  // length < usable_bits. Storing all eight bytes every time is cheaper than deciding when to.
  void put(std::uint64_t bits, unsigned length) {
    pending_ |= bits << filled_;
    filled_ += length;
    store_little_endian(pending_, out_);
    out_ += filled_ / 8;
    pending_ >>= filled_ & ~7U;
    filled_ %= 8;
  }

  void put_zeros(std::uint64_t count) {
    constexpr unsigned most = usable_bits - 1;
    for (; count > most; count -= most) put(0, most);
    put(0, static_cast<unsigned>(count));
  }

 private:
  std::byte* out_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;
};

// Bits after the end read as zero: they never complete a code.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t peek() const {
    const std::size_t byte = position_ / 8;
    const std::uint64_t word = byte + 8 <= bytes_.size()
                                   ? load_little_endian<std::uint64_t>(bytes_.data() + byte)
                                   : last_word(byte);
    return word >> (position_ % 8);
  }
  void consume(unsigned bits) { position_ += bits; }
  std::size_t position() const { return position_; }
  std::size_t end() const { return bytes_.size() * 8; }

 private:
  std::uint64_t last_word(std::size_t byte) const {
    std::array<std::byte, 8> word{};
    for (std::size_t i = 0; byte + i < bytes_.size(); ++i) word[i] = bytes_[byte + i];
    return load_little_endian<std::uint64_t>(word.data());
  }

  std::span<const std::byte> bytes_;
  std::size_t position_ = 0;
};

// The length of a unary part too long for one word, read past its closing one bit; more than `most`
// where it is longer than that or never closed.
std::uint64_t read_long_unary(BitReader& bits, std::uint64_t most) {
  std::uint64_t zeros = 0;
  while (zeros <= most && bits.position() < bits.end()) {
    const auto run = static_cast<unsigned>(std::countr_zero(bits.peek()));
    if (run < usable_bits) {
      bits.consume(run + 1);
      return zeros + run;
    }
    bits.consume(usable_bits);
    zeros += usable_bits;
  }
  return most + 1;
}

constexpr std::uint64_t low_bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }

}  // namespace

RicePlan plan_rice(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const std::size_t count = entries.size();
  const std::uint32_t last = (entries.back() >> sign_bits) - base;
  // floor(log2(mean gap + 1)) is the best parameter of a geometric distribution; clustered
  // positions want a smaller one.
  const std::uint64_t spanned = last + std::uint64_t{1};
  const std::uint64_t gaps = spanned - std::min<std::uint64_t>(count, spanned);
  const auto largest = std::min<unsigned>(
      static_cast<unsigned>(std::bit_width(gaps / count + 1)) - 1, largest_rice_parameter);
  constexpr unsigned candidates = 4;
  const unsigned smallest = largest - std::min(largest, candidates - 1);

  std::array<std::uint32_t, candidates> unary{};
  std::uint32_t all_bits = 0;
  const auto add_gap = [&](std::uint32_t position, std::uint32_t gap) {
    all_bits |= gap | (position - base);
    for (unsigned c = 0; c < candidates; ++c) unary[c] += gap >> (smallest + c);
  };
  const std::uint32_t first = entries.front() >> sign_bits;
  add_gap(first, first - base);
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t position = entries[i] >> sign_bits;
    add_gap(position, position - (entries[i - 1] >> sign_bits) - 1);
  }
  // A step backwards, or none at all, wraps around to a gap of at least 2^31.
  if (all_bits >> 31) return {0, 0, false};

  unsigned best = 0;
  std::uint64_t best_bits = UINT64_MAX;
  for (unsigned c = 0; smallest + c <= largest; ++c) {
    const std::uint64_t bits = unary[c] + count * (1 + smallest + c + sign_bits);
    if (bits < best_bits) {
      best_bits = bits;
      best = smallest + c;
    }
  }
  return {best, static_cast<std::size_t>((best_bits + 7) / 8), true};
}

void write_rice(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs,
                const RicePlan& plan, std::byte* out) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const unsigned tail_bits = plan.parameter + sign_bits;
  BitWriter bits(out);
  std::uint32_t next = base << sign_bits;  // the smallest entry that may follow
  for (const std::uint32_t entry : entries) {
    const std::uint64_t value = entry - next;
    next = ((entry >> sign_bits) + 1) << sign_bits;
    const std::uint64_t zeros = value >> tail_bits;
    const std::uint64_t closing_and_tail = 1 | (value & low_bits(tail_bits)) << 1;
    if (zeros + 1 + tail_bits < usable_bits) [[likely]] {
      bits.put(closing_and_tail << zeros, static_cast<unsigned>(zeros) + 1 + tail_bits);
    } else {
      bits.put_zeros(zeros);
      bits.put(closing_and_tail, 1 + tail_bits);
    }
  }
}

const char* read_rice(std::span<const std::byte> body, unsigned parameter, bool with_signs,
                      std::uint32_t length, std::span<std::uint32_t> entries) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const unsigned tail_bits = parameter + sign_bits;
  const std::uint64_t tail_mask = low_bits(tail_bits);
  const std::uint64_t end = std::uint64_t{length} << sign_bits;
  BitReader bits(body);
  std::uint64_t next = 0;
  for (std::uint32_t& out : entries) {
    const std::uint64_t word = bits.peek();
    auto zeros = static_cast<std::uint64_t>(std::countr_zero(word));
    std::uint64_t tail;
    if (zeros + 1 + tail_bits <= usable_bits) [[likely]] {
      tail = (word >> (zeros + 1)) & tail_mask;
      bits.consume(static_cast<unsigned>(zeros) + 1 + tail_bits);
    } else {
      zeros = read_long_unary(bits, length);
      if (zeros > length) return "codes that end before the last entry or run past the chunk";
      tail = bits.peek() & tail_mask;
      bits.consume(tail_bits);
    }
    const std::uint64_t entry = next + (zeros << tail_bits) + tail;
    if (entry >= end) return "a position past the end of the chunk";
    out = static_cast<std::uint32_t>(entry);
    next = ((entry >> sign_bits) + 1) << sign_bits;
  }
  if (bits.position() > bits.end()) return "codes that end before the last entry";
  if (bits.position() + 8 <= bits.end()) return "bytes after the last entry";
  if (bits.peek() != 0) return "set bits after the last entry";
  return nullptr;
}

}  // namespace gradwire::wire
