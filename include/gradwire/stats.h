#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace gradwire {

// What kind of layer a parameter belongs to, as far as its shape tells.
enum class ParameterKind : uint8_t { conv, dense, other };  // 3 or more dimensions, 2, fewer
constexpr std::array<const char*, 3> kParameterKindNames = {"conv", "dense", "other"};

// What becomes of a gradient: all of it arrives; all of it arrives, rounded; a part of it arrives
// in a later step, or never.
enum class LossClass : uint8_t { exact, rounded, delayed };
constexpr std::array<const char*, 3> kLossClassNames = {"exact", "rounded", "delayed"};

struct KindCounts {
  int64_t gradient_bytes = 0;
  int64_t payload_bytes = 0;
};

// What this worker did in a number of steps. The ratios follow from the counts, so they are
// functions.
struct Counts {
  int64_t steps = 0;
  int64_t gradient_bytes = 0;  // what was encoded, as fp32
  int64_t payload_bytes = 0;   // what it was encoded into, headers and padding included
  int64_t sent_bytes = 0;      // what left this worker: payload times the collective's multiplier
  int64_t dense_bytes = 0;     // the same for plain all-reduce
  std::array<KindCounts, 3> by_kind = {};
  double encode_seconds = 0;
  double decode_seconds = 0;
  double wait_seconds = 0;

  double code_ratio() const { return ratio(gradient_bytes, payload_bytes); }
  double wire_ratio() const { return ratio(dense_bytes, sent_bytes); }
  double code_ratio(ParameterKind kind) const {
    const KindCounts& counts = by_kind[static_cast<size_t>(kind)];
    return ratio(counts.gradient_bytes, counts.payload_bytes);
  }

 private:
  // A worker that sent nothing (a world of one) has compressed nothing either.
  static double ratio(int64_t whole, int64_t part) {
    return part == 0 ? 1.0 : static_cast<double>(whole) / static_cast<double>(part);
  }
};

// The counts of all steps so far, and what they are counts of.
struct Stats : Counts {
  std::string method;
  std::map<std::string, std::string> plan;  // parameter name -> how it travels
  LossClass loss_class = LossClass::exact;  // the lossiest in the plan
  Counts recent;                            // of the last 32 steps
};

}  // namespace gradwire
