// Attempt after attempt, by hand: without whom each of them is, and what ends the run.
#include "paceline/processes/coordinator/attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/base/rng.h"

namespace paceline::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

TEST(AttemptsOfAJob, TheFirstIsTheWholeJob) {
  Attempts attempts{AttemptsOptions{}};
  const Orders orders = attempts.begin({});
  ASSERT_EQ(orders.size(), 1u);
  const auto run = the<RunAttempt>(orders);
  ASSERT_TRUE(run);
  EXPECT_FALSE(run->again);
  EXPECT_FALSE(run->only_look_without);
}

TEST(AttemptsOfAJob, AnotherFollowsThatGoesOnFromTheNewestCheckpoint) {
  Attempts attempts{AttemptsOptions{}};
  attempts.begin({});
  AttemptEnded ended = lost_a_server(Version(7));
  ended.seen = Version(9);
  ended.wrong_workers = {{"w1", "it lied"}};
  const Orders orders = attempts.ended(ended);
  EXPECT_EQ(the<Tell>(orders)->line,
            "server 1 died; going on from the checkpoint of version 7, 2 commits lost");
  EXPECT_TRUE(the<Tell>(orders)->remember);
  EXPECT_TRUE(the<RunAttempt>(orders)->again);
  EXPECT_EQ(the<RunAttempt>(orders)->given_up, ended.wrong_workers);
  // The worker stays given up.
  EXPECT_EQ(the<RunAttempt>(attempts.ended(lost_a_server(Version(8))))->given_up, ended.wrong_workers);
}

TEST(AttemptsOfAJob, SayWhatMayStillBeHad) {
  AttemptsOptions options;
  options.copies = 2;
  Attempts attempts(options);
  attempts.begin({});
  AttemptEnded ended = lost_a_server(std::nullopt);
  ended.seen = Version(1);
  ended.copies = 2;
  EXPECT_EQ(the<Tell>(attempts.ended(ended))->line,
            "server 1 died; going on from the start, 1 commit lost unless servers still have them");
  ended.trained = false;
  EXPECT_EQ(the<Tell>(attempts.ended(ended))->line, "server 1 died; going on from the start");
}

TEST(AttemptsOfAJob, EndWithTheOneThatDoesNotGoOn) {
  Attempts attempts{AttemptsOptions{}};
  attempts.begin({});
  AttemptEnded ended;
  ended.status = absl::InternalError("the disk is full");
  EXPECT_EQ(the<EndRun>(attempts.ended(ended))->status, ended.status);

  Attempts good({});
  good.begin({});
  EXPECT_TRUE(the<EndRun>(good.ended({}))->status.ok());
}

TEST(AttemptsOfAJob, EndWhereTheyGainNothing) {
  Attempts attempts{AttemptsOptions{}};
  attempts.begin({});
  for (int i = 0; i < supervisor::Restarts::kMost; ++i)
    ASSERT_TRUE(the<RunAttempt>(attempts.ended(lost_a_server(Version(3))))) << i;
  const auto end = the<EndRun>(attempts.ended(lost_a_server(Version(3))));
  ASSERT_TRUE(end);
  EXPECT_EQ(end->status.message(), "server 1 died, for the 6th time without a new checkpoint");

  // A newer checkpoint is a gain.
  Attempts others({});
  others.begin({});
  for (int i = 0; i < 3 * supervisor::Restarts::kMost; ++i)
    ASSERT_TRUE(the<RunAttempt>(others.ended(lost_a_server(Version(3 + i / 2))))) << i;
}

TEST(AttemptsOfAJob, EndWhereAnotherHostLeads) {
  Attempts attempts{AttemptsOptions{}};
  attempts.begin({});
  AttemptEnded ended = lost_a_server(Version(3));
  ended.leads = absl::FailedPreconditionError("another host leads this run by now");
  const Orders orders = attempts.ended(ended);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(the<EndRun>(orders)->status, ended.leads);
}

TEST(AttemptsOfAJob, EndWhereNobodyCouldComeAgain) {
  Attempts attempts{AttemptsOptions{}};
  attempts.begin({});
  AttemptEnded ended = lost_a_server(Version(3));
  ended.access = absl::FailedPreconditionError("the certificate has expired");
  EXPECT_EQ(the<EndRun>(attempts.ended(ended))->status.message(),
            "server 1 died; the certificate has expired");
}

TEST(AttemptsOfAJob, AreWithoutHostsThatStayedAway) {
  AttemptsOptions options = three_hosts_twice();
  options.without = {HostRank(4)};
  Attempts attempts(options);
  EXPECT_FALSE(left_out(attempts.begin({})));  // the recorded job leaves that host out already
  AttemptEnded ended = lost_a_server(Version(3));
  ended.lost_hosts = {HostRank(2)};
  EXPECT_THAT(*left_out(attempts.ended(ended)), ElementsAre(HostRank(2), HostRank(4)));
  ended.lost_hosts = {HostRank(1)};
  EXPECT_THAT(*left_out(attempts.ended(ended)), ElementsAre(HostRank(1), HostRank(2), HostRank(4)));
  ended.lost_hosts = {};
  EXPECT_FALSE(left_out(attempts.ended(ended)));  // these hosts are left out already
}

