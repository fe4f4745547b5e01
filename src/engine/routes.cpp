#include "engine/routes.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "methods/momentum.h"

namespace gradwire {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

struct Choice {
  const MethodEntry* method;
  OptionMap options;
};

Choice complete(const std::string& method, const OptionMap& options) {
  const MethodEntry& entry = find_method(method);
  return {&entry, complete_options(entry, options)};
}

// The options of a per_parameter entry override those of the request. If the entry names another
// method, the request's options do not apply.
Choice complete_override(const Request& request, OptionMap override) {
  const auto named = override.find("method");
  if (named == override.end()) {
    if (request.method == kAuto) {
      throw std::invalid_argument("[per_parameter] beside auto, every entry must name its method");
    }
    OptionMap merged = override;
    merged.insert(request.options.begin(), request.options.end());
    return complete(request.method, merged);
  }
  const auto* method = std::get_if<std::string>(&named->second);
  if (method == nullptr) throw std::invalid_argument("[per_parameter] method must be a name");
  const std::string name = *method;
  if (name == kAuto) {
    throw std::invalid_argument("[per_parameter] auto is for a whole model, not for a parameter");
  }
  override.erase("method");
  return complete(name, override);
}

bool is_compressible(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  const bool known = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
  return known && tensor.numel() > 0;
}

// Two parameters travel in one exchange if this is the same for both.
std::string carrier_key(const Choice& choice) {
  std::string key = choice.method->name;
  for (const auto& [name, value] : choice.options) {
    if (std::ranges::find(choice.method->parameter_options, name) ==
        choice.method->parameter_options.end()) {
      key += ";" + name + "=" + to_string(value);
    }
  }
  return key;
}

class RouteFinder {
 public:
  explicit RouteFinder(const Request& request) : request_(request) {
    if (request.start_after < 0) {
      throw std::invalid_argument("start_after must be >= 0; got " +
                                  std::to_string(request.start_after));
    }
    for (const auto& [pattern, options] : request.per_parameter) {
      overrides_.emplace_back(pattern, complete_override(request, options));
    }
    plain_ = complete("allreduce", {});
    carrier_of(plain_);
    default_ = complete(request.method, request.options);
    // What `auto` has decided comes as per_parameter entries.
    if (request.method == kAuto) default_ = plain_;
  }

  void add(const Parameter& parameter) {
    Choice choice = is_compressible(parameter.tensor) ? chosen_for(parameter.name) : plain_;
    size_t carrier = carrier_of(choice);
    const Method& method = *routes_.carriers[carrier];
    auto state = with_momentum(method.make_state(parameter, choice.options), parameter,
                               choice.method->facts(choice.options).momentum);
    if (state == nullptr && !method.carries_uncompressed()) {
      choice = plain_;
      carrier = 0;
    }
    routes_.by_parameter.push_back({choice.method, choice.options, carrier, state != nullptr});
    routes_.states.push_back(std::move(state));
  }

  Routes take() { return std::move(routes_); }

 private:
  Choice chosen_for(const std::string& name) const {
    const auto matches_name = [&](const std::string& pattern) { return matches(pattern, name); };
    if (std::ranges::any_of(request_.skip, matches_name)) return plain_;
    const auto found = std::ranges::find_if(
        overrides_, [&](const auto& entry) { return matches_name(entry.first); });
    return found == overrides_.end() ? default_ : found->second;
  }

  size_t carrier_of(const Choice& choice) {
    const auto [entry, is_new] =
        carriers_.try_emplace(carrier_key(choice), routes_.carriers.size());
    if (is_new) routes_.carriers.push_back(choice.method->create(choice.options));
    return entry->second;
  }

  const Request& request_;
  Choice default_;
  Choice plain_;
  std::vector<std::pair<std::string, Choice>> overrides_;
  std::map<std::string, size_t> carriers_;
  Routes routes_;
};

}  // namespace

std::string Route::describe() const {
  if (!compresses) return "uncompressed";
  std::string text = method->name;
  for (const auto& [name, value] : options) text += " " + name + "=" + to_string(value);
  return text;
}

int Routes::rounds() const {
  int most = 1;
  for (const auto& carrier : carriers) most = std::max(most, carrier->rounds());
  return most;
}

LossClass Routes::loss_class() const {
  LossClass lossiest = LossClass::exact;
  for (const Route& route : by_parameter) {
    if (!route.compresses) continue;
    lossiest = std::max(lossiest, route.method->facts(route.options).loss_class);
  }
  return lossiest;
}

bool Routes::has_momentum() const {
  return std::ranges::any_of(by_parameter, [](const Route& route) {
    return route.compresses && route.method->facts(route.options).momentum > 0;
  });
}

Routes make_routes(const Request& request, const std::vector<Parameter>& parameters) {
  RouteFinder finder(request);
  for (const Parameter& parameter : parameters) finder.add(parameter);
  return finder.take();
}

Options::operator Request() const {
  Request request{.method = method,
                  .options = by_name,
                  .start_after = start_after,
                  .skip = skip,
                  .per_parameter = per_parameter,
                  .handshake_timeout = handshake_timeout,
                  .loss_scale = loss_scale};
  const auto add = [&](const char* name, const auto& value) {
    if (value) request.options[name] = *value;
  };
  add("bits", bits);
  add("block", block);
  add("rank", rank);
  add("min_ratio", min_ratio);
  add("seed", seed);
  add("density", density);
  add("dtype", dtype);
  add("mode", mode);
  add("vote_scale", vote_scale);
  add("bin_conv", bin_conv);
  add("bin_dense", bin_dense);
  add("error_feedback", error_feedback);
  add("momentum", momentum);
  add("delayed", delayed);
  add("candidates", candidates);
  return request;
}

}  // namespace gradwire
