#pragma once

// Which method each parameter travels by, decided once at attach from the request.

#include <memory>
#include <string>
#include <vector>

#include "gradwire/options.h"
#include "methods/registry.h"

namespace gradwire {

struct Treatment {
  const MethodEntry* method = nullptr;
  OptionMap options;   // complete
  size_t carrier = 0;  // index into Plan::carriers: what travels in the same exchanges
  std::unique_ptr<ParameterState> state;  // null: uncompressed
};

struct Plan {
  std::vector<std::unique_ptr<Method>> carriers;  // the first is always plain all-reduce
  std::vector<Treatment> treatments;              // one per parameter

  // Nothing is compressed at all.
  bool is_plain() const { return carriers.size() == 1; }
  std::string describe(size_t parameter) const;
};

// Throws std::invalid_argument for an unknown method, an unknown option or a value out of range.
Plan make_plan(const Request& request, const std::vector<Parameter>& parameters);

}  // namespace gradwire
