#pragma once

#include "gradwire/export.h"

namespace gradwire {

// For measuring what all-reduce gains: from now on every worker gathers what a method would have
// all-reduced, and adds it up itself. Of the whole process; set it while nothing is under way, on
// all workers alike.
GRADWIRE_EXPORT void set_sums_by_all_gather(bool value);

}  // namespace gradwire
