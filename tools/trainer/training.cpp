#include "trainer/training.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "gradwire/distributed_data_parallel.h"
#include "trainer/batches.h"
#include "trainer/checkpoint.h"
#include "trainer/in_process_group.h"
#include "trainer/optimizer.h"
#include "trainer/progress.h"
#include "trainer/results.h"
#include "trainer/schedule.h"
#include "trainer/stop.h"

namespace gradwire::trainer {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr int64_t kEarlySteps = 50;
// Of a training whose length is a time.
constexpr int64_t kTests = 12;
constexpr int64_t kComputeSteps = 20;

class Training {
 public:
  Training(const Settings& settings, const Request& method, const std::string& title,
           const data::Dataset& dataset, const std::shared_ptr<Model>& model,
           const c10::intrusive_ptr<c10d::ProcessGroup>& group)
      : settings_(settings),
        group_(group),
        training_(dataset, dataset.train, settings.train_limit),
        test_(dataset, dataset.test, settings.test_limit),
        model_(model),
        ddp_(
            model, group,
            {.method = method.method, .start_after = method.start_after, .by_name = method.options},
            {.make_group = further_groups_of(group)}),
        optimizer_(make_optimizer(settings, *model)),
        length_(
            length_of(settings, EpochBatches::steps(training_, settings.batch, group->getSize()))),
        progress_(title, length_, settings.seconds, group->getRank() != 0),
        results_(method, settings, group->getSize()),
        stop_(*group) {
    if (length_.steps_per_epoch == 0) {
      throw std::invalid_argument("there are fewer training samples (" +
                                  std::to_string(training_.count()) +
                                  ") than one step of all workers takes (" +
                                  std::to_string(settings.batch * group->getSize()) + ")");
    }
    if (settings.augment && !training_.are_images()) {
      throw std::invalid_argument("--augment is for images, but --data has something else");
    }
    if (settings_.checkpoint.empty()) return;
    folder_.emplace(settings_.checkpoint, group_->getRank(), kept_settings());
    if (!settings_.resume) folder_->require_empty();
  }

  json run() {
    if (settings_.resume) resume();
    while (!is_over()) {
      train_epoch(length_.epoch_of(step_));
      save();
    }
    return results_.finished(ddp_.stats(), means_over_workers(results_.losses()));
  }

  double compute_seconds() {
    EpochBatches batches = batches_of(1);
    const auto guard = ddp_.no_sync();
    std::vector<double> taken;
    for (int64_t step = 0; step < std::min(kComputeSteps, length_.steps_per_epoch); ++step) {
      end_of_step_ = Clock::now();
      taken.push_back(take_step(batches));
    }
    return torch::tensor(means_over_workers(taken)).median().item<double>();
  }

 private:
  bool is_timed() const { return settings_.seconds > 0; }
  bool is_over() const {
    return is_timed() ? trained_ >= settings_.seconds : step_ >= length_.steps;
  }

  EpochBatches batches_of(int64_t epoch) const {
    return {training_,
            settings_.batch,
            group_->getRank(),
            group_->getSize(),
            settings_.seed * 1000003 + static_cast<uint64_t>(epoch),
            step_ - length_.begin_of(epoch),
            settings_.augment};
  }

  void train_epoch(int64_t epoch) {
    EpochBatches batches = batches_of(epoch);
    end_of_step_ = Clock::now();
    while (step_ < length_.end_of(epoch) && !is_over()) {
      if (stop_.stops_before(step_)) {
        save();
        throw Interrupted();
      }
      trained_ += take_step(batches);
      if (progress_.due()) {
        progress_.step(step_, results_.last_loss(), ddp_.stats().sent_bytes, trained_);
      }
      if (is_timed()) look_at_the_clock();
    }
    if (!is_timed()) {
      const auto [figures, test] = end_stretch(epoch, length_.begin_of(epoch));
      progress_.epoch(epoch, figures.train_loss, test.loss, test.accuracy, figures.seconds,
                      figures.code_ratio);
    }
  }

  // The training time is that of worker 0. Neither agreeing on it nor a test is a part of it.
  void look_at_the_clock() {
    torch::Tensor trained = torch::tensor({trained_}, torch::kDouble);
    broadcast(trained);
    trained_ = trained.item<double>();
    const double between_tests = settings_.seconds / kTests;
    if (trained_ >= static_cast<double>(tests_ + 1) * between_tests) {
      tests_ = static_cast<int64_t>(trained_ / between_tests);
      const double epochs =
          static_cast<double>(step_) / static_cast<double>(length_.steps_per_epoch);
      const auto [figures, test] = end_stretch(epochs, results_.last_test());
      if (is_over()) progress_.end(step_, test.accuracy, trained_, figures.code_ratio);
    }
    end_of_step_ = Clock::now();
  }

  // Tests, and ends the stretch of training that began after `first_step` steps.
  std::pair<EpochFigures, Evaluation> end_stretch(const json& epoch, int64_t first_step) {
    const Evaluation test = evaluate();
    const double train_loss = means_over_workers({results_.mean_loss(first_step, step_)})[0];
    return {results_.end_epoch(epoch, train_loss, test, ddp_.stats()), test};
  }

