#include "methods/gathered.h"

#include <algorithm>
#include <atomic>
#include <limits>

namespace gradwire {
namespace {

std::atomic<size_t> forced_capacity = 0;

constexpr size_t capacity_step = 64;

size_t round_up(size_t bytes) {
  return (bytes + capacity_step - 1) / capacity_step * capacity_step;
}

std::byte* bytes_of(const at::Tensor& tensor) {
  return reinterpret_cast<std::byte*>(tensor.mutable_data_ptr<uint8_t>());
}

class GatheredExchange final : public Exchange {
 public:
  GatheredExchange(const GatheredFormat& format, std::vector<Slot> slots, const Step& step,
                   BufferPool& buffers)
      : format_(format),
        step_(step),
        buffers_(buffers),
        slots_(std::move(slots)),
        device_(slots_.front().memory.device()) {}

  Round start() override {
    choose_capacity();
    encode();
    return gather(0, capacity_);
  }

  std::optional<Round> complete_round() override {
    if (overflow_ == 0) {
      arrived_ = received_.to(at::kCPU);
      const size_t largest = largest_needed();
      if (largest > capacity_) {
        overflow_ = largest - capacity_;
        expect(largest);
        return gather(capacity_, overflow_);
      }
    } else {
      append_overflow();
    }
    open_payloads();
    if (overflow_ == 0) expect_the_same_again();
    return std::nullopt;
  }

  void finish() override {
    for (size_t i = 0; i < slots_.size(); ++i) decode(i);
  }

  // The capacity and the overflow, shared out in proportion to the records: what the header and the
  // padding add is borne by all.
  std::vector<int64_t> payload_bytes() const override {
    const auto sent = static_cast<double>(capacity_ + overflow_);
    const auto encoded = static_cast<double>(record_ends_.back() - wire::kHeaderBytes);
    std::vector<int64_t> bytes;
    int64_t counted = 0;
    for (const size_t end : record_ends_) {
      const double part = static_cast<double>(end - wire::kHeaderBytes) / encoded;
      bytes.push_back(static_cast<int64_t>(sent * part) - counted);
      counted += bytes.back();
    }
    return bytes;
  }

 private:
  GatheredState& state(size_t slot) const {
    return static_cast<GatheredState&>(*slots_[slot].state);
  }
  size_t workers() const { return static_cast<size_t>(step_.workers); }

  at::Tensor take_bytes(size_t bytes, at::Device device) {
    return buffers_.take(static_cast<int64_t>(bytes), at::TensorOptions(at::kByte).device(device));
  }

  void choose_capacity() {
    size_t expected = wire::kHeaderBytes;
    bound_ = wire::kHeaderBytes;
    for (size_t i = 0; i < slots_.size(); ++i) {
      expected += state(i).expected_bytes;
      bound_ += state(i).bound();
    }
    capacity_ = expected + expected / format_.slack_divisor + capacity_step;
    if (forced_capacity != 0) capacity_ = std::max<size_t>(forced_capacity, wire::kHeaderBytes);
    capacity_ = round_up(std::min(capacity_, bound_));
  }

  void encode() {
    // Mostly address space: only what is needed of it is ever touched.
    payload_ = take_bytes(round_up(bound_), at::kCPU);
    wire::PayloadWriter writer({bytes_of(payload_), bound_}, format_.method, format_.values);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const at::Tensor gradient = slots_[i].load().view(-1);
      if (state(i).code.is_zero(gradient)) {
        writer.abstain();
      } else {
        state(i).encode(gradient, writer);
      }
      record_ends_.push_back(writer.size());
    }
    needed_ = writer.finish(1);
  }

  // The round in which everyone sends this part of the payload, zeros where it has ended.
  Round gather(size_t begin, size_t length) {
    const size_t content_end = std::clamp(needed_, begin, begin + length);
    std::fill(bytes_of(payload_) + content_end, bytes_of(payload_) + begin + length, std::byte{0});
    const at::Tensor part =
        payload_.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(length));
    received_ = take_bytes(workers() * length, device_);
    return {Collective::all_gather, part.to(device_), received_};
  }

  std::span<const std::byte> arrived_from(size_t worker) const {
    const size_t each = static_cast<size_t>(arrived_.numel()) / workers();
    return {bytes_of(arrived_) + worker * each, each};
  }

  size_t largest_needed() const {
    uint64_t largest = 0;
    for (size_t worker = 0; worker < workers(); ++worker) {
      largest = std::max(largest, wire::read_header(arrived_from(worker)).needed);
    }
    if (largest > bound_) {
      throw wire::WireError("needed size", 8, "at most " + std::to_string(bound_),
                            std::to_string(largest));
    }
    return static_cast<size_t>(largest);
  }

