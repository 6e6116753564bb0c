// Pages and requests of a publisher, over run folders that change.
#include "paceline/tools/ui/publisher.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/processes/runs/run_info.h"
#include "paceline/tools/ui/testing/run_folders.h"

namespace paceline::ui {
namespace {

// A browser's page, which notes each event and its time.
class OpenPage final : public Exchange {
 public:
  void answer(Reply) override {}
  void stream() override {}
  void send(std::string bytes) override {
    const std::lock_guard lock(mutex_);
    text_ += bytes;
    const std::size_t at = bytes.find("\"part\":\"");
    if (at == std::string::npos) return;
    const std::size_t begin = at + 8;
    came_[bytes.substr(begin, bytes.find('"', begin) - begin)] = std::chrono::steady_clock::now();
  }
  bool closed() const override { return false; }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  std::set<std::string> parts_since(std::chrono::steady_clock::time_point then) const {
    const std::lock_guard lock(mutex_);
    std::set<std::string> parts;
    for (const auto& [part, at] : came_) {
      if (at >= then) parts.insert(part);
    }
    return parts;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::map<std::string, std::chrono::steady_clock::time_point> came_;
};

// A request for metrics.
class Request final : public Exchange {
 public:
  explicit Request(bool closed = false) : closed_(closed) {}
  void answer(Reply reply) override {
    const std::lock_guard lock(mutex_);
    reply_ = std::move(reply);
  }
  void stream() override {}
  void send(std::string) override {}
  bool closed() const override { return closed_; }
  std::optional<Reply> reply() const {
    const std::lock_guard lock(mutex_);
    return reply_;
  }
  // Waits for it.
  Reply answered() const {
    for (int i = 0; i < 12000 && !reply(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return reply().value_or(Reply{.status = 0});
  }

 private:
  const bool closed_;
  mutable std::mutex mutex_;
  std::optional<Reply> reply_;
};

// Passes a run on in pieces of `size` facts, a fifth of a second apart.
class Pieces final : public control::RunListener {
 public:
  Pieces(store::Journal& journal, int size) : journal_(journal), size_(size) {}
  void on_fact(const control::Fact& fact) override {
    if (++facts_ % size_ == 0) flush();
    journal_.on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override { journal_.on_order(at, order); }
  void on_evaluated(const control::Evaluated& evaluated) override { journal_.on_evaluated(evaluated); }
  void flush() {
    EXPECT_TRUE(journal_.flush().ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }

 private:
  store::Journal& journal_;
  const int size_;
  int facts_ = 0;
};

using PublisherTest = RunFoldersTest;

// A person who looks at a long run some times a day waits once.
TEST(PublisherTimesTest, ARunIsKeptTheLongerTheLongerItWasRead) {
  using std::chrono::minutes;
  EXPECT_EQ(Publisher::kept_for(std::chrono::seconds(1)), minutes(10));
  EXPECT_GT(Publisher::kept_for(minutes(30)), std::chrono::hours(24));
}

// A scraper that has given up is not answered, and the others hear at once how far the reading is.
TEST_F(PublisherTest, RequestsAreAnsweredWhileARunIsRead) {
  make_run(root_ / "run");
  record_run(root_ / "run");
  Publisher publisher({.roots = {root_}, .token = "", .open_metrics = true}, 1);
  const auto gone = std::make_shared<Request>(true);
  publisher.metrics(gone, "");
  const auto first = std::make_shared<Request>(), well = std::make_shared<Request>();
  publisher.metrics(first, "");
  EXPECT_EQ(first->answered().status, 503);
  EXPECT_THAT(first->answered().body, testing::MatchesRegex("reading the run: [0-9]+ %\n"));
  publisher.health(well);
  EXPECT_EQ(well->answered().status, 200);
  EXPECT_THAT(well->answered().body, testing::StartsWith("run: finished, "));
  Reply last{.status = 0};
  for (int i = 0; i < 12000 && last.status != 200; ++i) {
    const auto next = std::make_shared<Request>();
    publisher.metrics(next, "");
    last = next->answered();
  }
  EXPECT_THAT(last.body, testing::HasSubstr("paceline_committed_samples_total 3200\n"));
  EXPECT_FALSE(gone->reply().has_value());
}

// Every part of a page that has changed comes, without another change after it. How soon depends on how busy
// the machine is: the publisher rests longer if its work takes longer.
TEST_F(PublisherTest, APageHasEveryPartThatHasChangedInTheEnd) {
  make_run(root_ / "run");
  auto journal = store::Journal::open(root_ / "run" / "journal.sqlite", Version(0));
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE((*journal)->set(runs::kTotalSamplesKey, "3200").ok());
  const auto page = std::make_shared<OpenPage>();
  Publisher publisher({.roots = {root_ / "run"}, .token = "", .open_metrics = false});
  publisher.subscribe(page, "run", {"run"});
  // The run comes in pieces, a fifth of a second apart: in the end each part has a version that shows the
  // last piece.
  Pieces pieces(**journal, 12);
  report::run_example(report::uneven_four(), "bsp", pieces);
  // Before the flush: a part may come as soon as the journal has the last piece.
  const auto written = std::chrono::steady_clock::now();
  ASSERT_TRUE((*journal)->flush().ok());
  const std::set<std::string> expected{"curves", "devices", "groups", "head", "lanes", "time"};
  std::set<std::string> told;
  const auto all_told = [&] {
    return std::includes(told.begin(), told.end(), expected.begin(), expected.end());
  };
  while (!all_told() && std::chrono::steady_clock::now() - written < std::chrono::seconds(120)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    told = page->parts_since(written);
  }
  EXPECT_THAT(told, testing::IsSupersetOf(expected));
}

// This holds however often metrics are collected meanwhile.
TEST_F(PublisherTest, TheListHasANewRunWhileMetricsAreCollected) {
  make_run(root_ / "one");
  const auto page = std::make_shared<OpenPage>();
  Publisher publisher({.roots = {root_}, .token = "", .open_metrics = true});
  publisher.subscribe(page, "list", {});
  bool there = false;
  for (int i = 0; i < 600 && !there; ++i) {
    if (i == 5) make_run(root_ / "two");
    publisher.health(std::make_shared<OpenPage>());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    there = page->text().find("\"id\":\"two\"") != std::string::npos;
  }
  EXPECT_TRUE(there);
}

}  // namespace
}  // namespace paceline::ui
