#include "data/fashion_mnist.h"

#include "data/byte_source.h"
#include "data/idx.h"

namespace gradwire::data {

Dataset load_fashion_mnist(const std::string& folder) {
  if (!file_exists(folder)) {
    throw DataError(folder +
                    ": there is no such folder; Fashion-MNIST is in the Debian package "
                    "dataset-fashion-mnist: apt-get install dataset-fashion-mnist");
  }
  return load_idx(folder);
}

}  // namespace gradwire::data
