#include "kernels/low_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <vector>

#include "every_target.h"
#include "kernels/half.h"
#include "low_rank_reference.h"

namespace gradwire::kernels::low_rank {

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.rows << " x " << shape.columns << " rank " << shape.rank;
}

namespace {

using reference::Matrix;
using reference::random_matrix;

// Copies into a buffer that begins one float after an aligned address, as a view into a bucket may.
struct Unaligned {
  explicit Unaligned(const Matrix& values) : storage(values.size() + 1) {
    std::copy(values.begin(), values.end(), data());
  }
  explicit Unaligned(std::size_t count) : storage(count + 1) {}
  float* data() { return storage.data() + 1; }
  Matrix values() const { return {storage.begin() + 1, storage.end()}; }
  Matrix storage;
};

struct Case {
  explicit Case(const Shape& s)
      : shape(s),
        gradient(random_matrix(s.rows * s.columns, 1)),
        residual(random_matrix(s.rows * s.columns, 2)),
        left(random_matrix(s.rows * s.rank, 3)),
        right(random_matrix(s.columns * s.rank, 4)),
        pending_left(random_matrix(s.rows * s.rank, 5)),
        pending_right(random_matrix(s.columns * s.rank, 6)),
        scratch(scratch_floats(s)) {}

  FactorPair pending() const { return {pending_left.data(), pending_right.data()}; }
  FactorPair factors() const { return {left.data(), right.data()}; }
  Range rows() const { return {0, shape.rows}; }
  Range columns() const { return {0, shape.columns}; }

  Matrix settled_residual() {
    Matrix settled = residual;
    settle(shape, pending(), settled.data(), rows(), scratch);
    return settled;
  }

  Shape shape;
  Matrix gradient, residual, left, right, pending_left, pending_right, scratch;
};

void expect_near(const Matrix& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance) << "at " << i;
  }
}

void expect_near(const Matrix& actual, const Matrix& expected, double tolerance) {
  expect_near(actual, std::vector<double>(expected.begin(), expected.end()), tolerance);
}

// What the products see of a matrix: on the target with bf16, its numbers rounded to bf16.
Matrix as_multiplied(Matrix values) {
  if (!runs_on_bf16()) return values;
  std::vector<std::uint16_t> halves(values.size());
  narrow(HalfFormat::kBfloat16, values, halves);
  widen(HalfFormat::kBfloat16, halves, values);
  return values;
}

std::vector<double> times_right(const Shape& shape, const Matrix& matrix, const Matrix& right) {
  return reference::times_right(shape, as_multiplied(matrix), as_multiplied(right));
}

std::vector<double> transposed_times_left(const Shape& shape, const Matrix& matrix,
                                          const Matrix& left) {
  return reference::transposed_times_left(shape, as_multiplied(matrix), as_multiplied(left));
}

// Tests every shape on every SIMD target of this machine.
class LowRank : public testing::TestWithParam<std::tuple<Shape, std::int64_t>> {
 protected:
  void SetUp() override { ASSERT_TRUE(pin_target(std::get<1>(GetParam()))); }
  void TearDown() override { pin_target(best_target(supported_targets())); }
  Case input{std::get<0>(GetParam())};
  // All entries are below 1, so the error of a sum of `count` products stays below this.
  static double rounding(std::size_t count) { return 1e-6 * static_cast<double>(count + 1); }
};

TEST_P(LowRank, EncodeLeftMatchesTheReference) {
  Unaligned gradient(input.gradient), residual(input.residual), left(input.left.size());
  ASSERT_TRUE(encode_left(input.shape, gradient.data(), residual.data(), input.pending(),
                          input.right.data(), left.data(), input.rows(), input.scratch));
  const auto pending = reference::product(input.shape, input.pending_left, input.pending_right);
  std::vector<double> sum(input.gradient.size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    sum[i] = double{input.gradient[i]} + (double{input.residual[i]} - pending[i]);
  }
  expect_near(residual.values(), sum, rounding(input.shape.rank));
  expect_near(left.values(), times_right(input.shape, residual.values(), input.right),
              rounding(input.shape.columns));
}

