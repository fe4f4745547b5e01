#pragma once

// What the machine and its libraries can do, measured beside the methods.

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

namespace gradwire::bench {

double now_seconds();

template <typename Work>
double seconds_of(const Work& work) {
  const double begin = now_seconds();
  work();
  return now_seconds() - begin;
}

// Timings of one thing, as a sample.
class Sample {
 public:
  void add(double seconds) { values_.push_back(seconds); }
  bool empty() const { return values_.empty(); }
  double median() const { return quantile(0.5); }
  double quantile(double part) const;

 private:
  std::vector<double> values_;
};

// A gradient's size in bytes decides what is streaming: it is to be larger than the caches.
class Limits {
 public:
  explicit Limits(const std::vector<int64_t>& shape);

  // Forgets the machine's figures: each method is held against those measured beside it.
  void forget_machine();
  // `residual += gradient` and a square product: the two that the methods are held against.
  void measure_machine(int threads);
  // What a user would call without this library, by name: torch.topk and MKL's products.
  void measure_libraries();

  double stream_seconds(int threads) const { return stream_.at(threads).median(); }
  double sgemm_flops(int threads) const;
  double gradient_bytes() const { return static_cast<double>(gradient_.nbytes()); }
  const std::map<std::string, Sample>& libraries() const { return libraries_; }

 private:
  at::Tensor residual_;
  at::Tensor gradient_;
  at::Tensor square_;
  std::map<int, Sample> stream_;
  std::map<int, Sample> sgemm_;
  std::map<std::string, Sample> libraries_;
};

}  // namespace gradwire::bench