TEST(AttemptsOfAJob, AreWithoutTheHostThatLedBefore) {
  AttemptsOptions options = three_hosts_twice();
  options.host = HostRank(1);
  options.lost_host = HostRank(0);
  Attempts attempts(options);
  const Orders orders = attempts.begin({});
  EXPECT_THAT(*left_out(orders), ElementsAre(HostRank(0)));
  EXPECT_FALSE(the<RunAttempt>(orders)->only_look_without);
}

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

// Hosts that stay away one after the other, without a step of training in between, are as many as at once.
TEST(AttemptsOfAJob, CountTheHostsOfTheLastAttemptThatTrained) {
  AttemptsOptions options{
      .job_file = "RUN/job.toml", .host = HostRank(1), .copies = 2, .hosts = 3, .again = true};
  options.shared_folder = false;
  options.lost_host = HostRank(0);
  Attempts attempts(options);
  EXPECT_TRUE(the<RunAttempt>(attempts.begin({}))) << "two of three may come";
  AttemptEnded ended = lost_a_server(Version(7));
  ended.trained = false;
  ended.lost_hosts = {HostRank(2)};
  EXPECT_THAT(the<EndRun>(attempts.ended(ended))->status.message(), HasSubstr("1 of the 3 hosts"));
}

TEST(AttemptsOfAJob, NoneIsWithoutItsOwnHost) {
  Attempts attempts({.job_file = "RUN/job.toml", .host = HostRank(1), .without = {HostRank(1)}});
  EXPECT_EQ(the<EndRun>(attempts.begin({}))->status.message(),
            "RUN/job.toml: cluster.without: host 1 has the coordinator: no run goes on without it");
}

// The servers have it in three parts; without host 0 they would say nothing of use.
TEST(AttemptsOfAJob, TheFirstOnlyLooksWhereServersHaveMoreInOtherParts) {
  AttemptsOptions options = three_hosts_twice();
  options.host = HostRank(1);
  options.lost_host = HostRank(0);
  Attempts attempts(options);
  const Orders orders = attempts.begin({.cut_short = CutShortAttempt{Version(9), {}}, .newest = Version(7)});
  EXPECT_FALSE(left_out(orders));
  ASSERT_TRUE(the<RunAttempt>(orders)->only_look_without);
  EXPECT_THAT(*the<RunAttempt>(orders)->only_look_without, ElementsAre(HostRank(0)));
  // The versions that were found are written; now the remaining hosts train.
  const Orders then = attempts.ended(lost_a_server(Version(9)));
  EXPECT_THAT(*left_out(then), ElementsAre(HostRank(0)));
  EXPECT_FALSE(the<RunAttempt>(then)->only_look_without);
  EXPECT_TRUE(the<RunAttempt>(then)->again);
}

TEST(AttemptsOfAJob, TheFirstLooksWithoutThoseThatTheOneBeforeWasWithout) {
  Attempts attempts(three_hosts_twice());
  const Orders orders =
      attempts.begin({.cut_short = CutShortAttempt{Version(9), {HostRank(2)}}, .newest = Version(7)});
  EXPECT_THAT(*left_out(orders), ElementsAre(HostRank(2)));
  EXPECT_THAT(*the<RunAttempt>(orders)->only_look_without, IsEmpty());
  EXPECT_THAT(*left_out(attempts.ended(lost_a_server(Version(9)))), IsEmpty());  // host 2 may be back
}

TEST(AttemptsOfAJob, TheFirstTrainsWhereThereIsNothingToLookFor) {
  const FolderBefore more{.cut_short = CutShortAttempt{Version(9), {HostRank(2)}}, .newest = Version(7)};
  const auto looks = [](const AttemptsOptions& options, const FolderBefore& folder) {
    return the<RunAttempt>(Attempts(options).begin(folder))->only_look_without.has_value();
  };
  ASSERT_TRUE(looks(three_hosts_twice(), more));
  AttemptsOptions once = three_hosts_twice();
  once.copies = 1;
  EXPECT_FALSE(looks(once, more));
  AttemptsOptions stopped = three_hosts_twice();
  stopped.again = false;
  EXPECT_FALSE(looks(stopped, more));
  EXPECT_FALSE(looks(three_hosts_twice(), {.newest = Version(7)}));
  EXPECT_FALSE(looks(three_hosts_twice(),
                     {.cut_short = CutShortAttempt{Version(7), {HostRank(2)}}, .newest = Version(7)}));
  EXPECT_FALSE(
      looks(three_hosts_twice(), {.cut_short = CutShortAttempt{Version(9), {}}, .newest = Version(7)}));
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
      for (const HostRank host : ended.lost_hosts) ASSERT_THAT(now, testing::Contains(host)) << seed;
      if (!looked) {
        for (const HostRank host : without) ASSERT_THAT(now, testing::Contains(host)) << seed;
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
