// The contents of a run's journal, in a form for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "paceline/decisions/control/facts.h"
#include "paceline/decisions/control/orders.h"
#include "paceline/decisions/control/run_listener.h"
#include "tests/program.h"

namespace paceline::tests {

struct RecordedRun {
  std::vector<control::Fact> facts;
  std::vector<std::pair<Time, control::CommitRecord>> commits;
  std::vector<control::Evaluated> evaluations;
  std::vector<control::PlanAdopted> plans;
  std::vector<control::BatchDone> batches;

  // Reads one attempt (from 1); 0: all attempts.
  static RecordedRun read(const std::filesystem::path& run, std::int64_t attempt = 0);

  // How often each position of each epoch was committed, by the commits of this object.
  std::map<std::pair<int, std::int64_t>, int> commits_of_positions() const;
  // The mean training loss of each commit, weighted by its members' samples.
  std::vector<double> commit_losses() const;
};

// No sample was committed twice.
void expect_no_sample_twice(const RecordedRun& recorded);

// Expects that each sample of `epochs` epochs of a small job was committed once.
void expect_each_sample_once(const RecordedRun& recorded, double epochs);

// The commits that count, of a run of several attempts: a later attempt takes back commits after the
// checkpoint that it goes on from.
RecordedRun kept_commits(const std::filesystem::path& run);

// Expects that the commits that count have each sample of `epochs` epochs once.
void expect_kept_samples_once(const std::filesystem::path& run, double epochs);

// Expects that this replica left, and no other, and that others committed after that. Returns why it left.
std::string expect_one_left(const RecordedRun& recorded, ReplicaId replica);

// How far the only run in `runs` is, in lines of the metrics that it writes once a second (so that its
// journal is not disturbed); 0 before it has any.
std::int64_t metrics_so_far(const std::filesystem::path& runs);

// The number under this key in the run's newest snapshot; 0 before it has any.
std::int64_t newest_metric(const std::filesystem::path& runs, const std::string& key);

// Expects that the run goes on, and ends when it is told to. Returns its end.
Ended expect_goes_on_until_stopped(Program& train, const std::filesystem::path& runs);

// Whether the run has a complete checkpoint.
bool has_checkpoint(const std::filesystem::path& runs);
// Whether the run has a checkpoint, and servers have a newer commit.
bool has_commit_after_checkpoint(const std::filesystem::path& runs);

// All weights of the newest checkpoint of a run, by tensor, as their bytes.
std::map<std::string, std::string> checkpoint_weights(const std::filesystem::path& run);

}  // namespace paceline::tests
