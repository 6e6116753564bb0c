// What a run's journal says, in a form tests can count on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "paceline/control/facts.h"
#include "paceline/control/orders.h"
#include "paceline/control/run_listener.h"
#include "tests/program.h"

namespace paceline::tests {

struct RecordedRun {
  std::vector<control::Fact> facts;
  std::vector<std::pair<Time, control::CommitRecord>> commits;
  std::vector<control::Evaluated> evaluations;
  std::vector<control::PlanAdopted> plans;
  std::vector<control::BatchDone> batches;

  // Of one attempt (from 1); 0: of all.
  static RecordedRun read(const std::filesystem::path& run, std::int64_t attempt = 0);

  // How often each position of each epoch was committed, by the commits of this object.
  std::map<std::pair<int, std::int64_t>, int> commits_of_positions() const;
  // The mean training loss of each commit, weighted by its members' samples.
  std::vector<double> commit_losses() const;
};

// No sample was committed twice.
void expect_no_sample_twice(const RecordedRun& recorded);

// Each sample of so many epochs of a small job was committed, and once.
void expect_each_sample_once(const RecordedRun& recorded, double epochs);

// The commits that count of a run of several attempts: a later one takes back what was committed after the
// checkpoint that it goes on from.
RecordedRun kept_commits(const std::filesystem::path& run);

// Each sample of so many epochs was committed once by what counts.
void expect_kept_samples_once(const std::filesystem::path& run, double epochs);

// That replica left, and no other, and others committed after that. Why it left.
std::string expect_one_left(const RecordedRun& recorded, ReplicaId replica);

// How far the only run in `runs` is, in lines of the metrics that it writes once a second (its journal is not
// to be disturbed); 0 before it has any.
std::int64_t metrics_so_far(const std::filesystem::path& runs);

// A number that its newest snapshot has under this key; 0 before it has any.
std::int64_t newest_metric(const std::filesystem::path& runs, const std::string& key);

// The run goes on, and ends when it is told to. What it says then.
Ended expect_goes_on_until_stopped(Program& train, const std::filesystem::path& runs);

// Whether that run has a whole checkpoint.
bool has_checkpoint(const std::filesystem::path& runs);
// And servers have a commit that is newer than that.
bool has_commit_after_checkpoint(const std::filesystem::path& runs);

// All weights of the newest checkpoint of a run, by tensor, as their bytes.
std::map<std::string, std::string> checkpoint_weights(const std::filesystem::path& run);

}  // namespace paceline::tests
