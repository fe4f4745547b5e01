#pragma once

#include <string>
#include <vector>

namespace gradwire::trainer {

// True if a launcher (torchrun, mpirun, srun, gradwire lab) has described a world in the
// environment.
bool launched();

// Starts this command once per worker on this machine, as a world of its own, and waits. The first
// SIGINT or SIGTERM is passed on to worker 0, a second one to all. Returns the exit status.
int run_local_workers(int workers, int threads, const std::vector<std::string>& command);

}  // namespace gradwire::trainer
