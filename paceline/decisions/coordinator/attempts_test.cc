// Attempt after attempt: the stories in testdata/attempts/, both parts of every cut network, and random
// courses. Events of a story:
//   > run of 3 hosts; copies 2; own disks       the first attempt. Further phrases: led by host 1; after
//                                               host 0; without hosts 2, 4; begun before; checkpoint 7; cut
//                                               short at 9 without hosts 2
//   > lost server 1 died; seen 9; checkpoint 7  an attempt ended, and the run can go on. Further phrases: only
//                                               looked; leaves the lead; copies 2; stay away 0, 2; gave up w1:
//                                               WHY; led by: WHO; locked out: WHY; times 4 (the orders after the
//                                               last)
//   > failed the disk is full                   an attempt ended, and the run cannot go on
//   > done
#include "paceline/decisions/coordinator/attempts.h"

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/base/testing/golden_text.h"

namespace paceline::coordinator {
namespace {

using testing::Contains;
using testing::HasSubstr;

using Orders = std::vector<AttemptsOrder>;

template <class One>
std::optional<One> the(const Orders& orders) {
  std::optional<One> found;
  for (const AttemptsOrder& order : orders) {
    if (const auto* one = std::get_if<One>(&order)) found = *one;
  }
  return found;
}

std::optional<std::vector<HostRank>> left_out(const Orders& orders) {
  const auto order = the<LeaveOut>(orders);
  if (!order) return std::nullopt;
  return order->hosts;
}

AttemptsOptions three_hosts_twice() { return {.job_file = "RUN/job.toml", .copies = 2, .again = true}; }

AttemptEnded lost_a_server(std::optional<Version> newest) {
  AttemptEnded ended;
  ended.status = absl::UnavailableError("server 1 died");
  ended.can_go_on = ended.trained = true;
  ended.newest = newest;
  return ended;
}

// "0, 2"
std::vector<HostRank> hosts_of(const std::string& words) {
  std::istringstream in(words);
  std::vector<HostRank> hosts;
  for (std::string host; std::getline(in, host, ',');) hosts.emplace_back(std::stoi(host));
  return hosts;
}
std::string in_words(const std::vector<HostRank>& hosts) {
  return hosts.empty() ? "no host"
                       : fmt::format("{} {}", hosts.size() == 1 ? "host" : "hosts", fmt::join(hosts, ", "));
}
std::string in_words(const absl::Status& status) {
  return status.ok() ? "all is well" : std::string(status.message());
}

std::string in_words(const AttemptsOrder& order) {
  if (const auto* one = std::get_if<LeaveOut>(&order)) return "leave out " + in_words(one->hosts);
  if (const auto* one = std::get_if<Tell>(&order))
    return fmt::format("tell{}: {}", one->remember ? " and remember" : "", one->line);
  if (const auto* one = std::get_if<EndRun>(&order)) return "end the run: " + in_words(one->status);
  const auto& run = std::get<RunAttempt>(order);
  std::string words = run.again ? "run an attempt that goes on" : "run an attempt from the start";
  if (run.only_look_without) words = "run an attempt that only looks";
  if (run.only_look_without && !run.only_look_without->empty())
    words += ", and does not wait for " + in_words(*run.only_look_without);
  for (const auto& [worker, why] : run.given_up) words += fmt::format("; {} is not let in: {}", worker, why);
  return words;
}

AttemptsOptions options_of(golden::Phrases& words) {
  AttemptsOptions options{.job_file = "RUN/job.toml"};
  options.hosts = words.number_after("run of").value_or(1);
  options.copies = words.number_after("copies").value_or(1);
  options.shared_folder = !words.has("own disks");
  options.host = HostRank(words.number_after("led by host").value_or(0));
  options.without = hosts_of(words.after("without hosts").value_or(""));
  options.again = words.has("begun before");
  if (const auto host = words.number_after("after host")) options.lost_host = HostRank(*host);
  return options;
}

std::optional<Version> checkpoint_of(golden::Phrases& words) {
  const auto version = words.number_after("checkpoint");
  return version ? std::optional(Version(*version)) : std::nullopt;
}

FolderBefore folder_of(golden::Phrases& words) {
  FolderBefore folder{.newest = checkpoint_of(words)};
  if (const auto cut_short = words.after("cut short at")) {
    const auto without = golden::Event::like(*cut_short, "* without hosts *");
    folder.cut_short =
        CutShortAttempt{Version(std::stoi(*cut_short)), hosts_of(without ? without->at(1) : "")};
  }
  return folder;
}

AttemptEnded lost(const std::string& why, golden::Phrases& words) {
  AttemptEnded ended = lost_a_server(checkpoint_of(words));
  ended.status = absl::UnavailableError(why);
  ended.trained = !words.has("only looked");
  ended.seen = Version(words.number_after("seen").value_or(0));
  ended.copies = words.number_after("copies").value_or(1);
  if (words.has("leaves the lead"))
    ended.status = with_exit_reason(std::move(ended.status), ExitReason::kLeavesLead);
  if (const auto away = words.after("stay away")) ended.lost_hosts = hosts_of(*away);
  if (const auto worker = words.after("gave up"))
    ended.wrong_workers = {{worker->substr(0, 2), worker->substr(4)}};
  if (const auto leads = words.after("led by:")) ended.leads = absl::FailedPreconditionError(*leads);
  if (const auto access = words.after("locked out:")) ended.access = absl::FailedPreconditionError(*access);
  return ended;
}

constexpr char kAttempts[] = "paceline/decisions/coordinator/testdata/attempts";

class AttemptsStory : public testing::TestWithParam<std::string> {};

TEST_P(AttemptsStory, IsTrue) {
  std::optional<Attempts> attempts;
  const auto path = std::filesystem::path(kAttempts) / (GetParam() + ".txt");
  golden::expect_story(path, "coordinator_test",
                       [&](const golden::Event& event) -> std::optional<golden::Answers> {
                         golden::Phrases words(event.words());
                         Orders orders;
                         if (event.like("run of *")) {
                           attempts.emplace(options_of(words));
                           orders = attempts->begin(folder_of(words));
                         } else if (words.has("done")) {
                           orders = attempts->ended({});
                         } else if (const auto why = words.after("failed")) {
                           orders = attempts->ended({.status = absl::InternalError(*why)});
                         } else if (const auto member = words.after("lost")) {
                           const int times = words.number_after("times").value_or(1);
                           const AttemptEnded ended = lost(*member, words);
                           for (int i = 0; i < times; ++i) orders = attempts->ended(ended);
                         } else {
                           return std::nullopt;
                         }
                         golden::Answers lines;
                         for (const AttemptsOrder& order : orders) lines.push_back(in_words(order));
                         return lines;
                       });
}

INSTANTIATE_TEST_SUITE_P(Files, AttemptsStory, testing::ValuesIn(golden::texts_in(kAttempts)),
                         [](const auto& test) { return test.param; });

// A network is cut in two: whatever the number of hosts, and however many were given up before, both parts go
// on only if they are equally large.
TEST(AttemptsOfAJob, OnlyOnePartOfACutNetworkGoesOnWithoutALock) {
  for (int hosts = 2; hosts <= 7; ++hosts) {
    for (int given_up = 0; given_up <= hosts - 2; ++given_up) {
      const int had = hosts - given_up;
      for (int left = 1; left < had; ++left) {
        const auto goes_on = [&](int part, int from) {
          AttemptsOptions options{
              .job_file = "RUN/job.toml", .host = HostRank(from), .copies = 2, .hosts = hosts};
          options.shared_folder = false;
          Attempts attempts(options);
          attempts.begin({});
          AttemptEnded ended = lost_a_server(Version(1));
          for (int one = had; one < hosts; ++one) {
            ended.lost_hosts = {HostRank(one)};  // one by one, and the run trains on
            ended.newest = Version(ended.newest->value() + 1);
            EXPECT_TRUE(the<RunAttempt>(attempts.ended(ended)));
          }
          ended.lost_hosts.clear();
          ended.newest = Version(ended.newest->value() + 1);
          for (int one = 0; one < had; ++one) {
            if (one < from || one >= from + part) ended.lost_hosts.emplace_back(one);
          }
          const Orders orders = attempts.ended(ended);
          if (const auto end = the<EndRun>(orders)) {
            EXPECT_THAT(end->status.message(), HasSubstr(fmt::format("{} of the {} hosts", part, had)));
          }
          return the<RunAttempt>(orders).has_value();
        };
        const bool one = goes_on(left, 0);
        const bool other = goes_on(had - left, left);
        EXPECT_TRUE(one || other) << hosts << " " << given_up << " " << left;
        EXPECT_EQ(one && other, 2 * left == had) << hosts << " " << given_up << " " << left;
      }
    }
  }
}

TEST(LostCommits, AreThoseAfterTheCheckpoint) {
  const auto ended = [](Version seen, std::optional<Version> newest, std::int64_t copies) {
    return AttemptEnded{.status = {}, .seen = seen, .copies = copies, .newest = newest};
  };
  EXPECT_EQ(ended(Version(9), Version(7), 1).lost_commits(), 2);
  EXPECT_EQ(ended(Version(9), std::nullopt, 1).lost_commits(), 9);
  EXPECT_EQ(ended(Version(5), Version(7), 1).lost_commits(), 0);
  EXPECT_TRUE(ended(Version(7), Version(7), 2).lost_for_good());
  EXPECT_TRUE(ended(Version(9), Version(7), 1).lost_for_good());
  EXPECT_FALSE(ended(Version(9), Version(7), 2).lost_for_good());
}

TEST(CutShortAfter, IsNothingThatTheCheckpointHas) {
  const CutShort before{"run 1", Version(7)};
  EXPECT_EQ(cut_short_after(before, Version(6))->attempt, "run 1");
  EXPECT_FALSE(cut_short_after(before, Version(7)));
  EXPECT_FALSE(cut_short_after(std::nullopt, Version(0)));
}

// Invariants of any course: every answer ends in one more attempt or in the end, no host that was lost comes
// back, and a run ends that gains nothing.
TEST(AttemptsOfAJob, HoldInAnyCourse) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    const auto chance = [&](double share) { return rng.uniform() < share; };
    AttemptsOptions options = three_hosts_twice();
    options.host = HostRank(2);
    if (chance(0.3)) options.lost_host = HostRank(0);
    Attempts attempts(options);
    FolderBefore folder{.newest = Version(1)};
    if (chance(0.3)) folder.cut_short = CutShortAttempt{Version(3), {HostRank(1)}};
    Orders orders = attempts.begin(folder);
    std::vector<HostRank> without;
    std::int64_t newest = 1;
    int in_vain = 0;
    for (int i = 0; i < 200 && the<RunAttempt>(orders); ++i) {
      ASSERT_FALSE(the<EndRun>(orders));
      const bool looked = the<RunAttempt>(orders)->only_look_without.has_value();
      if (const auto hosts = left_out(orders)) without = *hosts;
      AttemptEnded ended = lost_a_server(Version(newest));
      if (chance(0.2)) {
        ended.newest = Version(++newest);
        in_vain = 0;
      }
      in_vain += 1;
      if (chance(0.1)) ended.lost_hosts = {HostRank(static_cast<int>(rng.below(2)))};
      if (chance(0.05)) ended.leads = absl::FailedPreconditionError("another host leads");
      orders = attempts.ended(ended);
      const auto end = the<EndRun>(orders);
      ASSERT_EQ(end.has_value(), !ended.leads.ok() || in_vain > supervisor::Restarts::kMost) << seed;
      if (end) break;
      const std::vector<HostRank> now = left_out(orders).value_or(without);
      for (const HostRank host : ended.lost_hosts) ASSERT_THAT(now, Contains(host)) << seed;
      if (!looked) {
        for (const HostRank host : without) ASSERT_THAT(now, Contains(host)) << seed;
      }
    }
    ASSERT_FALSE(the<RunAttempt>(orders)) << seed << ": it does not end";
  }
}

TEST(KeeperOf, IsTheHostAfterTheLeader) {
  const std::vector<HostRank> hosts{HostRank(0), HostRank(2), HostRank(3)};
  EXPECT_EQ(keeper_of(hosts, HostRank(0)), HostRank(2));
  EXPECT_EQ(keeper_of(hosts, HostRank(3)), HostRank(0));
  EXPECT_EQ(keeper_of(hosts, HostRank(1)), std::nullopt);
  EXPECT_EQ(keeper_of({HostRank(1)}, HostRank(1)), std::nullopt);
}

}  // namespace
}  // namespace paceline::coordinator
