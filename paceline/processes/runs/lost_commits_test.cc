#include "paceline/processes/runs/lost_commits.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "paceline/base/rng.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/test_directory.h"

namespace paceline::runs {
namespace {

control::CommitRecord commit(std::int64_t version) {
  control::CommitRecord record;
  record.version = Version(version);
  record.why = {"", 0, 0};
  return record;
}

// The commits of attempts that did not say how many they lost, counted one by one.
std::int64_t counted(store::JournalReader& journal, const std::vector<store::Attempt>& attempts,
                     const std::map<std::string, std::string>& about) {
  std::int64_t lost = 0;
  for (std::size_t i = 0; i + 1 < attempts.size(); ++i) {
    if (const auto said = about.find(lost_commits_key(attempts[i].number)); said != about.end()) {
      lost += std::stoll(said->second);
      continue;
    }
    const auto kept = std::min_element(attempts.begin() + static_cast<std::ptrdiff_t>(i) + 1, attempts.end(),
                                       [](const auto& a, const auto& b) { return a.from < b.from; })
                          ->from;
    EXPECT_TRUE(
        journal
            .commits([&](Time, const auto& one) { lost += one.version > kept ? 1 : 0; }, attempts[i].number)
            .ok());
  }
  return lost;
}

// However often the run was killed and went back, and however many attempts committed nothing.
TEST(LostCommits, AreThoseThatLaterAttemptsDidAgain) {
  Rng rng(1);
  const store::TestDirectory folder;
  const auto path = folder / "journal.sqlite";
  std::uint64_t newest = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    // Most go back a little, and some to the beginning of an earlier attempt.
    const std::uint64_t back = rng.below(rng.below(5) == 0 ? 30 : 5);
    newest -= std::min(newest, back);
    const auto journal = *store::Journal::open(path, Version(static_cast<std::int64_t>(newest)));
    for (std::uint64_t commits = rng.below(3) == 0 ? 0 : rng.below(20); commits > 0; --commits)
      journal->on_order(Time{}, commit(static_cast<std::int64_t>(++newest)));
    if (rng.below(4) == 0) {
      ASSERT_TRUE(journal->set(lost_commits_key(journal->attempt()), std::to_string(rng.below(5))).ok());
    }
  }
  auto journal = *store::JournalReader::open(path);
  const auto about = *journal.run();
  auto attempts = *journal.attempts();
  EXPECT_GT(counted(journal, attempts, about), 50);
  for (; !attempts.empty(); attempts.pop_back()) {  // the run as it was earlier, too
    const auto lost = lost_commits(journal, attempts, about);
    ASSERT_TRUE(lost.ok()) << lost.status();
    EXPECT_EQ(*lost, counted(journal, attempts, about)) << attempts.size() << " attempts";
  }
}

}  // namespace
}  // namespace paceline::runs
