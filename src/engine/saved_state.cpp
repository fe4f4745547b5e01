#include "engine/saved_state.h"

#include <ATen/ATen.h>

#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>

namespace gradwire {
namespace saved_state {
namespace {

const std::string kMergedPrefix = "merged/";

std::string prefix_of(int worker) { return "worker" + std::to_string(worker) + "/"; }

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("the state cannot be loaded: " + reason);
}

std::string describe(const c10::IValue& value) {
  if (value.isString()) return c10::str('"', value.toStringRef(), '"');
  if (value.isInt()) return std::to_string(value.toInt());
  if (value.isDouble()) return std::to_string(value.toDouble());
  if (!value.isTensor()) return value.tagKind();
  return c10::str("a tensor of ", value.toTensor().scalar_type(), " ", value.toTensor().sizes());
}

void check_tensor(const std::string& key, const at::Tensor& current, const c10::IValue& saved) {
  if (!saved.isTensor() || saved.toTensor().sizes() != current.sizes() ||
      saved.toTensor().scalar_type() != current.scalar_type()) {
    refuse(key + " is " + describe(saved) + ", here it is " + describe(current));
  }
  if (saved.toTensor().is_floating_point() && !at::isfinite(saved.toTensor()).all().item<bool>()) {
    refuse(key + " holds values that are not finite: the file is damaged");
  }
}

// The message says what a user would have to change rather than which key differs.
void check_value(const std::string& key, const c10::IValue& current, const c10::IValue& saved) {
  if (current.tagKind() != saved.tagKind()) {
    refuse(key + " is " + describe(saved) + ", here it is " + describe(current));
  }
  if (key == "workers") {
    if (saved.toInt() != kMerged && saved.toInt() != current.toInt()) {
      refuse("it was saved by " + describe(saved) + " workers and there are " + describe(current) +
             " here; make one for any number of workers with gradwire.merge");
    }
  } else if (key == "steps" || key == "plan_since") {
    if (saved.toInt() < 0) refuse(key + " is " + describe(saved));
  } else if (key == "loss_scale") {
    if (!(saved.toDouble() > 0) || !std::isfinite(saved.toDouble())) {
      refuse("loss_scale is " + describe(saved));
    }
  } else if (key == "format" || key == "method" || key == "start_after" ||
             key.ends_with(kTreatment)) {
    if (describe(saved) != describe(current)) {
      refuse(key + " is " + describe(saved) + ", here it is " + describe(current));
    }
  }
}

// A route in words, with an option that the version which saved it did not know. Options are in
// alphabetical order.
std::string with_option(const std::string& treatment, const std::string& option,
                        const std::string& value) {
  if (treatment.find(" " + option + "=") != std::string::npos) return treatment;
  std::istringstream words(treatment);
  std::string text;
  words >> text;
  bool inserted = false;
  for (std::string word; words >> word; text += " " + word) {
    if (!inserted && word > option) {
      text += " " + option + "=" + value;
      inserted = true;
    }
  }
  return inserted ? text : text + " " + option + "=" + value;
}

// Version 0.1.0 had an option of acpsgd that changed nothing at its default. It did not know sign's
// option block and momentum correction, which are 0 for what it did then.
void upgrade_treatments(State& saved) {
  const std::string reuse = " reuse=True";
  for (auto& [key, value] : saved) {
    if (!key.ends_with(kTreatment) || !value.isString()) continue;
    std::string text = value.toStringRef();
    if (text.starts_with("sign ")) text = with_option(text, "block", "0");
    for (const char* method : {"sign ", "topk ", "adacomp "}) {
      if (text.starts_with(method)) text = with_option(text, "momentum", "0");
    }
    const size_t found = text.find(reuse);
    if (text.starts_with("acpsgd ") && found != std::string::npos) text.erase(found, reuse.size());
    value = text;
  }
}

// Version 0.1.0 saved residuals that were always zero.
void drop_needless_residuals(const State& current, State& saved) {
  std::erase_if(saved, [&](const auto& entry) {
    const auto& [key, value] = entry;
    return key.ends_with(kResidual) && !current.contains(key) && value.isTensor() &&
           !value.toTensor().any().template item<bool>();
  });
}

void check_fits(const State& current, const State& saved) {
  // These tell the user the most: a state of another method has other tensors, too.
  for (const char* key : {"format", "method", "workers"}) {
    const auto found = saved.find(key);
    if (found == saved.end()) refuse(std::string("it has no \"") + key + "\"");
    check_value(key, current.at(key), found->second);
  }
  for (const auto& [key, value] : current) {
    const auto found = saved.find(key);
    if (found == saved.end()) refuse("it has no \"" + key + "\", which this model has");
    if (!value.isTensor()) check_value(key, value, found->second);
  }
  for (const auto& [key, value] : saved) {
    if (!current.contains(key)) refuse("it has \"" + key + "\", which this model has not");
  }
  for (const auto& [key, value] : current) {
    if (value.isTensor() && key != "buckets") check_tensor(key, value.toTensor(), saved.at(key));
  }
}

}  // namespace

State with_worker(const State& state, int worker) {
  State result;
  for (const auto& [key, value] : state) result[prefix_of(worker) + key] = value;
  return result;
}

State without_worker(const State& state, int worker) {
  State result;
  for (const auto& [key, value] : state) {
    const std::string prefix = key.starts_with(kMergedPrefix) ? kMergedPrefix : prefix_of(worker);
    if (!key.starts_with(prefix)) {
      refuse("it has \"" + key + "\", which is not of worker " + std::to_string(worker) +
             "; every worker loads the state that it saved");
    }
    result[key.substr(prefix.size())] = value;
  }
  upgrade_treatments(result);
  return result;
}

std::map<std::string, std::string> treatments_in(const State& saved) {
  std::map<std::string, std::string> treatments;
  for (const auto& [key, value] : saved) {
    if (!key.ends_with(kTreatment) || !value.isString()) continue;
    treatments[key.substr(0, key.size() - kTreatment.size())] = value.toStringRef();
  }
  return treatments;
}

State fitting(const State& current, State saved) {
  drop_needless_residuals(current, saved);
  check_fits(current, saved);
  return saved;
}

}  // namespace saved_state

