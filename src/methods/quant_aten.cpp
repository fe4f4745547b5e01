#include <cmath>
#include <limits>

#include "methods/device_code.h"

namespace gradwire {
namespace {

// Sums of decoded numbers stay finite below this (kernels/quant.h).
constexpr double kQuantLimit = 0x1p126;

// Blocks as rows; elements that are missing from the last one are zero.
at::Tensor rows_of(const QuantFormat& format, const at::Tensor& elements) {
  const auto block = static_cast<int64_t>(format.block);
  const int64_t missing = (block - elements.numel() % block) % block;
  return at::constant_pad_nd(elements, {0, missing}).view({-1, block});
}

at::Tensor record_rows(const QuantFormat& format, const at::Tensor& records) {
  return records.view({-1, static_cast<int64_t>(format.record_bytes())});
}

// One column, in fp32.
at::Tensor scales_of(const at::Tensor& record_rows) {
  return record_rows.narrow(1, 0, 2).contiguous().view(at::kBFloat16).to(at::kFloat);
}

at::Tensor shifts_of(const QuantFormat& format, const at::Tensor& like) {
  return at::arange(0, 8, format.bits, like.options().dtype(at::kInt));
}

// What the level of a code is above the code as a signed number.
double level_offset(const QuantFormat& format) { return format.bits == 2 ? 0.5 : 0; }

at::Tensor decoded_rows(const QuantFormat& format, const at::Tensor& records) {
  const at::Tensor rows = record_rows(format, records);
  const at::Tensor bytes = rows.narrow(1, 2, rows.size(1) - 2).to(at::kInt).unsqueeze(-1);
  const at::Tensor codes = bytes.bitwise_right_shift(shifts_of(format, bytes))
                               .bitwise_and((1 << format.bits) - 1)
                               .view({rows.size(0), -1});
  if (format.bits == 1) return (codes * 2 - 1).to(at::kFloat) * scales_of(rows);
  const int sign = 1 << (format.bits - 1);
  const at::Tensor levels = (codes.bitwise_xor(sign) - sign).to(at::kFloat) + level_offset(format);
  return levels * scales_of(rows);
}

at::Tensor decoded(const QuantFormat& format, const at::Tensor& records, int64_t elements) {
  return decoded_rows(format, records).view(-1).narrow(0, 0, elements);
}

// The least bf16 that is not below a positive number.
at::Tensor rounded_up(const at::Tensor& positive) {
  return (positive.view(at::kInt) + 0xFFFF).bitwise_and(~0xFFFF).view(at::kFloat);
}

// The sum of each row, one column. It is added up in the order of the kernels: the choice of a
// level may hang on the last bit of a scale.
at::Tensor row_sums(const at::Tensor& rows) {
  constexpr int64_t kLanes = 32;
  const int64_t missing = (kLanes - rows.size(1) % kLanes) % kLanes;
  const at::Tensor steps = at::constant_pad_nd(rows, {0, missing}).view({rows.size(0), -1, kLanes});
  at::Tensor lanes = steps.select(1, 0).clone();
  for (int64_t i = 1; i < steps.size(1); ++i) lanes += steps.select(1, i);
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    lanes = lanes.narrow(1, 0, half) + lanes.narrow(1, half, half);
  }
  return lanes;
}

// Scales of blocks with these elements, one column; NaN for a block that is not finite.
at::Tensor chosen_scales(const QuantFormat& format, const at::Tensor& rows, int64_t elements) {
  const at::Tensor largest = rows.abs().amax(1, true);
  const at::Tensor sums = row_sums(rows.abs());
  at::Tensor scales;
  if (format.bits >= 4) {
    const double most = (1 << (format.bits - 1)) - 1;
    const double least = std::numeric_limits<float>::min();
    scales = at::where(largest > 0, rounded_up((largest / most).clamp_min(least)), largest);
  } else {
    at::Tensor lengths = at::full_like(sums, static_cast<double>(format.block));
    lengths[-1] =
        static_cast<double>(elements - (rows.size(0) - 1) * static_cast<int64_t>(format.block));
    scales = (sums / lengths).to(at::kBFloat16).to(at::kFloat);
  }
  const at::Tensor finite = largest.lt(kQuantLimit).logical_and(sums.isfinite());
  return at::where(finite, scales, std::numeric_limits<double>::quiet_NaN());
}

// The codes as numbers from 0 to 2^bits − 1; 0 where a block is not finite.
at::Tensor chosen_codes(const QuantFormat& format, const at::Tensor& rows,
                        const at::Tensor& scales) {
  at::Tensor codes;
  if (format.bits >= 4) {
    codes = (rows * scales.reciprocal()).round();
  } else if (format.bits == 2) {
    const at::Tensor outer = rows.abs().ge(scales).to(at::kFloat);
    codes = at::where(rows < 0, -1 - outer, outer);
  } else {
    codes = rows.ge(0).to(at::kFloat);
  }
  codes = at::where(scales > 0, codes, 0.0);
  return codes.to(at::kInt).bitwise_and((1 << format.bits) - 1);
}

// Writes the records of these elements. Blocks are not finite where the scales are NaN.
void write_records(const QuantFormat& format, const at::Tensor& elements,
                   const at::Tensor& records) {
  const at::Tensor rows = rows_of(format, elements);
  const at::Tensor scales = chosen_scales(format, rows, elements.numel());
  at::Tensor codes = chosen_codes(format, rows, scales);
  codes.view(-1).narrow(0, elements.numel(), codes.numel() - elements.numel()).zero_();
  const at::Tensor shifts = shifts_of(format, codes);
  const at::Tensor bytes = codes.view({codes.size(0), -1, shifts.numel()})
                               .bitwise_left_shift(shifts)
                               .sum(2)
                               .to(at::kByte);
  const at::Tensor target = record_rows(format, records);
  target.narrow(1, 0, 2).copy_(scales.to(at::kBFloat16).view(at::kByte));
  target.narrow(1, 2, bytes.size(1)).copy_(bytes);
}

at::Tensor sum_of(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                  int64_t elements) {
  at::Tensor total = decoded(format, contributions.front(), elements).clone();
  for (size_t i = 1; i < contributions.size(); ++i) {
    total += decoded(format, contributions[i], elements);
  }
  return total;
}

// What average() adds to the residual: zero in blocks that are not finite.
at::Tensor lost_by_rounding(const QuantFormat& format, const at::Tensor& total, double workers,
                            const at::Tensor& records) {
  return (total - decoded(format, records, total.numel()) * workers).nan_to_num(0, 0, 0);
}

class QuantAten final : public QuantCode {
 public:
  bool quantise(const QuantFormat& format, const at::Tensor& gradient, const at::Tensor& residual,
                const at::Tensor& records) const override {
    const at::Tensor total = residual.defined() ? gradient + residual : gradient;
    write_records(format, total, records);
    if (residual.defined()) {
      const at::Tensor rest = total - decoded(format, records, total.numel());
      residual.copy_(at::where(rest.isnan(), residual, rest));
    }
    return all_finite(format, records);
  }

