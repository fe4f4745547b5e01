#include "auto/probe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <string>

#include "comm/collectives.h"
#include "methods/device_code.h"
#include "planner/link_fit.h"
#include "planner/quantile.h"

namespace gradwire {
namespace {

using planner::Timing;

constexpr int64_t kSmallestBytes = 1024;
constexpr int64_t kLargestBytes = int64_t{64} << 20;  // sent or received by a worker
constexpr int64_t kGrowth = 4;
constexpr size_t kFewestSizes = 5;
constexpr int kWarmUps = 100;
constexpr double kPartPerSize = 0.05;  // of the time for a collective

Collective launched_as(planner::Collective collective) {
  switch (collective) {
    case planner::Collective::all_reduce:
      return Collective::all_reduce_sum;
    case planner::Collective::all_gather:
      return Collective::all_gather;
    case planner::Collective::all_to_all:
      return Collective::all_to_all;
  }
  throw std::logic_error("not a collective");
}

void sum_over_workers(c10d::ProcessGroup& group, const at::Tensor& values) {
  std::vector<at::Tensor> tensors = {values};
  group.allreduce(tensors)->wait();
}

class CollectiveProbe {
 public:
  CollectiveProbe(c10d::ProcessGroup& group, Collective collective, const ProbeOptions& options)
      : group_(group),
        collective_(collective),
        seconds_per_size_(kPartPerSize * options.seconds_per_collective),
        seconds_left_(options.seconds_per_collective),
        device_(options.device) {}

  // From small to large, as long as there is time. Whatever decides about going on is common to all
  // workers.
  std::vector<Timing> run() {
    std::vector<Timing> timings;
    const int64_t largest =
        collective_ == Collective::all_gather ? kLargestBytes / group_.getSize() : kLargestBytes;
    double expected = 0;
    for (int64_t bytes = kSmallestBytes;
         timings.size() < kFewestSizes ||
         (bytes <= largest && kFewestRepetitions * expected < seconds_left_);
         bytes *= kGrowth) {
      timings.push_back(at_size(bytes));
      expected = kGrowth * planner::median(timings.back().seconds);
    }
    return timings;
  }

 private:
  static constexpr double kFewestRepetitions = 5;
  static constexpr double kMostRepetitions = 50;

  // One to warm up, which tells how many more there is time for.
  Timing at_size(int64_t bytes) {
    const Round round = round_of(bytes);
    const double once = mean_seconds(round, 1).front();
    const double repetitions =
        std::clamp(std::floor(seconds_per_size_ / once), kFewestRepetitions, kMostRepetitions);
    Timing timing{static_cast<double>(wire_bytes(round.send)),
                  mean_seconds(round, static_cast<int64_t>(repetitions))};
    seconds_left_ -= once;
    for (const double seconds : timing.seconds) seconds_left_ -= seconds;
    return timing;
  }

  // In equal parts for all workers.
  Round round_of(int64_t bytes) const {
    const int64_t workers = group_.getSize();
    const int64_t part = std::max<int64_t>(1, bytes / workers / int64_t{sizeof(float)});
    const at::Tensor send = at::zeros({part * workers}, device_);
    switch (collective_) {
      case Collective::all_reduce_sum:
        return {collective_, send, send};
      case Collective::all_gather:
        return {collective_, send, at::zeros({part * workers * workers}, device_)};
      case Collective::all_to_all:
        return {collective_, send, at::zeros({part * workers}, device_)};
    }
    throw std::logic_error("not a collective");
  }

  // Of every repetition, the mean over the workers: they do not begin at quite the same time.
  std::vector<double> mean_seconds(const Round& round, int64_t repetitions) const {
    using Clock = std::chrono::steady_clock;
    at::Tensor seconds = at::empty({repetitions}, at::kDouble);
    const at::Tensor gate = at::zeros({1}, device_);
    for (int64_t i = 0; i < repetitions; ++i) {
      sum_over_workers(group_, gate);
      const Clock::time_point begin = Clock::now();
      start(group_, round)->wait();
      if (!is_host(device_)) round.receive[0].item<float>();  // wait() is for the stream only
      seconds.data_ptr<double>()[i] = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    seconds = seconds.to(device_);
    sum_over_workers(group_, seconds);
    seconds = seconds.cpu().div_(group_.getSize());
    return {seconds.data_ptr<double>(), seconds.data_ptr<double>() + repetitions};
  }

  c10d::ProcessGroup& group_;
  Collective collective_;
  double seconds_per_size_;
  double seconds_left_;
  at::Device device_;
};

}  // namespace

planner::MeasuredLink probe(c10d::ProcessGroup& group, const ProbeOptions& options) {
  const at::NoGradGuard no_grad;
  if (group.getSize() < 2) {
    throw std::invalid_argument("[probe] a network has at least 2 workers; got " +
                                std::to_string(group.getSize()));
  }
  // The first collectives of a process meet cold caches and workers that are still starting.
  for (int i = 0; i < kWarmUps; ++i) sum_over_workers(group, at::zeros({1}, options.device));
  planner::MeasuredLink measured{.workers = group.getSize(), .fits = {}};
  for (size_t i = 0; i < planner::kCollectives; ++i) {
    const auto collective = static_cast<planner::Collective>(i);
    const std::vector<Timing> timings =
        CollectiveProbe(group, launched_as(collective), options).run();
    measured.fits[i] = planner::fit_collective(collective, group.getSize(), timings);
  }
  return measured;
}

}  // namespace gradwire
