#pragma once

// A method of each kind that there is, for tests of the planner alone. What holds for the library's
// own methods is in tests/methods/model_test.cpp.

#include "planner/bucket_cost.h"

namespace gradwire::planner {

// Half of the bytes, in two rounds.
inline const MethodModel kSliced{
    .name = "sliced",
    .colour = "#0072b2",
    .loss = 1,
    .kernels = {.encode = 2.8, .between = 1.2, .decode = 2.1},
    .tensor_operations = {.encode = 1.5, .between = 1.5, .decode = 1.5},
    .cost = [](const BucketView& bucket) { return by_slices(bucket, bucket.bytes() / 2); },
    .recipe = [](const MethodChoice& choice) { return choice.model->name; }};

// One factor in one step, the other in the next.
inline const MethodModel kFactored{
    .name = "factored",
    .colour = "#d55e00",
    .loss = 3,
    .options = low_rank_options(),
    .kernels = {.encode = 4.8, .decode = 2},
    .tensor_operations = {.encode = 9, .decode = 3},
    .kinds_of_steps = 2,
    .cost = [](const BucketView& bucket) {
      const LowRankSums sums = low_rank_sums(bucket);
      return one_round(
          Collective::all_reduce,
          sums.uncompressed_bytes + (bucket.kind_of_step() == 0 ? sums.p_bytes : sums.q_bytes),
          bucket.encode(2 * sums.product_operations), bucket.decode(sums.product_operations));
    }};

// A 32nd of the bytes, from everyone to everyone.
inline const MethodModel kGathered{
    .name = "gathered",
    .colour = "#009e73",
    .loss = 6,
    .options = {{"rate", 32.0, 1, kUnlimited, "1 or more", "gradient to payload"}},
    .kernels = {.encode = 4, .decode = 1.5, .decode_payload = 10},
    .tensor_operations = {.encode = 12, .decode = 2, .decode_payload = 150},
    .cost = [](const BucketView& bucket) {
      return gathered(bucket, kRecordBytes + bucket.bytes() / bucket.option("rate"));
    }};

inline const MethodModels kModels = {&plain_all_reduce(), &kSliced, &kFactored, &kGathered};

}  // namespace gradwire::planner
