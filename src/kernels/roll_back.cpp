#include "kernels/roll_back.h"

#include <cstddef>

namespace gradwire::kernels {

void roll_back(std::span<const float> gradient, std::span<float> residual) {
  for (std::size_t i = 0; i < gradient.size(); ++i) residual[i] -= gradient[i];
}

}  // namespace gradwire::kernels
