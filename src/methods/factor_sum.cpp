#include "methods/factor_sum.h"

#include <algorithm>
#include <string>

namespace gradwire {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

// A rounded factor is a run of blocks, each with a record of the same size: one number in bf16, or
// 64 numbers of one column as integers with a scale. The last block of a column is filled up with
// zeros, which change nothing about the scale.
struct BlockFormat {
  FactorType type;

  bool is_bf16() const { return type == FactorType::bf16; }
  QuantFormat quant() const { return {type == FactorType::int8 ? 8 : 4, 64}; }
  int64_t block() const { return is_bf16() ? 1 : static_cast<int64_t>(quant().block); }
  int64_t record_bytes() const {
    return is_bf16() ? 2 : static_cast<int64_t>(quant().record_bytes());
  }
  int64_t blocks(const FactorShape& shape) const {
    return divided_up(shape.rows, block()) * shape.rank;
  }

  void write(const QuantCode& code, const at::Tensor& values, const at::Tensor& records) const {
    if (is_bf16()) {
      records.view(at::kBFloat16).copy_(values);
    } else {
      code.quantise(quant(), values, {}, records);
    }
  }
  void read(const QuantCode& code, const at::Tensor& records, const at::Tensor& values) const {
    if (is_bf16()) {
      values.copy_(records.view(at::kBFloat16));
    } else {
      code.sum(quant(), {records}, 1, values);
    }
  }
  // Writes the records of the mean of the contributions, and adds N times what their rounding loses
  // to `lost`.
  void average(const QuantCode& code, const std::vector<at::Tensor>& contributions,
               const at::Tensor& records, const at::Tensor& lost) const {
    if (!is_bf16()) {
      code.average(quant(), contributions, lost.numel(), lost, records);
      return;
    }
    const auto workers = static_cast<double>(contributions.size());
    for (const at::Tensor& each : contributions) lost.add_(each.view(at::kBFloat16));
    const at::Tensor means = records.view(at::kBFloat16);
    means.copy_(lost * (1 / workers));
    lost.sub_(means, workers);
  }
};

// In fp32, by one all-reduce: the numbers, then the factors, row after row.
class WholeFactorSum final : public FactorSum {
 public:
  WholeFactorSum(const std::vector<FactorShape>& factors, int64_t numbers,
                 const at::TensorOptions& options, BufferPool& buffers)
      : shapes_(factors), own_(factors.size()), numbers_(numbers) {
    int64_t total = numbers;
    for (const FactorShape& shape : factors) {
      offsets_.push_back(total);
      total += shape.rows * shape.rank;
    }
    values_ = buffers.take(total, options.dtype(at::kFloat));
  }

  at::Tensor numbers() const override { return values_.narrow(0, 0, numbers_); }
  void put(size_t factor, const at::Tensor& values) override {
    own_[factor] = values;
    sum(factor).copy_(values);
  }
  Round start() override { return {Collective::all_reduce_sum, values_, values_}; }
  at::Tensor sent(size_t factor) override { return own_[factor]; }
  std::optional<Round> complete_round() override { return std::nullopt; }
  at::Tensor sum(size_t factor) override {
    const auto& [rows, rank] = shapes_[factor];
    return values_.narrow(0, offsets_[factor], rows * rank).view({rows, rank});
  }
  int64_t padding_bytes() const override { return 0; }

 private:
  at::Tensor lost(size_t /*factor*/) override { return {}; }

  std::vector<FactorShape> shapes_;
  std::vector<int64_t> offsets_;
  std::vector<at::Tensor> own_;
  int64_t numbers_;
  at::Tensor values_;
};

// Rounded, by slices. What a worker sends to another one is a chunk: the slice of the numbers that
// the other one owns, in fp32, and the records of the blocks that it owns.
class SlicedFactorSum final : public FactorSum {
 public:
  SlicedFactorSum(BlockFormat format, const std::vector<FactorShape>& factors, int64_t numbers,
                  const at::TensorOptions& options, const Step& step, BufferPool& buffers)
      : format_(format),
        code_(code_for(options.device()).quant),
        shapes_(factors),
        step_(step),
        buffers_(buffers),
        number_slice_(divided_up(numbers, step.workers)),
        count_(numbers) {
    int64_t blocks = 0;
    for (const FactorShape& shape : factors) {
      first_blocks_.push_back(blocks);
      blocks += format.blocks(shape);
    }
    blocks_ = blocks;
    slice_ = divided_up(blocks, step.workers);
    // Numbers are read in place, so chunks begin where a number may.
    const int64_t bytes = number_slice_ * kFloatBytes + slice_ * format.record_bytes();
    chunk_ = divided_up(bytes, kFloatBytes) * kFloatBytes;
    const auto fp32 = options.dtype(at::kFloat);
    numbers_ = buffers.take(number_slice_ * step.workers, fp32).zero_();
    values_ = buffers.take(slice_ * step.workers * format.block(), fp32).zero_();
  }

  at::Tensor numbers() const override { return numbers_.narrow(0, 0, count_); }
  void put(size_t factor, const at::Tensor& values) override {
    matrix_in(values_, factor).copy_(values);
  }

  Round start() override {
    own_ = take_chunks(step_.workers);
    own_.zero_();
    for (int worker = 0; worker < step_.workers; ++worker) {
      numbers_in(own_, worker).copy_(numbers_of(worker));
      format_.write(code_, values_of(values_, worker), records_in(own_, worker));
    }
    received_ = take_chunks(step_.workers);
    return {Collective::all_to_all, own_, received_};
  }

