#pragma once

// What a collective costs, after the usual model: every message takes a latency, and every byte a
// time that depends on the link it passes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace gradwire::planner {

struct Link {
  double latency = 0;                                          // seconds per message
  double bandwidth = std::numeric_limits<double>::infinity();  // bytes per second, each way
};

enum class AllReduce : uint8_t {
  ring,
  tree,
  fastest,  // the better of the two for the size at hand, as NCCL chooses
};

enum class Collective : uint8_t { all_reduce, all_gather, all_to_all };
inline constexpr size_t kCollectives = 3;

std::string_view name_of(Collective collective);

// How a backend's collective compares with what the formulas say for the link: 1 is as they say, 2
// takes twice the time.
struct Slowness {
  double latency = 1;
  double transfer = 1;
};

// Equal nodes of some workers each. A node has one link to the others, shared by its workers; they
// have a link each among themselves.
struct Network {
  int64_t workers = 1;
  Link between_nodes = {};
  int64_t workers_per_node = 1;
  Link inside_node = {};
  AllReduce all_reduce = AllReduce::fastest;
  std::array<Slowness, kCollectives> slowness = {};  // by Collective

  // Throws std::invalid_argument where no such network can be.
  void check() const;
};

// A collective that has the network to itself takes the sum of both. Collectives under way at the
// same time share the bandwidth and so stretch each other's transfer; their latencies pass in
// parallel.
struct Transfer {
  double latency = 0;
  double seconds = 0;

  double alone() const { return latency + seconds; }
};

// `bytes` is what each worker hands to the collective: the whole buffer for an all-reduce and an
// all-to-all, its own contribution for an all-gather.
Transfer cost_of(Collective collective, double bytes, const Network& network);

}  // namespace gradwire::planner
