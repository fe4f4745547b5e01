// Sign-SGD by majority vote (mode "vote"): the result is the sign that most workers' gradients
// have, times vote_scale and the loss scale, which will be divided out. A tie counts as +1. No
// residual.
//
//   round 1, all-to-all:  each worker sends every worker that one's slice of the sign bits
//   round 2, all-gather:  each worker counts the votes on its slice and sends the outcome to all
//
// so that a worker sends two bits per element whatever the number of workers, where gathering all
// votes would cost one per element and worker.
//
// The bits of all parameters of the bucket form one stream, each parameter starting on a byte, cut
// into N slices of whole bytes. In round 1 a byte per parameter goes in front of every slice: this
// worker's *ballot*, whether it votes on the parameter, abstains because it did not use it, or
// spoils the vote because its gradient is not finite. So every worker learns all ballots in round 1
// and draws the same conclusions from them: a parameter without a vote results in 0, one with a
// spoilt vote in NaN.
//
// Sizes, with S the bytes of a slice and P the number of parameters: round 1 sends N (P + S) bytes,
// round 2 sends S.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "kernels/sign.h"
#include "kernels/vote.h"
#include "methods/overhead.h"
#include "methods/sign.h"
#include "methods/stateless.h"
#include "methods/zero_gradient.h"

namespace gradwire {
namespace {

enum Ballot : uint8_t { kVotes = 0, kAbstains = 1, kSpoils = 2 };

constexpr int64_t kPieceBytes = kSignPiece / 8;

uint8_t* bytes_of(const at::Tensor& tensor) { return tensor.mutable_data_ptr<uint8_t>(); }

// Writes the signs of the gradient; false if it is not finite.
bool pack_by_kernel(const at::Tensor& gradient, const at::Tensor& bits) {
  const auto* values = gradient.const_data_ptr<float>();
  uint8_t* to = bytes_of(bits);
  const int64_t elements = gradient.numel();
  std::atomic<bool> finite = true;
  at::parallel_for(0, bits.numel(), kPieceBytes, [&](int64_t begin, int64_t end) {
    const int64_t count = std::min(8 * end, elements) - 8 * begin;
    if (!kernels::pack_signs({values + 8 * begin, static_cast<size_t>(count)},
                             {to + begin, static_cast<size_t>(end - begin)})) {
      finite = false;
    }
  });
  return finite;
}

bool pack_by_aten(const at::Tensor& gradient, const at::Tensor& bits) {
  bits.copy_(pack_bits(gradient >= 0));
  return at::isfinite(gradient).all().item<bool>();
}

// The majority of the voters' bits.
void count_by_kernel(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) {
  at::parallel_for(0, outcome.numel(), kPieceBytes, [&](int64_t begin, int64_t end) {
    std::vector<const uint8_t*> ranges;
    ranges.reserve(voters.size());
    for (const at::Tensor& voter : voters) ranges.push_back(bytes_of(voter) + begin);
    kernels::majority(ranges, {bytes_of(outcome) + begin, static_cast<size_t>(end - begin)});
  });
}

void count_by_aten(const std::vector<at::Tensor>& voters, const at::Tensor& outcome) {
  const int64_t elements = 8 * outcome.numel();
  at::Tensor votes = at::zeros({elements}, outcome.options().dtype(at::kInt));
  for (const at::Tensor& voter : voters) votes += unpack_bits(voter, elements);
  outcome.copy_(pack_bits(2 * votes >= static_cast<int64_t>(voters.size())));
}

void expand_by_kernel(const at::Tensor& bits, float scale, const at::Tensor& result) {
  auto* values = result.mutable_data_ptr<float>();
  const int64_t elements = result.numel();
  at::parallel_for(0, bits.numel(), kPieceBytes, [&](int64_t begin, int64_t end) {
    const int64_t count = std::min(8 * end, elements) - 8 * begin;
    kernels::expand_signs({bytes_of(bits) + begin, static_cast<size_t>(end - begin)}, scale,
                          {values + 8 * begin, static_cast<size_t>(count)});
  });
}

void expand_by_aten(const at::Tensor& bits, float scale, const at::Tensor& result) {
  result.view(-1).copy_(signed_scale(unpack_bits(bits, result.numel()), scale));
}

class SignVoteExchange final : public Exchange {
 public:
  SignVoteExchange(std::vector<Slot> slots, const Step& step, float scale, BufferPool& buffers)
      : step_(step), buffers_(buffers), scale_(scale * step.loss_scale) {
    for (Slot& slot : slots) {
      const bool kernels = static_cast<StatelessParameter*>(slot.state)->kernels;
      const auto length = static_cast<int64_t>(kernels::sign_bytes(slot.memory.numel()));
      parts_.push_back({std::move(slot), kernels, length_, length});
      length_ += length;
    }
    slice_ = (length_ + step.workers - 1) / step.workers;
  }