TEST_P(LowRank, EncodeRightMatchesTheReference) {
  Unaligned gradient(input.gradient), residual(input.residual), right(input.right.size());
  ASSERT_TRUE(encode_right(input.shape, gradient.data(), residual.data(), input.pending(),
                           input.left.data(), right.data(), input.columns(), input.scratch));
  Matrix same = input.residual, left = input.left;
  ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), same.data(), input.pending(),
                          input.right.data(), left.data(), input.rows(), input.scratch));
  EXPECT_EQ(residual.values(), same);
  expect_near(right.values(), transposed_times_left(input.shape, same, input.left),
              rounding(input.shape.rows * input.shape.rank));
}

TEST_P(LowRank, SettlingFirstGivesTheSameBits) {
  Matrix lazy = input.residual, settled = input.settled_residual();
  Matrix lazy_left(input.left.size()), settled_left(input.left.size());
  ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), lazy.data(), input.pending(),
                          input.right.data(), lazy_left.data(), input.rows(), input.scratch));
  ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), settled.data(), FactorPair{},
                          input.right.data(), settled_left.data(), input.rows(), input.scratch));
  EXPECT_EQ(lazy, settled);
  EXPECT_EQ(lazy_left, settled_left);
}

// Nothing is lost: the decoded matrix plus the settled residual is the gradient plus the old
// residual.
TEST_P(LowRank, EncodeDecodeAndSettleConserve) {
  const Matrix before = input.settled_residual();
  Matrix residual = input.residual, right(input.right.size()), sent(residual.size());
  ASSERT_TRUE(encode_right(input.shape, input.gradient.data(), residual.data(), input.pending(),
                           input.left.data(), right.data(), input.columns(), input.scratch));
  const FactorPair own{input.left.data(), right.data()};
  decode(input.shape, own, 1.0F, sent.data(), input.rows(), input.scratch);
  settle(input.shape, own, residual.data(), input.rows(), input.scratch);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const double total = double{input.gradient[i]} + before[i];
    const double tolerance = 1e-6 * (1.0 + std::abs(sent[i]) + std::abs(total));
    ASSERT_NEAR(double{sent[i]} + residual[i], total, tolerance) << "at " << i;
  }
}

TEST_P(LowRank, DecodeMatchesTheReference) {
  Unaligned result(input.gradient.size());
  decode(input.shape, input.factors(), 0.25F, result.data(), input.rows(), input.scratch);
  auto expected = reference::product(input.shape, input.left, input.right);
  for (double& value : expected) value *= 0.25;
  expect_near(result.values(), expected, rounding(input.shape.rank));
}

// Without a residual, encoding is a plain product.
TEST_P(LowRank, MultiplyEqualsEncodingWithoutAResidual) {
  const std::size_t rows = input.shape.rows;
  Unaligned matrix(input.gradient), left(input.left.size());
  multiply(input.shape, matrix.data(), input.right.data(), left.data(), {0, rows / 2},
           input.scratch);
  multiply(input.shape, matrix.data(), input.right.data(), left.data(), {rows / 2, rows},
           input.scratch);
  Matrix residual(input.residual.size(), 0.0F), encoded(input.left.size());
  ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), residual.data(), FactorPair{},
                          input.right.data(), encoded.data(), input.rows(), input.scratch));
  EXPECT_EQ(left.values(), encoded);
}

TEST_P(LowRank, MultiplyTransposedMatchesTheReference) {
  Unaligned matrix(input.gradient), right(input.right.size());
  multiply_transposed(input.shape, matrix.data(), input.left.data(), right.data(), input.columns(),
                      input.scratch);
  expect_near(right.values(), transposed_times_left(input.shape, input.gradient, input.left),
              rounding(input.shape.rows));
}

TEST_P(LowRank, ResultsDoNotDependOnTheSplit) {
  const Shape& shape = input.shape;
  Matrix whole = input.residual, split = input.residual;
  Matrix whole_left(input.left.size()), split_left(input.left.size());
  Matrix whole_right(input.right.size()), split_right(input.right.size());
  Matrix whole_sent(whole.size()), split_sent(whole.size());
  ASSERT_TRUE(encode_left(shape, input.gradient.data(), whole.data(), input.pending(),
                          input.right.data(), whole_left.data(), input.rows(), input.scratch));
  multiply_transposed(shape, whole.data(), input.left.data(), whole_right.data(), input.columns(),
                      input.scratch);
  decode(shape, input.factors(), 0.3F, whole_sent.data(), input.rows(), input.scratch);
  for (std::size_t row = 0, step = 1; row < shape.rows; row += step++) {
    const Range rows{row, std::min(row + step, shape.rows)};
    ASSERT_TRUE(encode_left(shape, input.gradient.data(), split.data(), input.pending(),
                            input.right.data(), split_left.data(), rows, input.scratch));
    decode(shape, input.factors(), 0.3F, split_sent.data(), rows, input.scratch);
  }
  for (std::size_t column = 0, step = 1; column < shape.columns; column += step++) {
    const Range columns{column, std::min(column + step, shape.columns)};
    multiply_transposed(shape, split.data(), input.left.data(), split_right.data(), columns,
                        input.scratch);
  }
  EXPECT_EQ(whole, split);
  EXPECT_EQ(whole_left, split_left);
  EXPECT_EQ(whole_right, split_right);
  EXPECT_EQ(whole_sent, split_sent);
}

