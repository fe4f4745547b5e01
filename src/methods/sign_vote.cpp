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
// The bits of all parameters of the part form one stream, each parameter starting on a byte, cut
// into N slices of whole bytes. In round 1 a byte per parameter goes in front of every slice: this
// worker's *ballot*, whether it votes on the parameter, abstains because it did not use it, or
// spoils the vote because its gradient is not finite. So every worker learns all ballots in round 1
// and draws the same conclusions from them: a parameter without a vote results in 0, one with a
// spoilt vote in NaN.
//
// Sizes, with S the bytes of a slice and P the number of parameters: round 1 sends N (P + S) bytes,
// round 2 sends S.

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "methods/method.h"

namespace gradwire {
namespace {

enum Ballot : uint8_t { kVotes = 0, kAbstains = 1, kSpoils = 2 };

uint8_t* bytes_of(const at::Tensor& tensor) { return tensor.mutable_data_ptr<uint8_t>(); }

class SignVoteExchange final : public Exchange {
 public:
  SignVoteExchange(std::vector<Slot> slots, const Step& step, float scale, BufferPool& buffers)
      : step_(step), buffers_(buffers), scale_(scale * step.loss_scale) {
    for (Slot& slot : slots) {
      const int64_t length = (slot.memory.numel() + 7) / 8;
      parts_.push_back({std::move(slot), length_, length});
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
        part.code().sign.expand(bits, scale_, result);
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
    int64_t offset;  // in the stream
    int64_t length;

    const DeviceCode& code() const { return slot.state->code; }
  };

  int64_t count_of_parts() const { return static_cast<int64_t>(parts_.size()); }

  Ballot cast_ballot(const Part& part) const {
    const at::Tensor gradient = part.slot.load();
    const at::Tensor bits = stream_.narrow(0, part.offset, part.length);
    if (part.code().is_zero(gradient)) {
      bits.zero_();
      return kAbstains;
    }
    return part.code().sign.pack(gradient, bits) ? kVotes : kSpoils;
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
    if (!votes.empty()) parts_[part].code().sign.count(votes, outcome);
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
    return std::make_unique<ParameterState>(parameter.tensor.device());
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
