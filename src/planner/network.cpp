#include "planner/network.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace gradwire::planner {
namespace {

// The network as the costs see it: nodes × workers in a node.
struct Layout {
  double nodes;
  double inside;

  explicit Layout(const Network& network)
      : inside(static_cast<double>(std::min(network.workers, network.workers_per_node))) {
    nodes = static_cast<double>(network.workers) / inside;
  }
};

double levels_of_tree(double leaves) {
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(leaves) - 1));
}

Transfer operator+(const Transfer& a, const Transfer& b) {
  return {a.latency + b.latency, a.seconds + b.seconds};
}

// `messages` one after the other, which move `bytes` over the link in all.
Transfer over(const Link& link, double messages, double bytes) {
  return {messages * link.latency, bytes / link.bandwidth};
}

// Reduce-scatter inside the nodes, all-reduce of the parts between them, all-gather inside. The
// parts of a node's workers share the node's link, so that it carries the whole buffer once more.
Transfer all_reduce(double bytes, const Network& network) {
  const Layout layout(network);
  const double n = layout.nodes;
  const double w = layout.inside;
  const Transfer inside = over(network.inside_node, 2 * (w - 1), 2 * (w - 1) / w * bytes);
  if (n == 1) return inside;
  const Transfer ring = over(network.between_nodes, 2 * (n - 1), 2 * (n - 1) / n * bytes);
  const Transfer tree = over(network.between_nodes, 2 * levels_of_tree(n), 2 * bytes);
  const bool takes_ring =
      network.all_reduce == AllReduce::ring ||
      (network.all_reduce == AllReduce::fastest && ring.alone() <= tree.alone());
  return inside + (takes_ring ? ring : tree);
}

// A ring among workers of the same place in their nodes, then one inside each node.
Transfer all_gather(double bytes, const Network& network) {
  const auto [nodes, inside] = Layout(network);
  return over(network.between_nodes, nodes - 1, (nodes - 1) * inside * bytes) +
         over(network.inside_node, inside - 1, (inside - 1) * nodes * bytes);
}

// A message from each to each. Nothing is added up on the way: what the workers of a node send to
// other nodes passes the node's link undiminished.
Transfer all_to_all(double bytes, const Network& network) {
  const auto [nodes, inside] = Layout(network);
  const double workers = nodes * inside;
  const double outside = workers - inside;
  return over(network.between_nodes, outside, inside * outside / workers * bytes) +
         over(network.inside_node, inside - 1, (inside - 1) / workers * bytes);
}

void check_link(const Link& link, const std::string& which) {
  if (!(link.latency >= 0)) {
    throw std::invalid_argument("the latency " + which + " must not be negative");
  }
  if (!(link.bandwidth > 0)) {
    throw std::invalid_argument("the bandwidth " + which + " must be positive");
  }
}

Transfer by_formula(Collective collective, double bytes, const Network& network) {
  switch (collective) {
    case Collective::all_reduce:
      return all_reduce(bytes, network);
    case Collective::all_gather:
      return all_gather(bytes, network);
    case Collective::all_to_all:
      return all_to_all(bytes, network);
  }
  throw std::logic_error("not a collective");
}

}  // namespace

std::string_view name_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::all_to_all:
      return "all_to_all";
  }
  throw std::logic_error("not a collective");
}

void Network::check() const {
  if (workers < 1) throw std::invalid_argument("there must be at least one worker");
  if (workers_per_node < 1) {
    throw std::invalid_argument("there must be at least one worker per node");
  }
  if (workers > workers_per_node && workers % workers_per_node != 0) {
    throw std::invalid_argument(std::to_string(workers) + " workers do not fill nodes of " +
                                std::to_string(workers_per_node) + " evenly");
  }
  check_link(between_nodes, "between nodes");
  check_link(inside_node, "inside a node");
}

Transfer cost_of(Collective collective, double bytes, const Network& network) {
  if (bytes == 0 || network.workers == 1) return {};
  const Transfer formula = by_formula(collective, bytes, network);
  const Slowness& slowness = network.slowness[static_cast<size_t>(collective)];
  return {formula.latency * slowness.latency, formula.seconds * slowness.transfer};
}

}  // namespace gradwire::planner
