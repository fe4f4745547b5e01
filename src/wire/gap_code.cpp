#include "wire/gap_code.h"

#include <bit>
#include <cstring>

#include "wire/bytes.h"

namespace gradwire::wire {
namespace {

// If a 64-bit word is read from the byte that holds the next bit, at least this many of its bits
// can be used.
constexpr unsigned kUsableBits = 57;

constexpr std::size_t kCodesPerRefill = 4;

class BitWriter {
 public:
  explicit BitWriter(std::byte* out) : out_(out) {}

  // length < kUsableBits. Storing all eight bytes each time is cheaper than deciding when to store.
  void put(std::uint64_t bits, unsigned length) {
    pending_ |= bits << filled_;
    filled_ += length;
    store_little_endian(pending_, out_);
    out_ += filled_ / 8;
    pending_ >>= filled_ & ~7U;
    filled_ %= 8;
  }

  void put_zeros(std::uint64_t count) {
    constexpr unsigned most = kUsableBits - 1;
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

  // Afterwards at least kUsableBits - 1 bits (and never 64) are available, or all that are left.
  // The bits above available() are already those that follow in the span, so adding them again
  // changes nothing. So the load need not wait for the last consume(), whose latency would slow
  // decoding.
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
  // `bits` is at most available() and below 64.
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

// Reads a unary part of any length and the one bit that ends it. Returns false if it is longer than
// `most` or does not end.
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

// For 0 < value < 2^53. It uses the exponent of a double: the instruction for counting leading
// zeros that every x86-64 machine has is slow on many of them.
unsigned floor_log2(std::uint64_t value) {
  constexpr unsigned kMantissaBits = 52, bias = 1023;
  const auto exact = static_cast<double>(static_cast<std::int64_t>(value));
  return static_cast<unsigned>(std::bit_cast<std::uint64_t>(exact) >> kMantissaBits) - bias;
}

// One code before it is put into words: a number of zeros, the one bit that ends them, and the
// tail.
struct Code {
  std::uint64_t zeros;
  std::uint64_t closing_and_tail;
  std::uint64_t length;
};

template <GapCode kind>
class Coder {
 public:
  Coder(unsigned parameter, bool with_signs, std::uint32_t base, std::byte* out)
      : sign_bits_(with_signs ? 1 : 0),
        parameter_(parameter + sign_bits_),
        next_(base << sign_bits_),
        out_(out) {}

  Code code(std::uint32_t entry) {
    const std::uint64_t value = entry - next_;
    next_ = ((entry >> sign_bits_) + 1) << sign_bits_;
    if constexpr (kind == GapCode::rice) {
      const std::uint64_t zeros = value >> parameter_;
      return {zeros, 1 | (value & low_bits(parameter_)) << 1, zeros + 1 + parameter_};
    } else {
      const std::uint64_t x = value + (std::uint64_t{1} << parameter_);
      const unsigned tail_bits = floor_log2(x);
      const std::uint64_t zeros = tail_bits - parameter_;
      return {zeros, 1 | (x & low_bits(tail_bits)) << 1, zeros + 1 + tail_bits};
    }
  }
  void put(const Code& code) {
    if (code.length < kUsableBits) [[likely]] {
      out_.put(code.closing_and_tail << code.zeros, static_cast<unsigned>(code.length));
    } else {
      out_.put_zeros(code.zeros);
      out_.put(code.closing_and_tail, static_cast<unsigned>(code.length - code.zeros));
    }
  }
  // Every put waits for the one before it, so two codes are put together if a word holds them.
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
  unsigned sign_bits_;
  unsigned parameter_;  // for the gap and the sign together
  std::uint32_t next_;  // the smallest entry that may follow
  BitWriter out_;
};

template <GapCode kind>
void write(std::span<const std::uint32_t> entries, Coder<kind> coder) {
  std::size_t i = 0;
  for (; i + 2 <= entries.size(); i += 2) {
    const Code first = coder.code(entries[i]);
    coder.put(first, coder.code(entries[i + 1]));
  }
  if (i < entries.size()) coder.put(coder.code(entries[i]));
}

// How the number of zeros decides the length of the tail, and the value of both.
template <GapCode kind>
class Tails {
 public:
  Tails(unsigned parameter, std::uint32_t length)
      : parameter_(parameter), parameter_mask_(low_bits(parameter)), length_(length) {}

  // A code with more zeros would be a gap beyond the chunk. With this limit, tails and values stay
  // below 2^32.
  std::uint64_t most_zeros() const {
    return kind == GapCode::rice ? length_ : kLargestGapParameter + 1 - parameter_;
  }
  unsigned bits(std::uint64_t zeros) const {
    return kind == GapCode::rice ? parameter_ : parameter_ + static_cast<unsigned>(zeros);
  }
  // The value that this number of zeros and the lowest bits of this word stand for.
  std::uint64_t value(std::uint64_t zeros, std::uint64_t word) const {
    if constexpr (kind == GapCode::rice) return (zeros << parameter_) + (word & parameter_mask_);
    const std::uint64_t power = std::uint64_t{1} << bits(zeros);
    return (power | (word & (power - 1))) - parameter_mask_ - 1;
  }

 private:
  unsigned parameter_;
  std::uint64_t parameter_mask_;
  std::uint32_t length_;
};

// A function for both kinds would run out of registers.
template <GapCode kind>
[[gnu::noinline]] const char* read(std::span<const std::byte> body, unsigned parameter,
                                   bool with_signs, std::uint32_t length,
                                   std::span<std::uint32_t> entries) {
  const unsigned sign_bits = with_signs ? 1 : 0;
  const Tails<kind> tails(parameter + sign_bits, length);
  const std::uint64_t end = std::uint64_t{length} << sign_bits;
  BitReader bits(body);
  std::uint64_t next = 0;
  std::size_t until_refill = 0;
  for (std::uint32_t& out : entries) {
    // A word holds several codes of the usual length. Longer codes take the other branch below.
    if (until_refill == 0) {
      bits.refill();
      until_refill = kCodesPerRefill;
    }
    --until_refill;
    auto zeros = static_cast<std::uint64_t>(std::countr_zero(bits.word()));
    std::uint64_t tail;
    if (zeros + 1 + tails.bits(zeros) <= bits.available()) [[likely]] {
      if (zeros >= 63) __builtin_unreachable();  // 64 bits are never available
      tail = bits.word() >> (zeros + 1);
      bits.consume(static_cast<unsigned>(zeros) + 1 + tails.bits(zeros));
    } else {
      if (!read_long_unary(bits, tails.most_zeros(), zeros)) return "a gap without end";
      bits.refill();
      if (bits.available() < tails.bits(zeros)) return "codes that end before the last entry";
      tail = bits.word();
      bits.consume(tails.bits(zeros));
    }
    const std::uint64_t entry = next + tails.value(zeros, tail);
    if (entry >= end) return "a position past the end of the chunk";
    out = static_cast<std::uint32_t>(entry);
    next = ((entry >> sign_bits) + 1) << sign_bits;
  }
  bits.refill();
  if (bits.left() >= 8) return "bytes after the last entry";
  if ((bits.word() & low_bits(bits.available())) != 0) return "set bits after the last entry";
  return nullptr;
}

}  // namespace

void write_gaps(std::span<const std::uint32_t> entries, std::uint32_t base, bool with_signs,
                const GapPlan& plan, std::byte* out) {
  if (plan.code == GapCode::rice) {
    write(entries, Coder<GapCode::rice>(plan.parameter, with_signs, base, out));
  } else {
    write(entries, Coder<GapCode::exp_golomb>(plan.parameter, with_signs, base, out));
  }
}

const char* read_gaps(std::span<const std::byte> body, GapCode code, unsigned parameter,
                      bool with_signs, std::uint32_t length, std::span<std::uint32_t> entries) {
  return code == GapCode::rice
             ? read<GapCode::rice>(body, parameter, with_signs, length, entries)
             : read<GapCode::exp_golomb>(body, parameter, with_signs, length, entries);
}

}  // namespace gradwire::wire
