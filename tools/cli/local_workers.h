#pragma once

#include <string>
#include <vector>

namespace gradwire {

// The command line of this process, with the full path of the program.
std::vector<std::string> own_command();

// Whether a launcher (torchrun, mpirun, srun, gradwire lab) has started this process as a worker.
bool was_launched();

// Runs this command line once per worker, as a world on this machine, and waits for all to end. A
// first SIGINT or SIGTERM is passed on to the workers, a second one kills them. If a worker fails,
// the others have some seconds to end by themselves. Returns the worst exit status.
int run_local_workers(int workers, int threads = 1);

}  // namespace gradwire
