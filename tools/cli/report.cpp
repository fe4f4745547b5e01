#include "cli/report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace gradwire {
namespace {

namespace fs = std::filesystem;

// In a wheel the command is in a folder of the package. In a build tree it is beside the package.
fs::path find_script() {
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {"../report.py", "../python/gradwire/report.py"}) {
    if (fs::exists(here / place)) return here / place;
  }
  throw std::runtime_error("--report: report.py is not installed with this command (" +
                           here.string() + ")");
}

}  // namespace

std::string write_report(const std::string& results_file, const std::string& folder) {
  const std::string script = find_script().string();
  const char* chosen = std::getenv("GRADWIRE_PYTHON");
  const char* python = chosen == nullptr ? "python3" : chosen;
  const pid_t process = ::fork();
  if (process == 0) {
    ::execlp(python, python, script.c_str(), results_file.c_str(), folder.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  if (process < 0 || ::waitpid(process, &status, 0) != process || status != 0) {
    throw std::runtime_error(
        std::string("--report: ") + python +
        " failed; it needs matplotlib (set GRADWIRE_PYTHON to use another Python)");
  }
  return folder + "/index.html";
}

}  // namespace gradwire
