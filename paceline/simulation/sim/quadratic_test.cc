// Tests of the statements in docs/theory.md: real policies and the real Controller in simulated time, the
// real step numbers, update and look-ahead, on quadratics, for which all can be worked out.
#include "paceline/simulation/sim/testing/quadratic.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/decisions/policy/policy_spec.h"
#include "paceline/simulation/sim/simulation.h"
#include "paceline/simulation/sim/virtual_cluster.h"

namespace paceline::sim {
namespace {

using testing::Quadratic;
using Step = testing::Quadratic::Step;
using Complex = std::complex<double>;

constexpr double kMomentum = 0.9;

struct Setting {
  std::string policy;
  std::vector<float> curvatures{1};
  double rate = 0.05;  // η
  int replicas = 8;
  double jitter = 0;
  bool look_ahead = false;
  int rounds = 400;
};

std::vector<Step> steps_of(const Setting& setting) {
  Scenario scenario;
  for (int i = 0; i < setting.replicas; ++i) {
    PlaceModel place;
    place.compute_ms = 1000;
    place.unevenness.jitter = setting.jitter;
    scenario.cluster.places.push_back(place);
  }
  control::ControllerConfig config = controller_config(scenario);
  config.schedule.base = setting.rate;
  config.look_ahead = setting.look_ahead;
  Quadratic work(setting.curvatures, kMomentum, setting.look_ahead);
  VirtualCluster run(scenario.cluster, config,
                     policy::make_policy(policy::parse_policy(setting.policy).value()),
                     {.listeners = {},
                      .work = &work,
                      .stop_after_iterations = static_cast<std::int64_t>(setting.rounds) * setting.replicas});
  EXPECT_TRUE(run.run_until_over().ok());
  EXPECT_FALSE(run.broken());
  return work.steps();
}

// How far (w, v) is from nothing, in the first dimension.
double size_of(const Setting& setting, const Step& step) {
  return std::hypot(step.weights[0], setting.rate * step.velocity[0]);
}

// log of the factor by which that changes in a commit: the slope of its logarithm, over which it goes round
// and round. As long as a float can tell.
double log_factor(const Setting& setting, const std::vector<Step>& steps) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (std::size_t t = steps.size() / 4; t < steps.size(); ++t) {
    const double size = size_of(setting, steps[t]);
    if (!(size > 1e-30 && size < 1e30)) break;
    const double at = static_cast<double>(t), log = std::log(size);
    n += 1, x += at, y += log, xx += at * at, xy += at * log;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

// The roots of Σ coefficients[i]·z^i, whose last coefficient is 1 (Durand and Kerner).
std::vector<Complex> roots_of(const std::vector<Complex>& coefficients) {
  const std::size_t degree = coefficients.size() - 1;
  const auto value = [&](Complex z) {
    Complex sum = 0;
    for (std::size_t i = degree + 1; i-- > 0;) sum = sum * z + coefficients[i];
    return sum;
  };
  std::vector<Complex> roots;
  for (std::size_t i = 0; i < degree; ++i)
    roots.push_back(std::pow(Complex(0.4, 0.9), static_cast<double>(i)));
  for (int step = 0; step < 2000; ++step) {
    for (std::size_t i = 0; i < degree; ++i) {
      Complex others = 1;
      for (std::size_t j = 0; j < degree; ++j) others *= j == i ? Complex(1) : roots[i] - roots[j];
      roots[i] -= value(roots[i]) / others;
    }
  }
  return roots;
}

double largest_root(const std::vector<Complex>& coefficients) {
  double most = 0;
  for (const Complex& root : roots_of(coefficients)) most = std::max(most, std::abs(root));
  return most;
}

// The factor by which lone commits of N replicas in turns change w and v of curvature λ: τ = N − 1, so that
// with W and V in place of their z-th powers
//   (1 − 1/z)·W = −η·f·V,   (1 − q/z)·V = G·λ·z^−N·(W − η·R·V)
// and the factor is the largest root of z^(N−1)·(z − q)(z − 1) + η·f·G·λ·((1 + R/f)·z − R/f).
double lone_factor(const Setting& setting, double curvature) {
  const auto n = static_cast<std::size_t>(setting.replicas);
  const double f = 1.0 / setting.replicas, q = std::pow(kMomentum, f);
  const double gain = (1 - q) / (1 - kMomentum);
  double reach = 0;
  for (int i = 1; setting.look_ahead && i < setting.replicas; ++i) reach += std::pow(q, i);  // R/f
  std::vector<Complex> coefficients(n + 2, 0);
  coefficients[n + 1] += 1;
  coefficients[n] -= 1 + q;
  coefficients[n - 1] += q;
  const double pull = setting.rate * f * gain * curvature;
  coefficients[1] += pull * (1 + reach);
  coefficients[0] -= pull * reach;
  return largest_root(coefficients);
}

// Long enough to tell, and short enough for a float. `log_of_round`: of the factor of a bulk round.
int rounds_to_tell(double log_of_round) {
  return static_cast<int>(std::clamp(60 / std::abs(log_of_round), 100.0, 6000.0));
}

// Heavy ball: w and v of one bulk commit after the other have the eigenvalues of z² − (1 + μ − ηλ)·z + μ.
double bulk_factor(const Setting& setting, double curvature) {
  return largest_root({kMomentum, -(1 + kMomentum - setting.rate * curvature), 1});
}

TEST(Quadratic, ABulkRunIsHeavyBall) {
  for (const double rate : {0.0005, 0.002, 0.05, 3.0, 4.1}) {
    Setting setting{.policy = "bsp", .rate = rate};
    const double expected = std::log(bulk_factor(setting, 1));
    setting.rounds = rounds_to_tell(expected);
    EXPECT_NEAR(log_factor(setting, steps_of(setting)), expected, 0.01 * std::abs(expected)) << rate;
  }
}

TEST(Quadratic, LoneCommitsInTurnsHaveTheFactorOfTheirPolynomial) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  for (const int replicas : {1, 2, 4, 8, 16}) {
    for (const bool ahead : {false, true}) {
      for (const double rate : {0.001, 0.02, 0.06, 0.25}) {
        Setting setting{.policy = "asp", .rate = rate, .replicas = replicas, .look_ahead = ahead};
        const double expected = std::log(lone_factor(setting, 1));
        setting.rounds = rounds_to_tell(expected * replicas);
        EXPECT_NEAR(log_factor(setting, steps_of(setting)), expected, 0.01 * std::abs(expected))
            << replicas << (ahead ? " ahead, " : ", ") << rate;
      }
    }
  }
}

// The rate at which runs stop shrinking, by bisection of runs and of polynomials.
TEST(Quadratic, RunsStopBeingStableWhereTheirPolynomialSays) {
  if (effort::kSanitized) GTEST_SKIP() << "long, and of decisions alone";
  for (const bool ahead : {false, true}) {
    Setting setting{.policy = "asp", .look_ahead = ahead, .rounds = 1500};
    const auto limit = [&](auto log_of_factor) {
      double low = 0.01, high = 4;
      while (high / low > 1.001) {
        setting.rate = std::sqrt(low * high);
        (log_of_factor() > 0 ? high : low) = setting.rate;
      }
      return low;
    };
    const double expected = limit([&] { return std::log(lone_factor(setting, 1)); });
    const double found = limit([&] {
      const double factor = log_factor(setting, steps_of(setting));
      return std::isfinite(factor) ? factor : 1;  // the weights outgrew a float before they were looked at
    });
    EXPECT_NEAR(found, expected, 0.01 * expected);
    // The limit is given in η/(1 − μ), like in results.md.
    EXPECT_NEAR(found / (1 - kMomentum), ahead ? 5.1 : 1.2, 0.1);
  }
}

TEST(Quadratic, DimensionsDoNotMeet) {
  const Setting both{.policy = "cgp", .curvatures = {1, 0.01f}, .jitter = 0.1, .look_ahead = true};
  Setting one = both, other = both;
  one.curvatures = {1};
  other.curvatures = {0.01f};
  const auto together = steps_of(both), first = steps_of(one), second = steps_of(other);
  ASSERT_EQ(together.size(), first.size());
  for (std::size_t t = 0; t < together.size(); ++t) {
    ASSERT_EQ(together[t].weights[0], first[t].weights[0]);
    ASSERT_EQ(together[t].weights[1], second[t].weights[0]);
  }
}

double norm(const std::vector<double>& of) {
  double sum = 0;
  for (const double one : of) sum += one * one;
  return std::sqrt(sum);
}

std::vector<double> difference(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> of;
  for (std::size_t i = 0; i < a.size(); ++i)
    of.push_back(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  return of;
}

const std::vector<Setting>& mixed_runs() {
  static const std::vector<Setting> kRuns{
      {.policy = "cgp", .curvatures = {1, 0.1f}, .jitter = 0.1, .look_ahead = true, .rounds = 200},
      {.policy = "cgp:patience=0.03",
       .curvatures = {1, 0.1f},
       .jitter = 0.1,
       .look_ahead = true,
       .rounds = 200},
      {.policy = "cgp:patience=0.03", .curvatures = {1, 0.1f}, .jitter = 0.1, .rounds = 200},
      {.policy = "asp", .curvatures = {1, 0.1f}, .jitter = 0.1, .rounds = 200},
      {.policy = "elastic-bsp:5", .curvatures = {1, 0.1f}, .jitter = 0.1, .look_ahead = true, .rounds = 200},
      {.policy = "bsp", .curvatures = {1, 0.1f}, .jitter = 0.1, .rounds = 200},
  };
  return kRuns;
}

// z_t = w_t − η·ρ_t·v_t does SGD whose steps are h·f of the gradient, within the theorem's few percent.
TEST(Theory, EveryGradientCountsByItsSamplesInWhateverGroupsItComes) {
  const double least = kMomentum * std::log(1 / kMomentum) / (1 - kMomentum);
  const double most = (1 - kMomentum) * (1 + 1 / std::log(1 / kMomentum));
  for (const Setting& setting : mixed_runs()) {
    const std::vector<Step> steps = steps_of(setting);
    // The values after the end do not matter long before it.
    std::vector<double> rho(steps.size(), 9);
    for (std::size_t t = steps.size() - 1; t > 0; --t)
      rho[t - 1] = std::pow(kMomentum, steps[t].fraction) * (steps[t].fraction + rho[t]);
    const auto z = [&](std::size_t t, std::size_t i) {
      return static_cast<double>(steps[t].weights[i]) -
             setting.rate * rho[t] * static_cast<double>(steps[t].velocity[i]);
    };
    double fewest = 1, largest = 1;
    for (std::size_t t = 1; t < steps.size() / 4; ++t) {
      const double f = steps[t].fraction;
      const double weight = (f + rho[t]) * (1 - std::pow(kMomentum, f)) / f;  // h_t/h
      fewest = std::min(fewest, weight);
      largest = std::max(largest, weight);
      for (std::size_t i = 0; i < 2; ++i) {
        const double step =
            setting.rate / (1 - kMomentum) * weight * f * static_cast<double>(steps[t].gradient[i]);
        ASSERT_NEAR(z(t, i) - z(t - 1, i), -step, 0.01 * std::abs(step) + 2e-6)
            << setting.policy << " at " << t;
      }
    }
    EXPECT_GE(fewest, least) << setting.policy;
    EXPECT_LE(largest, most) << setting.policy;
  }
}

// ‖x − w_{t−1}‖ ≤ h·G·(|S − R| + d − S), with everything as it was in the run.
TEST(Theory, WeightsThatAreUsedAreNoFartherFromThoseCommittedToThanTheBound) {
  double closest = 0;
  for (const Setting& setting : mixed_runs()) {
    const std::vector<Step> steps = steps_of(setting);
    double largest = 0;  // G
    for (std::size_t t = 1; t < steps.size(); ++t) {
      for (const auto& member : steps[t].members) {
        const auto gradient = [&](std::size_t i) {
          return static_cast<double>(setting.curvatures[i] * member.at[i]);
        };
        largest = std::max(largest, norm({gradient(0), gradient(1)}));
      }
    }
    const double bulk = setting.rate / (1 - kMomentum) * largest;  // h·G
    double most_ahead = 0;
    for (std::size_t t = 1; t < steps.size(); ++t) {
      for (const auto& member : steps[t].members) {
        double d = 0, s = 0;
        for (auto k = static_cast<std::size_t>(member.base.value()) + 1; k < t; ++k) {
          d += steps[k].fraction;
          s += steps[k].fraction * std::pow(kMomentum, d);
        }
        const double r = member.reach / setting.rate;
        const double deviation = norm(difference(member.at, steps[t - 1].weights));
        ASSERT_LE(deviation, bulk * (std::abs(s - r) + d - s) * 1.0001 + 1e-6)
            << setting.policy << " at " << t;
        closest = std::max(closest, d > 0 ? deviation / (bulk * d) : 0);
        most_ahead = std::max(most_ahead, r);
      }
    }
    EXPECT_EQ(most_ahead > 0, setting.look_ahead && setting.policy != "bsp") << setting.policy;
  }
  EXPECT_GT(closest, 0.3) << "a bound that is never near says nothing";
}

}  // namespace
}  // namespace paceline::sim
