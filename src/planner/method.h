#pragma once

// What the planner has to know of a method. Methods bring it themselves: src/methods/registry.h.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "gradwire/stats.h"

namespace gradwire::planner {

using OptionValue = std::variant<bool, int64_t, double, std::string>;
using OptionMap = std::map<std::string, OptionValue>;

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// A number that decides how much a method sends, as plan requests name it. Where the method has an
// option of this name, that is the same number, and registry() puts the method's default here.
struct ModelOption {
  std::string name;
  OptionValue default_value;  // its type is that of all values: whole numbers or any
  double least;
  double most;
  std::string rule;     // in words: "positive"
  std::string meaning;  // for --help

  bool is_whole() const { return std::holds_alternative<int64_t>(default_value); }
  // Throws std::invalid_argument where an option of this name is given and out of range. `whose` is
  // how the message begins.
  void check(const OptionMap& given, const std::string& whose) const;
};

// Bytes that go through memory per byte of gradient, or the time of as many; `decode_payload` per
// byte of payload.
struct Traffic {
  double encode = 0;
  double between = 0;
  double decode = 0;
  double decode_payload = 0;
};

class BucketView;
struct BucketCost;
struct MethodChoice;

inline std::string name_of(LossClass loss_class) {
  return kLossClassNames[static_cast<size_t>(loss_class)];
}

// The class of a MethodModel::loss.
inline LossClass loss_class_of(double loss) {
  return loss < 1 ? LossClass::exact : loss < 2 ? LossClass::rounded : LossClass::delayed;
}

struct MethodModel {
  std::string name;
  std::string colour;  // in plots; readers of any colour vision should tell it from the others
  // Its place in the order from the least lossy to the most: 0 is plain all-reduce, what rounds has
  // 1 or more, what sends a part of the gradient later or never has 2 or more.
  double loss = 0;
  std::vector<ModelOption> options = {};
  // The kernels, as measured by `gradwire bench` on one core: the ratio of their time to that of
  // `residual += gradient`, whose traffic is 3. Without what the cost has as operations.
  Traffic kernels = {};
  // The same in tensor operations, each of which reads and writes memory: counted, not measured.
  Traffic tensor_operations = {};
  int kinds_of_steps = 1;  // that take turns
  BucketCost (*cost)(const BucketView& bucket) = nullptr;
  // The rest is the registry's. Whether `auto` may choose it and a plan may advise it.
  bool is_candidate = true;
  // The line of Python that trains with it.
  std::string (*recipe)(const MethodChoice& choice) = nullptr;

  bool is_plain() const { return loss == 0; }
  LossClass loss_class() const { return loss_class_of(loss); }
};

// What all methods are compared with: an all-reduce of the gradient, which costs no coding.
const MethodModel& plain_all_reduce();

// From the least lossy to the most. They outlive whoever uses them.
using MethodModels = std::vector<const MethodModel*>;

// Throws std::invalid_argument naming the methods there are.
const MethodModel& method_named(const MethodModels& models, const std::string& name);

// A method with the options that decide how much it sends; those left out have their defaults.
struct MethodChoice {
  const MethodModel* model = &plain_all_reduce();
  OptionMap options = {};

  double number(const std::string& option) const;
  std::string recipe() const { return model->recipe == nullptr ? "" : model->recipe(*this); }
};

}  // namespace gradwire::planner
