// The residual is settled by the next step, which reads it anyway: one pass over memory.

#include "kernels/sign.h"

#include <atomic>
#include <numeric>

#include "kernels/roll_back.h"
#include "kernels/vote.h"
#include "methods/device_code.h"
#include "methods/pieces.h"

namespace gradwire {
namespace {

static_assert(kPiece % kernels::kSignBlock == 0);

std::span<uint8_t> bits_of(const at::Tensor& tensor) {
  return {tensor.mutable_data_ptr<uint8_t>(), static_cast<size_t>(tensor.numel())};
}

// The bits of elements that begin at a multiple of 8.
template <typename Byte>
std::span<Byte> bits_from(std::span<Byte> bits, size_t first, size_t count) {
  return bits.subspan(first / 8, kernels::sign_bytes(count));
}

// Without error feedback G is the gradient. It goes through the same kernel, block by block, with
// nothing as the residual.
size_t encode_without_residual(std::span<const float> gradient, std::span<uint8_t> bits,
                               std::span<double> block_sums) {
  for (size_t first = 0; first < gradient.size(); first += kernels::kSignBlock) {
    float nothing[kernels::kSignBlock] = {};
    const size_t count = std::min(kernels::kSignBlock, gradient.size() - first);
    const size_t encoded = kernels::encode_signs(
        gradient.subspan(first, count), {nothing, count}, 0, bits_from(bits, first, count),
        block_sums.subspan(first / kernels::kSignBlock, 1));
    if (encoded != count) return first;
  }
  return gradient.size();
}

class SignKernels final : public SignCode {
 public:
  std::optional<float> encode(const at::Tensor& gradient, const at::Tensor& total, float pending,
                              std::span<uint8_t> bits) const override {
    const std::span<const float> values = floats_of(gradient);
    const bool feedback = total.defined();
    const std::span<float> sums = floats_of(total);
    std::vector<double> block_sums(kernels::sign_blocks(values.size()));
    std::vector<size_t> encoded((values.size() + kPiece - 1) / kPiece);
    for_each_piece(gradient.numel(), [&](size_t first, size_t count) {
      const auto piece_bits = bits_from(bits, first, count);
      const auto piece_sums =
          std::span(block_sums).subspan(first / kernels::kSignBlock, kernels::sign_blocks(count));
      encoded[first / kPiece] =
          feedback ? kernels::encode_signs(values.subspan(first, count), sums.subspan(first, count),
                                           pending, piece_bits, piece_sums)
                   : encode_without_residual(values.subspan(first, count), piece_bits, piece_sums);
    });
    if (std::accumulate(encoded.begin(), encoded.end(), size_t{0}) == values.size()) {
      return static_cast<float>(kernels::sum_blocks(block_sums) /
                                static_cast<double>(values.size()));
    }
    if (feedback) {
      for_each_piece(gradient.numel(), [&](size_t first, size_t count) {
        const size_t done = encoded[first / kPiece];
        kernels::roll_back(values.subspan(first, done), sums.subspan(first, done));
        kernels::settle_residual(sums.subspan(first + done, count - done), pending);
      });
    }
    return std::nullopt;
  }

  void settle(const at::Tensor& total, float pending) const override {
    kernels::settle_residual(floats_of(total), pending);
  }

  void decode(std::span<const SignContribution> contributions, const at::Tensor& /*received*/,
              float factor, const at::Tensor& result) const override {
    for_each_piece(result.numel(), [&](size_t first, size_t count) {
      std::vector<kernels::SignPayload> payloads;
      for (const SignContribution& contribution : contributions) {
        const auto* bits = reinterpret_cast<const uint8_t*>(contribution.bits.data());
        payloads.push_back({bits + first / 8, contribution.scale});
      }
      kernels::decode_signs(payloads, factor, floats_of(result).subspan(first, count));
    });
  }

  bool pack(const at::Tensor& gradient, const at::Tensor& bits) const override {
    std::atomic<bool> finite = true;
    for_each_piece(gradient.numel(), [&](size_t first, size_t count) {
      if (!kernels::pack_signs(floats_of(gradient).subspan(first, count),
                               bits_from(bits_of(bits), first, count))) {
        finite = false;
      }
    });
    return finite;
  }

  void count(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) const override {
    for_each_piece(8 * outcome.numel(), [&](size_t first, size_t count) {
      std::vector<const uint8_t*> ranges;
      for (const at::Tensor& voter : voters) ranges.push_back(bits_of(voter).data() + first / 8);
      kernels::majority(ranges, bits_from(bits_of(outcome), first, count));
    });
  }

  void expand(const at::Tensor& bits, float scale, const at::Tensor& result) const override {
    for_each_piece(result.numel(), [&](size_t first, size_t count) {
      kernels::expand_signs(bits_from(bits_of(bits), first, count), scale,
                            floats_of(result).subspan(first, count));
    });
  }
};

const SignKernels kSignKernels;

}  // namespace

const SignCode& sign_kernels() { return kSignKernels; }

}  // namespace gradwire