using saved_state::kMerged;

struct StateMerger::Sum {
  std::set<std::string> prefixes;
  State first;                             // without its prefix
  std::map<std::string, at::Tensor> sums;  // of what is each worker's own, in fp64

  static std::string prefix_of(const State& state) {
    if (state.empty()) throw std::invalid_argument("gradwire.merge: a state is empty");
    const std::string& key = state.begin()->first;
    return key.substr(0, key.find('/') + 1);
  }

  void add(const std::string& prefix, const State& state) {
    if (!first.empty() && state.size() != first.size()) differ(prefix, "the number of entries");
    for (const auto& [prefixed, value] : state) {
      if (!prefixed.starts_with(prefix)) differ(prefix, prefixed);
      const std::string key = prefixed.substr(prefix.size());
      if (prefixes.empty()) {
        first[key] = value;
      } else if (!first.contains(key) || !agrees(key, first.at(key), value)) {
        differ(prefix, key);
      }
      if (!is_own(key)) continue;
      const at::Tensor own = value.toTensor().to(at::kDouble);
      auto [sum, is_new] = sums.try_emplace(key, own);
      if (!is_new) sum->second += own;
    }
    prefixes.insert(prefix);
  }

  // Everything else is the same on all workers.
  static bool is_own(const std::string& key) {
    return key.ends_with(saved_state::kResidual) || key.ends_with(saved_state::kVelocity);
  }

  static bool agrees(const std::string& key, const c10::IValue& a, const c10::IValue& b) {
    if (a.tagKind() != b.tagKind()) return false;
    if (!a.isTensor()) return a == b;
    if (is_own(key)) return a.toTensor().sizes() == b.toTensor().sizes();
    return a.toTensor().equal(b.toTensor());
  }

  [[noreturn]] void differ(const std::string& prefix, const std::string& what) const {
    throw std::invalid_argument("gradwire.merge: the states do not belong together: " + what +
                                " of " + prefix + " is not what it is in the first state");
  }
};

StateMerger::StateMerger() : sum_(std::make_unique<Sum>()) {}
StateMerger::~StateMerger() = default;

void StateMerger::add(const State& state) {
  const std::string prefix = Sum::prefix_of(state);
  if (sum_->prefixes.contains(prefix)) {
    throw std::invalid_argument("gradwire.merge: there are two states of " + prefix);
  }
  sum_->add(prefix, state);
}

State StateMerger::merged() const {
  const auto given = static_cast<int64_t>(sum_->prefixes.size());
  if (given == 0) throw std::invalid_argument("gradwire.merge: there is no state");
  const auto workers = sum_->first.find("workers");
  if (workers == sum_->first.end() || !workers->second.isInt()) {
    throw std::invalid_argument("gradwire.merge: these are not states that gradwire has saved");
  }
  if (workers->second.toInt() != given) {
    throw std::invalid_argument("gradwire.merge: there are " + std::to_string(given) +
                                " states, and " + std::to_string(workers->second.toInt()) +
                                " workers saved them");
  }
  State merged;
  for (const auto& [key, value] : sum_->first) {
    const auto sum = sum_->sums.find(key);
    merged["merged/" + key] =
        sum == sum_->sums.end() ? value : c10::IValue((sum->second / given).to(at::kFloat));
  }
  merged["merged/workers"] = kMerged;
  return merged;
}

}  // namespace gradwire
