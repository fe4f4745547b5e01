#pragma once

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <memory>
#include <vector>

#include "gradwire/attachment.h"

namespace gradwire {

// The parameters that the Reducer knows. One that was frozen when the Reducer was made is in none
// of its buckets.
std::vector<NamedParameter> known_to(const c10d::Reducer& reducer,
                                     const std::vector<NamedParameter>& parameters);

// Which parameters the Reducer puts in which bucket.
//
// With three or more workers the order in which a ring adds up depends on it, so it must be
// restored for a resume to be exact to the last bit. The Reducer makes new buckets once, before the
// second forward, in the order in which gradients became ready in the first backward. A state that
// is saved between the two needs the layout that will come.
class BucketLayout {
 public:
  // `parameters`: those that the Reducer knows, in its order. `caps`: see Attachment::attach.
  BucketLayout(const std::shared_ptr<c10d::Reducer>& reducer,
               std::vector<NamedParameter> parameters, std::vector<size_t> caps);

  // The number of elements of all parameters that the Reducer knows.
  int64_t elements() const;
  // The parameters of each bucket, as the Reducer has them now.
  std::vector<std::vector<size_t>> current() const;
  // The layout of the next step: for every bucket, the number of its parameters and their indices.
  at::Tensor next() const;
  // Throws std::invalid_argument if it is not a layout of this model.
  void check(const c10::IValue& saved) const;
  void restore(const at::Tensor& saved) const;

 private:
  using Buckets = std::vector<std::vector<size_t>>;
  Buckets current(const c10d::Reducer& reducer) const;
  std::shared_ptr<c10d::Reducer> reducer() const;
  Buckets coming(const c10d::Reducer& reducer) const;

  // Not a shared pointer: the Reducer owns the hook.
  std::weak_ptr<c10d::Reducer> reducer_;
  std::vector<NamedParameter> parameters_;
  std::vector<size_t> caps_;
};

}  // namespace gradwire
