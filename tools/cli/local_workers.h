#pragma once

#include <string>
#include <vector>

namespace gradwire {

// This command line as it was given.
std::vector<std::string> own_command();

// Whether a launcher (torchrun, mpirun, srun, gradwire lab) has started this process as a worker.
bool was_launched();

// Runs this command line once per worker, as a world on this machine, and waits for its end. The
// first SIGINT or SIGTERM is passed on to worker 0, a second one ends all. Returns the exit status
// of the first that failed, after which the others are given some seconds to end; otherwise 0.
int run_local_workers(int workers, int threads = 1);

}  // namespace gradwire
