#pragma once

#include <cstdint>

// Which SIMD target the kernels run on. A target is one bit, a set of targets the union of their
// bits; of two targets the one with the lower bit is the better. Sets are comparable between builds
// against the same release of Highway, so unlike hosts find the target they all run well with
// best_target(intersection of their supported_targets()).
namespace gradwire::kernels {

// The targets that are both compiled in and supported by this machine; never empty.
std::int64_t supported_targets();

// The best target of a set; 0 if the set is empty.
std::int64_t best_target(std::int64_t targets);

// The target that the next kernel will run on.
std::int64_t current_target();

// Makes all later kernels of this process run on exactly this target. False, with nothing changed,
// if it is not a single supported target. Not to be called while a kernel runs: its blocks might
// be computed on different targets.
bool pin_target(std::int64_t target);

// "AVX2", "SCALAR", ...; a static string.
const char* target_name(std::int64_t target);

}  // namespace gradwire::kernels
