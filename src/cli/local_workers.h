#pragma once

namespace gradwire {

// Whether a launcher (torchrun, mpirun, srun, gradwire lab) has started this process as a worker.
bool was_launched();

// Runs this very command line once per worker, as a world on this machine, and waits for its end.
// The exit status of the first that failed, which ends the others too; otherwise 0.
int run_local_workers(int workers);

}  // namespace gradwire
