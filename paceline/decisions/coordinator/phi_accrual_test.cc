// Tests when a process is given up, for made-up times of arrival.
#include "paceline/decisions/coordinator/phi_accrual.h"

#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::coordinator {
namespace {

using Seconds = PhiAccrual::Seconds;

PhiAccrual::Time at(double seconds) {
  return PhiAccrual::Time(
      std::chrono::duration_cast<PhiAccrual::Time::duration>(std::chrono::duration<double>(seconds)));
}

// Hears at intervals that `next` gives until `end`, and asks every 10 ms between. The largest φ there was.
double largest_phi(PhiAccrual& detector, double& now, double end, const std::function<double()>& next) {
  double largest = 0;
  while (now < end) {
    const double then = now + next();
    for (double ask = now; ask < then; ask += 0.01) largest = std::max(largest, detector.phi(at(ask)));
    detector.heard(at(then));
    now = then;
  }
  return largest;
}

// How long after its last word it is given up.
double given_up_after(const PhiAccrual& detector, double now) {
  double silence = 0;
  while (!detector.dead(at(now + silence))) silence += 0.001;
  return silence;
}

TEST(PhiAccrual, DoubtGrowsWithSilenceAndAWordEndsIt) {
  PhiAccrual detector(at(0));
  double now = 0;
  largest_phi(detector, now, 5, [] { return 0.1; });
  double before = detector.phi(at(now));
  EXPECT_LT(before, 1e-6);
  for (double silence = 0.5; silence < 4; silence += 0.1) {
    const double phi = detector.phi(at(now + silence));
    EXPECT_GE(phi, before);
    before = phi;
  }
  EXPECT_GT(before, PhiAccrual::kDead);
  detector.heard(at(now + 4));
  EXPECT_LT(detector.phi(at(now + 4)), 0.1);
}

// The value follows from the definition: an interval as long as the mean and the pause together is exceeded
// half of the time.
TEST(PhiAccrual, IsTheNormalDistributionsTail) {
  PhiAccrual detector(at(0));
  double now = 0;
  bool odd = false;
  largest_phi(detector, now, 60, [&] { return (odd = !odd) ? 0.2 : 1.0; });  // mean 0.6, deviation 0.4
  const double middle = 0.6 + PhiAccrual::kBorne.count();
  EXPECT_NEAR(detector.phi(at(now + middle)), -std::log10(0.5), 1e-6);
  EXPECT_NEAR(detector.phi(at(now + middle + 0.4)), -std::log10(0.158655254), 1e-6);
  EXPECT_NEAR(detector.phi(at(now + middle + 3 * 0.4)), -std::log10(0.001349898), 1e-5);
}

TEST(PhiAccrual, ACrashIsKnownInACoupleOfSeconds) {
  PhiAccrual detector(at(0));
  double now = 0;
  largest_phi(detector, now, 30, [] { return 0.1; });
  EXPECT_GT(given_up_after(detector, now), 2.0);
  EXPECT_LT(given_up_after(detector, now), 2.5);
}

TEST(PhiAccrual, AtTheStartTooButLater) {
  const PhiAccrual detector(at(0));
  EXPECT_GT(given_up_after(detector, 0), 2.5);
  EXPECT_LT(given_up_after(detector, 0), 4);
}

TEST(PhiAccrual, JitterIsNotDeath) {
  Rng rng(1);
  PhiAccrual detector(at(0));
  double now = 0;
  EXPECT_LT(largest_phi(detector, now, 600, [&] { return 0.02 + 0.4 * rng.uniform(); }), PhiAccrual::kDead);
  EXPECT_LT(given_up_after(detector, now), 3.5);
}

TEST(PhiAccrual, APauseOfASecondAndAHalfIsBorne) {
  PhiAccrual detector(at(0));
  double now = 0;
  int beat = 0;
  EXPECT_LT(largest_phi(detector, now, 600, [&] { return ++beat % 100 == 0 ? 1.5 : 0.1; }),
            PhiAccrual::kDead);
}

TEST(PhiAccrual, APauseOfThisProcessIsNoRhythmOfTheOtherOne) {
  PhiAccrual detector(at(0));
  double now = 0;
  largest_phi(detector, now, 30, [] { return 0.1; });
  now += 3600;
  detector.heard(at(now), at(now));
  EXPECT_LT(given_up_after(detector, now), 2.5);
}

TEST(PhiAccrual, ItLearnsANewRhythmAndTheOldOneAgain) {
  PhiAccrual detector(at(0));
  double now = 0;
  double interval = 0.1;
  // Slower and slower, as on a machine that is more and more crowded: 20 times in the end.
  const double largest =
      largest_phi(detector, now, 600, [&] { return interval = std::min(2.0, interval * 1.02); });
  EXPECT_LT(largest, PhiAccrual::kDead);
  EXPECT_GT(given_up_after(detector, now), 3.5) << "one that speaks every 2 s gets more time";
  EXPECT_LT(largest_phi(detector, now, 660, [] { return 0.1; }), PhiAccrual::kDead);
  EXPECT_LT(given_up_after(detector, now), 2.5)
      << "and is as quickly missed as before when it is quick again";
}

// A million beats of all kinds: no drift in what is summed up.
TEST(PhiAccrual, StaysExact) {
  Rng rng(2);
  PhiAccrual detector(at(0));
  double now = 0;
  for (int i = 0; i < 1'000'000; ++i) detector.heard(at(now += 0.05 + 0.1 * rng.uniform()));
  for (std::size_t i = 0; i <= PhiAccrual::kWindow; ++i) detector.heard(at(now += 0.1));
  EXPECT_NEAR(given_up_after(detector, now), 0.1 + 1.5 + 5.612 * 0.1, 0.01);
}

}  // namespace
}  // namespace paceline::coordinator