TEST_P(LowRank, EncodeRightDoesNotDependOnTheSplit) {
  const Shape& shape = input.shape;
  Matrix whole = input.residual, split = input.residual;
  Matrix whole_right(input.right.size()), split_right(input.right.size());
  ASSERT_TRUE(encode_right(shape, input.gradient.data(), whole.data(), input.pending(),
                           input.left.data(), whole_right.data(), input.columns(), input.scratch));
  for (std::size_t column = 0, step = 1; column < shape.columns; column += step++) {
    const Range columns{column, std::min(column + step, shape.columns)};
    ASSERT_TRUE(encode_right(shape, input.gradient.data(), split.data(), input.pending(),
                             input.left.data(), split_right.data(), columns, input.scratch));
  }
  EXPECT_EQ(whole, split);
  EXPECT_EQ(whole_right, split_right);
}

TEST_P(LowRank, RollBackRestoresTheSettledResidual) {
  const Matrix before = input.settled_residual();
  Matrix residual = input.residual, left(input.left.size());
  ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), residual.data(), input.pending(),
                          input.right.data(), left.data(), input.rows(), input.scratch));
  const std::size_t middle = input.shape.columns / 2;
  for (const Range columns : {Range{0, middle}, Range{middle, input.shape.columns}}) {
    roll_back(input.shape, input.gradient.data(), residual.data(), input.rows(), columns);
  }
  expect_near(residual, before, rounding(input.shape.rank));
}

// The bad value may be anywhere, so that any part of the work is done when it is found.
TEST_P(LowRank, NonFiniteGradientLeavesTheSettledResidual) {
  const Matrix before = input.settled_residual();
  const std::size_t count = input.gradient.size();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t at : {std::size_t{0}, count / 3, count / 2, count - 1}) {
    for (float bad : {kInfinity, -kInfinity, kNan, std::numeric_limits<float>::max()}) {
      if (count == 0) continue;
      Matrix gradient = input.gradient, start = input.residual;
      gradient[at] = bad;
      // Both values are finite, but their sum is infinite.
      if (std::isfinite(bad)) start[at] = bad;
      Matrix residual = start, left(input.left.size()), right(input.right.size());
      EXPECT_FALSE(encode_left(input.shape, gradient.data(), residual.data(), input.pending(),
                               input.right.data(), left.data(), input.rows(), input.scratch));
      Matrix expected = before;
      if (std::isfinite(bad)) expected[at] = bad;
      expect_near(residual, expected, rounding(input.shape.rank));
      residual = start;
      EXPECT_FALSE(encode_right(input.shape, gradient.data(), residual.data(), input.pending(),
                                input.left.data(), right.data(), input.columns(), input.scratch));
      expect_near(residual, expected, rounding(input.shape.rank));
    }
  }
}

TEST_P(LowRank, OverflowingProductLeavesTheSettledResidual) {
  if (input.gradient.empty()) return;
  const float huge = std::numeric_limits<float>::max() / 2;
  const Matrix zero(input.residual.size(), 0.0F);
  Matrix gradient(input.gradient.size(), 0.0F), residual = zero;
  gradient.back() = huge;
  const Matrix weights(std::max(input.left.size(), input.right.size()), 16.0F);
  Matrix factor(weights.size());
  EXPECT_FALSE(encode_left(input.shape, gradient.data(), residual.data(), FactorPair{},
                           weights.data(), factor.data(), input.rows(), input.scratch));
  EXPECT_EQ(residual, zero);
  EXPECT_FALSE(encode_right(input.shape, gradient.data(), residual.data(), FactorPair{},
                            weights.data(), factor.data(), input.columns(), input.scratch));
  EXPECT_EQ(residual, zero);
}

