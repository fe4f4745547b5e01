// The only source that sees gloo's headers. The torch wheel has gloo's code but not its headers,
// and Debian's are older: no gloo type may cross the boundary of this file.

#include "gradwire/process_group.h"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace gradwire {
namespace {

const char* first_of(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

// The number in the first of these variables that is set, between 0 and `most`.
int number_from(std::initializer_list<const char*> names, int fallback,
                int most = std::numeric_limits<int>::max()) {
  for (const char* name : names) {
    const char* text = first_of({name});
    if (text == nullptr) continue;
    char* end = nullptr;
    const long number = std::strtol(text, &end, 10);
    if (*end == '\0' && number >= 0 && number <= most) return static_cast<int>(number);
    throw std::invalid_argument(std::string("the environment variable ") + name +
                                " must be a number from 0 to " + std::to_string(most) + "; got \"" +
                                text + "\"");
  }
  return fallback;
}

std::shared_ptr<gloo::transport::Device> make_device() {
  const char* interface = first_of({"GLOO_SOCKET_IFNAME"});
  return interface == nullptr ? c10d::ProcessGroupGloo::createDefaultDevice()
                              : c10d::ProcessGroupGloo::createDeviceForInterface(interface);
}

}  // namespace

c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                       int worker, int workers,
                                                       const ProcessGroupOptions& options) {
  auto gloo_options = c10d::ProcessGroupGloo::Options::create(options.timeout);
  gloo_options->devices.push_back(make_device());
  auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, worker, workers, gloo_options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, worker, workers);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

c10::intrusive_ptr<c10d::ProcessGroup> make_further_group(c10d::ProcessGroup& group) {
  // All workers make their groups in the same order, so each numbers them by a count of its own in
  // the store.
  const auto store = group.getStore();
  const int64_t number = store->add("gradwire/groups/" + std::to_string(group.getRank()), 1);
  auto own_part =
      c10::make_intrusive<c10d::PrefixStore>("gradwire/group/" + std::to_string(number), store);
  const auto backend = c10::dynamic_intrusive_pointer_cast<c10d::ProcessGroupGloo>(
      group.getBackend(c10::DeviceType::CPU));
  TORCH_CHECK(backend != nullptr, "the process group must be one of init_process_group()");
  return make_gloo_group(own_part, group.getRank(), group.getSize(),
                         {.timeout = backend->getOptions()->timeout});
}

c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(const ProcessGroupOptions& options) {
  const int worker = number_from({"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}, 0);
  const int workers = number_from({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}, 1);
  if (worker >= workers) {
    throw std::invalid_argument("worker " + std::to_string(worker) + " is not in a world of " +
                                std::to_string(workers) + ": check RANK and WORLD_SIZE");
  }
  const char* address = first_of({"MASTER_ADDR"});
  const int port = number_from({"MASTER_PORT"}, 0, std::numeric_limits<uint16_t>::max());
  if (workers > 1 && (address == nullptr || port == 0)) {
    throw std::invalid_argument(
        "a world of several workers needs MASTER_ADDR and MASTER_PORT in the environment: the "
        "address of worker 0 and a free port on it");
  }
  // torchrun's own process hosts the store; otherwise worker 0 does.
  const bool hosted = first_of({"TORCHELASTIC_USE_AGENT_STORE"}) != nullptr &&
                      std::string(first_of({"TORCHELASTIC_USE_AGENT_STORE"})) == "True";
  c10d::TCPStoreOptions store_options;
  store_options.port = static_cast<uint16_t>(port);
  store_options.isServer = worker == 0 && !hosted;
  store_options.numWorkers = workers;
  store_options.timeout = options.timeout;
  c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(
      address == nullptr ? "127.0.0.1" : address, store_options);
  // torchrun's store outlives a restart of the workers: they must not find the keys of the run
  // before.
  const char* attempt = first_of({"TORCHELASTIC_RESTART_COUNT"});
  store = c10::make_intrusive<c10d::PrefixStore>(
      std::string("gradwire/") + (attempt == nullptr ? "0" : attempt), store);
  return make_gloo_group(store, worker, workers, options);
}

}  // namespace gradwire
