#include "planner/method.h"

#include <stdexcept>
#include <string>

namespace gradwire::planner {

std::string_view name_of(Method method) {
  switch (method) {
    case Method::allreduce:
      return "allreduce";
    case Method::half:
      return "half";
    case Method::powersgd:
      return "powersgd";
    case Method::acpsgd:
      return "acpsgd";
    case Method::topk:
      return "topk";
    case Method::adacomp:
      return "adacomp";
    case Method::sign:
      return "sign";
    case Method::sign_vote:
      return "sign-vote";
  }
  throw std::logic_error("not a method");
}

Method method_named(std::string_view name) {
  std::string valid;
  for (const Method method : kAllMethods) {
    if (name_of(method) == name) return method;
    valid += (valid.empty() ? "" : ", ") + std::string(name_of(method));
  }
  throw std::invalid_argument("there is no method \"" + std::string(name) + "\"; there are " +
                              valid);
}

}  // namespace gradwire::planner
