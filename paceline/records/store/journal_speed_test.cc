// How long a million events take: printed and not asserted, because a test machine may be busy.
#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/base/testing/effort.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/test_directory.h"
#include "paceline/records/store/test_events.h"

namespace paceline::store {
namespace {

using Stopwatch = std::chrono::steady_clock;

struct Counter final : control::RunListener {
  std::int64_t events = 0;
  void on_fact(const control::Fact&) override { ++events; }
  void on_order(Time, const control::Order&) override { ++events; }
  void on_evaluated(const control::Evaluated&) override { ++events; }
};

TEST(JournalSpeed, AMillionEvents) {
  if (effort::kSanitized) GTEST_SKIP() << "its times say nothing under sanitizers";
  const TestDirectory directory;
  const auto path = directory / "journal.sqlite";
  // A fact, a commit and a release for each iteration.
  const auto events = controller_events("asp", 8 * 333'333);
  const auto start = Stopwatch::now();
  {
    auto journal = Journal::open(path, Version(0));
    ASSERT_TRUE(journal.ok());
    for (std::size_t i = 0; i < events.size(); ++i) {
      tell(events[i], **journal);
      if (i % 10'000 == 0) (*journal)->flush().IgnoreError();
    }
    ASSERT_TRUE((*journal)->flush().ok());
  }
  const auto written = Stopwatch::now();
  Counter counter;
  ASSERT_TRUE(JournalReader::open(path)->replay(counter).ok());
  const auto read = Stopwatch::now();
  EXPECT_EQ(counter.events, static_cast<std::int64_t>(events.size()));
  fmt::print("{} events: written in {:.2f} s, replayed in {:.2f} s, {} bytes each\n", events.size(),
             std::chrono::duration<double>(written - start).count(),
             std::chrono::duration<double>(read - written).count(),
             std::filesystem::file_size(path) / events.size());
}

}  // namespace
}  // namespace paceline::store
