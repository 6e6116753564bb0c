#include "paceline/tools/ui/moving_lanes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

namespace paceline::ui {

namespace {

using report::Json;

// The most spans that are kept of a device.
constexpr std::size_t kMostOfDevice = 400, kMostOfMany = 60, kMany = 64;
constexpr Duration kShortest = std::chrono::milliseconds(50);

double tenth_of_ms(Duration time) { return std::round(to_seconds(time) * 1e4) / 1e4; }

// Texts to which a message refers by number.
class Dictionary {
 public:
  int number(const std::string& text) {
    const auto [at, is_new] = numbers_.try_emplace(text, static_cast<int>(numbers_.size()));
    if (is_new) texts_.push_back(text);
    return at->second;
  }
  Json texts() const { return texts_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> texts_;
};

}  // namespace

MovingLanes::MovingLanes(std::vector<std::string> devices)
    : spans_(std::move(devices), [this](const report::TimeSpan& span) { keep(span); }) {}

MovingLanes::MovingLanes(const MovingLanes& other)
    : latest_(other.latest_),
      groups_(other.groups_),
      spans_(other.spans_, [this](const report::TimeSpan& span) { keep(span); }) {}

void MovingLanes::keep(const report::TimeSpan& span) {
  if (latest_.size() <= span.device) latest_.resize(span.device + 1);
  std::deque<report::TimeSpan>& lane = latest_[span.device];
  lane.push_back(span);
  const std::size_t most = latest_.size() > kMany ? kMostOfMany : kMostOfDevice;
  while (lane.size() > most || lane.front().end < span.end - 2 * kLongest) lane.pop_front();
}

void MovingLanes::on_order(Time at, const control::Order& order) {
  spans_.on_order(at, order);
  const auto* commit = std::get_if<control::CommitRecord>(&order);
  if (commit == nullptr || commit->members.size() < 2) return;
  Formed formed{at, commit->version, commit->members.size(), {}, policy::to_string(commit->why)};
  for (const control::CommitMember& member : commit->members) {
    for (const std::size_t device : spans_.devices_of(member.replica)) formed.devices.push_back(device);
  }
  groups_.push_back(std::move(formed));
  if (groups_.size() > kMostGroups) groups_.pop_front();
}

std::vector<MovingLanes::Now> MovingLanes::now(Time now) const {
  std::vector<Now> all(spans_.devices().size());
  spans_.see_open(now, [&](const report::TimeSpan& span) {
    all[span.device] = {span.cause, to_seconds(span.end - span.start)};
  });
  return all;
}

Json MovingLanes::json(Time now, const std::vector<std::size_t>& chosen) const {
  const std::size_t count = std::min(chosen.size(), kMostLanes);
  std::vector<std::vector<report::TimeSpan>> lanes(spans_.devices().size());
  for (std::size_t i = 0; i < count; ++i) {
    if (chosen[i] < latest_.size()) lanes[chosen[i]] = {latest_[chosen[i]].begin(), latest_[chosen[i]].end()};
  }
  spans_.see_open(now, [&](const report::TimeSpan& span) { lanes[span.device].push_back(span); });
  // The length of time in which all spans can be drawn, and told apart.
  const Time until = spans_.until(now);
  const std::size_t most = std::min(kMostOfLane, kMostSpans / std::max<std::size_t>(1, count));
  Time from = std::max(spans_.from(), until - kLongest);
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<report::TimeSpan>& lane = lanes[chosen[i]];
    if (lane.size() > most) from = std::max(from, std::min(lane[lane.size() - most].end, until - kShortest));
  }
  const Duration too_short = (until - from) / 2000;
  Dictionary names, rules;
  Json list = Json::array();
  std::map<std::size_t, std::size_t> places;
  for (std::size_t i = 0; i < count; ++i) {
    places[chosen[i]] = i;
    Json spans = Json::array();
    for (const report::TimeSpan& span : lanes[chosen[i]]) {
      if (span.end <= from || span.end - span.start < too_short) continue;
      const bool waits =
          span.cause == report::TimeCause::kWaiting || span.cause == report::TimeCause::kServers;
      const bool named = waits && span.on >= 0;
      const Time start = std::max(span.start, from);
      spans.push_back(Json::array({tenth_of_ms(start.time_since_epoch()), tenth_of_ms(span.end - start),
                                   static_cast<int>(span.cause),
                                   named   ? names.number(spans_.name(span.on))
                                   : waits ? span.on
                                           : -1,
                                   waits ? rules.number(spans_.rule(span.rule)) : -1}));
    }
    list.push_back({{"device", spans_.devices()[chosen[i]]}, {"spans", std::move(spans)}});
  }
  Json groups = Json::array();
  for (const Formed& formed : groups_) {
    if (formed.at < from) continue;
    Json members = Json::array();
    for (const std::size_t device : formed.devices) {
      if (const auto place = places.find(device); place != places.end()) members.push_back(place->second);
    }
    groups.push_back(Json::array({tenth_of_ms(formed.at.time_since_epoch()), formed.version.value(),
                                  formed.size, std::move(members), rules.number(formed.why)}));
  }
  return {{"from_s", tenth_of_ms(from.time_since_epoch())},
          {"to_s", tenth_of_ms(until.time_since_epoch())},
          {"names", names.texts()},
          {"rules", rules.texts()},
          {"lanes", std::move(list)},
          {"groups", std::move(groups)},
          {"left_out", spans_.devices().size() - count}};
}

}  // namespace paceline::ui
