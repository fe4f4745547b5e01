#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <chrono>
#include <functional>

#include "gradwire/export.h"

namespace gradwire {

struct ProcessGroupOptions {
  // Collectives and the rendezvous itself fail after this long.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

// Joins the world that a launcher has described in the environment: RANK, WORLD_SIZE, MASTER_ADDR
// and MASTER_PORT as torchrun sets them, else Open MPI's (OMPI_COMM_WORLD_*) or Slurm's (SLURM_*)
// names for the first two. With none of them, a world of one. The backend is Gloo, on the interface
// named by GLOO_SOCKET_IFNAME or the one that the host's name resolves to.
GRADWIRE_EXPORT c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(
    const ProcessGroupOptions& options = {});

// The same with everything given: for tests, and for programs with their own way of starting
// workers.
GRADWIRE_EXPORT c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(
    const c10::intrusive_ptr<c10d::Store>& store, int worker, int workers,
    const ProcessGroupOptions& options = {});

// Makes a further process group of the same workers. Every worker calls it equally often, in the
// same order.
using MakeGroup = std::function<c10::intrusive_ptr<c10d::ProcessGroup>()>;

// Another group of the same workers as this one of init_process_group(), with a backend of its own.
// Collective.
GRADWIRE_EXPORT c10::intrusive_ptr<c10d::ProcessGroup> make_further_group(
    c10d::ProcessGroup& group);

}  // namespace gradwire
