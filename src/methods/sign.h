#pragma once

// The two modes of sign compression, and what they share: bits in ATen ops, for devices without
// kernels. Bits are laid out as in kernels/sign.h: element i is bit i % 8 of byte i / 8, 1 for +1;
// unused bits of the last byte are 0.

#include <ATen/ATen.h>

#include <memory>

#include "methods/method.h"

namespace gradwire {

// Elements that one task of a parallel loop takes: a multiple of kernels::kSignBlock, and large
// enough that smaller parameters are not worth another thread.
inline constexpr int64_t kSignPiece = 65536;

inline int64_t sign_pieces(int64_t elements) { return (elements + kSignPiece - 1) / kSignPiece; }

// The bits of a tensor of booleans.
at::Tensor pack_bits(const at::Tensor& positive);
// The first `elements` bits as a flat tensor of booleans.
at::Tensor unpack_bits(const at::Tensor& bits, int64_t elements);
// scale where positive, -scale elsewhere, as fp32.
at::Tensor signed_scale(const at::Tensor& positive, float scale);

std::unique_ptr<Method> make_sign_feedback();
std::unique_ptr<Method> make_sign_vote(float scale);

}  // namespace gradwire
