#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gradwire/export.h"

namespace gradwire {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using OptionMap = std::map<std::string, OptionValue>;

// A request as it comes from Python or a command line: the method and its options by name, and the
// options that all methods have.
struct Request {
  std::string method = "allreduce";
  OptionMap options = {};

  int64_t start_after = 0;             // steps of plain all-reduce before compression begins
  std::vector<std::string> skip = {};  // parameter names (glob patterns) that travel uncompressed
  // Options, or another "method", by glob pattern; the first match wins.
  std::vector<std::pair<std::string, OptionMap>> per_parameter = {};

  // How long to wait for the slowest worker.
  std::chrono::milliseconds handshake_timeout = std::chrono::minutes(5);

  // Gives what the loss is multiplied by, as a GradScaler keeps it: a tensor of one element that is
  // updated in place, or an undefined tensor as long as there is none. Residuals follow it. It is
  // called in backward until it gives a tensor.
  std::function<at::Tensor()> loss_scale = {};
};

// The same for C++, where the compiler checks names and types:
//   gradwire::Options{.method = "acpsgd", .rank = 32}
// An option left unset has the method's default; one that the method does not have is an error.
struct Options {
  std::string method = "allreduce";

  std::optional<int64_t> bits = {};
  std::optional<int64_t> block = {};
  std::optional<int64_t> rank = {};
  std::optional<double> min_ratio = {};
  std::optional<int64_t> seed = {};
  std::optional<double> density = {};
  std::optional<std::string> dtype = {};
  std::optional<std::string> mode = {};
  std::optional<double> vote_scale = {};
  std::optional<int64_t> bin_conv = {};
  std::optional<int64_t> bin_dense = {};
  std::optional<bool> error_feedback = {};
  std::optional<double> momentum = {};
  std::optional<bool> delayed = {};
  std::optional<std::string> candidates = {};

  int64_t start_after = 0;
  std::vector<std::string> skip = {};
  std::vector<std::pair<std::string, OptionMap>> per_parameter = {};
  std::chrono::milliseconds handshake_timeout = std::chrono::minutes(5);
  std::function<at::Tensor()> loss_scale = {};  // see Request
  // The method's options by name, for programs that get them at run time.
  OptionMap by_name = {};

  GRADWIRE_EXPORT operator Request() const;
};

}  // namespace gradwire
