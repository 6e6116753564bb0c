#include "paceline/decisions/policy/testing/elastic_oracle.h"

#include <algorithm>

namespace paceline::policy::testing {

namespace {

// A meeting at `begin` … : from every list the first time that is not before it. The largest of them; nothing
// when a list has none.
std::optional<Time> end_of_meeting(const std::vector<std::vector<Time>>& lists, Time begin) {
  Time end = begin;
  for (const std::vector<Time>& list : lists) {
    const auto found = std::find_if(list.begin(), list.end(), [&](Time time) { return time >= begin; });
    if (found == list.end()) return std::nullopt;
    end = std::max(end, *found);
  }
  return end;
}

// The begin of the meeting that takes least, the earliest of several.
Time best_begin(const std::vector<std::vector<Time>>& lists) {
  std::optional<std::pair<Duration, Time>> best;
  for (const std::vector<Time>& list : lists) {
    for (const Time begin : list) {
      const std::optional<Time> end = end_of_meeting(lists, begin);
      if (!end) continue;
      const std::pair found{*end - begin, begin};
      if (!best || found < *best) best = found;
    }
  }
  return best->second;
}

}  // namespace

ElasticOracle::Replica& ElasticOracle::find(int id) {
  return *std::find_if(live_.begin(), live_.end(), [&](const Replica& replica) { return replica.id == id; });
}

std::int64_t ElasticOracle::clock(int id) { return find(id).clock; }

std::int64_t ElasticOracle::finished_after_plan(const Replica& replica) const {
  return std::count_if(replica.finishes.begin(), replica.finishes.end(),
                       [](const Finish& finish) { return finish.after_plan; });
}

// The last one, or an average from the first one on.
Duration ElasticOracle::interval(const Replica& replica) const {
  Duration found = spec_.average ? Duration(0) : replica.computes.back();
  for (const Duration compute : replica.computes) {
    if (spec_.average) found = found == Duration(0) ? compute : found + (compute - found) / 4;
  }
  return std::max(found, Duration(1));
}

bool ElasticOracle::all_measured() const {
  return std::all_of(live_.begin(), live_.end(),
                     [](const Replica& replica) { return replica.finishes.size() >= 2; });
}

bool ElasticOracle::somebody_is_on_the_way() const {
  return std::any_of(live_.begin(), live_.end(),
                     [](const Replica& replica) { return replica.quota && !replica.waits; });
}

Answer ElasticOracle::take(const Fact& fact) {
  Answer answer;
  if (fact.what == Fact::What::kJoin) {
    std::int64_t slowest = live_.empty() ? 0 : live_[0].clock;
    for (const Replica& replica : live_) slowest = std::min(slowest, replica.clock);
    live_.push_back({.id = fact.replica, .clock = slowest});
    answer.releases.push_back(fact.replica);
  } else if (fact.what == Fact::What::kLeave) {
    if (find(fact.replica).waits) answer.discards.push_back(fact.replica);
    std::erase_if(live_, [&](const Replica& replica) { return replica.id == fact.replica; });
    if (live_.empty()) planned_ = false;
    if (!planned_ && !live_.empty() && all_measured()) {
      go_on(fact.now, answer);
      plan(fact.now, true, nullptr);
    }
  } else {
    ready(fact, answer);
  }
  barrier(answer);
  std::sort(answer.releases.begin(), answer.releases.end());
  return answer;
}

void ElasticOracle::ready(const Fact& fact, Answer& answer) {
  Replica& mine = find(fact.replica);
  ++mine.clock;
  mine.finishes.push_back({fact.now, planned_});
  mine.computes.push_back(fact.compute);
  const bool alone = live_.size() == 1;
  if (planned_) {
    ++facts_;
    if (mine.quota) {
      const Time predicted = mine.predictions.front();
      const Duration step = mine.predictions[1] - predicted;
      mine.predictions.erase(mine.predictions.begin());
      somebody_was_late_ = somebody_was_late_ || fact.now > predicted + step;
      if (somebody_was_late_ && facts_ >= live_.size()) plan(fact.now, false, &mine);
    }
    mine.waits = mine.quota ? finished_after_plan(mine) == *mine.quota : !somebody_is_on_the_way();
  } else if (!alone && all_measured()) {
    go_on(fact.now, answer);
    plan(fact.now, true, nullptr);
  }
  mine.waits = mine.waits || alone;
  if (mine.waits) return;
  answer.commits.push_back({mine.id});
  // A replica that has measured enough and is not planned yet.
  const auto enough = static_cast<std::size_t>(std::max<std::int64_t>(spec_.look_ahead, 2));
  mine.paused = !planned_ && mine.finishes.size() >= enough;
  if (!mine.paused) answer.releases.push_back(mine.id);
}

void ElasticOracle::go_on(Time now, Answer& answer) {
  for (Replica& replica : live_) {
    if (!replica.paused) continue;
    answer.releases.push_back(replica.id);
    replica.finishes.back().at = now;  // counts like a finish at this moment
    replica.paused = false;
  }
}

void ElasticOracle::plan(Time now, bool first, const Replica* arrived) {
  std::vector<std::vector<Time>> lists;
  std::vector<Replica*> planned;
  for (Replica& replica : live_) {
    if (!first && !replica.quota) continue;
    planned.push_back(&replica);
    std::vector<Time>& list = lists.emplace_back();
    const Time last = replica.finishes.back().at;
    const Duration step = interval(replica);
    if (replica.waits || &replica == arrived) list.push_back(last);
    if (replica.waits) continue;
    Time next = first ? last + step : std::max(last + step, now);
    replica.predictions.clear();
    // Two more than can be asked for, so that the last one has a next one to be late by.
    for (std::int64_t i = finished_after_plan(replica); i < spec_.look_ahead + 2; ++i, next += step) {
      replica.predictions.push_back(next);
      if (i < spec_.look_ahead) list.push_back(next);
    }
  }
  const Time begin = best_begin(lists);
  for (std::size_t k = 0; k < planned.size(); ++k) {
    Replica& replica = *planned[k];
    if (replica.waits) continue;
    const auto place =
        std::find_if(lists[k].begin(), lists[k].end(), [&](Time time) { return time >= begin; });
    replica.quota = finished_after_plan(replica) + (place - lists[k].begin()) + (&replica == arrived ? 0 : 1);
  }
  planned_ = true;
  somebody_was_late_ = false;
  facts_ = 0;
}

void ElasticOracle::barrier(Answer& answer) {
  const bool all =
      std::all_of(live_.begin(), live_.end(), [](const Replica& replica) { return replica.waits; });
  if (live_.empty() || !all) return;
  answer.commits.emplace_back();
  for (Replica& replica : live_) {
    answer.commits.back().push_back(replica.id);
    answer.releases.push_back(replica.id);
    replica = {.id = replica.id, .clock = replica.clock, .computes = replica.computes};
  }
  std::sort(answer.commits.back().begin(), answer.commits.back().end());
  planned_ = false;
}

}  // namespace paceline::policy::testing
