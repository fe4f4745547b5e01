#include "kernels/orthonormalise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "every_target.h"

namespace gradwire::kernels {
namespace {

struct Factor {
  std::size_t rows, rank;
  std::vector<float> values;

  float& at(std::size_t row, std::size_t column) { return values[row * rank + column]; }
  float at(std::size_t row, std::size_t column) const { return values[row * rank + column]; }
};

Factor random_factor(std::size_t rows, std::size_t rank, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Factor factor{rows, rank, std::vector<float>(rows * rank)};
  for (float& value : factor.values) value = normal(generator);
  return factor;
}

Factor orthonormalised(Factor factor) {
  std::vector<double> scratch(orthonormalise_scratch(factor.rank));
  orthonormalise(factor.values.data(), factor.rows, factor.rank, scratch);
  return factor;
}

double dot(const Factor& a, std::size_t column_a, const Factor& b, std::size_t column_b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.rows; ++i) sum += double{a.at(i, column_a)} * b.at(i, column_b);
  return sum;
}

void expect_orthonormal(const Factor& factor) {
  for (std::size_t a = 0; a < factor.rank; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      ASSERT_NEAR(dot(factor, a, factor, b), a == b ? 1.0 : 0.0, 1e-6) << a << ", " << b;
    }
  }
}

// Checks the part of each original column that the basis does not reach, relative to the column.
void expect_spans(const Factor& basis, const Factor& original, double tolerance) {
  for (std::size_t c = 0; c < original.rank; ++c) {
    std::vector<double> rest(original.rows);
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = original.at(i, c);
    for (std::size_t b = 0; b < basis.rank; ++b) {
      const double weight = dot(original, c, basis, b);
      for (std::size_t i = 0; i < rest.size(); ++i) rest[i] -= weight * basis.at(i, b);
    }
    double square = 0.0;
    for (double value : rest) square += value * value;
    ASSERT_LE(std::sqrt(square), tolerance * std::sqrt(dot(original, c, original, c))) << c;
  }
}

class Orthonormalise : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { ASSERT_TRUE(pin_target(GetParam())); }
  void TearDown() override { pin_target(best_target(supported_targets())); }
};

struct Size {
  std::size_t rows, rank;
};
constexpr Size kSizes[] = {{1, 1},  {2, 1},  {2, 2},    {3, 2},   {7, 7},   {31, 3},
                           {32, 4}, {33, 5}, {100, 12}, {64, 64}, {65, 33}, {1000, 32}};

void check_all_sizes(const std::function<void(Factor&)>& change, double span_tolerance = 1e-5) {
  for (const auto& [rows, rank] : kSizes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(rank));
    Factor factor = random_factor(rows, rank);
    change(factor);
    const Factor basis = orthonormalised(factor);
    expect_orthonormal(basis);
    expect_spans(basis, factor, span_tolerance);
  }
}

TEST_P(Orthonormalise, RandomColumns) {
  check_all_sizes([](Factor&) {});
}

TEST_P(Orthonormalise, ColumnsOfAnyMagnitude) {
  for (float scale : {1e-42F, 1e-30F, 1e30F}) {
    // Denormals have few digits, and the basis spans those.
    check_all_sizes([scale](Factor& f) {
      for (float& value : f.values) value *= scale;
    });
  }
  check_all_sizes([](Factor& f) {
    for (std::size_t i = 0; i < f.rows; ++i) {
      for (std::size_t c = 0; c < f.rank; ++c) f.at(i, c) *= c % 2 == 0 ? 1e-30F : 1e30F;
    }
  });
}

TEST_P(Orthonormalise, ZeroFactor) {
  check_all_sizes([](Factor& f) { std::fill(f.values.begin(), f.values.end(), 0.0F); });
}

TEST_P(Orthonormalise, DuplicatedColumns) {
  check_all_sizes([](Factor& f) {
    for (std::size_t i = 0; i < f.rows; ++i) {
      for (std::size_t c = 1; c < f.rank; c += 2) f.at(i, c) = -2.0F * f.at(i, c - 1);
    }
  });
}

// A gradient of batch size one gives such a factor: up to rounding, every column is a multiple of
// one vector.
TEST_P(Orthonormalise, RankOne) {
  check_all_sizes([](Factor& f) {
    for (std::size_t i = 0; i < f.rows; ++i) {
      for (std::size_t c = 1; c < f.rank; ++c) {
        f.at(i, c) = f.at(i, 0) * (0.1F + static_cast<float>(c) / 3.0F);
      }
    }
  });
}

TEST_P(Orthonormalise, UnitVectorsThatTheCompletionWouldChoose) {
  check_all_sizes([](Factor& f) {
    std::fill(f.values.begin(), f.values.end(), 0.0F);
    for (std::size_t c = 0; c < f.rank; c += 2) f.at(c / 2, c) = 3.0F;
  });
}

// A factor with singular values from 1 to `smallest` and random singular vectors.
Factor ill_conditioned(std::size_t rows, std::size_t rank, double smallest) {
  const Factor left = orthonormalised(random_factor(rows, rank, 2));
  const Factor right = orthonormalised(random_factor(rank, rank, 3));
  Factor factor{rows, rank, std::vector<float>(rows * rank)};
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c < rank; ++c) {
      double sum = 0.0;
      for (std::size_t k = 0; k < rank; ++k) {
        const double exponent = rank == 1 ? 0.0 : static_cast<double>(k) / (rank - 1.0);
        sum += left.at(i, k) * std::pow(smallest, exponent) * right.at(c, k);
      }
      factor.at(i, c) = static_cast<float>(sum);
    }
  }
  return factor;
}

TEST_P(Orthonormalise, IllConditioned) {
  for (double smallest : {1e-2, 1e-4, 1e-6, 1e-8, 1e-12}) {
    for (const auto& [rows, rank] : kSizes) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(rank));
      const Factor factor = ill_conditioned(rows, rank, smallest);
      const Factor basis = orthonormalised(factor);
      expect_orthonormal(basis);
      expect_spans(basis, factor, 1e-5);
    }
  }
}

TEST_P(Orthonormalise, ColumnsThatAreNotFiniteCountAsZero) {
  for (const auto& [rows, rank] : kSizes) {
    Factor factor = random_factor(rows, rank);
    factor.at(rows / 2, rank / 2) = std::numeric_limits<float>::infinity();
    factor.at(rows - 1, rank - 1) = std::numeric_limits<float>::quiet_NaN();
    expect_orthonormal(orthonormalised(factor));
  }
}

TEST_P(Orthonormalise, SameBitsTwice) {
  const Factor factor = ill_conditioned(1000, 32, 1e-12);
  EXPECT_EQ(orthonormalised(factor).values, orthonormalised(factor).values);
}

INSTANTIATE_TEST_SUITE_P(Targets, Orthonormalise, testing::ValuesIn(each_target()),
                         [](const auto& info) { return std::string(target_name(info.param)); });

TEST(OrthonormaliseEmpty, NothingToDo) { orthonormalised(Factor{0, 0, {}}); }

}  // namespace
}  // namespace gradwire::kernels
