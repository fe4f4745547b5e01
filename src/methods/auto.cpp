// What `auto` is to the registry: a name and options. It begins as plain all-reduce; src/ddp
// measures a few steps of that, decides which of the other methods to use where, and changes over.

#include "methods/registry.h"

namespace gradwire {

MethodEntry auto_method() {
  return {
      .name = kAuto,
      .summary = "chooses among the others by measuring; compresses only what makes steps shorter",
      .options = {integer_option("rank", 4, 1),
                  subset_option("candidates",
                                {"half", "powersgd", "acpsgd", "topk", "adacomp", "sign"})},
      .parameter_options = {},
      .create = [](const OptionMap&) { return find_method("allreduce").create({}); },
  };
}

}  // namespace gradwire
