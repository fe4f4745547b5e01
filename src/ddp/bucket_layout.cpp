#include "ddp/bucket_layout.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <unordered_map>

namespace gradwire {
namespace {

using Buckets = std::vector<std::vector<size_t>>;

at::Tensor to_tensor(const Buckets& buckets) {
  std::vector<int64_t> numbers;
  for (const auto& bucket : buckets) {
    numbers.push_back(static_cast<int64_t>(bucket.size()));
    numbers.insert(numbers.end(), bucket.begin(), bucket.end());
  }
  return at::tensor(numbers, at::kLong);
}

// Throws if the numbers are not a layout of so many parameters.
Buckets to_buckets(const at::Tensor& tensor, size_t parameters) {
  const auto fail = [] {
    throw std::invalid_argument(
        "the state cannot be loaded: \"buckets\" is not a layout of this model's parameters");
  };
  if (tensor.scalar_type() != at::kLong || tensor.dim() != 1) fail();
  const at::Tensor host = tensor.cpu().contiguous();
  const std::span<const int64_t> numbers(host.const_data_ptr<int64_t>(),
                                         static_cast<size_t>(host.numel()));
  Buckets buckets;
  std::set<int64_t> seen;
  for (size_t i = 0; i < numbers.size();) {
    const int64_t count = numbers[i++];
    if (count <= 0 || static_cast<size_t>(count) > numbers.size() - i) fail();
    auto& bucket = buckets.emplace_back();
    for (const int64_t index : numbers.subspan(i, static_cast<size_t>(count))) {
      if (index < 0 || static_cast<size_t>(index) >= parameters || !seen.insert(index).second) {
        fail();
      }
      bucket.push_back(static_cast<size_t>(index));
    }
    i += static_cast<size_t>(count);
  }
  if (seen.size() != parameters) fail();
  return buckets;
}

}  // namespace

std::vector<NamedParameter> known_to(const c10d::Reducer& reducer,
                                     const std::vector<NamedParameter>& parameters) {
  std::set<const c10::TensorImpl*> in_buckets;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    for (const at::Tensor& tensor : bucket.getParameters()) {
      in_buckets.insert(tensor.unsafeGetTensorImpl());
    }
  }
  std::vector<NamedParameter> known;
  std::ranges::copy_if(parameters, std::back_inserter(known), [&](const NamedParameter& parameter) {
    return in_buckets.contains(parameter.tensor.unsafeGetTensorImpl());
  });
  return known;
}

BucketLayout::BucketLayout(const std::shared_ptr<c10d::Reducer>& reducer,
                           std::vector<NamedParameter> parameters, std::vector<size_t> caps)
    : reducer_(reducer), parameters_(std::move(parameters)), caps_(std::move(caps)) {}

int64_t BucketLayout::elements() const {
  int64_t elements = 0;
  for (const NamedParameter& parameter : parameters_) elements += parameter.tensor.numel();
  return elements;
}

std::shared_ptr<c10d::Reducer> BucketLayout::reducer() const {
  auto reducer = reducer_.lock();
  if (reducer == nullptr) throw std::runtime_error("the model that was attached to is gone");
  return reducer;
}

BucketLayout::Buckets BucketLayout::current() const { return current(*reducer()); }

BucketLayout::Buckets BucketLayout::current(const c10d::Reducer& reducer) const {
  std::unordered_map<const c10::TensorImpl*, size_t> index_of;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    index_of[parameters_[i].tensor.unsafeGetTensorImpl()] = i;
  }
  Buckets buckets;
  for (const c10d::GradBucket& bucket : reducer.get_grad_buckets(/*return_zero_tensors=*/false)) {
    auto& indices = buckets.emplace_back();
    for (const at::Tensor& tensor : bucket.getParameters()) {
      indices.push_back(index_of.at(tensor.unsafeGetTensorImpl()));
    }
  }
  return buckets;
}

// Predicts what Reducer::rebuild_buckets() will make.
BucketLayout::Buckets BucketLayout::coming(const c10d::Reducer& reducer) const {
  const std::vector<int64_t> ready_times = reducer.get_backward_stats();
  std::vector<int64_t> order(parameters_.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int64_t index) { return ready_times.at(index); });
  std::vector<at::Tensor> tensors;
  for (const int64_t index : order) tensors.push_back(parameters_[index].tensor);
  std::vector<bool> expect_sparse;  // by the parameter's index, not by the order above
  for (const NamedParameter& parameter : parameters_) {
    expect_sparse.push_back(parameter.expects_sparse);
  }
  return std::get<0>(c10d::compute_bucket_assignment_by_size(tensors, caps_, expect_sparse, order));
}

at::Tensor BucketLayout::next() const {
  const auto reducer = this->reducer();
  const std::vector<int64_t> ready_times = reducer->get_backward_stats();
  const bool has_run = std::ranges::any_of(ready_times, [](int64_t time) { return time != 0; });
  const bool changes = has_run && reducer->should_rebuild_buckets() && !caps_.empty();
  return to_tensor(changes ? coming(*reducer) : current(*reducer));
}

void BucketLayout::check(const c10::IValue& saved) const {
  if (!saved.isTensor()) {
    throw std::invalid_argument("the state cannot be loaded: \"buckets\" is not a tensor");
  }
  to_buckets(saved.toTensor(), parameters_.size());
}

void BucketLayout::restore(const at::Tensor& saved) const {
  const auto reducer = this->reducer();
  const Buckets buckets = to_buckets(saved, parameters_.size());
  if (buckets != current(*reducer)) reducer->initialize_buckets(buckets);
}

}  // namespace gradwire
