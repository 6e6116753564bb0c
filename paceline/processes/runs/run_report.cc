#include "paceline/processes/runs/run_report.h"
#include "paceline/records/pages/time_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/control/trace_hash.h"
#include "paceline/processes/runs/about_run.h"
#include "paceline/processes/runs/job_file.h"
#include "paceline/processes/runs/lost_commits.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/processes/runs/run_origin.h"
#include "paceline/records/pages/html.h"
#include "paceline/records/pages/report_json.h"
#include "paceline/records/stats/run_stats.h"
#include "paceline/records/stats/time_stats.h"
#include "paceline/records/store/files.h"
#include "paceline/records/store/plausible.h"
#include "paceline/records/store/whole_run.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::runs {

namespace {

// Passes everything on, and remembers the trace hash and the time of the latest event.
class Followed final : public control::RunListener {
 public:
  explicit Followed(std::vector<control::RunListener*> next) : next_(std::move(next)) {}
  void on_fact(const control::Fact& fact) override {
    latest_ = fact.at;
    trace_.on_fact(fact);
    for (control::RunListener* next : next_) next->on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override {
    trace_.on_order(at, order);
    for (control::RunListener* next : next_) next->on_order(at, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override {
    for (control::RunListener* next : next_) next->on_evaluated(evaluated);
  }
  void on_side_work(const control::SideWork& work) override {
    for (control::RunListener* next : next_) next->on_side_work(work);
  }
  Time latest() const { return latest_; }
  const control::TraceHash& trace() const { return trace_; }

 private:
  const std::vector<control::RunListener*> next_;
  control::TraceHash trace_;
  Time latest_{};
};

absl::StatusOr<std::int64_t> total_samples(const std::map<std::string, std::string>& about,
                                           const store::RunPaths& paths) {
  if (const auto total = count_in(about, kTotalSamplesKey)) return *total;
  return absl::FailedPreconditionError(
      fmt::format("{}: the run has not started to train", paths.root.string()));
}

// The processes' latest reports: [{process, resident_bytes}].
report::Json memory_json(const std::vector<control::ProcessReport>& processes) {
  report::Json list = report::Json::array();
  for (const control::ProcessReport& one : processes)
    list.push_back({{"process", one.process}, {"resident_bytes", one.resident_bytes}});
  return list;
}

// The traffic: [{from, to, kind, bytes}].
report::Json links_json(const std::vector<control::ProcessReport>& processes) {
  report::Json list = report::Json::array();
  for (const control::ProcessReport& one : processes) {
    for (const control::Sent& sent : one.sent)
      list.push_back({{"from", one.process}, {"to", sent.peer}, {"kind", sent.kind}, {"bytes", sent.bytes}});
  }
  return list;
}

}  // namespace

absl::StatusOr<OpenedRun> open_run(const std::string& folder) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(folder));
  PACELINE_ASSIGN_OR_RETURN(const std::string job_toml, read_recorded_job(paths));
  PACELINE_ASSIGN_OR_RETURN(const config::JobConfig job, config::parse_job(job_toml, paths.job()));
  PACELINE_ASSIGN_OR_RETURN(store::JournalReader journal, store::JournalReader::open(paths.journal()));
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal.run());
  PACELINE_ASSIGN_OR_RETURN(const std::int64_t total, total_samples(about, paths));
  const std::int64_t epoch = count_in(about, kDatasetSizeKey).value_or(0);
  report::RunInfo info = run_info(job, world_of(about), total, epoch);
  PACELINE_ASSIGN_OR_RETURN(const auto attempts, journal.attempts());
  info.attempts = static_cast<std::int64_t>(attempts.size());
  PACELINE_ASSIGN_OR_RETURN(info.lost_commits, lost_commits(journal, attempts, about));
  info.diverged = about.contains(diverged_key(info.attempts));
  info.used_weights = used_weights_in(about);
  info.restarts = restarts_by_reason(about, info.attempts);
  return OpenedRun{paths,
                   std::move(journal),
                   std::move(info),
                   off_clock(about, std::ssize(attempts)),
                   last_first_release(about, std::ssize(attempts)),
                   about_run(job, read_origin(paths))};
}

absl::StatusOr<RunReport> read_run(const std::string& folder, control::RunListener* more) {
  PACELINE_ASSIGN_OR_RETURN(OpenedRun run, open_run(folder));
  report::RunStats stats(run.info);
  report::TimeStats time(run.info.devices);
  std::vector<control::RunListener*> listeners{&stats, &time};
  if (more != nullptr) listeners.push_back(more);
  Followed followed(std::move(listeners));
  store::Plausible plausible(followed);
  PACELINE_RETURN_IF_ERROR(store::replay_whole_run(run.journal, plausible));
  PACELINE_RETURN_IF_ERROR(plausible.status());
  report::Summary summary = stats.summary(followed.latest());
  report::TimeLedger ledger = time.ledger(followed.latest());
  ledger.add_off_clock(run.off_clock.starting, run.off_clock.recovering);
  report::History history = stats.history(followed.latest());
  report::Json document = report::report_json(summary, history);
  document["summary"]["trace_hash"] = followed.trace().hex();
  const auto origin = read_origin(run.paths);
  const bool noted = origin && !origin->data_note.empty();
  document["summary"]["data_note"] = noted ? report::Json(origin->data_note) : report::Json(nullptr);
  document["about"] = run.about;
  document["time"] = report::time_json(ledger, run.info.policy);
  PACELINE_ASSIGN_OR_RETURN(const auto processes, run.journal.processes());
  document["memory"] = memory_json(processes);
  document["links"] = links_json(processes);
  return RunReport{std::move(run),    std::move(summary), std::move(history),
                   std::move(ledger), time.settled(),     std::move(document)};
}

std::string data_note_line(const report::Json& document) {
  const report::Json& note = document.at("summary").at("data_note");
  return note.is_null() ? "" : report::printable(note.get<std::string>()) + "\n";
}

absl::Status write_report(const std::string& folder, const RunReport& report) {
  PACELINE_ASSIGN_OR_RETURN(const store::RunPaths paths, store::find_run(folder));
  PACELINE_RETURN_IF_ERROR(store::atomic_write(paths.summary(), report::indented(report.document)));
  return store::atomic_write(paths.report(), report::render_report(report.document));
}

}  // namespace paceline::runs
