#include "paceline/tools/ui/run_follower.h"
#include "paceline/records/pages/time_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/processes/runs/run_info.h"
#include "paceline/records/exports/prometheus.h"
#include "paceline/tools/ui/live_parts.h"

namespace paceline::ui {

namespace {

// If nothing happens for this long in a run that trains, its page's clock stands still.
constexpr Duration kLongestSilence = std::chrono::minutes(10);

// The record is behind the run by at most this: the coordinator writes something once a second.
constexpr Duration kBehind = std::chrono::seconds(3);

}  // namespace

class RunFollower::Folds final : public control::RunListener {
 public:
  explicit Folds(report::RunInfo info)
      : devices(info.devices), stats(info), time(info.devices), lanes(info.devices) {}

  void on_fact(const control::Fact& fact) override {
    stats.on_fact(fact);
    time.on_fact(fact);
    lanes.on_fact(fact);
    recent.on_fact(fact);
  }
  void on_order(Time at, const control::Order& order) override {
    stats.on_order(at, order);
    time.on_order(at, order);
    lanes.on_order(at, order);
    recent.on_order(at, order);
  }
  void on_evaluated(const control::Evaluated& evaluated) override { stats.on_evaluated(evaluated); }
  void on_side_work(const control::SideWork& work) override {
    stats.on_side_work(work);
    recent.on_side_work(work);
  }

