#pragma once

// gradwire: gradient compression for data-parallel training. The table of contents of the C++ API.

// Start here: a process group from the launcher's environment, and data parallelism over it.
#include "gradwire/distributed_data_parallel.h"  // DistributedDataParallel
#include "gradwire/process_group.h"              // init_process_group()

// The explicit object, without DistributedDataParallel.
#include "gradwire/compressor.h"  // Compressor

// What it can do and what it did.
#include "gradwire/methods.h"  // methods(): every method with its options
#include "gradwire/options.h"  // Options
#include "gradwire/state.h"    // State: what to save for an exact resume; StateMerger
#include "gradwire/stats.h"    // Stats: bytes, ratios, seconds

// For experts: compression on a c10d::Reducer of one's own.
#include "gradwire/attachment.h"  // Attachment
#include "gradwire/errors.h"      // PeerError
