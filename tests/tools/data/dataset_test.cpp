#include "data/dataset.h"

#include "files.h"

namespace gradwire::data {
namespace {

TEST(Load, NamesTheFiveFormsOfASpec) {
  for (const std::string spec :
       {"", "mnist", "idx", "idx:", "text:", "fashion-mnist:", "fashion-mnist:/data", ":/data"}) {
    EXPECT_EQ(refusal_of(spec),
              "\"" + spec +
                  "\" is no data set; it must be fashion-mnist, idx:DIR, cifar10:DIR, text:FILE or "
                  "wav:DIR");
  }
}

}  // namespace
}  // namespace gradwire::data
