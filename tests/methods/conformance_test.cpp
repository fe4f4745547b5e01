// What must hold for every method in the registry, whatever its gradients. A new method is tested
// here without a line of test code; tests/ddp/method_test.cpp does the same over real groups.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <random>
#include <sstream>

#include "gradients.h"
#include "simulated_world.h"

namespace gradwire {
namespace {

// A method with some of its options.
struct Subject {
  const MethodEntry* method;
  Variant variant;

  const OptionMap& options() const { return variant.options; }
  Facts facts() const { return facts_of(*method, options()); }
};

void PrintTo(const Subject& subject, std::ostream* out) { *out << subject.variant.name; }

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const MethodEntry& entry : registry()) {
    if (entry.name == kAuto) continue;  // it has no exchange of its own
    for (const Variant& variant : entry.variants) all.push_back({&entry, variant});
  }
  return all;
}

// Of these shapes, those that the method's exchanges take: where it leaves parameters to others,
// they are left out.
Shapes taken_by(const Subject& subject, const Shapes& shapes) {
  const OptionMap options = complete_options(*subject.method, subject.options());
  const auto method = subject.method->create(options);
  Shapes taken;
  for (const auto& shape : shapes) {
    const bool has_state = method->make_state({"weight", at::zeros(shape)}, options) != nullptr;
    if (has_state || method->carries_uncompressed()) taken.push_back(shape);
  }
  return taken;
}

class Conformance : public testing::TestWithParam<Subject> {
 protected:
  SimulatedWorld world(int workers, at::ScalarType type = at::kFloat) const {
    return {GetParam().method->name, GetParam().options(), workers, shapes(), type};
  }
  Shapes shapes() const {
    return taken_by(GetParam(),
                    {{}, {1}, {7}, {1, 1}, {64, 48}, {32, 4, 3, 3}, {5, 400}, {200, 300}});
  }
  Facts facts() const { return GetParam().facts(); }
  // [worker][parameter]
  std::vector<std::vector<at::Tensor>> residuals_of(const SimulatedWorld& world,
                                                    int workers) const {
    std::vector<std::vector<at::Tensor>> residuals(workers);
    for (int worker = 0; worker < workers; ++worker) {
      for (size_t i = 0; i < shapes().size(); ++i) {
        residuals[worker].push_back(world.residual(worker, i).to(at::kDouble));
      }
    }
    return residuals;
  }
};