  // Returns its seconds.
  double take_step(EpochBatches& batches) {
    const auto begin = end_of_step_;  // so that the time for bookkeeping counts
    const Batch batch = batches.next();
    const auto loaded = Clock::now();
    const double rate = learning_rate(settings_, length_, step_);
    for (auto& group : optimizer_->param_groups()) group.options().set_lr(rate);
    optimizer_->zero_grad();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(ddp_.forward(batch.input), batch.target);
    const auto forward = Clock::now();
    loss.backward();  // also compresses, sends and receives
    const auto backward = Clock::now();
    if (settings_.clip > 0) {
      torch::nn::utils::clip_grad_norm_(model_->parameters(), settings_.clip);
    }
    optimizer_->step();
    const auto end = end_of_step_ = Clock::now();
    ++step_;
    const StepFigures figures{.loss = loss.item<double>(),
                              .load = seconds(begin, loaded),
                              .forward = seconds(loaded, forward),
                              .backward = seconds(forward, backward),
                              .optimizer = seconds(backward, end)};
    results_.add_step(figures);
    if (step_ == kEarlySteps) results_.note_early(ddp_.stats());
    return figures.seconds();
  }

  static double seconds(Clock::time_point begin, Clock::time_point end) {
    return std::chrono::duration<double>(end - begin).count();
  }

  // Every worker evaluates a part of the test samples.
  Evaluation evaluate() {
    const torch::NoGradGuard no_grad;
    // All use the buffers of worker 0, as DDP does.
    for (torch::Tensor& buffer : model_->buffers()) broadcast(buffer);
    model_->eval();
    constexpr int64_t kBatch = 100;
    double loss = 0;
    int64_t correct = 0, predictions = 0;
    for (int64_t first = kBatch * group_->getRank(); first < test_.count();
         first += kBatch * group_->getSize()) {
      const Batch batch =
          test_.gather(torch::arange(first, std::min(first + kBatch, test_.count())));
      const torch::Tensor scores = model_->forward(batch.input);
      loss += torch::nn::functional::cross_entropy(
                  scores, batch.target,
                  torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum))
                  .item<double>();
      correct += scores.argmax(1).eq(batch.target).sum().item<int64_t>();
      predictions += batch.target.numel();
    }
    model_->train();
    const auto sum =
        sums_over_workers({loss, static_cast<double>(correct), static_cast<double>(predictions)});
    return {.loss = sum[0] / sum[2], .accuracy = sum[1] / sum[2]};
  }

  void broadcast(torch::Tensor& tensor) {
    std::vector<at::Tensor> tensors = {tensor};
    group_->broadcast(tensors)->wait();
  }

  std::vector<double> sums_over_workers(const std::vector<double>& values) {
    std::vector<at::Tensor> sums = {torch::tensor(values, torch::kDouble)};
    group_->allreduce(sums)->wait();
    const auto* first = sums[0].const_data_ptr<double>();
    return {first, first + sums[0].numel()};
  }

  std::vector<double> means_over_workers(const std::vector<double>& values) {
    std::vector<double> means = sums_over_workers(values);
    for (double& mean : means) mean /= group_->getSize();
    return means;
  }

  // A resumed training must have the same. It may be longer, except with a cosine, whose shape
  // depends on the length.
  json kept_settings() const {
    json kept = {{"workers", group_->getSize()},
                 {"model", settings_.model},
                 {"samples", training_.count()},
                 {"batch", settings_.batch},
                 {"seed", settings_.seed},
                 {"optimizer", settings_.optimizer},
                 {"lr", settings_.lr},
                 {"momentum", settings_.momentum},
                 {"weight-decay", weight_decay_of(settings_)},
                 {"clip", settings_.clip},
                 {"warmup", settings_.warmup_epochs},
                 {"decay", settings_.decay},
                 {"decay-at", settings_.decay_at},
                 {"cosine", settings_.cosine},
                 {"augment", settings_.augment}};
    if (settings_.cosine) kept["steps"] = length_.steps;
    return kept;
  }

  void save() {
    if (!folder_) return;
    folder_->save(
        {.step = step_, .progress = results_.saved(ddp_.stats()), .gradwire = ddp_.state()},
        *model_, *optimizer_);
  }

  void resume() {
    const std::optional<int64_t> step = folder_->last_common_step(*group_);
    if (!step) return progress_.say("there is no checkpoint yet; starting from the beginning");
    const Checkpoint checkpoint = folder_->load(*step, *model_, *optimizer_);
    results_.restore(checkpoint.progress);
    ddp_.load_state(checkpoint.gradwire);
    step_ = checkpoint.step;
    // Without this, a training that is made shorter could end where nothing was tested.
    if (step_ > length_.steps || (step_ == length_.steps && results_.last_test() != step_)) {
      throw std::invalid_argument("--resume: " + settings_.checkpoint + " was saved after step " +
                                  std::to_string(step_) + ", but the training has only " +
                                  std::to_string(length_.steps) + " steps");
    }
    progress_.say("resumed after step " + std::to_string(step_));
  }

  const Settings& settings_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  Samples training_;
  Samples test_;
  std::shared_ptr<Model> model_;
  DistributedDataParallel<std::shared_ptr<Model>> ddp_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  Length length_;
  Progress progress_;
  Results results_;
  StopAgreement stop_;
  std::optional<CheckpointFolder> folder_;
  int64_t step_ = 0;               // number of steps done
  double trained_ = 0;             // seconds of all steps since the start of this process
  int64_t tests_ = 0;              // that were due so far, if so
  Clock::time_point end_of_step_;  // when the last step ended
};

}  // namespace

double compute_seconds(const Settings& settings, const data::Dataset& dataset,
                       const std::shared_ptr<Model>& model,
                       const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return Training(settings, {.method = "allreduce"}, "", dataset, model, group).compute_seconds();
}

json train(const Settings& settings, const Request& method, const std::string& title,
           const data::Dataset& dataset, const std::shared_ptr<Model>& model,
           const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  return Training(settings, method, title, dataset, model, group).run();
}

}  // namespace gradwire::trainer
