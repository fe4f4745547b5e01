#include "planner/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "example_methods.h"
#include "planner/bucket_cost.h"
#include "planner/device.h"
#include "planner/model_shapes.h"
#include "planner/profile_json.h"

namespace gradwire::planner {
namespace {

using nlohmann::json;

Profile example() {
  Profile profile = model_profile("resnet-50", 0.2);
  const Device device = default_device(DeviceKind::cpu);
  profile.rates = coding_rates(device, kModels);
  profile.flops_per_second = device.flops_per_second;
  return profile;
}

std::string refusal_of(const json& damaged) {
  try {
    profile_from_json(damaged, kModels);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Buckets, CloseOnceTheyReachTheirSize) {
  // 0.5 MB each, in the order of their definition; gradients come in reverse.
  const std::vector<ParameterShape> parameters(60, {"w", {131072}});
  std::vector<double> ready(60);
  for (size_t i = 0; i < 60; ++i) ready[i] = static_cast<double>(60 - i);
  const std::vector<Bucket> buckets = ddp_buckets(parameters, ready);
  ASSERT_EQ(buckets.size(), 3U);
  EXPECT_EQ(buckets[0].parameters, (std::vector<size_t>{59, 58}));
  EXPECT_EQ(buckets[0].ready_seconds, 2);
  EXPECT_EQ(buckets[1].parameters.size(), 50U);
  EXPECT_EQ(buckets[2].parameters.size(), 8U);
  EXPECT_EQ(buckets[2].ready_seconds, 60);
}

TEST(ProfileJson, RoundTrips) {
  const Profile profile = example();
  const json written = to_json(profile);
  const Profile read = profile_from_json(json::parse(written.dump()), kModels);
  EXPECT_EQ(to_json(read), written);
  EXPECT_EQ(read.buckets.size(), profile.buckets.size());
  EXPECT_EQ(read.flops_per_second, profile.flops_per_second);
}

Profile recorded_with(const MethodModel& model) {
  Profile profile = example();
  profile.measured = {.choice = {&model}, .workers = 4, .steps = 16};
  for (Bucket& bucket : profile.buckets) {
    bucket.measured = {.encode = 0.003, .between = 0.001, .decode = 0.002};
  }
  return profile;
}

TEST(ProfileJson, KeepsWhatWasMeasured) {
  Profile profile = recorded_with(kFactored);
  profile.measured->choice.options = {{"rank", int64_t{8}}};
  profile.buckets[2].gathered_bytes = 4000;
  const json written = to_json(profile);
  EXPECT_EQ(written["buckets"][2]["gathered_bytes"], 4000);
  EXPECT_EQ(written["measured"]["workers"], 4);
  EXPECT_EQ(written["measured"]["rank"], 8);
  EXPECT_EQ(written["buckets"][2]["decode_seconds"], 0.002);
  EXPECT_EQ(written["parameters"][0]["kind"], "conv");
  EXPECT_EQ(to_json(profile_from_json(json::parse(written.dump()), kModels)), written);
}

TEST(ProfileJson, RefusesWhatCannotHaveBeenMeasured) {
  json negative = to_json(recorded_with(kSliced));
  negative["buckets"][1]["encode_seconds"] = -1;
  EXPECT_NE(refusal_of(negative).find("encode_seconds"), std::string::npos);
  json unsent = to_json(recorded_with(kSliced));
  unsent["buckets"][1]["gathered_bytes"] = -1;
  EXPECT_NE(refusal_of(unsent).find("gathered_bytes"), std::string::npos);
  json nobody = to_json(recorded_with(kSliced));
  nobody["measured"]["workers"] = 0;
  EXPECT_EQ(refusal_of(nobody), "[profile] measured.workers must be at least 1");
  json wrong = to_json(recorded_with(kFactored));
  wrong["measured"]["rank"] = 0;
  EXPECT_EQ(refusal_of(wrong), "[profile] measured.rank must be positive; got 0");
  wrong["measured"] = {{"method", "halve"}, {"workers", 4}};
  EXPECT_NE(refusal_of(wrong).find("there is no method \"halve\""), std::string::npos);
  json unmeasured = to_json(example());
  unmeasured["buckets"][0]["encode_seconds"] = 1;
  EXPECT_EQ(refusal_of(unmeasured), "[profile] buckets[0].encode_seconds is not a field there is");
  json mistaken = to_json(example());
  mistaken["parameters"][0]["kind"] = "dense";
  EXPECT_EQ(refusal_of(mistaken),
            "[profile] parameters[0].kind is \"dense\", but the shape is that of \"conv\"");
}

TEST(MeasuredCost, StandsInForTheRates) {
  const Profile profile = recorded_with(kSliced);
  const BucketCost seen = bucket_cost(profile, profile.buckets[1], {&kSliced}, 4, 0);
  EXPECT_DOUBLE_EQ(seen.rounds[0].compute_seconds, 0.003);
  EXPECT_DOUBLE_EQ(seen.rounds[1].compute_seconds, 0.001);
  EXPECT_DOUBLE_EQ(seen.decode_seconds, 0.002);
  const MethodChoice other = {&kGathered};
  EXPECT_EQ(bucket_cost(profile, profile.buckets[1], other, 4, 0).decode_seconds,
            bucket_cost(example(), profile.buckets[1], other, 4, 0).decode_seconds);
}

TEST(MeasuredCost, GrowsAsTheModelSays) {
  const Profile profile = recorded_with(kGathered);
  const auto decode = [&](const Profile& of, int64_t workers) {
    return bucket_cost(of, profile.buckets[1], {&kGathered}, workers, 0).decode_seconds;
  };
  EXPECT_DOUBLE_EQ(decode(profile, 4), 0.002);
  EXPECT_NEAR(decode(profile, 64), 0.002 * decode(example(), 64) / decode(example(), 4), 1e-12);
}

TEST(MeasuredCost, TakesWhatWasGatheredAndNotThePublishedRate) {
  const MethodChoice choice = {&kGathered};
  Profile profile = recorded_with(kGathered);
  const auto bytes = [&](const MethodChoice& of, int64_t workers) {
    return bucket_cost(profile, profile.buckets[1], of, workers, 0).rounds[0].bytes;
  };
  const double modelled = bytes(choice, 4);
  profile.buckets[1].gathered_bytes = 7000;
  EXPECT_DOUBLE_EQ(bytes(choice, 4), 7000);
  EXPECT_DOUBLE_EQ(bytes(choice, 64), 7000);
  // Decoding grows with what the others sent, not with what the published rate says.
  const auto decode = [&](int64_t workers) {
    return bucket_cost(profile, profile.buckets[1], choice, workers, 0).decode_seconds;
  };
  const CodingRate& rate = profile.rates["gathered"];
  double gradient = 0;
  for (const size_t i : profile.buckets[1].parameters) gradient += profile.parameters[i].bytes();
  const auto modelled_decode = [&](int64_t workers) {
    return rate.decode * gradient + rate.decode_payload * 7000 * static_cast<double>(workers) +
           rate.per_parameter * static_cast<double>(profile.buckets[1].parameters.size());
  };
  EXPECT_NEAR(decode(64) / decode(4), modelled_decode(64) / modelled_decode(4), 1e-9);
  EXPECT_NE(modelled, 7000);
  // Who asks for other rates gets the same change of them.
  const MethodChoice other = {&kGathered, {{"rate", 16.0}}};
  EXPECT_NEAR(bytes(other, 4), 2 * 7000, 0.1 * 7000);
  // What another method sends does not follow from it.
  const double sliced = bytes({&kSliced}, 4);
  profile.buckets[1].gathered_bytes = 0;
  EXPECT_EQ(bytes({&kSliced}, 4), sliced);
  // Nor does what travels by all-reduce change.
  profile.measured->choice.model = &kFactored;
  const double factors = bytes({&kFactored}, 4);
  profile.buckets[1].gathered_bytes = 7000;
  EXPECT_EQ(bytes({&kFactored}, 4), factors);
}

TEST(ProfileJson, TakesMissingRatesFromTheDevice) {
  json written = to_json(example());
  written["rates"].erase("sliced");
  const Profile read = profile_from_json(written, kModels, {{"sliced", {.encode = 42}}});
  EXPECT_EQ(read.rates.at("sliced").encode, 42);
  EXPECT_EQ(read.rates.at("gathered").encode, example().rates.at("gathered").encode);
}

TEST(ProfileJson, NamesTheFieldThatIsWrong) {
  const json good = to_json(example());
  const auto damaged = [&](const char* pointer, const json& value) {
    json copy = good;
    copy[json::json_pointer(pointer)] = value;
    return refusal_of(copy);
  };
  EXPECT_EQ(damaged("/format", "other"),
            "[profile] format is \"other\", not \"gradwire-profile-1\"");
  EXPECT_EQ(damaged("/forward_seconds", "fast"),
            "[profile] forward_seconds must be a number, not \"fast\"");
  EXPECT_EQ(damaged("/parameters/3/shape/0", -5),
            "[profile] parameters[3].shape must hold whole numbers, not -5");
  EXPECT_EQ(damaged("/buckets/1/ready_seconds", nullptr),
            "[profile] buckets[1].ready_seconds must be a number, not null");
  EXPECT_EQ(damaged("/rates/sliced/encode", true),
            "[profile] rates.sliced.encode must be a number, not true");
  EXPECT_EQ(damaged("/rates/halve", json::object()),
            "[profile] rates.halve is not a field there is");
  EXPECT_EQ(damaged("/contension", 1), "[profile] contension is not a field there is");
  EXPECT_EQ(damaged("/buckets", 1), "[profile] buckets must be a list");
}

TEST(ProfileJson, NamesTheFieldThatIsMissing) {
  for (const char* field :
       {"format", "name", "forward_seconds", "backward_seconds", "parameters", "buckets"}) {
    json copy = to_json(example());
    copy.erase(field);
    EXPECT_EQ(refusal_of(copy), "[profile] " + std::string(field) + " is missing");
  }
}

TEST(ProfileJson, RefusesWhatDoesNotFitTogether) {
  const json good = to_json(example());
  json twice = good;
  twice["buckets"][0]["parameters"].push_back(0);
  EXPECT_EQ(refusal_of(twice),
            "[profile] parameter \"conv1.weight\" is in 2 buckets instead of one");
  json beyond = good;
  beyond["buckets"][0]["parameters"].push_back(1000);
  EXPECT_NE(refusal_of(beyond).find("buckets[0].parameters has the index 1000"), std::string::npos);
  json late = good;
  late["buckets"][0]["ready_seconds"] = 7;
  EXPECT_NE(refusal_of(late).find("buckets[0].ready_seconds"), std::string::npos);
  json negative = good;
  negative["rates"]["gathered"]["decode"] = -1;
  EXPECT_EQ(refusal_of(negative), "[profile] rates of gathered must not be negative");
  EXPECT_EQ(refusal_of(json::array()), "[profile] the file must be an object");
}

}  // namespace
}  // namespace gradwire::planner
