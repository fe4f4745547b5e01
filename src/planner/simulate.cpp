#include "planner/simulate.h"

#include <algorithm>
#include <limits>

#include "planner/bucket_cost.h"

namespace gradwire::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Shorter than anything modelled, longer than what rounding leaves of a finished piece of work.
constexpr double kInstant = 1e-13;

// Work that is under way while something of it remains.
struct Work {
  double left = 0;

  bool under_way() const { return left > 0; }
  double end(double speed) const { return under_way() ? left / speed : kNever; }
  // True if that finished it.
  bool advance(double seconds, double speed) {
    if (!under_way()) return false;
    left -= seconds * speed;
    if (left > kInstant) return false;
    left = 0;
    return true;
  }
};

// Collectives of one process group: one after the other, in bucket order.
struct Channel {
  Work latency;
  Work transfer;
  size_t launched = 0;  // buckets, counted in bucket order
  size_t current = 0;   // the bucket under way, or the next one to be
  bool busy = false;
};

class Iteration {
 public:
  Iteration(const Profile& profile, const Network& network, const MethodChoice& choice,
            int kind_of_step)
      : profile_(profile), network_(network) {
    costs_.reserve(profile.buckets.size());
    for (const Bucket& bucket : profile.buckets) {
      costs_.push_back(bucket_cost(profile, bucket, choice, network.workers, kind_of_step));
    }
  }

  Prediction run() {
    start_what_can_start();
    while (!is_over()) {
      advance(until_next_event());
      start_what_can_start();
    }
    return {now_, coding_seconds_, wire_seconds_};
  }

 private:
  size_t buckets() const { return costs_.size(); }
  bool is_over() const { return decoded_ == buckets() && !main_.under_way(); }

  // Backward up to a bucket and its encoding are one piece of work, as nothing can come between
  // them; the piece after the last bucket is what is left of backward.
  double backward_piece(size_t piece) const {
    const double begin = piece == 0 ? 0 : profile_.buckets[piece - 1].ready_seconds;
    if (piece == buckets()) return profile_.backward_seconds - begin;
    return profile_.buckets[piece].ready_seconds - begin + costs_[piece].rounds[0].compute_seconds;
  }

  // Starting may end at once, which may allow something else to start: hence the loop.
  void start_what_can_start() {
    for (bool changed = true; changed;) {
      changed = start_main();
      changed = start_between() || changed;
      for (size_t round = 0; round < kMostRounds; ++round) changed = start_round(round) || changed;
    }
  }

  // The worker's thread: forward, all pieces of backward, all decodings.
  bool start_main() {
    if (main_.under_way() || is_over()) return false;
    if (main_started_) finish_main();
    if (is_over()) return false;
    if (!is_forward_done_) {
      begin_main(profile_.forward_seconds);
    } else if (pieces_done_ <= buckets()) {
      begin_main(backward_piece(pieces_done_));
    } else if (is_complete(decoded_)) {
      coding_seconds_ += costs_[decoded_].decode_seconds;
      begin_main(costs_[decoded_].decode_seconds);
    } else {
      return false;
    }
    return !main_.under_way();
  }

  void begin_main(double seconds) {
    main_.left = seconds;
    main_started_ = true;
  }

  void finish_main() {
    main_started_ = false;
    if (!is_forward_done_) {
      is_forward_done_ = true;
    } else if (pieces_done_ <= buckets()) {
      if (pieces_done_ < buckets()) {
        coding_seconds_ += costs_[pieces_done_].rounds[0].compute_seconds;
        ++channels_[0].launched;
      }
      ++pieces_done_;
    } else {
      ++decoded_;
    }
  }

  bool is_complete(size_t bucket) const {
    return channels_[costs_[bucket].round_count - 1].current > bucket;
  }

  // The thread of the later rounds. Buckets without a second round pass it without work.
  bool start_between() {
    if (between_.under_way()) return false;
    Channel& second = channels_[1];
    if (between_started_) {
      between_started_ = false;
      ++second.launched;
      return true;
    }
    if (second.launched == buckets() || channels_[0].current <= second.launched) return false;
    const BucketCost& cost = costs_[second.launched];
    between_started_ = true;
    between_.left = cost.round_count > 1 ? cost.rounds[1].compute_seconds : 0;
    coding_seconds_ += between_.left;
    return true;
  }

  bool start_round(size_t round) {
    Channel& channel = channels_[round];
    if (channel.latency.under_way() || channel.transfer.under_way()) return false;
    if (channel.busy) {
      channel.busy = false;
      ++channel.current;
      return true;
    }
    if (channel.current >= channel.launched) return false;
    const BucketCost& cost = costs_[channel.current];
    channel.busy = true;
    if (round < cost.round_count) {
      const RoundCost& of_round = cost.rounds[round];
      const Transfer transfer = cost_of(of_round.collective, of_round.bytes, network_);
      channel.latency.left = transfer.latency;
      channel.transfer.left = transfer.seconds;
      wire_seconds_ += transfer.alone();
    }
    return true;
  }

  // Equal shares of the processor for those who compute, of the bandwidth for those who transfer.
  double processor_share() const {
    const bool both = main_.under_way() && between_.under_way();
    return both ? 1 / (1 + profile_.contention) : 1;
  }
  static bool is_transferring(const Channel& channel) {
    return !channel.latency.under_way() && channel.transfer.under_way();
  }
  double bandwidth_share() const {
    const auto count = std::ranges::count_if(channels_, is_transferring);
    return 1 / static_cast<double>(std::max<int64_t>(1, count));
  }

  double until_next_event() const {
    double next = std::min(main_.end(processor_share()), between_.end(processor_share()));
    for (const Channel& channel : channels_) {
      next = std::min(next, is_transferring(channel) ? channel.transfer.end(bandwidth_share())
                                                     : channel.latency.end(1));
    }
    return next;
  }

  void advance(double seconds) {
    const double processor = processor_share();
    const double bandwidth = bandwidth_share();
    now_ += seconds;
    main_.advance(seconds, processor);
    between_.advance(seconds, processor);
    for (Channel& channel : channels_) {
      Work& work = is_transferring(channel) ? channel.transfer : channel.latency;
      work.advance(seconds, is_transferring(channel) ? bandwidth : 1);
    }
  }

  const Profile& profile_;
  const Network& network_;
  std::vector<BucketCost> costs_;
  double now_ = 0;
  double coding_seconds_ = 0;
  double wire_seconds_ = 0;
  Work main_;
  bool main_started_ = false;
  bool is_forward_done_ = false;
  size_t pieces_done_ = 0;  // of backward; one more than buckets
  size_t decoded_ = 0;      // buckets
  Work between_;
  bool between_started_ = false;
  std::array<Channel, kMostRounds> channels_;
};

}  // namespace

Prediction simulate(const Profile& profile, const Network& network, const MethodChoice& choice) {
  const int kinds = choice.model->kinds_of_steps;
  Prediction mean;
  for (int kind = 0; kind < kinds; ++kind) {
    const Prediction of_kind = Iteration(profile, network, choice, kind).run();
    mean.seconds += of_kind.seconds / kinds;
    mean.coding_seconds += of_kind.coding_seconds / kinds;
    mean.wire_seconds += of_kind.wire_seconds / kinds;
  }
  return mean;
}

}  // namespace gradwire::planner
