#include "comm/handshake.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "gradwire/errors.h"
#include "kernels/simd.h"
#include "methods/stable_hash.h"

namespace gradwire {
namespace {

using nlohmann::json;

// Verdicts that a worker posts for the others to read.
constexpr const char* kFailed = "failed: ";
constexpr const char* kReady = "ready: ";

constexpr std::chrono::seconds kLinger(5);

// Leaves out the nulls that flatten() makes of empty lists and objects.
json flattened(const json& description) {
  const json all = description.flatten();
  json flat = json::object();
  for (const auto& [path, value] : all.items()) {
    if (!value.is_null()) flat[path] = value;
  }
  return flat;
}

// The first difference, in words.
std::string difference(const json& mine, const json& theirs, const std::string& my_name,
                       const std::string& their_name) {
  const json flat_mine = flattened(mine);
  const json flat_theirs = flattened(theirs);
  for (const auto& [path, value] : flat_mine.items()) {
    if (!flat_theirs.contains(path)) {
      return path.substr(1) + " is " + value.dump() + " on " + my_name + " and missing on " +
             their_name;
    }
    if (flat_theirs[path] != value) {
      return path.substr(1) + " is " + value.dump() + " on " + my_name + " and " +
             flat_theirs[path].dump() + " on " + their_name;
    }
  }
  for (const auto& [path, value] : flat_theirs.items()) {
    if (!flat_mine.contains(path)) {
      return path.substr(1) + " is " + value.dump() + " on " + their_name + " and missing on " +
             my_name;
    }
  }
  return "nothing";
}

std::string worker_name(int worker) { return "worker " + std::to_string(worker); }

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

}  // namespace

Handshake::Handshake(c10d::ProcessGroup& group)
    : store_(group.getStore()), worker_(group.getRank()), workers_(group.getSize()) {
  TORCH_CHECK(store_ != nullptr, "the process group has no store");
  round_ = store_->add("gradwire/attached/" + std::to_string(worker_), 1);
}

std::string Handshake::key_of(const char* what, int worker) const {
  return "gradwire/" + std::to_string(round_) + "/" + what + "/" + std::to_string(worker);
}

void Handshake::post(const std::string& verdict) {
  store_->set(key_of("verdict", worker_), verdict);
}

void Handshake::fail(const std::string& reason) {
  post(kFailed + reason);
  store_->set(key_of("read", worker_), "");  // this worker raises an error of its own
  linger();
}

void Handshake::wait_for_all(std::chrono::milliseconds timeout) {
  std::vector<std::string> keys;
  for (int other = 0; other < workers_; ++other) keys.push_back(key_of("verdict", other));
  try {
    store_->wait(keys, timeout);
  } catch (const std::exception& error) {
    std::vector<std::string> missing;
    for (int other = 0; other < workers_; ++other) {
      if (!store_->check({keys[other]})) missing.push_back(worker_name(other));
    }
    if (missing.empty()) throw;
    std::ostringstream text;
    text << "gradwire.attach waited " << std::chrono::duration<double>(timeout).count() << " s for "
         << joined(missing) << ", which did not come";
    post(kFailed + text.str());  // those that come later read it
    throw PeerError(text.str());
  }
}

void Handshake::agree(const json& description, std::chrono::milliseconds timeout) {
  const std::string text = description.dump();
  store_->set(key_of("description", worker_), text);
  post(kReady + std::to_string(stable_hash(text)));
  wait_for_all(timeout);
  const std::string objection = find_objection();
  store_->set(key_of("read", worker_), "");
  if (objection.empty()) return;
  linger();
  throw PeerError(objection);
}

void Handshake::agree_on_simd_target() {
  // Another group may have pinned a target already: this process can have none better.
  const int64_t not_better = -kernels::current_target();
  store_->set(key_of("simd", worker_), std::to_string(kernels::supported_targets() & not_better));
  int64_t common = -1;
  for (int other = 0; other < workers_; ++other) {
    common &= std::stoll(store_->get_to_str(key_of("simd", other)));
  }
  if (!kernels::pin_target(kernels::best_target(common))) {
    throw PeerError("the workers' processors have no SIMD target in common");
  }
}

std::string Handshake::find_objection() {
  const std::string first = store_->get_to_str(key_of("verdict", 0));
  for (int other = 0; other < workers_; ++other) {
    const std::string theirs = store_->get_to_str(key_of("verdict", other));
    if (theirs.starts_with(kFailed)) {
      return "gradwire.attach failed on " + worker_name(other) + ": " +
             theirs.substr(std::string_view(kFailed).size());
    }
    if (theirs != first) {
      const auto read = [&](int worker) {
        return json::parse(store_->get_to_str(key_of("description", worker)));
      };
      return "the workers disagree: " +
             difference(read(0), read(other), worker_name(0), worker_name(other));
    }
  }
  return "";
}

// Worker 0 usually hosts the store, and the store ends with it. So before it raises its error it
// waits until the others have read theirs.
void Handshake::linger() {
  if (worker_ != 0) return;
  std::vector<std::string> keys;
  for (int other = 1; other < workers_; ++other) keys.push_back(key_of("read", other));
  if (keys.empty()) return;
  try {
    store_->wait(keys, kLinger);
  } catch (const std::exception&) {
    // The others had enough time to read; there is nothing more to tell them.
  }
}

}  // namespace gradwire
