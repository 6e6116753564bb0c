#include "tests/recorded_run.h"

#include <signal.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "paceline/records/store/checkpoint.h"
#include "paceline/records/store/journal_reader.h"
#include "paceline/records/store/run_folder.h"
#include "paceline/records/store/safetensors.h"
#include "paceline/records/store/shard_files.h"
#include "tests/small_job.h"

namespace paceline::tests {

RecordedRun RecordedRun::read(const std::filesystem::path& run, std::int64_t attempt) {
  RecordedRun recorded;
  auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  EXPECT_TRUE(journal.ok()) << journal.status();
  if (!journal.ok()) return recorded;
  EXPECT_TRUE(
      journal->facts([&](const control::Fact& fact) { recorded.facts.push_back(fact); }, attempt).ok());
  EXPECT_TRUE(journal
                  ->commits(
                      [&](Time at, const control::CommitRecord& commit) {
                        recorded.commits.emplace_back(at, commit);
                        recorded.commits.back().second.why = {};  // its text goes with the reader
                      },
                      attempt)
                  .ok());
  EXPECT_TRUE(
      journal
          ->evaluations([&](const control::Evaluated& one) { recorded.evaluations.push_back(one); }, attempt)
          .ok());
  EXPECT_TRUE(
      journal->plans([&](const control::PlanAdopted& one) { recorded.plans.push_back(one); }, attempt).ok());
  EXPECT_TRUE(
      journal->batches([&](const control::BatchDone& one) { recorded.batches.push_back(one); }, attempt)
          .ok());
  return recorded;
}

std::map<std::pair<int, std::int64_t>, int> RecordedRun::commits_of_positions() const {
  std::map<std::pair<int, std::int64_t>, int> counts;
  for (const auto& [at, commit] : commits) {
    for (const control::CommitMember& member : commit.members) {
      for (std::int64_t i = member.lease.begin; i < member.lease.end; ++i) ++counts[{member.lease.epoch, i}];
    }
  }
  return counts;
}

std::vector<double> RecordedRun::commit_losses() const {
  std::map<std::pair<ReplicaId, Clock>, double> losses;
  for (const control::Fact& fact : facts) {
    if (const auto* ready = std::get_if<control::ReplicaReady>(&fact.what))
      losses[{ready->replica, ready->clock}] = ready->loss;
  }
  std::vector<double> means;
  for (const auto& [at, commit] : commits) {
    double mean = 0;
    for (const control::CommitMember& member : commit.members)
      mean += member.share * losses.at({member.replica, member.clock});
    means.push_back(mean);
  }
  return means;
}

std::map<std::string, std::string> checkpoint_weights(const std::filesystem::path& run) {
  std::map<std::string, std::string> weights;
  const auto checkpoint = store::latest_checkpoint(run);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  if (!checkpoint.ok()) return weights;
  for (int i = 1; i <= checkpoint->state.shards; ++i) {
    const auto file =
        store::read_safetensors(store::weights_file(checkpoint->directory, i, checkpoint->state.shards));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) continue;
    for (const auto& tensor : file->tensors) {
      // Pieces of one tensor come in their order.
      weights[tensor.name.substr(0, tensor.name.find('@'))] +=
          std::string(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size() * sizeof(float));
    }
  }
  return weights;
}

void expect_no_sample_twice(const RecordedRun& recorded) {
  for (const auto& [position, count] : recorded.commits_of_positions()) {
    ASSERT_EQ(count, 1) << "sample " << position.second << " of epoch " << position.first;
  }
}

void expect_each_sample_once(const RecordedRun& recorded, double epochs) {
  EXPECT_EQ(recorded.commits_of_positions().size(), static_cast<std::size_t>(epochs * kSmallJobSamples));
  expect_no_sample_twice(recorded);
}

