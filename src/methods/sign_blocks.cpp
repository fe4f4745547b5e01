// Sign-SGD with error feedback and a scale per block (mode "ef", block > 0):
//
//   G = g + E ;  send the signs of G and, for every block, a scale in bf16, the mean of |G| in it
//   result = mean over workers of scale · sign ;  E = G − scale · sign(G)    with the own scales
//
// One round, an all-gather of the records of all workers (block_payload.h). A block is in the cache
// when its scale is known, so E is complete at once, unlike in sign_feedback.cpp.

#include <ATen/ATen.h>

#include <algorithm>

#include "methods/block_payload.h"

namespace gradwire {
namespace {

class SignBlocksExchange final : public Exchange {
 public:
  SignBlocksExchange(const std::vector<Slot>& slots, const Step& step, const QuantFormat& format,
                     BufferPool& buffers)
      : payload_(slots, format, buffers), format_(format), workers_(step.workers) {}

  Round start() override {
    sent_ = payload_.take(payload_.blocks());
    payload_.encode(sent_);
    gathered_ = payload_.take(payload_.blocks() * workers_);
    return {Collective::all_gather, sent_, gathered_};
  }

  void finish() override {
    for (BlockPart& part : payload_.parts()) {
      std::vector<at::Tensor> contributions;
      for (int64_t worker = 0; worker < workers_; ++worker) {
        const int64_t first = worker * payload_.blocks() + part.first_block;
        contributions.push_back(payload_.records(gathered_, first, part.blocks));
      }
      part.finite = std::ranges::all_of(contributions, [&](const at::Tensor& records) {
        return part.code().all_finite(format_, records);
      });
      if (!part.finite) payload_.roll_back(part, sent_);
      payload_.decode(part, contributions, 1.0F / static_cast<float>(workers_));
    }
  }

  std::vector<int64_t> payload_bytes() const override { return payload_.bytes(); }

 private:
  BlockPayload payload_;
  QuantFormat format_;
  int64_t workers_;
  at::Tensor sent_;
  at::Tensor gathered_;
};

class SignBlocks final : public Method {
 public:
  explicit SignBlocks(int64_t block) : format_{1, static_cast<size_t>(block)} {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& options) const override {
    return std::make_unique<BlockState>(parameter.tensor,
                                        std::get<bool>(options.at("error_feedback")));
  }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<SignBlocksExchange>(slots, step, format_, buffers_);
  }

 private:
  QuantFormat format_;
};

}  // namespace

std::unique_ptr<Method> make_sign_blocks(int64_t block) {
  return std::make_unique<SignBlocks>(block);
}

}  // namespace gradwire
