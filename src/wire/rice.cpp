#include "wire/rice.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "wire/bytes.h"

namespace gradwire::wire {
namespace {

// A 64-bit word at any bit offset within its first byte holds at least this many usable bits.
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

// Holds the next bits of a span in a word, least significant first.
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  // At least usable_bits - 1 bits (and never 64), or all that are left. The bits above available()
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
    bits.refill();
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
