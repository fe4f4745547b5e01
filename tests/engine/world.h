#pragma once

// A world of workers as threads of this process, over real Gloo process groups and a shared
// HashStore.

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "gradwire/process_group.h"

namespace gradwire {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// What each worker returned or threw.
template <typename Result>
struct Outcome {
  Result result{};
  std::exception_ptr error;
};

template <typename Result>
std::vector<Outcome<Result>> run_world_with_errors(
    int workers, const std::function<Result(const Group&)>& work) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<Outcome<Result>> outcomes(workers);
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker) {
    threads.emplace_back([&, worker] {
      try {
        const Group group =
            make_gloo_group(store, worker, workers, {.timeout = std::chrono::seconds(60)});
        outcomes[worker].result = work(group);
      } catch (...) {
        outcomes[worker].error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// The results of all workers. The first error of any worker is thrown again.
template <typename Result>
std::vector<Result> run_world(int workers, const std::function<Result(const Group&)>& work) {
  std::vector<Result> results;
  for (Outcome<Result>& outcome : run_world_with_errors<Result>(workers, work)) {
    if (outcome.error) std::rethrow_exception(outcome.error);
    results.push_back(std::move(outcome.result));
  }
  return results;
}

}  // namespace gradwire
