#include "wire/rice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/bytes.h"

namespace gradwire::wire {
namespace {

// A 64-bit word at any bit offset within its first byte holds at least this many usable bits.
constexpr unsigned kUsableBits = 57;

constexpr std::size_t kCodesPerRefill = 4;

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  // length < kUsableBits. Storing all eight bytes every time is cheaper than deciding when to.
  void put(std::uint64_t bits, unsigned length) {
    pending_ |= bits << filled_;
    filled_ += length;
    store_little_endian(pending_, out_);
    out_ += filled_ / 8;
    pending_ >>= filled_ & ~7U;
    filled_ %= 8;
  }

  void put_zeros(std::uint64_t count) {
    constexpr unsigned kMost = kUsableBits - 1;
    for (; count > kMost; count -= kMost) put(0, kMost);
    put(0, static_cast<unsigned>(count));
  }

 private:
  std::byte* out_;
  std::uint64_t pending_ = 0;
  unsigned filled_ = 0;
};

// Holds the next bits of a span in a word, least significant first.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // At least kUsableBits - 1 bits (and never 64), or all that are left. The bits above available()
  // are those that follow in the span, so that adding them a second time changes nothing; this way
  // the load does not wait for the bits consumed last, and decoding is not bound by its latency.
  void refill() {
    if (end_ - next_ >= 8) [[likely]] {
      word_ |= load_little_endian<std::uint64_t>(next_) << available_;
      next_ += (63 - available_) / 8;
      available_ |= 56;
      return;
    }
    for (; available_ < 56 && next_ != end_; available_ += 8) {
      word_ |= std::to_integer<std::uint64_t>(*next_++) << available_;
    }
  }
  // No more than available(), and less than 64.
  void consume(unsigned bits) {
    word_ >>= bits;
    available_ -= bits;
  }
  std::uint64_t word() const { return word_; }
  unsigned available() const { return available_; }
  std::size_t left() const { return available_ + 8 * static_cast<std::size_t>(end_ - next_); }

 private:
  const std::byte* next_;
  const std::byte* end_;
  std::uint64_t word_ = 0;
  unsigned available_ = 0;
};

// Reads a unary part of any length, past its closing one bit. False if it is longer than `most` or
// is never closed.
bool read_long_unary(BitReader& bits, std::uint64_t most, std::uint64_t& zeros) {
  for (zeros = 0; zeros <= most && bits.left() > 0; bits.refill()) {
    const auto run = static_cast<unsigned>(std::countr_zero(bits.word()));
    if (run < bits.available()) {
      bits.consume(run + 1);
      zeros += run;
      return zeros <= most;
    }
    zeros += bits.available();
    bits.consume(bits.available());
  }
  return false;
}

constexpr std::uint64_t low_bits(unsigned count) { return (std::uint64_t{1} << count) - 1; }

// One code, before it is put into words: so many zeros, then the closing one bit and the tail.
struct Code {
  std::uint64_t zeros;
  std::uint64_t closing_and_tail;
  std::uint64_t length;
};

class Coder {
 public:
  Coder(unsigned tail_bits, bool with_signs, std::uint32_t base, std::byte* out)
      : tail_bits_(tail_bits),
        sign_bits_(with_signs ? 1 : 0),
        next_(base << sign_bits_),
        out_(out) {}

  Code code(std::uint32_t entry) {
    const std::uint64_t value = entry - next_;
    next_ = ((entry >> sign_bits_) + 1) << sign_bits_;
    const std::uint64_t zeros = value >> tail_bits_;
    return {zeros, 1 | (value & low_bits(tail_bits_)) << 1, zeros + 1 + tail_bits_};
  }
  void put(const Code& code) {
    if (code.length < kUsableBits) [[likely]] {
      out_.put(code.closing_and_tail << code.zeros, static_cast<unsigned>(code.length));
    } else {
      out_.put_zeros(code.zeros);
      out_.put(code.closing_and_tail, 1 + tail_bits_);
    }
  }
  // Every put waits for the one before it, so two codes go at a time where a word holds them.
  void put(const Code& first, const Code& second) {
    if (first.length + second.length < kUsableBits) [[likely]] {
      const std::uint64_t both = first.closing_and_tail << first.zeros |
                                 second.closing_and_tail << second.zeros << first.length;
      out_.put(both, static_cast<unsigned>(first.length + second.length));
    } else {
      put(first);
      put(second);
    }
  }

