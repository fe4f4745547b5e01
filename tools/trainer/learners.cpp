#include "trainer/learners.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "trainer/in_process_group.h"

namespace gradwire::trainer {

void run_learners(
    int learners,
    const std::function<void(int, const c10::intrusive_ptr<c10d::ProcessGroup>&)>& function) {
  const auto groups = make_in_process_groups(learners);
  std::exception_ptr first_error;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int learner = 0; learner < learners; ++learner) {
    threads.emplace_back([&, learner] {
      const auto& group = groups[static_cast<size_t>(learner)];
      try {
        function(learner, group);
      } catch (...) {
        {
          const std::lock_guard lock(mutex);
          if (first_error == nullptr) first_error = std::current_exception();
        }
        group->abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first_error != nullptr) std::rethrow_exception(first_error);
}

}  // namespace gradwire::trainer
