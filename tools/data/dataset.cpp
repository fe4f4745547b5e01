#include "data/dataset.h"

#include "data/cifar10.h"
#include "data/fashion_mnist.h"
#include "data/idx.h"
#include "data/spoken_words.h"
#include "data/text.h"

namespace gradwire::data {

Dataset load(const std::string& spec) {
  if (spec == "fashion-mnist") return load_fashion_mnist();
  const std::size_t colon = spec.find(':');
  const std::string format = spec.substr(0, colon);
  const std::string path = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (!path.empty()) {
    if (format == "idx") return load_idx(path);
    if (format == "cifar10") return load_cifar10(path);
    if (format == "text") return load_text(path);
    if (format == "wav") return load_spoken_words(path);
  }
  throw DataError("\"" + spec +
                  "\" is no data set; it must be fashion-mnist, idx:DIR, cifar10:DIR, text:FILE "
                  "or wav:DIR");
}

}  // namespace gradwire::data
