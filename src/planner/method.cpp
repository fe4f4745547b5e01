#include "planner/method.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "planner/bucket_cost.h"

namespace gradwire::planner {
namespace {

double number_in(const OptionValue& value) {
  const auto* whole = std::get_if<int64_t>(&value);
  return whole == nullptr ? std::get<double>(value) : static_cast<double>(*whole);
}

}  // namespace

void ModelOption::check(const OptionMap& given, const std::string& whose) const {
  const auto found = given.find(name);
  if (found == given.end()) return;
  const double value = number_in(found->second);
  if (std::isfinite(value) && value >= least && value <= most) return;
  std::ostringstream text;
  text << whose << name << " must be " << rule << "; got " << value;
  throw std::invalid_argument(text.str());
}

const MethodModel& plain_all_reduce() {
  static const MethodModel model{
      .name = "allreduce", .colour = "#000000", .cost = [](const BucketView& bucket) {
        return one_round(Collective::all_reduce, bucket.bytes(), bucket.encode(), bucket.decode());
      }};
  return model;
}

const MethodModel& method_named(const MethodModels& models, const std::string& name) {
  std::string valid;
  for (const MethodModel* model : models) {
    if (model->name == name) return *model;
    valid += (valid.empty() ? "" : ", ") + model->name;
  }
  throw std::invalid_argument("there is no method \"" + name + "\"; there are " + valid);
}

double MethodChoice::number(const std::string& option) const {
  const auto given = options.find(option);
  if (given != options.end()) return number_in(given->second);
  const auto known = std::ranges::find(model->options, option, &ModelOption::name);
  if (known == model->options.end()) {
    throw std::logic_error("the model of " + model->name + " has no option " + option);
  }
  return number_in(known->default_value);
}

}  // namespace gradwire::planner
