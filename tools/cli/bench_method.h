#pragma once

// One method at work on one parameter, timed and verified.

#include <functional>
#include <memory>

#include "cli/bench_limits.h"
#include "methods/registry.h"

namespace gradwire::bench {

constexpr int kWorkers = 4;  // whose payloads are decoded

struct Timing {
  Sample encode;
  Sample decode;
};

// What a method is run on and held against.
struct Subject {
  std::string name;
  const MethodEntry* method;
  OptionMap options;
  std::vector<int64_t> shape;

  // Steps that differ in kind take turns: the P and Q steps of ACP-SGD.
  size_t phases() const;
  // Floating-point operations of one step, where they, not memory, may be the limit.
  double operations(size_t phase) const;
};

// Every method that compresses, with all its variants, on a large layer of a transformer.
std::vector<Subject> subjects(int64_t megabytes);

// Runs as worker 0 of several that all have the same gradient, so the result must be this worker's
// own contribution, and what the method keeps back must be the rest of the gradient.
class MethodRun {
 public:
  explicit MethodRun(Subject subject);

  // One step; timed if `threads` is given.
  void step(std::optional<int> threads = std::nullopt);

  const Subject& subject() const { return subject_; }
  // True if every worker's payload is decoded.
  bool gathers() const { return first_collective_ == Collective::all_gather; }
  // True if each worker reduces a slice of its own.
  bool reduces_slices() const { return first_collective_ == Collective::all_to_all; }
  const Timing& timing(int threads, size_t phase) const { return timings_.at({threads, phase}); }
  // Checks what all timed steps so far have given. Throws std::runtime_error where it is wrong.
  //
  // At the end and not after every step: methods put off a part of their work on the residual until
  // the next step, or until someone asks for it, and that part belongs to the step's time.
  void verify();
  // What verify() has found, relative to the norm of the gradients.
  double error() const { return error_; }
  double payload_bytes() const { return payload_bytes_; }
  // Peak memory of a step beyond gradient and residual, and the most that the rounds' buffers were.
  double extra_bytes() const { return extra_bytes_; }
  double in_flight_bytes() const { return in_flight_bytes_; }
  void measure_memory();

 private:
  void make_method();
  void make_gradient();
  void begin_account();
  void check_rounding();

  Subject subject_;
  Parameter parameter_;
  std::unique_ptr<Method> method_;
  Collective first_collective_ = Collective::all_reduce_sum;
  std::unique_ptr<ParameterState> state_;
  at::Tensor scale_;     // of every element: what stays the same from step to step
  at::Tensor gradient_;  // this step's
  at::Tensor memory_;    // the bucket: the gradient, then the result
  // With a residual: what it was before the timed steps, plus their gradients, less their results.
  at::Tensor unaccounted_;
  bool has_begun_ = false;
  int64_t steps_ = 0;
  std::map<std::pair<int, size_t>, Timing> timings_;
  double error_ = 0;
  double payload_bytes_ = 0;
  double bytes_without_method_ = 0;
  double extra_bytes_ = 0;
  double in_flight_bytes_ = 0;
};

}  // namespace gradwire::bench