  void append_overflow() {
    const int64_t rows = step_.workers;
    arrived_ = at::cat({arrived_.view({rows, -1}), received_.to(at::kCPU).view({rows, -1})}, 1);
  }

  // Reads all records' outlines.
  void open_payloads() {
    records_.resize(slots_.size() * workers());
    record_bytes_.assign(slots_.size(), 0);
    for (size_t worker = 0; worker < workers(); ++worker) {
      wire::PayloadReader reader(arrived_from(worker), format_.method,
                                 static_cast<uint32_t>(slots_.size()), format_.values);
      for (size_t i = 0; i < slots_.size(); ++i) {
        const size_t begin = reader.offset();
        wire::SparseRecord record = state(i).read(reader);
        if (record.contribution == wire::Contribution::present) {
          record_bytes_[i] = std::max(record_bytes_[i], reader.offset() - begin);
        }
        records_[i * workers() + worker] = record;
      }
      reader.finish();
    }
  }

  // A step in which nobody sent anything says nothing about the next.
  void expect_the_same_again() {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (record_bytes_[i] > 0) state(i).expected_bytes = record_bytes_[i];
    }
  }

  // After an overflow: what was expected is raised to this many bytes in all.
  void expect(size_t bytes) {
    size_t expected = 0;
    for (size_t i = 0; i < slots_.size(); ++i) expected += state(i).expected_bytes;
    for (size_t i = 0; i < slots_.size(); ++i) {
      state(i).expected_bytes = state(i).expected_bytes * bytes / expected + 1;
    }
  }

  void decode(size_t i) {
    const std::span<const wire::SparseRecord> all =
        std::span(records_).subspan(i * workers(), workers());
    const wire::SparseRecord& own = all[static_cast<size_t>(step_.worker)];
    std::vector<wire::SparseRecord> present;
    bool finite = true;
    for (const wire::SparseRecord& record : all) {
      finite = finite && record.contribution != wire::Contribution::non_finite;
      if (record.contribution == wire::Contribution::present) present.push_back(record);
    }
    // The slot still holds this worker's gradient.
    if (!finite && own.contribution == wire::Contribution::present &&
        state(i).residual().defined()) {
      state(i).roll_back(own, slots_[i].load().view(-1));
    }
    const at::Tensor result = slots_[i].result();
    const at::Tensor flat = result.view(-1);
    if (finite) {
      state(i).code.gathered.sum(present, 1.0F / static_cast<float>(step_.workers), flat);
    } else {
      flat.fill_(std::numeric_limits<float>::quiet_NaN());
    }
    slots_[i].store(result);
  }

  GatheredFormat format_;
  Step step_;
  BufferPool& buffers_;
  std::vector<Slot> slots_;
  at::Device device_;
  size_t bound_ = 0;
  size_t capacity_ = 0;
  size_t overflow_ = 0;
  size_t needed_ = 0;  // of this worker's payload
  std::vector<size_t> record_ends_;
  at::Tensor payload_;   // this worker's, on the host
  at::Tensor received_;  // by the latest round, on the parameters' device
  at::Tensor arrived_;   // all payloads so far, one after the other, on the host
  std::vector<wire::SparseRecord> records_;  // [slot * workers + worker]
  std::vector<size_t> record_bytes_;         // the largest of every slot
};

bool is_accepted(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  // Positions are numbers of 32 bits.
  return known && tensor.numel() > 0 && tensor.numel() <= std::numeric_limits<int32_t>::max();
}

}  // namespace

GatheredState::GatheredState(const Parameter& parameter, const wire::PositionsShape& shape,
                             bool error_feedback)
    : ParameterState(parameter.tensor.device()),
      shape_(shape),
      residual_(zero_residual(parameter.tensor, error_feedback)) {
  if (error_feedback) error_ = residual_.view(-1);
}

std::vector<StateTensor> GatheredState::tensors() {
  if (!residual_.defined()) return {};
  return {{"residual", StateTensor::Role::residual, residual_}};
}

void GatheredState::roll_back(const wire::SparseRecord& own, const at::Tensor& gradient) {
  code.gathered.add(own, 1, error_);
  code.roll_back(gradient, error_);
}

std::unique_ptr<ParameterState> GatheredMethod::make_state(const Parameter& parameter,
                                                           const OptionMap& options) const {
  if (!is_accepted(parameter.tensor)) return nullptr;
  return make_state_(parameter, options);
}

std::unique_ptr<Exchange> GatheredMethod::begin(std::vector<Slot> slots, const Step& step) {
  return std::make_unique<GatheredExchange>(format_, std::move(slots), step, buffers_);
}

ForceCapacity::ForceCapacity(size_t bytes) { forced_capacity = bytes; }
ForceCapacity::~ForceCapacity() { forced_capacity = 0; }

}  // namespace gradwire
