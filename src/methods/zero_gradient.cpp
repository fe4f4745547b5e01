#include "methods/zero_gradient.h"

#include "kernels/scan.h"

namespace gradwire {

bool is_zero(const at::Tensor& gradient) {
  if (!gradient.is_cpu()) return !gradient.any().item<bool>();
  return kernels::all_zero(
      {gradient.const_data_ptr<float>(), static_cast<size_t>(gradient.numel())});
}

}  // namespace gradwire
