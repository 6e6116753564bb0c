// Records a run: its journal, its metrics, and the statistics that people watch. Kept by the host of the
// run's Controller; one thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/decisions/coordinator/shard_lengths.h"
#include "paceline/formats/config/job_config.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/store/journal.h"
#include "paceline/records/store/line_file.h"
#include "paceline/records/store/run_folder.h"

namespace paceline::runs {

class RunRecorder final : public control::RunListener {
 public:
  // Nanoseconds since 1970. The clock may be set, forth and back, while a run goes on.
  using WallClock = std::function<std::int64_t()>;

  // `from`: the version resumed from; 0 for a new run. `logs`: keep a log for a copy of the journal. `job`
  // outlives this.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> open(const config::JobConfig& job,
                                                           const store::RunPaths& paths, report::World world,
                                                           Version from, WallClock wall = system_clock,
                                                           bool logs = false);
  static std::int64_t system_clock();

  // Call before the first fact. `job_toml`: this attempt's job; `state`: the state that it goes on from.
  void start(const control::ControllerConfig& config, const std::string& job_toml,
             const std::optional<control::ControllerState>& state = std::nullopt);

  void on_fact(const control::Fact& fact) override;
  void on_order(Time at, const control::Order& order) override;
  void on_evaluated(const control::Evaluated& evaluated) override;
  void on_side_work(const control::SideWork& work) override {
    journal_->on_side_work(work);
    stats_->on_side_work(work);
  }

  // The newest commit of the attempts before, if its attempt was cut short (see was_cut_short()). `from`: the version that
  // this attempt begins from.
  absl::StatusOr<std::optional<store::NewestCommit>> cut_short(Version from) const;
  // Records that the attempt which was cut short lost nothing that anybody saw.
  void note_nothing_lost();

  // Call when a checkpoint is about to count: one of this attempt, or, if this has not committed anything,
  // the one that it goes on from. Makes the journal durable up to there; returns the result of flush().
  const absl::Status& note_saved(const control::ControllerState& state);
  // Records that the run goes back, and that `count` commits have to be done again. Requires: started.
  void note_lost_commits(std::int64_t count);

  // Records the reason why the run goes back.
  void note_went_back(const std::string& why) {
    note(journal_->set(went_back_key(journal_->attempt()), why));
  }

  // Records that the training diverged, which ends the run.
  void note_diverged(const std::string& why) { note(journal_->set(diverged_key(journal_->attempt()), why)); }

  // Records a process's report about itself.
  void note_process(const control::ProcessReport& report) { journal_->note_process(report); }
  // Records lengths of shards, for an attempt that goes on from a checkpoint.
  void note_shard_lengths(const std::vector<coordinator::ShardRecords>& lengths) {
    journal_->note_shard_lengths(lengths);
  }
  // Records this attempt's measurement, in place of an earlier attempt's.
  void note_used_weights(const report::UsedWeights& used);

  // Makes the journal durable. Returns the first error of any write.
  const absl::Status& flush() {
    note(journal_->flush());
    return trouble_;
  }
  // The statements that the journal logged since the last call. Requires: it logs; flushed.
  std::string take_log() { return journal_->take_log(); }
  // Adds a line of metrics with the run's present state. Requires: started.
  void add_metrics(Time now);
  // The present state for people, at most `width` columns wide, and for programs. Requires: started.
  wire::StatusReply status(Time now, int width) const;

  // The number of the run's attempt, from 1.
  std::int64_t attempt() const { return journal_->attempt(); }
  const absl::Status& trouble() const { return trouble_; }

 private:
  RunRecorder(const config::JobConfig& job, report::World world, std::unique_ptr<store::Journal> journal,
              store::LineFile metrics, WallClock wall);
  void note(const absl::Status& status) { trouble_.Update(status); }
  void note_first_release(Time at);

  const config::JobConfig& job_;
  const report::World world_;
  const WallClock wall_;
  const std::int64_t opened_ns_;
  bool released_ = false;
  std::unique_ptr<store::Journal> journal_;
  store::LineFile metrics_;
  std::optional<report::RunStats> stats_;
  absl::Status trouble_;
};

}  // namespace paceline::runs