INSTANTIATE_TEST_SUITE_P(Registry, Conformance, testing::ValuesIn(subjects()),
                         [](const auto& info) {
                           std::string name = info.param.variant.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

// A gradient of one kind, made of a random one.
struct SpecialValues {
  const char* name;
  at::Tensor (*make)(const at::Tensor& random);
};

const std::vector<SpecialValues> kSpecialValues = {
    {"random", [](const at::Tensor& random) { return random; }},
    {"zeros", [](const at::Tensor& random) { return at::zeros_like(random); }},
    {"negative zeros", [](const at::Tensor& random) { return at::zeros_like(random).neg(); }},
    {"denormals", [](const at::Tensor& random) { return random * 1e-40; }},
    {"huge", [](const at::Tensor& random) { return random * 1e30; }},
    {"all equal", [](const at::Tensor& random) { return at::full_like(random, -0.75); }},
    {"one element",
     [](const at::Tensor& random) {
       at::Tensor gradient = at::zeros_like(random);
       gradient.view(-1)[random.numel() / 2] = 3;
       return gradient;
     }},
};

Gradients special(const SpecialValues& values, int workers, int64_t step, const Shapes& shapes) {
  Gradients gradients = random_gradients(workers, step, shapes);
  for (auto& of_worker : gradients) {
    for (at::Tensor& gradient : of_worker) gradient = values.make(gradient);
  }
  return gradients;
}

// N result + sum of the residuals' changes - sum of the gradients, relative to the largest of all.
double imbalance(const SimulatedWorld& world, const std::vector<std::vector<at::Tensor>>& before,
                 const Gradients& gradients, const Gradients& results, size_t parameter) {
  const auto workers = static_cast<int>(gradients.size());
  at::Tensor sum = results[0][parameter].to(at::kDouble) * workers;
  double largest = 0;
  for (int worker = 0; worker < workers; ++worker) {
    const at::Tensor after = world.residual(worker, parameter).to(at::kDouble);
    const at::Tensor gradient = gradients[worker][parameter].to(at::kDouble);
    sum = sum + after - before[worker][parameter] - gradient;
    largest = std::max({largest, gradient.abs().max().item<double>(),
                        before[worker][parameter].abs().max().item<double>()});
  }
  const double off = sum.abs().max().item<double>();
  return off == 0 ? 0 : off / (largest * workers);
}

TEST_P(Conformance, SpecialValuesAreAlikeEverywhereAndNothingIsDropped) {
  for (const SpecialValues& values : kSpecialValues) {
    for (const int workers : {1, 2, 3, 4, 8}) {
      SCOPED_TRACE(std::string(values.name) + ", " + std::to_string(workers) + " workers");
      SimulatedWorld simulated = world(workers);
      for (int64_t step = 0; step < 4; ++step) {
        const auto before = residuals_of(simulated, workers);
        const Gradients gradients = special(values, workers, step, shapes());
        const Gradients results = simulated.step(gradients);
        expect_alike(results);
        for (size_t i = 0; i < shapes().size(); ++i) {
          // A narrower type may not reach as far.
          const bool is_huge = std::string(values.name) == "huge";
          if (facts().loss_class == LossClass::rounded && is_huge) continue;
          EXPECT_TRUE(at::isfinite(results[0][i]).all().item<bool>()) << "parameter " << i;
          if (!facts().keeps_residual) continue;
          // Denormals: what is lost is below the smallest normal number.
          if (std::string(values.name) == "denormals") continue;
          const double tolerance = 1e-5 + 2.5 * facts().rounding;
          EXPECT_LT(imbalance(simulated, before, gradients, results, i), tolerance)
              << "step " << step << ", parameter " << i;
        }
      }
    }
  }
}

// A worker that does not use a parameter in a step, whichever that is, and a step in which nobody
// uses it.
TEST_P(Conformance, NothingIsDroppedWhereWorkersAbstain) {
  if (!facts().keeps_residual) GTEST_SKIP() << "keeps no residual";
  constexpr int kWorkers = 3;
  SimulatedWorld simulated = world(kWorkers);
  for (int64_t step = 0; step < 9; ++step) {
    Gradients gradients = random_gradients(kWorkers, step, shapes());
    for (int worker = 0; worker < kWorkers; ++worker) {
      if (worker != step % 4 && step != 7) continue;
      for (at::Tensor& gradient : gradients[worker]) gradient.zero_();
    }
    const auto before = residuals_of(simulated, kWorkers);
    const Gradients results = simulated.step(gradients);
    expect_alike(results);
    for (size_t i = 0; i < shapes().size(); ++i) {
      EXPECT_LT(imbalance(simulated, before, gradients, results, i), 1e-5 + 2.5 * facts().rounding)
          << "step " << step << ", parameter " << i;
    }
  }
}

TEST_P(Conformance, KeepsAResidualWhereItsFactsSaySo) {
  const OptionMap options = complete_options(*GetParam().method, GetParam().options());
  const auto method = GetParam().method->create(options);
  const auto state = method->make_state({"weight", at::zeros({256, 256})}, options);
  const bool keeps = state != nullptr && state->residual().defined();
  EXPECT_EQ(keeps, facts().keeps_residual);
}

TEST_P(Conformance, SameInputGivesSameBytes) {
  SimulatedWorld first = world(3);
  SimulatedWorld second = world(3);
  for (int64_t step = 0; step < 4; ++step) {
    const Gradients gradients = random_gradients(3, step, shapes());
    first.step(gradients);
    second.step(gradients);
    ASSERT_EQ(first.sent().size(), second.sent().size());
    for (size_t i = 0; i < first.sent().size(); ++i) {
      const at::Tensor a = first.sent()[i].contiguous().view(-1).view(at::kByte);
      EXPECT_TRUE(a.equal(second.sent()[i].contiguous().view(-1).view(at::kByte)));
    }
  }
}

// A payload of any method is at most the gradient and a little for headers and padding, whatever
// the values: those that compress badly must not make it explode.
TEST_P(Conformance, PayloadStaysWithinItsBound) {
  constexpr int kWorkers = 4;
  for (const SpecialValues& values : kSpecialValues) {
    SimulatedWorld simulated = world(kWorkers);
    for (int64_t step = 0; step < 3; ++step) {
      simulated.step(special(values, kWorkers, step, shapes()));
      int64_t gradient_bytes = 0;
      for (const auto& shape : shapes()) gradient_bytes += 4 * c10::multiply_integers(shape);
      int64_t payload = 0;
      for (const int64_t bytes : simulated.payload_bytes()[0]) payload += bytes;
      EXPECT_LE(payload, gradient_bytes + 64 + 16 * static_cast<int64_t>(shapes().size()))
          << values.name << ", step " << step;
    }
  }
}

// The error of the running mean after so many steps of one constant gradient per worker.
std::vector<double> mean_errors(SimulatedWorld& world, const Gradients& gradients,
                                const std::vector<int>& checkpoints) {
  at::Tensor wanted = gradients[0][0].to(at::kDouble);
  for (size_t worker = 1; worker < gradients.size(); ++worker) wanted += gradients[worker][0];
  wanted /= static_cast<double>(gradients.size());
  at::Tensor sum = at::zeros_like(wanted);
  std::vector<double> errors;
  int step = 0;
  for (const int checkpoint : checkpoints) {
    for (; step < checkpoint; ++step) sum += world.step(gradients)[0][0];
    errors.push_back((sum / checkpoint - wanted).norm().item<double>());
  }
  return errors;
}

TEST_P(Conformance, RunningMeanOfAConstantGradientConverges) {
  if (!facts().keeps_residual) GTEST_SKIP() << "keeps no residual";
  const Shapes matrix = {{64, 48}};
  SimulatedWorld simulated(GetParam().method->name, GetParam().options(), 2, matrix);
  if (!simulated.compresses(0)) GTEST_SKIP() << "leaves the matrix uncompressed";
  const auto errors = mean_errors(simulated, random_gradients(2, 0, matrix), {100, 1600});
  // Like 1/T in the end: 16 times the steps, a 16th of the error. Where large elements wait for
  // thousands of steps, as with one scale for all signs, it falls more slowly until then.
  EXPECT_LT(errors[1], errors[0] / 3) << errors[0] << " -> " << errors[1];
}

TEST_P(Conformance, ResumesBitForBit) {
  for (const int64_t stop : {1, 2, 3}) {
    SimulatedWorld uninterrupted = world(3);
    SimulatedWorld stopped = world(3);
    SimulatedWorld resumed = world(3);
    for (int64_t step = 0; step < 7; ++step) {
      const Gradients gradients = random_gradients(3, step, shapes());
      const Gradients wanted = uninterrupted.step(gradients);
      if (step < stop) {
        stopped.step(gradients);
        continue;
      }
      if (step == stop) resumed.resume_from(stopped);
      const Gradients results = resumed.step(gradients);
      for (size_t i = 0; i < shapes().size(); ++i) {
        EXPECT_TRUE(same_bits(results[0][i], wanted[0][i]))
            << "stopped after " << stop << ", step " << step << ", parameter " << i;
      }
    }
  }
}

// Roughly normal numbers that are the same on every machine, which torch's are not.
Gradients portable_gradients(int workers, int64_t step, const Shapes& shapes) {
  Gradients gradients(workers);
  for (int worker = 0; worker < workers; ++worker) {
    std::mt19937 random(static_cast<uint32_t>(1000 * step + worker));
    for (const auto& shape : shapes) {
      at::Tensor gradient = at::empty(shape);
      auto* values = gradient.mutable_data_ptr<float>();
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        double sum = 0;
        for (int term = 0; term < 4; ++term) sum += static_cast<double>(random()) / 0x1p32 - 0.5;
        values[i] = static_cast<float>(sum);
      }
      gradients[worker].push_back(gradient);
    }
  }
  return gradients;
}

TEST(Options, AreReadAsTheyAreWritten) {
  for (const Subject& subject : subjects()) {
    const OptionMap options = complete_options(*subject.method, subject.variant.options);
    std::string text;
    for (const auto& [name, value] : options) text += " " + name + "=" + to_string(value);
    const OptionMap read = parse_options(text);
    EXPECT_EQ(read.size(), options.size());
    for (const auto& [name, value] : options) EXPECT_EQ(to_string(read.at(name)), to_string(value));
  }
  EXPECT_EQ(parse_options("rank=-3").at("rank"), OptionValue(int64_t{-3}));
  EXPECT_EQ(parse_options("density=1e-05").at("density"), OptionValue(1e-5));
  for (const char* text : {"rank", "rank=", "rank=4x", "dtype=\"int4", "dtype=int4"}) {
    EXPECT_THROW(parse_options(text), std::invalid_argument) << text;
  }
}

// The sizes of all payloads, as a table that shows in a review what a change does to them:
// method, step, then the bytes of each parameter. `GRADWIRE_WRITE_PAYLOAD_SIZES=1` writes it anew.
TEST(PayloadSizes, AreThoseOfTheTable) {
  const Shapes shapes = {{7}, {64, 48}, {300, 500}, {64, 32, 3, 3}};
  std::ostringstream table;
  table << "# bytes of worker 0's payload of parameters of 7, 64x48, 300x500 and 64x32x3x3, of 4 "
           "workers\n";
  for (const Subject& subject : subjects()) {
    const Shapes taken = taken_by(subject, shapes);
    SimulatedWorld simulated(subject.method->name, subject.options(), 4, taken);
    for (int64_t step = 1; step <= 20; ++step) {
      simulated.step(portable_gradients(4, step, taken));
      if (step != 1 && step != 2 && step != 20) continue;
      table << subject.variant.name << " step " << step << ":";
      for (const int64_t bytes : simulated.payload_bytes()[0]) table << ' ' << bytes;
      table << '\n';
    }
  }
  const std::string path = std::string(GRADWIRE_SOURCE_DIR) + "/tests/methods/payload_sizes.txt";
  if (std::getenv("GRADWIRE_WRITE_PAYLOAD_SIZES") != nullptr) std::ofstream(path) << table.str();
  std::ifstream file(path);
  const std::string committed{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(table.str(), committed);
}

}  // namespace
}  // namespace gradwire
