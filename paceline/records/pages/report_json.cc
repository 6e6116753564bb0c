#include "paceline/records/pages/report_json.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "paceline/records/stats/group_stats.h"
#include "paceline/records/stats/replica_stats.h"
#include "paceline/records/stats/throughput.h"
#include "paceline/records/tables/missed_paces.h"
#include "paceline/records/tables/terminal_text.h"

namespace paceline::report {

namespace {

constexpr std::size_t kSpans = 50;

// Each reason once: thousands of intervals end for a few reasons.
class Reasons {
 public:
  std::int64_t index(const policy::Reason& reason) {
    if (reason.text.empty()) return -1;
    const auto [entry, fresh] = indices_.try_emplace(policy::to_string(reason), std::ssize(texts_));
    if (fresh) texts_.push_back(entry->first);
    return entry->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::map<std::string, std::int64_t> indices_;
  std::vector<std::string> texts_;
};

Json evaluation_json(const control::Evaluated& evaluated) {
  return {{"time_s", json_seconds(evaluated.at)},
          {"samples", evaluated.samples},
          {"loss", json_number(evaluated.loss)},
          {"accuracy", json_number(evaluated.accuracy)},
          {"metrics", json_metrics(evaluated.metrics)}};
}

Json target_json(const Summary& summary) {
  const auto& target = summary.run.target;
  if (!target) return nullptr;
  Json reached = nullptr;
  if (const auto& met = summary.met_target)
    reached = {{"time_s", json_seconds(met->at)}, {"samples", met->samples}};
  return {{"metric", target->metric},
          {"at_most", target->at_most},
          {"value", target->value},
          {"text", to_string(*target)},
          {"reached", reached}};
}

Json optional_json(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

Json used_weights_json(const std::optional<UsedWeights>& used) {
  if (!used) return nullptr;
  return {{"gradient", json_number(used->gradient)},
          {"mean", json_number(used->mean)},
          {"most", json_number(used->most)},
          {"mean_bound", json_number(used->mean_bound)},
          {"most_bound", json_number(used->most_bound)}};
}

Json deviation_json(const Summary& summary) {
  const std::optional<Deviation> deviation = summary.deviation();
  if (!deviation) return nullptr;
  return {{"learning_rate", json_number(summary.groups.learning_rate_max)},
          {"fraction", json_number(summary.groups.fraction_max)},
          {"bound", json_number(deviation->bound)},
          {"measured", json_number(deviation->measured)},
          {"used_weights", used_weights_json(summary.run.used_weights)}};
}

Json missed_paces_json(const Summary& summary) {
  const std::string missed = missed_paces(summary);
  return missed.empty() ? Json(nullptr) : Json(fmt::format("{}; {}", missed, kPaceAdvice));
}

// Null for a run that trains, or that was cut short.
Json ending_json(const Summary& summary) {
  static constexpr std::array kNames{"every_sample", "target", "stopped"};
  if (summary.run.diverged) return "diverged";
  return summary.finish_cause ? Json(kNames[static_cast<std::size_t>(*summary.finish_cause)]) : Json(nullptr);
}

Json summary_json(const Summary& summary, const History& history) {
  return {{"finished", summary.finished},
          {"finished_why", summary.finished_why},
          {"ending", ending_json(summary)},
          {"attempts", summary.run.attempts},
          {"lost_commits", summary.run.lost_commits},
          {"start_s", json_seconds(history.start)},
          {"end_s", json_seconds(std::max(summary.at, history.start))},
          {"elapsed_s", summary.elapsed_s},
          {"samples", summary.samples},
          {"total_samples", summary.run.total_samples},
          {"samples_per_s", json_number(summary.samples_per_s)},
          {"iterations", summary.iterations},
          {"commits", summary.commits},
          {"wait_share", json_number(summary.wait_share)},
          {"gap_max", summary.gap_max},
          {"staleness_mean", json_number(summary.staleness_mean)},
          {"staleness_max", summary.staleness_max},
          {"staleness_bound", optional_json(summary.run.staleness_bound)},
          {"commits_per_epoch", json_number(summary.commits_per_epoch())},
          {"gradients_per_epoch", json_number(summary.gradients_per_epoch())},
          {"group_size_mean", json_number(summary.groups.size_mean)},
          {"group_size_max", summary.groups.size_max},
          {"deviation", deviation_json(summary)},
          {"training_loss", json_number(summary.training_loss)},
          {"training_metrics", json_metrics(summary.training_metrics)},
          {"best_accuracy", json_number(summary.best_accuracy)},
          {"last_evaluation",
           summary.last_evaluation ? evaluation_json(*summary.last_evaluation) : Json(nullptr)},
          {"replicas", summary.replicas_in_all()},
          {"replicas_live", summary.replicas_live()},
          {"missed_paces", missed_paces_json(summary)}};
}

Json evaluations_json(const History& history) {
  Json list = Json::array();
  for (const control::Evaluated& evaluated : history.evaluations) list.push_back(evaluation_json(evaluated));
  return list;
}

Json training_json(const Summary& summary, const History& history) {
  Json list = Json::array();
  if (!summary.training_loss) return list;
  for (const TrainingPoint& point : history.training) {
    Json row = Json::array({json_seconds(point.at), point.samples, json_number(point.loss)});
    if (!point.metrics.empty()) row.push_back(json_metrics(point.metrics));
    list.push_back(std::move(row));
  }
  return list;
}

Json throughput_json(const History& history) {
  Json list = Json::array();
  for (const Rate& rate : throughput(history, kSpans)) {
    list.push_back(Json::array({rate.time_s, rate.samples_per_s}));
  }
  return list;
}

Json group_sizes_json(const GroupHistogram& histogram) {
  Json list = Json::array();
  for (const GroupHistogram::Bin& bin : histogram.bins()) {
    list.push_back({{"from", bin.from}, {"to", bin.to}, {"commits", bin.commits}});
  }
  return list;
}

Json formed_json(const std::vector<Group>& groups, Reasons& reasons) {
  Json list = Json::array();
  for (const Group& group : groups) {
    Json ids = Json::array();
    for (const ReplicaId id : group.drawn) ids.push_back(id.value());
    list.push_back(Json::array({json_seconds(group.at), group.version.value(), group.size, std::move(ids),
                                reasons.index(group.why)}));
  }
  return list;
}

Json groups_json(const GroupHistory& groups, Reasons& reasons) {
  return {{"causes", groups.sizes.causes()},
          {"sizes", group_sizes_json(groups.sizes)},
          {"formed", formed_json(groups.formed, reasons)},
          {"left_out", groups.left_out},
          {"left_out_after", GroupStats::kFirstGroups}};
}

// Empty unless intervals are left out.
Json activity_json(const ReplicaHistory& history) {
  Json list = Json::array();
  if (history.intervals_left_out == 0) return list;
  for (const ActivityPoint& point : history.activity) {
    list.push_back(Json::array(
        {json_seconds(point.at), json_seconds(Time(point.computing)), json_seconds(Time(point.waiting))}));
  }
  return list;
}

// The letter by which the document's readers know what a replica does in an interval.
const char* letter_of(Doing doing) {
  if (doing == Doing::kComputing) return "c";
  return doing == Doing::kWaiting ? "w" : "p";
}

Json lane_json(const ReplicaHistory& history, Reasons& reasons) {
  Json intervals = Json::array();
  for (const Interval& interval : history.intervals) {
    intervals.push_back(
        Json::array({json_seconds(interval.start), json_seconds(interval.end), letter_of(interval.doing),
                     interval.iteration.value(), reasons.index(interval.ended)}));
  }
  return {{"intervals", intervals},
          {"left_out", history.intervals_left_out},
          {"left_out_after", ReplicaStats::kFirstIntervals},
          {"activity", activity_json(history)}};
}

Json gap_json(const ReplicaHistory& history) {
  Json list = Json::array();
  for (const GapPoint& point : history.gaps) list.push_back(Json::array({json_seconds(point.at), point.gap}));
  return list;
}

Json replica_json(const ReplicaSummary& replica) {
  return {{"id", replica.replica.value()},
          {"name", replica.name},
          {"doing", to_string(replica.doing)},
          {"why", replica.why},
          {"iterations", replica.iterations},
          {"discarded", replica.discarded},
          {"samples", replica.samples},
          {"mean_compute_s", json_number(replica.mean_compute_s)},
          {"wait_share", json_number(replica.wait_share)},
          {"mean_staleness", json_number(replica.mean_staleness)},
          {"lane", nullptr},
          {"gap", nullptr}};
}

Json replicas_json(const Summary& summary, const History& history, Reasons& reasons) {
  Json list = Json::array();
  std::map<ReplicaId, const ReplicaHistory*> recorded;
  for (const ReplicaHistory& replica : history.replicas) recorded[replica.replica] = &replica;
  std::size_t room =
      kReplicasInReport - std::min(kReplicasInReport, recorded.size());  // for those without a lane
  for (const ReplicaSummary& replica : summary.replicas) {
    const auto found = recorded.find(replica.replica);
    if (found == recorded.end() && room == 0) continue;
    list.push_back(replica_json(replica));
    if (found == recorded.end()) {
      --room;
      continue;
    }
    list.back()["lane"] = lane_json(*found->second, reasons);
    list.back()["gap"] = gap_json(*found->second);
  }
  return list;
}

Json events_json(const History& history) {
  Json list = Json::array();
  for (const Event& event : history.events) {
    list.push_back({{"time_s", json_seconds(event.at)}, {"replica", event.replica}, {"text", event.text}});
  }
  return list;
}

Json plans_json(const PlanHistory& history) {
  Json list = Json::array();
  for (const PlanPeriod& period : history.plans) {
    Json replicas = Json::array();
    for (const planner::PlannedReplica& replica : period.plan.replicas) {
      replicas.push_back(
          {{"devices", replica.devices}, {"cuts", replica.cuts}, {"samples", replica.samples}});
    }
    list.push_back({{"from_s", json_seconds(period.from)},
                    {"replicas", std::move(replicas)},
                    {"micro_batch", period.plan.micro_batch},
                    {"predicted_ms", json_number(period.predicted_ms)},
                    {"measured_ms", json_number(period.batches.measured_mean_ms())},
                    {"batches", period.batches.count},
                    {"why", period.why}});
  }
  return list;
}

// The mean cost and the mean allowed cost of `batches` batches, and the queue after them.
Json spending_json(const std::optional<control::Spending>& spending, double batches) {
  if (!spending) return nullptr;
  return Json::array({json_number(spending->cost / batches), json_number(spending->allowed / batches),
                      json_number(spending->queue)});
}

Json batches_json(const PlanHistory& history) {
  Json list = Json::array();
  for (const BatchPoint& point : history.batches) {
    Json shares = Json::array();
    for (const double computed_ms : point.computed_ms)
      shares.push_back(std::round(computed_ms / point.elapsed_ms * 1e4) / 1e4);
    list.push_back(Json::array(
        {json_seconds(point.at), point.regular.count, json_number(point.regular.predicted_mean_ms()),
         json_number(point.regular.measured_mean_ms()), json_number(point.elapsed_ms), std::move(shares),
         spending_json(point.spending, static_cast<double>(point.batches))}));
  }
  return list;
}

Json links_json(const PlanHistory& history) {
  Json list = Json::array();
  for (const LinkHistory& link : history.links) {
    Json points = Json::array();
    for (const LinkPoint& point : link.points)
      points.push_back(
          Json::array({json_seconds(point.at), json_number(point.bytes * 8 / 1e6 / point.seconds)}));
    list.push_back({{"from", link.from.value()}, {"to", link.to.value()}, {"points", std::move(points)}});
  }
  return list;
}

Json plans_of_run_json(const Summary& summary, const PlanHistory& history) {
  if (!summary.plan) return nullptr;
  const PlanSummary& plan = *summary.plan;
  return {{"devices", summary.run.devices},
          {"layers", summary.run.layers},
          {"re_plans", plan.re_plans},
          {"predicted_ms", json_number(plan.batches.predicted_mean_ms())},
          {"measured_ms", json_number(plan.batches.measured_mean_ms())},
          {"error", json_number(plan.error)},
          {"spending", spending_json(plan.spending, 1)},
          {"queue_max", plan.spending ? json_number(plan.queue_max) : nullptr},
          {"plans", plans_json(history)},
          {"plans_left_out", history.plans_left_out},
          {"batches", batches_json(history)},
          {"links", links_json(history)}};
}

Json servers_json(const Summary& summary) {
  Json list = Json::array();
  for (const MeasuredUpdates& one : summary.measured_updates) {
    if (list.size() >= kReplicasInReport) break;
    list.push_back({{"server", one.server},
                    {"commits", one.count},
                    {"mean_ms", one.mean_ms},
                    {"update_ms", one.update_ms},
                    {"gradient_ms", json_number(one.gradient_ms)}});
  }
  return list;
}

}  // namespace

Json report_json(const Summary& summary, const History& history) {
  Reasons reasons;
  Json replicas = replicas_json(summary, history, reasons);
  Json groups = groups_json(history.groups, reasons);
  const std::size_t left_out = summary.replicas.size() - replicas.size();
  return {
      {"format", 1},
      {"title", summary.run.title},
      {"policy", summary.run.policy},
      {"world", name_of(summary.run.world)},
      {"target", target_json(summary)},
      {"summary", summary_json(summary, history)},
      {"evaluations", evaluations_json(history)},
      {"training", training_json(summary, history)},
      {"throughput", throughput_json(history)},
      {"staleness", {{"bin_width", history.staleness.bin_width()}, {"counts", history.staleness.counts()}}},
      {"groups", std::move(groups)},
      {"replicas", std::move(replicas)},
      {"replicas_left_out", left_out},
      {"servers", servers_json(summary)},
      {"reasons", reasons.texts()},
      {"events", events_json(history)},
      {"events_left_out", history.events_left_out},
      {"plan", plans_of_run_json(summary, history.plans)}};
}

}  // namespace paceline::report
