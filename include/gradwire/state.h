#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <memory>
#include <string>

#include "gradwire/export.h"

namespace gradwire {

// What one worker has to save for an exact resume: plain tensors, numbers and strings. Every key
// begins with "worker<i>/", so that the states of all workers can lie side by side in one
// checkpoint.
using State = std::map<std::string, c10::IValue>;

// Makes the states of all workers into one that every worker of a world of any size can load: the
// mean of the residuals is conserved. Takes them one at a time, so that they need not all be in
// memory. Throws std::invalid_argument, naming the difference, if they do not belong together.
class GRADWIRE_EXPORT StateMerger {
 public:
  StateMerger();
  ~StateMerger();
  StateMerger(const StateMerger&) = delete;
  StateMerger& operator=(const StateMerger&) = delete;

  void add(const State& state);
  State merged() const;

 private:
  struct Sum;
  std::unique_ptr<Sum> sum_;
};

}  // namespace gradwire
