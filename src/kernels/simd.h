#pragma once

#include <cstdint>

// Which SIMD target the kernels run on. A target is one bit, and a set of targets is the union of
// their bits. Of two targets, the one with the lower bit is better. Builds against the same release
// of Highway have the same bits, so unlike hosts can find the best target that all have:
// best_target(intersection of their supported_targets()).
//
// One target is not Highway's: AVX-512 with bf16, the best. The products of the low-rank methods
// have code of their own for it (low_rank_bf16.h); all other kernels run on Highway's AVX3.
namespace gradwire::kernels {

// The targets that are compiled in and that this machine supports. Never empty.
std::int64_t supported_targets();

// The best target of a set, or 0 if the set is empty.
std::int64_t best_target(std::int64_t targets);

// The target that the next kernel will run on.
std::int64_t current_target();

// Whether this target is AVX-512 with bf16.
bool runs_on_bf16();

// Makes all later kernels of this process run on exactly this target. If it is not a single
// supported target, changes nothing and returns false. Must not be called while a kernel runs,
// whose blocks might then be computed on different targets.
bool pin_target(std::int64_t target);

// "AVX2", "SCALAR", ...; a static string.
const char* target_name(std::int64_t target);

}  // namespace gradwire::kernels
