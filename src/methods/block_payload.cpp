#include "methods/block_payload.h"

#include <limits>

namespace gradwire {

BlockState::BlockState(const at::Tensor& parameter, bool error_feedback)
    : ParameterState(parameter.device()), error_(zero_residual(parameter, error_feedback)) {}

OptionSpec block_option(int64_t default_block, const std::string& zero_means) {
  const auto most = static_cast<int64_t>(kernels::kLargestQuantBlock);
  return {"block", default_block,
          "a multiple of 8 up to " + std::to_string(most) + "; 0: " + zero_means,
          [most](const OptionValue& value) {
            const auto* block = std::get_if<int64_t>(&value);
            return block != nullptr && *block >= 0 && *block <= most && *block % 8 == 0;
          }};
}

std::vector<StateTensor> BlockState::tensors() {
  if (!error_.defined()) return {};
  return {{"residual", StateTensor::Role::residual, error_}};
}

at::Tensor BlockState::error_at(int64_t first, int64_t elements) const {
  return error_.defined() ? error_.view(-1).narrow(0, first, elements) : at::Tensor();
}

BlockPayload::BlockPayload(const std::vector<Slot>& slots, const QuantFormat& format,
                           BufferPool& buffers)
    : format_(format), buffers_(buffers) {
  int64_t blocks = 0;
  for (const Slot& slot : slots) {
    const auto own = static_cast<int64_t>(format.blocks(slot.memory.numel()));
    parts_.push_back({slot, static_cast<BlockState*>(slot.state), blocks, own});
    blocks += own;
  }
}

std::vector<int64_t> BlockPayload::bytes() const {
  std::vector<int64_t> bytes;
  for (const BlockPart& part : parts_) bytes.push_back(part.blocks * record_bytes());
  return bytes;
}

at::Tensor BlockPayload::take(int64_t blocks) const {
  return buffers_.take(blocks * record_bytes(),
                       parts_.front().slot.memory.options().dtype(at::kByte));
}

void BlockPayload::encode(const at::Tensor& payload) {
  for (BlockPart& part : parts_) encode(part, records(payload, part));
}

void BlockPayload::encode(BlockPart& part, const at::Tensor& records) const {
  const at::Tensor gradient = part.gradient();
  if (part.state->code.is_zero(gradient)) {
    records.zero_();
    return;
  }
  records.narrow(0, records.numel() - record_bytes(), record_bytes()).zero_();  // may be short
  const at::Tensor error = part.error();
  part.encoded = part.code().quantise(format_, gradient, error, records);
  if (part.encoded) return;
  if (error.defined()) part.code().roll_back_quantised(format_, gradient, records, error);
  part.code().mark_not_finite(format_, records);
}

void BlockPayload::roll_back(const BlockPart& part, const at::Tensor& payload) const {
  const at::Tensor error = part.error();
  if (!part.encoded || !error.defined()) return;
  part.code().roll_back_quantised(format_, part.gradient(), records(payload, part), error);
}

void BlockPayload::decode(const BlockPart& part, const std::vector<at::Tensor>& contributions,
                          float factor) const {
  const at::Tensor result = part.slot.result();
  if (part.finite) {
    part.code().sum(format_, contributions, factor, result.view(-1));
  } else {
    result.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  part.slot.store(result);
}

}  // namespace gradwire