RecordedRun kept_commits(const std::filesystem::path& run) {
  RecordedRun kept;
  const auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  const auto attempts = journal.ok() ? journal->attempts() : journal.status();
  EXPECT_TRUE(attempts.ok()) << attempts.status();
  if (!attempts.ok()) return kept;
  for (std::size_t i = 0; i < attempts->size(); ++i) {
    for (const auto& commit : RecordedRun::read(run, (*attempts)[i].number).commits) {
      const bool taken_back =
          std::any_of(attempts->begin() + static_cast<std::ptrdiff_t>(i) + 1, attempts->end(),
                      [&](const store::Attempt& later) { return later.from < commit.second.version; });
      if (!taken_back) kept.commits.push_back(commit);
    }
  }
  return kept;
}

void expect_kept_samples_once(const std::filesystem::path& run, double epochs) {
  expect_each_sample_once(kept_commits(run), epochs);
}

std::string expect_one_left(const RecordedRun& recorded, ReplicaId replica) {
  std::vector<std::string> left;
  Time when{};
  for (const control::Fact& fact : recorded.facts) {
    const auto* one = std::get_if<control::ReplicaLeft>(&fact.what);
    if (one == nullptr) continue;
    left.push_back(one->why);
    when = fact.at;
    EXPECT_EQ(one->replica, replica);
  }
  EXPECT_EQ(left.size(), 1u);
  EXPECT_TRUE(std::any_of(recorded.commits.begin(), recorded.commits.end(), [&](const auto& commit) {
    return commit.first > when;
  })) << "nobody went on";
  return left.empty() ? "" : left.front();
}

std::int64_t metrics_so_far(const std::filesystem::path& runs) {
  std::int64_t lines = 0;
  std::error_code ignored;
  for (const auto& run : std::filesystem::directory_iterator(runs, ignored)) {
    const std::string metrics = read_text(run.path() / "metrics.jsonl");
    lines += std::count(metrics.begin(), metrics.end(), '\n');
  }
  return lines;
}

std::int64_t newest_metric(const std::filesystem::path& runs, const std::string& key) {
  std::string metrics = read_text(only_run(runs) / "metrics.jsonl");
  metrics.resize(metrics.rfind('\n') + 1);  // whole lines
  const std::string name = "\"" + key + "\":";
  const std::size_t at = metrics.rfind(name);
  return at == std::string::npos ? 0 : std::stoll(metrics.substr(at + name.size()));
}

Ended expect_goes_on_until_stopped(Program& train, const std::filesystem::path& runs) {
  // The first of two snapshots may tell of what was before.
  for (int i = 0; i < 2; ++i) {
    const std::int64_t before = newest_metric(runs, "commits");
    EXPECT_TRUE(train.until([&] { return newest_metric(runs, "commits") > before; })) << "nobody goes on";
  }
  train.signal(SIGTERM);
  Ended ended = train.wait();
  EXPECT_EQ(ended.status, 128 + SIGTERM) << ended.errors;
  expect_no_sample_twice(kept_commits(only_run(runs)));
  return ended;
}

bool has_checkpoint(const std::filesystem::path& runs) {
  if (metrics_so_far(runs) < 1) return false;
  for (const auto& entry : std::filesystem::directory_iterator(only_run(runs) / "checkpoints")) {
    if (entry.path().extension() != ".partial") return true;
  }
  return false;
}

bool has_commit_after_checkpoint(const std::filesystem::path& runs) {
  if (!has_checkpoint(runs)) return false;
  const std::filesystem::path run = only_run(runs);
  const auto checkpoint = store::latest_checkpoint(run);
  auto journal = store::JournalReader::open(store::RunPaths{run}.journal());
  if (!checkpoint.ok() || !journal.ok()) return false;
  Version newest(0);
  const auto see = [&](Time, const control::CommitRecord& commit) { newest = commit.version; };
  // A commit is in the journal before servers hear of it, and all of them have it before there is a next one.
  return journal->commits(see).ok() && newest > checkpoint->state.controller.version.next();
}

}  // namespace paceline::tests
