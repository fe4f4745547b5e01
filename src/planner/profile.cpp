#include "planner/profile.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace gradwire::planner {
namespace {

void require(bool condition, const std::string& otherwise) {
  if (!condition) throw std::invalid_argument("[profile] " + otherwise);
}

constexpr size_t kMostParameters = 1'000'000;
constexpr double kMostElements = 1e13;  // of all parameters together

bool is_time(double seconds) { return seconds >= 0 && seconds <= kMostSeconds; }

void check_rate(const std::string& method, const CodingRate& rate) {
  for (const double value :
       {rate.encode, rate.between, rate.decode, rate.decode_payload, rate.per_parameter}) {
    require(value >= 0, "rates of " + method + " must not be negative");
    require(value <= kMostSeconds, "rates of " + method + " must be at most 1e6");
  }
}

void check_measured(const Profile& profile) {
  if (!profile.measured) return;
  require(profile.measured->workers >= 1, "measured.workers must be at least 1");
  const MethodChoice& choice = profile.measured->choice;
  for (const ModelOption& option : choice.model->options) {
    option.check(choice.options, "[profile] measured.");
  }
  for (const Bucket& bucket : profile.buckets) {
    const CodingSeconds& seconds = bucket.measured;
    require(is_time(seconds.encode) && is_time(seconds.between) && is_time(seconds.decode),
            "the encode_seconds, between_seconds and decode_seconds of buckets must not be "
            "negative nor exceed 1e6");
    require(bucket.gathered_bytes >= 0, "the gathered_bytes of buckets must not be negative");
    require(bucket.gathered_bytes <= kMostElements,
            "the gathered_bytes of buckets must be at most 1e13");
  }
}

void check_buckets(const Profile& profile) {
  std::vector<int> times_bucketed(profile.parameters.size(), 0);
  double previous = 0;
  for (size_t i = 0; i < profile.buckets.size(); ++i) {
    const Bucket& bucket = profile.buckets[i];
    const std::string name = "buckets[" + std::to_string(i) + "]";
    require(!bucket.parameters.empty(), name + ".parameters is empty");
    require(bucket.ready_seconds >= previous && bucket.ready_seconds <= profile.backward_seconds,
            name +
                ".ready_seconds must not fall from bucket to bucket nor exceed"
                " backward_seconds");
    previous = bucket.ready_seconds;
    for (const size_t parameter : bucket.parameters) {
      require(parameter < profile.parameters.size(),
              name + ".parameters has the index " + std::to_string(parameter) + ", but there are " +
                  std::to_string(profile.parameters.size()) + " parameters");
      ++times_bucketed[parameter];
    }
  }
  for (size_t i = 0; i < times_bucketed.size(); ++i) {
    require(times_bucketed[i] == 1, "parameter \"" + profile.parameters[i].name + "\" is in " +
                                        std::to_string(times_bucketed[i]) +
                                        " buckets instead of one");
  }
}

}  // namespace

int64_t ParameterShape::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::string_view ParameterShape::kind() const {
  return shape.size() >= 3 ? "conv" : shape.size() == 2 ? "dense" : "other";
}

double Profile::gradient_bytes() const {
  return std::transform_reduce(parameters.begin(), parameters.end(), 0.0, std::plus<>(),
                               [](const ParameterShape& parameter) { return parameter.bytes(); });
}

void Profile::check() const {
  require(device.empty() || device == "cpu" || device == "gpu",
          "device must be cpu or gpu, not \"" + device + "\"");
  require(forward_seconds >= 0, "forward_seconds must not be negative");
  require(backward_seconds >= 0, "backward_seconds must not be negative");
  require(compute_seconds() > 0, "forward_seconds and backward_seconds are both 0");
  require(is_time(forward_seconds) && is_time(backward_seconds),
          "forward_seconds and backward_seconds must be at most 1e6");
  require(flops_per_second >= 1, "flops_per_second must be at least 1");
  require(contention >= 0 && contention <= 1, "contention must be between 0 and 1");
  planner::check(parameters, "profile");
  for (const auto& [method, rate] : rates) check_rate(method, rate);
  check_buckets(*this);
  check_measured(*this);
}

void Profile::scale_compute_to(double seconds) {
  const double factor = seconds / compute_seconds();
  forward_seconds *= factor;
  backward_seconds *= factor;
  for (Bucket& bucket : buckets) {
    bucket.ready_seconds = std::min(factor * bucket.ready_seconds, backward_seconds);
  }
}

void check(const std::vector<ParameterShape>& parameters, const std::string& subject) {
  const auto require = [&](bool condition, const std::string& otherwise) {
    if (!condition) throw std::invalid_argument("[" + subject + "] " + otherwise);
  };
  require(!parameters.empty(), "parameters is empty");
  require(parameters.size() <= kMostParameters, "there are more than 1,000,000 parameters");
  double elements = 0;
  for (const ParameterShape& parameter : parameters) {
    double own = 1;  // as a double, so that it does not overflow
    for (const int64_t size : parameter.shape) {
      require(size > 0,
              "parameter \"" + parameter.name + "\": its shape must have positive sizes only");
      own *= static_cast<double>(size);
    }
    elements += own;
    require(elements <= kMostElements,
            "parameter \"" + parameter.name + "\": there are more than 1e13 elements up to it");
  }
}

std::vector<Bucket> ddp_buckets(const std::vector<ParameterShape>& parameters,
                                const std::vector<double>& ready_seconds) {
  std::vector<size_t> order(parameters.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ready_seconds[i]; });
  std::vector<Bucket> buckets;
  double open_bytes = 0;  // of the last bucket; 0: none is open
  for (const size_t i : order) {
    if (open_bytes == 0) buckets.emplace_back();
    buckets.back().parameters.push_back(i);
    buckets.back().ready_seconds = ready_seconds[i];
    open_bytes += parameters[i].bytes();
    if (open_bytes >= (buckets.size() == 1 ? kFirstBucketBytes : kBucketBytes)) open_bytes = 0;
  }
  return buckets;
}

}  // namespace gradwire::planner
