// A payload of any mixture of records reads back as written, within its bound, and no prefix of it
// passes for the whole.

#include <algorithm>
#include <vector>

#include "fuzz_input.h"
#include "wire/payload.h"

using namespace gradwire;

namespace {

struct Parameter {
  wire::Contribution contribution;
  std::uint32_t elements;
  float scale;
  std::vector<std::uint32_t> entries;  // topk: positions; adacomp: entries of its only chunk
  std::vector<float> values;
  std::vector<std::byte> bits;
};

Parameter parameter_from(fuzz::FuzzInput& input, wire::Method method) {
  Parameter parameter{};
  parameter.contribution = static_cast<wire::Contribution>(input.between(0, 2));
  parameter.elements = input.between(1, 600);
  parameter.scale = static_cast<float>(input.number<std::uint16_t>()) / 16;
  const std::uint32_t step = input.between(1, 40);
  for (std::uint32_t at = input.between(0, 40); at < parameter.elements;
       at += 1 + input.number<std::uint8_t>() % step) {
    const bool with_signs = method == wire::Method::adacomp;
    parameter.entries.push_back(with_signs ? 2 * at + (input.coin() ? 1 : 0) : at);
    parameter.values.push_back(static_cast<float>(at) - 7.5F);
  }
  parameter.bits.resize((parameter.elements + 7) / 8);
  for (std::uint32_t i = 0; i < parameter.elements; ++i) {
    if (input.coin()) parameter.bits[i / 8] |= std::byte{1} << (i % 8);
  }
  return parameter;
}

wire::PositionsShape shape_of(const Parameter& parameter, wire::Method method) {
  return {parameter.elements, 1000, method == wire::Method::adacomp};
}

std::size_t bound_of(const Parameter& parameter, wire::Method method) {
  const auto shape = shape_of(parameter, method);
  if (method == wire::Method::sign) return wire::sign_bound(parameter.elements);
  if (method == wire::Method::adacomp) return wire::adacomp_bound(shape);
  return wire::topk_bound(shape, parameter.entries.size(), wire::ValueType::fp32);
}

void write(wire::PayloadWriter& writer, const Parameter& parameter, wire::Method method) {
  if (parameter.contribution == wire::Contribution::abstains) return writer.abstain();
  if (parameter.contribution == wire::Contribution::non_finite) return writer.non_finite();
  const auto shape = shape_of(parameter, method);
  if (method == wire::Method::topk) return writer.topk(shape, parameter.entries, parameter.values);
  if (method == wire::Method::sign) {
    std::ranges::copy(parameter.bits, writer.begin_sign(parameter.elements).begin());
  } else {
    writer.begin_adacomp(shape).chunk(parameter.entries);
  }
  writer.end(parameter.scale);
}

void check_entries(wire::PositionsReader positions, const Parameter& parameter) {
  std::vector<std::uint32_t> scratch(1000);
  fuzz::require(std::ranges::equal(positions.next(scratch), parameter.entries), "positions");
}

void check(wire::PayloadReader& reader, const Parameter& parameter, wire::Method method) {
  const bool present = parameter.contribution == wire::Contribution::present;
  const auto shape = shape_of(parameter, method);
  if (method == wire::Method::sign) {
    const auto record = reader.sign(parameter.elements);
    fuzz::require(record.contribution == parameter.contribution, "contribution");
    fuzz::require(!present || (record.scale == parameter.scale &&
                               std::ranges::equal(record.bits, parameter.bits)),
                  "sign record");
  } else if (method == wire::Method::adacomp) {
    const auto record = reader.adacomp(shape);
    fuzz::require(record.contribution == parameter.contribution, "contribution");
    if (present) check_entries(record.positions, parameter);
    fuzz::require(!present || record.scale == parameter.scale, "scale");
  } else {
    const auto record = reader.topk(shape);
    fuzz::require(record.contribution == parameter.contribution, "contribution");
    if (!present) return;
    check_entries(record.positions, parameter);
    std::vector<float> values(record.values.size());
    record.values.read(0, values);
    fuzz::require(values == parameter.values, "values");
  }
}

bool refused(std::span<const std::byte> bytes, wire::Method method, wire::ValueType values,
             std::uint32_t parameters) {
  try {
    wire::PayloadReader reader(bytes, method, parameters, values);
    return false;
  } catch (const wire::WireError&) {
    return true;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::FuzzInput input(data, size);
  const auto method = static_cast<wire::Method>(input.between(1, 3));
  const auto values = method == wire::Method::topk ? wire::ValueType::fp32 : wire::ValueType::none;
  const std::size_t cut = input.number<std::uint16_t>();
  std::vector<Parameter> parameters;
  std::size_t bound = wire::kHeaderBytes;
  while (!input.empty() && parameters.size() < 20) {
    parameters.push_back(parameter_from(input, method));
    bound += bound_of(parameters.back(), method);
  }
  std::vector<std::byte> buffer(bound);
  wire::PayloadWriter writer(buffer, method, values);
  for (const Parameter& parameter : parameters) write(writer, parameter, method);
  buffer.resize(writer.finish(1));
  const auto count = static_cast<std::uint32_t>(parameters.size());
  const std::vector<std::byte> bytes(buffer.begin(), buffer.end());
  wire::PayloadReader reader(bytes, method, count, values);
  for (const Parameter& parameter : parameters) check(reader, parameter, method);
  reader.finish();
  const auto prefix = std::span(bytes).first(cut % bytes.size());
  fuzz::require(refused(prefix, method, values, count), "a prefix is refused");
  return 0;
}
