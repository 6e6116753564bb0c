#include "paceline/processes/runs/run_recorder.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/coordinator/restart.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/pages/metrics.h"
#include "paceline/records/store/controller_state_json.h"
#include "paceline/records/tables/progress_line.h"

namespace paceline::runs {

std::int64_t RunRecorder::system_clock() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

RunRecorder::RunRecorder(const config::JobConfig& job, report::World world,
                         std::unique_ptr<store::Journal> journal, store::LineFile metrics, WallClock wall)
    : job_(job),
      world_(world),
      wall_(std::move(wall)),
      opened_ns_(wall_()),
      journal_(std::move(journal)),
      metrics_(std::move(metrics)) {}

absl::StatusOr<std::unique_ptr<RunRecorder>> RunRecorder::open(const config::JobConfig& job,
                                                               const store::RunPaths& paths,
                                                               report::World world, Version from,
                                                               WallClock wall, bool logs) {
  // A job with copies loses no commit, so it must not lose the records of commits either.
  const auto power_loss = job.copies > 1 ? store::PowerLoss::kNothing : store::PowerLoss::kFewFlushes;
  PACELINE_ASSIGN_OR_RETURN(auto journal, store::Journal::open(paths.journal(), from, power_loss, logs));
  PACELINE_ASSIGN_OR_RETURN(auto metrics, store::LineFile::open(paths.metrics()));
  return std::unique_ptr<RunRecorder>(
      new RunRecorder(job, world, std::move(journal), std::move(metrics), std::move(wall)));
}

void RunRecorder::start(const control::ControllerConfig& config, const std::string& job_toml,
                        const std::optional<control::ControllerState>& state) {
  const std::int64_t total = state ? state->ledger.end.value_or(config.total_samples) : config.total_samples;
  stats_.emplace(run_info(job_, world_, total, config.dataset_size),
                 state ? std::optional(state->ledger.committed()) : std::nullopt);
  note(journal_->set(kTotalSamplesKey, std::to_string(config.total_samples)));
  note(journal_->set(kDatasetSizeKey, std::to_string(config.dataset_size)));
  note(journal_->set(kDataOrderKey, to_text(config.data_order)));
  note(journal_->set(job_key(journal_->attempt()), job_toml));
  note(journal_->set(kWorldKey, world_ == report::World::kLive ? kLiveWorld : kVirtualWorld));
  if (world_ == report::World::kLive)
    note(journal_->set(opened_key(journal_->attempt()), std::to_string(opened_ns_)));
}

// The job's clock begins here; it does not count the time before, nor the time between two attempts.
void RunRecorder::note_first_release(Time at) {
  released_ = true;
  if (world_ != report::World::kLive) return;
  note(journal_->set(released_key(journal_->attempt()),
                     fmt::format("{} {}", wall_(), at.time_since_epoch().count())));
}

void RunRecorder::on_fact(const control::Fact& fact) {
  journal_->on_fact(fact);
  stats_->on_fact(fact);
}

void RunRecorder::on_order(Time at, const control::Order& order) {
  journal_->on_order(at, order);
  stats_->on_order(at, order);
  if (!released_ && std::holds_alternative<control::Release>(order)) note_first_release(at);
}

void RunRecorder::on_evaluated(const control::Evaluated& evaluated) {
  journal_->on_evaluated(evaluated);
  stats_->on_evaluated(evaluated);
  note(metrics_.append_line(report::metrics_line(evaluated)));
}

const absl::Status& RunRecorder::note_saved(const control::ControllerState& state) {
  note(journal_->outlasting([&] {
    absl::Status set = journal_->set(saved_state_key(journal_->attempt()), store::to_text(state));
    set.Update(journal_->go_on_from(state.version));
    return set;
  }));
  return trouble_;
}

absl::StatusOr<std::optional<store::NewestCommit>> RunRecorder::cut_short(Version from) const {
  const auto& before = journal_->before();
  if (!before) return std::nullopt;
  PACELINE_ASSIGN_OR_RETURN(const auto said, journal_->get(lost_commits_key(before->attempt)));
  if (!coordinator::was_cut_short(said.has_value(), before->followed_from, from)) return std::nullopt;
  return before;
}

void RunRecorder::note_nothing_lost() {
  for (std::int64_t attempt = journal_->before()->attempt; attempt < journal_->attempt(); ++attempt)
    note(journal_->set(lost_commits_key(attempt), "0"));
}

void RunRecorder::note_lost_commits(std::int64_t count) {
  note(journal_->set(lost_commits_key(journal_->attempt()), std::to_string(count)));
}

void RunRecorder::note_used_weights(const report::UsedWeights& used) {
  note(journal_->set(kUsedWeightsKey, to_text(used)));
}

void RunRecorder::add_metrics(Time now) {
  note(metrics_.append_line(report::metrics_line(stats_->summary(now))));
}

wire::StatusReply RunRecorder::status(Time now, int width) const {
  wire::StatusReply reply;
  const report::Summary summary = stats_->summary(now);
  reply.set_line(report::progress_line(summary, width));
  reply.set_json(report::metrics_line(summary));
  return reply;
}

}  // namespace paceline::runs
