#pragma once

// What the planner knows of a training job on one worker, whatever the network.

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/method.h"

namespace gradwire::planner {

struct ParameterShape {
  std::string name;
  std::vector<int64_t> shape;

  int64_t elements() const;
  double bytes() const { return 4.0 * static_cast<double>(elements()); }
  std::string_view kind() const;  // "conv": three or more dimensions, "dense": two, "other"
};

// What a method was seen to take for one bucket.
struct CodingSeconds {
  double encode = 0;
  double between = 0;  // the first round and the second
  double decode = 0;
};

struct Bucket {
  std::vector<size_t> parameters;  // indices
  double ready_seconds = 0;        // from the start of backward, nothing else going on
  CodingSeconds measured = {};     // where the profile has a measured method
  double gathered_bytes = 0;       // that a worker handed in with that method; 0: not known
};

// The method under which a profile was recorded: its costs are known and not computed from rates.
struct Measured {
  MethodChoice choice = {};
  int64_t workers = 1;
  int64_t steps = 0;  // that the medians are of
};

// How long a method computes, in seconds per byte of gradient where nothing else is said.
struct CodingRate {
  double encode = 0;
  double between = 0;         // the first round and the second
  double decode = 0;          // whatever the number of workers
  double decode_payload = 0;  // seconds per byte of payload of any worker
  double per_parameter = 0;   // seconds, in addition, for each of the above that the method has
};

using CodingRates = std::map<std::string, CodingRate>;  // by method; missing ones take no time

struct Profile {
  std::string name;
  std::string device;  // that it was recorded on: "cpu", "gpu", or nothing
  double forward_seconds = 0;
  double backward_seconds = 0;
  // That backward took in addition while it was recorded, because others, as the threads of a
  // backend, had its processor. Not saved.
  double lost_seconds = 0;
  std::vector<ParameterShape> parameters;
  std::vector<Bucket> buckets;  // in the order in which they become ready
  CodingRates rates = {};
  std::optional<Measured> measured = {};
  // Of the operations that methods have on top of their rates, such as low-rank products.
  double flops_per_second = std::numeric_limits<double>::infinity();
  // How much of the work between two rounds is taken from backward and from decoding: 1 where all
  // share one processor, 0 where there is another for it.
  double contention = 1;

  double compute_seconds() const { return forward_seconds + backward_seconds; }
  double gradient_bytes() const;
  // Throws std::invalid_argument naming what is wrong.
  void check() const;
  // Multiplies forward, backward and the buckets' ready times so that compute takes this long.
  // What was measured of encoding and decoding stays.
  void scale_compute_to(double seconds);
};

// Throws std::invalid_argument naming the parameter whose shape is wrong, or saying that there are
// none or too many. `subject` is how the message begins.
void check(const std::vector<ParameterShape>& parameters, const std::string& subject);

// Seconds that a plan may have to do with. Whatever is longer is a mistake, and sums stay finite.
inline constexpr double kMostSeconds = 1e6;

inline constexpr double kFirstBucketBytes = 1024.0 * 1024;
inline constexpr double kBucketBytes = 25 * 1024.0 * 1024;

// The buckets of torch's DistributedDataParallel once it has rebuilt them: parameters in the order
// in which their gradients become ready, a bucket closed when it has reached its size.
// `ready_seconds` is that of each parameter.
std::vector<Bucket> ddp_buckets(const std::vector<ParameterShape>& parameters,
                                const std::vector<double>& ready_seconds);

}  // namespace gradwire::planner
