#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gradwire::planner {

// From the least lossy to the most: exact; rounded; a low-rank part of the gradient, both factors
// or one per step, and the rest kept for later; few elements, the rest kept; the signs, the rest
// kept; the signs and nothing kept.
enum class Method : uint8_t {
  allreduce,
  half,
  powersgd,
  acpsgd,
  topk,
  adacomp,
  sign,
  sign_vote,
};

inline constexpr std::array kAllMethods = {Method::allreduce, Method::half,     Method::powersgd,
                                           Method::acpsgd,    Method::topk,     Method::adacomp,
                                           Method::sign,      Method::sign_vote};

std::string_view name_of(Method method);

// Throws std::invalid_argument naming the methods there are.
Method method_named(std::string_view name);

inline size_t index_of(Method method) { return static_cast<size_t>(method); }

// A method with the options that decide how much it sends. Each method reads its own.
struct MethodChoice {
  Method method = Method::allreduce;
  int64_t rank = 4;         // powersgd, acpsgd
  double min_ratio = 2;     // powersgd, acpsgd
  double density = 0.01;    // topk
  double conv_rate = 40;    // adacomp: gradient bytes per payload byte where there are three or
  double dense_rate = 200;  // more dimensions, and elsewhere
};

}  // namespace gradwire::planner