  const std::vector<std::string> devices;
  report::RunStats stats;
  report::TimeStats time;
  MovingLanes lanes;
  Recent recent;
};

absl::Status RunFollower::read_wall(store::JournalReader& journal) {
  PACELINE_ASSIGN_OR_RETURN(const auto about, journal.run());
  PACELINE_ASSIGN_OR_RETURN(const auto attempts, journal.attempts());
  off_clock_ = runs::off_clock(about, std::ssize(attempts));
  // An attempt under way has no clock before its first release: the attempt before had another one.
  wall_ = state_.led() ? runs::first_release(about, std::ssize(attempts))
                       : runs::last_first_release(about, std::ssize(attempts));
  return absl::OkStatus();
}

absl::StatusOr<control::RunListener*> RunFollower::begin(store::JournalReader& journal,
                                                         const control::RunListener* copy) {
  folds_.reset();
  whole_ = false;
  seen_.reset();
  window_ = LedgerWindow();
  PACELINE_ASSIGN_OR_RETURN(const runs::OpenedRun run, runs::open_run(run_.root.string()));
  PACELINE_RETURN_IF_ERROR(read_wall(journal));
  if (copy == nullptr) {
    folds_ = std::make_shared<Folds>(run.info);
    return folds_.get();
  }
  const auto& earlier = static_cast<const Folds&>(*copy);
  if (earlier.devices != run.info.devices) return nullptr;  // the job was changed
  folds_ = std::make_shared<Folds>(earlier);
  folds_->stats.describe(run.info);
  return folds_.get();
}

RunFollower::RunFollower(store::RunPaths run, Clocks clocks, std::int64_t apart)
    : run_(std::move(run)),
      clocks_(std::move(clocks)),
      tail_(run_.journal(),
            {.copy = [this] { return std::make_shared<Folds>(*folds_); },
             .go_on_from = [this](auto& journal, const auto& copy) { return begin(journal, &copy); },
             .apart = apart}) {}

void RunFollower::read(std::int64_t most) {
  state_ = state_of(run_);
  trouble_ = tail_.read([this](store::JournalReader& journal) { return begin(journal, nullptr); }, most);
  if (!is_behind()) whole_ = true;
  if (!whole_) return;
  if (trouble_.ok()) look_at_processes();
  if (trouble_.ok() && !wall_ && folds_) {
    auto journal = store::JournalReader::open(run_.journal());
    if (journal.ok()) read_wall(*journal).IgnoreError();
  }
  look_at_clock();
}

std::string RunFollower::reading() const {
  return whole_ ? "" : fmt::format("reading the run: {:.0f} %", std::floor(100 * tail_.share()));
}

void RunFollower::look_at_processes() {
  const auto journal = store::JournalReader::open(run_.journal());
  if (!journal.ok()) return;
  const auto processes = journal->processes();
  if (!processes.ok()) return;
  traffic_.look(*processes);
  for (const control::ProcessReport& one : *processes) {
    if (one.process == "coordinator") reported_ = one.at;
  }
}

// The wall clock does not tell how late it is in the job: it may be set, it goes on while a host sleeps, and
// another host's may be ahead.
void RunFollower::look_at_clock() {
  if (!folds_) return;
  const Time newest = std::max(folds_->recent.latest(), reported_);
  if (!seen_ || seen_->newest != newest) {
    // The time goes on evenly as long as that agrees with the record.
    const auto steady = clocks_.steady();
    const Time expected = seen_ ? seen_->now + (steady - seen_->steady) : newest;
    const bool fits = expected >= newest && expected <= newest + kBehind;
    seen_ = {newest, fits ? expected : newest, steady};
  }
  const std::optional<Time> commit = folds_->recent.last_commit();
  if (!state_.led() || !wall_ || !commit || (committed_ && committed_->at == *commit)) return;
  const std::chrono::duration<double> wall = clocks_.wall().time_since_epoch();
  committed_ = {*commit, wall.count() - to_seconds(now() - *commit)};
}

// Nothing in virtual time.
std::optional<double> RunFollower::committed_s() const {
  const std::optional<Time> commit = folds_->recent.last_commit();
  if (!wall_ || !commit) return std::nullopt;
  if (committed_ && committed_->at == *commit) return committed_->unix_s;
  return wall_->began_s() + to_seconds(*commit);
}

// The job's time goes on while nothing happens, so that a wait under way grows.
Time RunFollower::now() const {
  const Time latest = folds_->recent.latest();
  if (!state_.led() || !wall_ || !seen_) return latest;
  return std::clamp(seen_->now + (clocks_.steady() - seen_->steady), latest, latest + kLongestSilence);
}

namespace {

// The head of a run that has nothing to show yet, or never will.
report::Json bare_head(const StateOfRun& state, const absl::Status& trouble, const std::string& reading) {
  const bool begins =
      state.led() && (absl::IsFailedPrecondition(trouble) || absl::IsNotFound(trouble) || trouble.ok());
  return {{"state", to_string(state.state)},
          {"why", state.why},
          {"trouble", begins ? "" : std::string(trouble.message())},
          {"holds_back", !reading.empty() ? reading
                         : begins         ? "it has not trained yet"
                                          : ""}};
}

}  // namespace

RunFollower::Parts RunFollower::parts() {
  if (!folds_ || !whole_) return {{"head", bare_head(state_, trouble_, reading())}};
  const Time at = now();
  const report::Summary summary = folds_->stats.summary(at);
  const report::History history = folds_->stats.history(at, report::RunStats::Lanes::kNone);
  const report::TimeLedger inside = folds_->time.ledger(at);
  report::TimeLedger ledger = inside;
  ledger.add_off_clock(off_clock_.starting, off_clock_.recovering);
  const report::TimeLedger of_late = window_.of_late(inside);
  const LiveRun run{summary,       history, ledger, of_late,  folds_->recent,
                    folds_->lanes, state_,  at,     traffic_, std::string(trouble_.message())};
  return {{"head", head_json(run)},       {"curves", curves_json(run)},  {"lanes", lanes_json(run)},
          {"devices", devices_json(run)}, {"groups", groups_json(run)},  {"events", events_json(run)},
          {"plan", plan_json(run)},       {"time", time_json(run)},      {"links", links_json(run)},
          {"memory", memory_json(run)},   {"servers", servers_json(run)}};
}

RunFollower::Parts RunFollower::compared() {
  Parts all = parts();
  std::erase_if(all, [](const auto& part) { return part.first != "head" && part.first != "curves"; });
  return all;
}

std::string RunFollower::in_a_line() const {
  std::string line = to_string(state_.state);
  if (!state_.why.empty()) line += ", " + state_.why;
  if (!whole_) return line + "; " + reading();
  if (!folds_) return line;
  const std::optional<Time> newest = folds_->recent.last_commit();
  if (!state_.led() || !newest) return line;
  return fmt::format("{}; update {} was made {:.1f} s ago", line, folds_->recent.version_at(*newest),
                     to_seconds(now() - *newest));
}

absl::StatusOr<std::string> RunFollower::metrics() {
  if (!whole_) return absl::UnavailableError(reading());
  if (!folds_) return trouble_.ok() ? absl::UnavailableError("nothing is recorded yet") : trouble_;
  const Time at = now();
  const report::Summary summary = folds_->stats.summary(at);
  const report::History history = folds_->stats.history(at, report::RunStats::Lanes::kNone);
  std::vector<std::pair<std::string, double>> speeds;
  for (const report::ReplicaSummary& one : summary.replicas) {
    const Speed speed = folds_->recent.speed(one.replica);
    const bool known = one.doing != report::Doing::kGone && speed.now && speed.past && *speed.past > 0;
    if (known && speeds.size() < exports::kLabelledDevices)
      speeds.emplace_back(one.name, *speed.now / *speed.past);
  }
  std::vector<exports::LiveNumbers::Updates> updates;
  for (const auto& [server, of] : folds_->recent.updates()) updates.push_back({server, of.count, of.seconds});
  std::vector<exports::LiveNumbers::Link> links;
  for (const Traffic::Link& one : traffic_.links()) links.push_back({one.from, one.to, one.kind, one.bytes});
  std::vector<std::pair<std::string, std::int64_t>> memory;
  for (const Traffic::Memory& one : traffic_.memory()) memory.emplace_back(one.process, one.resident_bytes);
  const exports::LiveNumbers more{.learning_rate = folds_->recent.learning_rate(),
                                  .updates = std::move(updates),
                                  .left = folds_->recent.left_by_reason(),
                                  .speeds = std::move(speeds),
                                  .links = std::move(links),
                                  .memory = std::move(memory)};
  return exports::prometheus_text(summary, history, folds_->time.settled(), committed_s(), more, &highest_);
}

}  // namespace paceline::ui