  Round start() override {
    const at::TensorOptions options = parts_.front().slot.memory.options().dtype(at::kByte);
    stream_ = buffers_.take(step_.workers * slice_, options);
    stream_.narrow(0, length_, stream_.numel() - length_).zero_();
    at::Tensor ballot = at::empty({count_of_parts()}, at::kByte);
    for (size_t i = 0; i < parts_.size(); ++i) bytes_of(ballot)[i] = cast_ballot(parts_[i]);
    const int64_t row = count_of_parts() + slice_;
    at::Tensor send = buffers_.take(step_.workers * row, options).view({step_.workers, row});
    at::cat_out(send,
                {ballot.to(options.device()).expand({step_.workers, count_of_parts()}),
                 stream_.view({step_.workers, slice_})},
                1);
    received_ = buffers_.take(step_.workers * row, options).view({step_.workers, row});
    return {Collective::all_to_all, send.view(-1), received_.view(-1)};
  }

  std::optional<Round> complete_round() override {
    if (ballots_.defined()) return std::nullopt;
    ballots_ = received_.narrow(1, 0, count_of_parts()).cpu().contiguous();
    const at::Tensor outcome = at::zeros({slice_}, received_.options());
    const int64_t mine = step_.worker * slice_;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const int64_t begin = std::max(parts_[i].offset, mine);
      const int64_t end = std::min(parts_[i].offset + parts_[i].length, mine + slice_);
      if (begin < end) count_votes(i, begin - mine, outcome.narrow(0, begin - mine, end - begin));
    }
    return Round{Collective::all_gather, outcome, stream_};
  }

  void finish() override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      const at::Tensor result = part.slot.result();
      const at::Tensor bits = stream_.narrow(0, part.offset, part.length);
      if (is_spoilt(i)) {
        result.fill_(std::numeric_limits<float>::quiet_NaN());
      } else if (voters_on(i).empty()) {
        result.zero_();
      } else {
        part.kernels ? expand_by_kernel(bits, scale_, result)
                     : expand_by_aten(bits, scale_, result);
      }
      part.slot.store(result);
    }
  }

  std::vector<int64_t> payload_bytes() const override {
    std::vector<int64_t> bytes;
    for (const Part& part : parts_) bytes.push_back(step_.workers + part.length);
    share_overhead(step_.workers * slice_ - length_, bytes);
    return bytes;
  }

 private:
  struct Part {
    Slot slot;
    bool kernels;
    int64_t offset;  // in the stream
    int64_t length;
  };

  int64_t count_of_parts() const { return static_cast<int64_t>(parts_.size()); }

  Ballot cast_ballot(const Part& part) const {
    const at::Tensor gradient = part.slot.load();
    const at::Tensor bits = stream_.narrow(0, part.offset, part.length);
    if (is_zero(gradient)) {
      bits.zero_();
      return kAbstains;
    }
    const bool finite =
        part.kernels ? pack_by_kernel(gradient, bits) : pack_by_aten(gradient, bits);
    return finite ? kVotes : kSpoils;
  }

  Ballot ballot(int worker, size_t part) const {
    return static_cast<Ballot>(bytes_of(ballots_)[worker * parts_.size() + part]);
  }

  bool is_spoilt(size_t part) const {
    for (int worker = 0; worker < step_.workers; ++worker) {
      if (ballot(worker, part) == kSpoils) return true;
    }
    return false;
  }

  std::vector<int> voters_on(size_t part) const {
    std::vector<int> voters;
    for (int worker = 0; worker < step_.workers; ++worker) {
      if (ballot(worker, part) == kVotes) voters.push_back(worker);
    }
    return voters;
  }

  // `first` is where the range begins in this worker's slice.
  void count_votes(size_t part, int64_t first, const at::Tensor& outcome) const {
    std::vector<at::Tensor> votes;
    for (const int worker : voters_on(part)) {
      votes.push_back(received_[worker].narrow(0, count_of_parts() + first, outcome.numel()));
    }
    if (votes.empty()) return;
    parts_[part].kernels ? count_by_kernel(votes, outcome) : count_by_aten(votes, outcome);
  }

  Step step_;
  BufferPool& buffers_;
  float scale_;
  std::vector<Part> parts_;
  int64_t length_ = 0;   // bytes of the stream
  int64_t slice_ = 0;    // bytes of a slice
  at::Tensor stream_;    // this worker's signs, then the outcome
  at::Tensor received_;  // from every worker: its ballot, its signs of this worker's slice
  at::Tensor ballots_;   // on the host, workers x parameters
};

class SignVote final : public Method {
 public:
  explicit SignVote(float scale) : scale_(scale) {}

  std::unique_ptr<ParameterState> make_state(const Parameter& parameter,
                                             const OptionMap& /*options*/) const override {
    return std::make_unique<StatelessParameter>(parameter.tensor);
  }
  int rounds() const override { return 2; }
  bool averages() const override { return false; }
  std::unique_ptr<Exchange> begin(std::vector<Slot> slots, const Step& step) override {
    return std::make_unique<SignVoteExchange>(std::move(slots), step, scale_, buffers_);
  }

 private:
  float scale_;
};

}  // namespace

std::unique_ptr<Method> make_sign_vote(float scale) { return std::make_unique<SignVote>(scale); }

}  // namespace gradwire