// bf16 ends a little below the largest float. Whether or not a product can hold such a number, it
// is not lost.
TEST_P(LowRank, TheLargestNumberIsEncodedOrLeftAlone) {
  if (input.gradient.empty()) return;
  const Matrix zero(input.residual.size(), 0.0F);
  Matrix gradient = zero, residual = zero, left(input.left.size()), right(input.right.size());
  gradient.back() = std::numeric_limits<float>::max();
  const Matrix weights(std::max(left.size(), right.size()), 1e-3F);
  const auto all_finite = [](const Matrix& values) {
    return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
  };
  bool encoded = encode_left(input.shape, gradient.data(), residual.data(), FactorPair{},
                             weights.data(), left.data(), input.rows(), input.scratch);
  EXPECT_EQ(residual, encoded ? gradient : zero);
  EXPECT_TRUE(!encoded || all_finite(left));
  residual = zero;
  encoded = encode_right(input.shape, gradient.data(), residual.data(), FactorPair{},
                         weights.data(), right.data(), input.columns(), input.scratch);
  EXPECT_EQ(residual, encoded ? gradient : zero);
  EXPECT_TRUE(!encoded || all_finite(right));
}

constexpr Shape kShapes[] = {{1, 1, 1},     {1, 7, 1},     {2, 3, 2},     {3, 2, 1},
                             {5, 33, 3},    {13, 16, 4},   {50, 31, 5},   {49, 48, 8},
                             {7, 385, 4},   {97, 100, 32}, {64, 576, 4},  {25, 801, 7},
                             {101, 40, 40}, {29, 805, 17}, {61, 257, 16}, {26, 1600, 65}};

std::string name_of(const testing::TestParamInfo<LowRank::ParamType>& info) {
  const auto& [shape, target] = info.param;
  return std::to_string(shape.rows) + "x" + std::to_string(shape.columns) + "r" +
         std::to_string(shape.rank) + "_" + target_name(target);
}

INSTANTIATE_TEST_SUITE_P(Shapes, LowRank,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::ValuesIn(each_target())),
                         name_of);

TEST(LowRankRanks, EveryRankMatchesTheReference) {
  on_every_target([] {
    for (std::size_t rank = 1; rank <= 65; ++rank) {
      SCOPED_TRACE(rank);
      Case input({37, 67, rank});
      Matrix left(input.left.size()), right(input.right.size());
      multiply(input.shape, input.gradient.data(), input.right.data(), left.data(), input.rows(),
               input.scratch);
      multiply_transposed(input.shape, input.gradient.data(), input.left.data(), right.data(),
                          input.columns(), input.scratch);
      expect_near(left, times_right(input.shape, input.gradient, input.right), 1e-4);
      expect_near(right, transposed_times_left(input.shape, input.gradient, input.left), 1e-4);
    }
  });
}

// A target may round the operands of a product, but not A.
TEST(LowRankTargets, HaveTheSameResidualUpToRounding) {
  Case input({50, 801, 32});
  const std::vector<double> pending =
      reference::product(input.shape, input.pending_left, input.pending_right);
  on_every_target([&] {
    Matrix residual = input.residual, left(input.left.size());
    ASSERT_TRUE(encode_left(input.shape, input.gradient.data(), residual.data(), input.pending(),
                            input.right.data(), left.data(), input.rows(), input.scratch));
    for (std::size_t i = 0; i < residual.size(); ++i) {
      ASSERT_NEAR(residual[i], double{input.gradient[i]} + (input.residual[i] - pending[i]), 1e-5);
    }
  });
}

TEST(LowRankEmpty, EmptyRangesTouchNothing) {
  for (const Shape& shape : {Shape{0, 5, 2}, Shape{5, 0, 2}, Shape{0, 0, 1}}) {
    Matrix scratch(scratch_floats(shape)), factor(10, 7.0F);
    const Range rows{0, shape.rows}, columns{0, shape.columns};
    const FactorPair pair{factor.data(), factor.data()};
    EXPECT_TRUE(
        encode_left(shape, nullptr, nullptr, pair, factor.data(), factor.data(), rows, scratch));
    EXPECT_TRUE(encode_right(shape, nullptr, nullptr, pair, factor.data(), factor.data(), columns,
                             scratch));
    decode(shape, pair, 1.0F, nullptr, rows, scratch);
    settle(shape, pair, nullptr, rows, scratch);
    roll_back(shape, nullptr, nullptr, rows, columns);
  }
}

}  // namespace
}  // namespace gradwire::kernels::low_rank