  void roll_back_quantised(const QuantFormat& format, const at::Tensor& gradient,
                           const at::Tensor& records, const at::Tensor& residual) const override {
    const at::Tensor before = residual + decoded(format, records, residual.numel()) - gradient;
    residual.copy_(at::where(before.isfinite(), before, residual));
  }

  void mark_not_finite(const QuantFormat& format, const at::Tensor& records) const override {
    const at::Tensor rows = record_rows(format, records);
    rows.zero_();
    const at::Tensor mark = at::full({1}, std::numeric_limits<double>::quiet_NaN(),
                                     rows.options().dtype(at::kBFloat16));
    rows.narrow(1, 0, 2).copy_(mark.view(at::kByte));
  }

  bool all_finite(const QuantFormat& format, const at::Tensor& records) const override {
    return scales_of(record_rows(format, records)).isfinite().all().item<bool>();
  }

  void average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
               int64_t elements, const at::Tensor& residual,
               const at::Tensor& records) const override {
    const auto workers = static_cast<double>(contributions.size());
    const at::Tensor total = sum_of(format, contributions, elements);
    write_records(format, total * (1 / workers), records);
    if (residual.defined()) residual.add_(lost_by_rounding(format, total, workers, records));
  }

  void roll_back_average(const QuantFormat& format, const std::vector<at::Tensor>& contributions,
                         const at::Tensor& records, const at::Tensor& residual) const override {
    const at::Tensor total = sum_of(format, contributions, residual.numel());
    residual.sub_(
        lost_by_rounding(format, total, static_cast<double>(contributions.size()), records));
  }

  void sum(const QuantFormat& format, const std::vector<at::Tensor>& contributions, float factor,
           const at::Tensor& result) const override {
    result.copy_(sum_of(format, contributions, result.numel()) * factor);
  }
};

}  // namespace

const QuantCode& quant_aten() {
  static const QuantAten code;
  return code;
}

}  // namespace gradwire
