#include "paceline/records/pages/page_size.h"

#include <algorithm>
#include <cmath>

namespace paceline::report {

namespace {

constexpr std::size_t kLeast = 20;  // each list may keep this many entries, however many lists share the page

std::size_t page_share(std::size_t all, std::size_t among) {
  return std::max(kLeast, all / std::max<std::size_t>(1, among));
}

double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

// Takes points at even distances, and the last one.
Json thinned_to(const Json& list, std::size_t most) {
  const std::size_t step = (list.size() + most - 1) / most;
  Json some = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i % step == 0 || i + 1 == list.size()) some.push_back(list[i]);
  }
  return some;
}

// Takes the highest gap of every `step` consecutive points.
Json highest(const Json& gaps, std::size_t most) {
  const std::size_t step = (gaps.size() + most - 1) / most;
  Json some = Json::array();
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    if (i % step == 0) {
      some.push_back(gaps[i]);
    } else if (gaps[i][1].get<double>() > some.back()[1].get<double>()) {
      some.back() = gaps[i];
    }
  }
  return some;
}

// An ActivityPoint for the end of each interval.
Json activity_of(const Json& intervals) {
  Json points = Json::array();
  double computing = 0, waiting = 0;
  for (const Json& interval : intervals) {
    const double length = interval[1].get<double>() - interval[0].get<double>();
    const std::string doing = interval[2].get<std::string>();
    computing += doing == "c" ? length : 0;
    waiting += doing == "w" ? length : 0;
    points.push_back(Json::array({interval[1], rounded(computing), rounded(waiting)}));
  }
  return points;
}

// Keeps the first and the latest entries; adds the number of the others to `count`.
void keep(Json& list, std::size_t first, std::size_t latest, Json& count) {
  if (list.size() <= first + latest) return;
  const std::size_t left_out = list.size() - first - latest;
  Json some = Json::array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i < first || i >= first + left_out) some.push_back(std::move(list[i]));
  }
  list = std::move(some);
  count = count.get<std::int64_t>() + static_cast<std::int64_t>(left_out);
}

// Four fifths of the kept entries are the first ones, one fifth the latest, the same parts as RunStats keeps.
void cut_middle(Json& list, std::size_t most, Json& holder) {
  if (list.size() <= most) return;
  keep(list, most - most / 5, most / 5, holder["left_out"]);
  holder["left_out_after"] = most - most / 5;
}

// Keeps the first replicas and all that have a lane, and as many events from the start as from the end.
void size_lists(Json& run, std::size_t runs) {
  const std::size_t most = page_share(kReplicasOfPage, runs);
  Json replicas = Json::array();
  for (Json& replica : run["replicas"]) {
    if (replicas.size() < most || !replica["lane"].is_null()) replicas.push_back(std::move(replica));
  }
  const std::size_t left_out = run["replicas"].size() - replicas.size();
  run["replicas"] = std::move(replicas);
  run["replicas_left_out"] =
      run["replicas_left_out"].get<std::int64_t>() + static_cast<std::int64_t>(left_out);
  const std::size_t events = page_share(kEventsOfPage, runs) / 2;
  keep(run["events"], events, events, run["events_left_out"]);
}

// `most`: the most intervals.
void size_lane(Json& lane, std::size_t most, std::size_t lanes) {
  Json& intervals = lane["intervals"];
  // RunStats has made the activity already if it left out intervals.
  if (intervals.size() > most && lane["activity"].empty()) lane["activity"] = activity_of(intervals);
  cut_middle(intervals, most, lane);
  if (const std::size_t points = page_share(kActivityOfPage, lanes); lane["activity"].size() > points)
    lane["activity"] = thinned_to(lane["activity"], points);
}

std::size_t lanes_of(const std::vector<Json>& runs) {
  std::size_t lanes = 0;
  for (const Json& run : runs) {
    for (const Json& replica : run.at("replicas")) lanes += replica.at("lane").is_null() ? 0 : 1;
  }
  return lanes;
}

}  // namespace

std::vector<Json> sized_for_page(std::vector<Json> runs) {
  for (Json& run : runs) size_lists(run, runs.size());
  const std::size_t lanes = lanes_of(runs);
  const std::size_t intervals = page_share(runs.size() == 1 ? kIntervalsOfRun : kIntervalsOfPage, lanes);
  for (Json& run : runs) {
    for (Json& replica : run["replicas"]) {
      if (replica["lane"].is_null()) continue;
      size_lane(replica["lane"], intervals, lanes);
      if (const std::size_t most = page_share(kGapsOfPage, lanes); replica["gap"].size() > most)
        replica["gap"] = highest(replica["gap"], most);
    }
    Json& groups = run["groups"];
    cut_middle(groups["formed"], page_share(kGroupsOfPage, runs.size()), groups);
    if (const std::size_t most = page_share(kTrainingOfPage, runs.size()); run["training"].size() > most)
      run["training"] = thinned_to(run["training"], most);
  }
  return runs;
}

}  // namespace paceline::report