 private:
  unsigned tail_bits_;
  unsigned sign_bits_;
  std::uint32_t next_;  // the smallest entry that may follow
  BitWriter out_;
};

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
      static_cast<unsigned>(std::bit_width(gaps / count + 1)) - 1, kLargestRiceParameter);
  constexpr unsigned kCandidates = 4;
  const unsigned smallest = largest - std::min(largest, kCandidates - 1);

  // Zero bits for each candidate, in variables of their own so that the loop is vectorised.
  const std::uint32_t first = (entries.front() >> sign_bits) - base;
  std::uint32_t zeros0 = first >> smallest;
  std::uint32_t zeros1 = zeros0 >> 1, zeros2 = zeros0 >> 2, zeros3 = zeros0 >> 3;
  std::uint32_t all_bits = first;
  for (std::size_t i = 1; i < count; ++i) {
    const std::uint32_t position = entries[i] >> sign_bits;
    const std::uint32_t gap = position - (entries[i - 1] >> sign_bits) - 1;
    all_bits |= gap | (position - base);
    const std::uint32_t zeros = gap >> smallest;
    zeros0 += zeros;
    zeros1 += zeros >> 1;
    zeros2 += zeros >> 2;
    zeros3 += zeros >> 3;
  }
  // A step backwards, or none at all, wraps around to a gap of at least 2^31.
  if (all_bits >> 31) return {0, 0, false};

  const std::array<std::uint32_t, kCandidates> unary{zeros0, zeros1, zeros2, zeros3};
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
  Coder coder(plan.parameter + (with_signs ? 1 : 0), with_signs, base, out);
  std::size_t i = 0;
  for (; i + 2 <= entries.size(); i += 2) {
    const Code first = coder.code(entries[i]);
    coder.put(first, coder.code(entries[i + 1]));
  }
  if (i < entries.size()) coder.put(coder.code(entries[i]));
}

const char* read_rice(std::span<const std::byte> body, unsigned parameter, bool with_signs,
                      std::uint32_t length, std::span<std::uint32_t> entries) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const unsigned tail_bits = parameter + sign_bits;
  const std::uint64_t tail_mask = low_bits(tail_bits);
  const std::uint64_t end = std::uint64_t{length} << sign_bits;
  BitReader bits(body);
  std::uint64_t next = 0;
  std::size_t until_refill = 0;
  for (std::uint32_t& out : entries) {
    // A word holds several codes of the usual length; a longer one takes the other branch below.
    if (until_refill == 0) {
      bits.refill();
      until_refill = kCodesPerRefill;
    }
    --until_refill;
    auto zeros = static_cast<std::uint64_t>(std::countr_zero(bits.word()));
    std::uint64_t tail;
    if (zeros + 1 + tail_bits <= bits.available()) [[likely]] {
      tail = bits.word() >> (zeros + 1);
      bits.consume(static_cast<unsigned>(zeros) + 1 + tail_bits);
    } else {
      if (!read_long_unary(bits, length, zeros)) return "a gap without end";
      bits.refill();
      if (bits.available() < tail_bits) return "codes that end before the last entry";
      tail = bits.word();
      bits.consume(tail_bits);
    }
    const std::uint64_t entry = next + (zeros << tail_bits) + (tail & tail_mask);
    if (entry >= end) return "a position past the end of the chunk";
    out = static_cast<std::uint32_t>(entry);
    next = ((entry >> sign_bits) + 1) << sign_bits;
  }
  bits.refill();
  if (bits.left() >= 8) return "bytes after the last entry";
  if ((bits.word() & low_bits(bits.available())) != 0) return "set bits after the last entry";
  return nullptr;
}

}  // namespace gradwire::wire
