#include "ddp/bucket_gradients.h"

namespace gradwire {
namespace {

// The parameter's place in the bucket as the parameter sees it. The Reducer lays a gradient out in
// the parameter's memory order but hands it out as if that were contiguous, which is wrong for
// example where the parameter is channels_last.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& flat) {
  const at::Tensor strided =
      parameter.is_non_overlapping_and_dense()
          ? flat.as_strided(parameter.sizes(), parameter.strides(), flat.storage_offset())
          : flat.view(parameter.sizes());
  return strided.is_complex() ? at::view_as_real(strided) : strided;
}

}  // namespace

BucketGradients::BucketGradients(const std::vector<Parameter>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    index_of_[parameters[i].tensor.unsafeGetTensorImpl()] = i;
  }
}

std::vector<Gradient> BucketGradients::of(c10d::GradBucket& bucket) const {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& parameters = bucket.getParameters();
  // A sparse gradient is alone in its bucket.
  const bool sparse = bucket.getBufferRef().is_sparse();
  const std::vector<at::Tensor> flat =
      sparse ? std::vector<at::Tensor>{bucket.getBufferRef()} : bucket.getGradients();
  std::vector<Gradient> gradients;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t index = index_of_.at(parameters[i].unsafeGetTensorImpl());
    gradients.push_back({index, sparse ? flat[i] : in_layout_of(parameters[i], flat[i])});
  }
  return gradients;
}

}  // namespace gradwire