  at::Tensor sent(size_t factor) override {
    if (!own_is_rounded_) read_all(own_);
    own_is_rounded_ = true;
    return matrix_in(values_, factor).clone(at::MemoryFormat::Contiguous);
  }

  std::optional<Round> complete_round() override {
    if (gathered_.defined()) {
      read_all(gathered_);
      values_.mul_(step_.workers);
      for (int worker = 0; worker < step_.workers; ++worker) {
        numbers_of(worker).copy_(numbers_in(gathered_, worker));
      }
      return std::nullopt;
    }
    const at::Tensor means = take_chunks(1).zero_();
    lost_ = at::zeros_like(values_);
    std::vector<at::Tensor> contributions;
    for (int worker = 0; worker < step_.workers; ++worker) {
      numbers_in(means, 0).add_(numbers_in(received_, worker));
      contributions.push_back(records_in(received_, worker));
    }
    format_.average(code_, contributions, records_in(means, 0), values_of(lost_, step_.worker));
    gathered_ = take_chunks(step_.workers);
    return Round{Collective::all_gather, means, gathered_};
  }

  at::Tensor sum(size_t factor) override { return matrix_in(values_, factor).contiguous(); }

  int64_t padding_bytes() const override {
    return chunk_ * step_.workers - count_ * kFloatBytes - blocks_ * format_.record_bytes();
  }

 private:
  at::Tensor lost(size_t factor) override {
    const int64_t owned = step_.worker * slice_;
    const int64_t first = first_blocks_[factor];
    const int64_t end = first + format_.blocks(shapes_[factor]);
    if (end <= owned || first >= owned + slice_) return {};
    return matrix_in(lost_, factor);
  }

  at::Tensor take_chunks(int64_t count) const {
    return buffers_.take(count * chunk_, values_.options().dtype(at::kByte));
  }
  at::Tensor numbers_in(const at::Tensor& chunks, int worker) const {
    return chunks.narrow(0, worker * chunk_, number_slice_ * kFloatBytes).view(at::kFloat);
  }
  at::Tensor records_in(const at::Tensor& chunks, int worker) const {
    return chunks.narrow(0, worker * chunk_ + number_slice_ * kFloatBytes,
                         slice_ * format_.record_bytes());
  }
  at::Tensor numbers_of(int worker) const {
    return numbers_.narrow(0, worker * number_slice_, number_slice_);
  }
  at::Tensor values_of(const at::Tensor& values, int worker) const {
    const int64_t length = slice_ * format_.block();
    return values.narrow(0, worker * length, length);
  }
  // A factor in a vector of all blocks.
  at::Tensor matrix_in(const at::Tensor& values, size_t factor) const {
    const auto& [rows, rank] = shapes_[factor];
    const int64_t block = format_.block();
    const int64_t padded = divided_up(rows, block) * block;
    const at::Tensor numbers = values.narrow(0, first_blocks_[factor] * block, padded * rank);
    if (format_.is_bf16()) return numbers.view({rows, rank});
    return numbers.view({rank, padded}).narrow(1, 0, rows).t();
  }
  void read_all(const at::Tensor& chunks) {
    for (int worker = 0; worker < step_.workers; ++worker) {
      format_.read(code_, records_in(chunks, worker), values_of(values_, worker));
    }
  }

  BlockFormat format_;
  const QuantCode& code_;
  std::vector<FactorShape> shapes_;
  Step step_;
  BufferPool& buffers_;
  int64_t number_slice_;  // numbers that each worker adds up
  int64_t count_;         // of numbers
  int64_t blocks_ = 0;
  int64_t slice_ = 0;  // blocks that each worker averages
  int64_t chunk_ = 0;  // bytes
  std::vector<int64_t> first_blocks_;
  at::Tensor numbers_;
  at::Tensor values_;  // of all blocks: as put, then as sent, then the sums
  at::Tensor lost_;    // of all blocks, zero where others own them
  bool own_is_rounded_ = false;
  at::Tensor own_;       // this worker's chunks for all
  at::Tensor received_;  // all workers' chunks for this one
  at::Tensor gathered_;  // the chunks with the means
};

}  // namespace

FactorType factor_type(const OptionMap& options) {
  const auto& name = std::get<std::string>(options.at("dtype"));
  if (name == "bf16") return FactorType::bf16;
  if (name == "int8") return FactorType::int8;
  return name == "int4" ? FactorType::int4 : FactorType::fp32;
}

int64_t factor_bits(FactorType type) {
  constexpr int64_t kBits[] = {32, 16, 8, 4};
  return kBits[static_cast<size_t>(type)];
}

int64_t factor_bytes(FactorType type, int64_t rows, int64_t rank) {
  if (type == FactorType::fp32) return rows * rank * kFloatBytes;
  const BlockFormat format{type};
  return format.blocks({rows, rank}) * format.record_bytes();
}

at::Tensor FactorSum::arrived(size_t factor, const at::Tensor& sent) {
  const at::Tensor taken = lost(factor);
  if (!taken.defined()) return sent;
  return (sent.defined() ? sent - taken : -taken).contiguous();
}

std::unique_ptr<FactorSum> make_factor_sum(FactorType type, const std::vector<FactorShape>& factors,
                                           int64_t numbers, const at::TensorOptions& options,
                                           const Step& step, BufferPool& buffers) {
  if (type == FactorType::fp32) {
    return std::make_unique<WholeFactorSum>(factors, numbers, options, buffers);
  }
  return std::make_unique<SlicedFactorSum>(BlockFormat{type}, factors, numbers, options, step,
                                           buffers);
}

}  // namespace gradwire
