#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradwire {

// The workers' agreement at attach, by way of the group's store: it works before any collective
// does, and it can name the worker that is missing. One handshake per attach, in the same order
// everywhere.
class Handshake {
 public:
  explicit Handshake(c10d::ProcessGroup& group);

  // Returns when every worker has posted the same description. Otherwise throws a PeerError that
  // names the worker and the difference, the worker's failure, or the workers that did not come in
  // time.
  void agree(const nlohmann::json& description, std::chrono::milliseconds timeout);
  // To be called after agree(). Makes the kernels of all workers run on the best SIMD target that
  // all of them have, so that different hosts compute the same bits.
  void agree_on_simd_target();
  // Makes every other worker's agree() throw.
  void fail(const std::string& reason);

 private:
  std::string key_of(const char* what, int worker) const;
  void post(const std::string& verdict);
  void wait_for_all(std::chrono::milliseconds timeout);
  std::string find_objection();
  void linger();

  c10::intrusive_ptr<c10d::Store> store_;
  int worker_;
  int workers_;
  int64_t round_;
};

}  // namespace gradwire
