// One writer and several readers at once, without a lock. Every float of a version's buffer is the version,
// so a reader sees at once when what it has pinned is something else or changes under it. Under
// ThreadSanitizer this also checks that the atomics order the plain reads and writes of the buffers.
//
// The windows in which a wrong protocol fails are a few instructions wide. So readers are stopped all the
// time wherever they happen to be, by signals whose handler sleeps while the writer goes on.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/parameters/memory/weight_board.h"

namespace paceline::memory {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kFloats = 256;
constexpr int kReaders = 3;
constexpr int kPinsEach = 2500;

struct ReaderReport {
  std::atomic<int> pins{0};
  std::atomic<int> exact_pins{0};
  std::atomic<int> wrong{0};
};

bool all_are(std::span<const float> weights, Version version) {
  const auto expected = static_cast<float>(version.value());
  return std::all_of(weights.begin(), weights.end(), [&](float w) { return w == expected; });
}

// Whether the pinned weights are the version's, and still are after others had a chance to run.
bool holds_still(const WeightReader::Pinned& pinned, Rng& rng) {
  if (!all_are(pinned.weights, pinned.version)) return false;
  if (rng.below(4) == 0) std::this_thread::yield();
  return all_are(pinned.weights, pinned.version);
}

void read(const std::string& path, int slot, ReaderReport& report) {
  WeightReader reader = WeightReader::open(path, kFloats, slot).value();
  Rng rng(static_cast<std::uint64_t>(slot));
  Version last(0);
  while (report.pins < kPinsEach) {
    const auto pinned = reader.pin(rng.below(8) == 0 ? last.next() : last, 60s);
    if (!pinned || pinned->version < last || !holds_still(*pinned, rng)) ++report.wrong;
    if (!pinned) return;
    last = pinned->version;
    ++report.pins;
    if (rng.below(2) == 0) reader.unpin();
    if (rng.below(2) == 0) continue;
    // The version it just had, or the next: there or gone, but never another's weights.
    const auto exact = reader.pin_exactly(rng.below(2) == 0 ? last : last.next());
    if (!exact) continue;
    ++report.exact_pins;
    if (!holds_still(*exact, rng)) ++report.wrong;
  }
  reader.unpin();
}

void sleep_a_little(int) {
  const timespec pause{.tv_sec = 0, .tv_nsec = 50'000};
  nanosleep(&pause, nullptr);
}

// Publishes until every reader is done, and stops one of them now and then; keeps a version now and then.
// Counts kept versions that changed.
int write(WeightWriter& writer, const std::vector<ReaderReport>& reports,
          std::vector<std::jthread>& readers) {
  Rng rng(99);
  int wrong = 0;
  Version kept(0);
  const auto done = [](const ReaderReport& report) { return report.pins >= kPinsEach || report.wrong > 0; };
  for (Version version(1); !std::all_of(reports.begin(), reports.end(), done); version = version.next()) {
    const std::span<float> next = writer.next();
    std::fill(next.begin(), next.end(), static_cast<float>(version.value()));
    writer.publish(version);
    if (rng.below(8) == 0) pthread_kill(readers[rng.below(kReaders)].native_handle(), SIGUSR1);
    if (version.value() % 7 != 0) continue;
    if (kept > Version(0)) {
      if (!all_are(writer.kept(kept), kept)) ++wrong;
      writer.drop(kept);
    }
    kept = writer.keep(version).ok() ? version : Version(0);
  }
  return wrong;
}

TEST(WeightBoardStress, WhatIsPinnedOrKeptNeverChanges) {
  struct sigaction action {};
  action.sa_handler = sleep_a_little;
  ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
  WeightWriter writer = WeightWriter::create(kFloats, kReaders, 1).value();
  writer.next();  // zeros: version 0
  writer.publish(Version(0));
  std::vector<ReaderReport> reports(kReaders);
  std::vector<std::jthread> readers;
  for (int slot = 0; slot < kReaders; ++slot) {
    readers.emplace_back(
        [&, slot, path = writer.path()] { read(path, slot, reports[static_cast<std::size_t>(slot)]); });
  }
  EXPECT_EQ(write(writer, reports, readers), 0);
  readers.clear();
  for (const ReaderReport& report : reports) {
    EXPECT_EQ(report.wrong, 0);
    EXPECT_GE(report.pins, kPinsEach);
    EXPECT_GT(report.exact_pins, 0);
  }
}

}  // namespace
}  // namespace paceline::memory
