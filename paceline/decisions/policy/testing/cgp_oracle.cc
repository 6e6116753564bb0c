#include "paceline/decisions/policy/testing/cgp_oracle.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace paceline::policy::testing {

namespace {

// An average that moves by a quarter of the difference, over the whole list. A value counts as four times the average at
// most, unless that is 0.
double moving_average(const std::vector<double>& values) {
  double average = values.front();
  for (const double value : values)
    average += 0.25 * ((average > 0 ? std::min(value, 4 * average) : value) - average);
  return average;
}

// The median of the last five; of an even number the mean of the two in the middle.
double middle_of_last(const std::vector<double>& values) {
  std::multiset<double> last;
  for (std::size_t i = values.size(); i > 0 && last.size() < 5; --i) last.insert(values[i - 1]);
  while (last.size() > 2) {
    last.erase(last.begin());
    last.erase(std::prev(last.end()));
  }
  return last.size() == 1 ? *last.begin() : (*last.begin() + *last.rbegin()) / 2;
}

double pair_sum(const std::vector<double>& waits, std::size_t first, std::size_t last) {
  double sum = 0;
  for (std::size_t q = first; q <= last; ++q) sum += waits[last] - waits[q];
  return sum;
}

}  // namespace

Version CgpOracle::latest() const {
  Version latest;
  for (const Event& event : events_) {
    if (event.what == Event::What::kOrder) latest = event.version;
  }
  return latest;
}

std::optional<CgpOracle::Event> CgpOracle::computing(ReplicaId replica) const {
  std::optional<Event> release;
  for (const Event& event : events_) {
    if (event.replica != replica) continue;
    if (event.what == Event::What::kRelease) release = event;
    if (event.what == Event::What::kReady || event.what == Event::What::kLeave) release.reset();
  }
  return release;
}

std::vector<CgpOracle::Event> CgpOracle::all_computing() const {
  std::vector<Event> all;
  for (int id = 0; id < 1000; ++id) {
    const bool known = std::any_of(events_.begin(), events_.end(), [&](const Event& event) {
      return event.what == Event::What::kRelease && event.replica == ReplicaId(id);
    });
    if (!known) break;
    if (const auto release = computing(ReplicaId(id))) all.push_back(*release);
  }
  return all;
}

std::vector<double> CgpOracle::intervals(ReplicaId replica) const {
  std::vector<double> seconds;
  Time released;
  for (const Event& event : events_) {
    if (event.replica != replica) continue;
    if (event.what == Event::What::kRelease) released = event.at;
    if (event.what == Event::What::kReady) seconds.push_back(to_seconds(event.at - released));
    if (event.what == Event::What::kLeave) seconds.clear();
  }
  return seconds;
}

// "After the median of its last five intervals, give or take σ = 1.48 times the median of their differences."
std::optional<CgpOracle::Expected> CgpOracle::expected(const Event& release) const {
  const std::vector<double> seen = intervals(release.replica);
  if (seen.empty()) return std::nullopt;
  const double usual = middle_of_last(seen);
  std::vector<double> away;
  for (std::size_t i = seen.size() > 5 ? seen.size() - 5 : 0; i < seen.size(); ++i)
    away.push_back(std::abs(seen[i] - usual));
  const double sigma = std::max(1.4826 * middle_of_last(away), 0.01 * usual);
  return Expected{release.at + from_seconds(usual), release.at + from_seconds(usual + 2 * sigma)};
}

std::vector<CgpOracle::Expected> CgpOracle::coming(Time now) const {
  std::vector<Expected> all;
  for (const Event& release : all_computing()) {
    const std::optional<Expected> one = expected(release);
    if (one && one->latest > now) all.push_back(*one);
  }
  std::stable_sort(all.begin(), all.end(), [](const Expected& a, const Expected& b) { return a.at < b.at; });
  return all;
}

// The span of commits with this number of members, or the nearest.
double CgpOracle::Path::span(std::size_t members) const {
  const auto distance = [&](std::size_t seen) {
    return seen > members ? 2 * (seen - members) + 1 : 2 * (members - seen);  // the smaller one first
  };
  std::optional<std::size_t> nearest;
  for (const auto& [seen, took] : spans) {
    if (!nearest || distance(seen) < distance(*nearest)) nearest = seen;
  }
  if (!nearest) return 0;
  std::vector<double> same;
  for (const auto& [seen, took] : spans) {
    if (seen == *nearest) same.push_back(took);
  }
  return moving_average(same);
}

Duration CgpOracle::Path::reduce(std::size_t members) const {
  return from_seconds(std::max(0.0, span(members) - global.value_or(0)));
}

// "T is taken for the whole span, and then shrinks. It is the time between two ends."
void CgpOracle::Path::learn(const Event& order, Time ended, Time before) {
  const double took = to_seconds(ended - order.at);
  const double spacing = to_seconds(ended - before);
  if (order.at >= before) {
    spans.emplace_back(order.members, took);
    global = std::min(global.value_or(took), took);
  } else if (global && (spans.empty() || took > 1.05 * span(order.members))) {
    *global += 0.25 * (spacing - *global);
  } else {
    global = std::min(global.value_or(spacing), spacing);
  }
}

// "A member says when it had its weights once its next gradient is ready. What has been ordered since is
// counted on from there."
Time CgpOracle::back_free() const {
  Path way;
  std::vector<Event> orders;
  std::vector<Time> expected;
  std::vector<std::optional<Time>> ended;
  std::set<std::size_t> learnt;
  std::size_t last_told = 0;
  const auto expect = [&](std::size_t i) {
    const Time before = i == 0 ? Time{} : expected[i - 1];
    expected[i] =
        std::max(orders[i].at + way.reduce(orders[i].members), before) + from_seconds(way.global.value_or(0));
  };
  for (const Event& event : events_) {
    if (event.what == Event::What::kOrder) {
      orders.push_back(event);
      expected.emplace_back();
      ended.emplace_back();
      expect(orders.size() - 1);
    }
    if (event.what != Event::What::kReady || event.weights == Time{}) continue;
    const auto told = static_cast<std::size_t>(event.weights_of.value()) - 1;
    if (ended[told] && *ended[told] >= event.weights) continue;
    ended[told] = event.weights;
    for (std::size_t i = 1; i + 1 < orders.size(); ++i) {
      const bool all = ended[i - 1] && ended[i] && ended[i + 1];
      if (learnt.contains(i) || !all || *ended[i - 1] > *ended[i] || *ended[i] > *ended[i + 1]) continue;
      learnt.insert(i);
      way.learn(orders[i], *ended[i], *ended[i - 1]);
    }
    if (told < last_told) continue;
    last_told = told;
    if (std::abs(to_seconds(event.weights - expected[told])) <= 0.05 * way.global.value_or(0)) continue;
    expected[told] = event.weights;
    for (std::size_t i = told + 1; i < orders.size(); ++i) expect(i);
  }
  if (!way.global) return Time::min();
  return expected.back() - way.reduce(group_.size()) - from_seconds(0.05 * *way.global);
}

CgpOracle::Path CgpOracle::path() const {
  Path path;
  Time last_completion{};
  for (const Event& event : events_) {
    if (event.what == Event::What::kOrder) {
      Time pushes = event.at + path.reduce(event.members);
      if (!path.under_way.empty()) pushes = std::max(pushes, path.expected.back());
      path.expected.push_back(pushes + from_seconds(path.global.value_or(0)));
      path.under_way.push_back(event);
    }
    if (event.what != Event::What::kComplete) continue;
    const Event order = path.under_way.front();
    path.learn(order, event.at, last_completion);
    const Duration later = event.at - path.expected.front();
    for (Time& expected : path.expected) expected += later;
    path.expected.erase(path.expected.begin());
    path.under_way.erase(path.under_way.begin());
    last_completion = event.at;
  }
  return path;
}

// "A replica that computes on version u must get into commit u + 1 + S at the latest."
bool CgpOracle::blocked() const {
  if (options_.staleness == CgpOptions::kNoLimit) return false;
  for (const Event& release : all_computing()) {
    if (latest().next().value() >= release.version.value() + 1 + options_.staleness) return true;
  }
  return false;
}

Time CgpOracle::timer(Time now) const {
  if (options_.wait_max == CgpOptions::kForever || group_.empty()) return Time::max();
  Time first = Time::max();
  for (const Event& one : group_) first = std::min(first, one.at);
  const Time most = options_.wait_max ? first + *options_.wait_max : Time::max();
  const auto k = static_cast<std::int64_t>(group_.size());
  if (k >= options_.k_min) return most;
  const std::vector<Expected> others = coming(now);
  Time last = now;
  for (std::int64_t i = 0; i < options_.k_min - k && i < static_cast<std::int64_t>(others.size()); ++i)
    last = std::max(last, others[static_cast<std::size_t>(i)].latest);
  return std::min(most, last);
}

bool CgpOracle::closes(Time now, Time& again) {
  const auto k = static_cast<std::int64_t>(group_.size());
  if (blocked()) {
    could_go_.reset();
    return false;
  }
  if (was_blocked_ || k >= options_.k_max || all_computing().empty() || timer_ <= now) return true;
  again = timer_;
  if (k < options_.k_min) return false;
  if (options_.grouping == Grouping::kNatural) return natural_closes(now, again);
  return options_.grouping == Grouping::kWindow ? window_closes(now, again) : dp_closes(now, again);
}

double CgpOracle::seconds_of(ReplicaId replica) const {
  return std::max(to_seconds(bounded_seconds(middle_of_last(intervals(replica)))), 1e-9);
}

// "How much longer the update takes when the group is larger, as global_path.h has learnt."
double CgpOracle::dearer(std::size_t few, std::size_t many) const {
  const Path known = path();
  return std::max(0.0, to_seconds(known.reduce(many)) - to_seconds(known.reduce(few)));
}

// "Each gradient that is committed puts `patience` in, and what its replica waited takes out."
double CgpOracle::purse() const {
  double purse = 0;
  double delay = 1;
  for (const std::vector<Payment>& group : paid_) {
    double late = 0;
    double waited = 0;
    for (const Payment& one : group) {
      late += one.late;
      waited += one.waited;
    }
    const auto k = static_cast<double>(group.size());
    const double live = group.front().live;
    delay += 0.25 * k / live * (late / k / live - delay);
    const double earned = delay > options_.delay ? options_.patience * k : 0;
    purse = std::max(-1.0, std::min(1.0, purse + (earned - waited) / live));
  }
  return purse;
}

// "For the m with the greatest purse·k·m/N − Σ (δ + ε)/T_i; that plan is kept while what is left of it is
// worth it." The T of those to come is the mean rate of those that are there.
bool CgpOracle::patient(Time now, Time& again) {
  if (purse() <= 0) return false;
  double lost = 0;
  for (const Event& one : group_) lost += 1 / seconds_of(one.replica);
  const std::size_t k = group_.size();
  const double worth = purse() * static_cast<double>(k) / static_cast<double>(k + all_computing().size());
  const auto missing = static_cast<double>(plan_members_) - static_cast<double>(k);
  const auto cost = [&](double more, Duration wait) {
    const auto all = static_cast<double>(k) + more;
    return to_seconds(wait) * lost +
           dearer(k, static_cast<std::size_t>(all)) * lost / static_cast<double>(k) * all;
  };
  const bool worth_it =
      plan_until_ > now && missing > 0 && missing * worth > cost(missing, plan_until_ - now);
  if (!worth_it) {
    std::multiset<Duration> waits;
    for (const Expected& one : coming(now))
      waits.insert(std::max(one.at - now, bounded_seconds(0.399 * to_seconds(one.latest - one.at))));
    plan_until_ = now;
    double most = 0;
    std::size_t members = 0;
    for (const Duration wait : waits) {
      ++members;
      const double gain = static_cast<double>(members) * worth - cost(static_cast<double>(members), wait);
      if (gain <= most) continue;
      most = gain;
      plan_until_ = now + wait;
      plan_members_ = k + members;
    }
    if (most == 0) return false;
  }
  again = std::min(again, plan_until_);
  return true;
}

bool CgpOracle::natural_closes(Time now, Time& again) {
  if (!could_go_) {
    const Path known = path();
    if (!known.under_way.empty() && !known.global) return false;
    Time free = back_free();
    if (!known.under_way.empty()) {
      free = std::max(
          free, known.expected.back() - known.reduce(group_.size()) - from_seconds(0.05 * *known.global));
    }
    if (free > now) {
      again = std::min(again, free);
      return false;
    }
    could_go_ = now;
    could_go_with_ = group_.size();
  }
  return !patient(now, again);
}

bool CgpOracle::window_closes(Time now, Time& again) const {
  const std::vector<Expected> others = coming(now);
  if (others.empty()) return true;
  const Path known = path();
  const std::size_t k = group_.size();
  const Duration queue =
      known.under_way.empty() ? Duration(0) : std::max(Duration(0), known.expected.back() - now);
  const double saved =
      to_seconds(from_seconds(known.global.value_or(0)) + queue + known.reduce(k) - known.reduce(k + 1));
  const double waited = static_cast<double>(k) * to_seconds(std::max(Duration(0), others[0].at - now));
  again = std::min(again, others[0].latest);
  return waited > saved;
}

bool CgpOracle::dp_closes(Time now, Time& again) const {
  const std::vector<Expected> others = coming(now);
  const Path known = path();
  const std::size_t k = group_.size();
  std::vector<double> f(k, 0);
  for (const Expected& one : others) f.push_back(std::max(0.0, to_seconds(one.at - now)));
  const std::size_t most =
      std::max<std::size_t>(k, static_cast<std::size_t>(std::min<std::int64_t>(options_.k_max, 64)));
  // least[j]: the least cost of the first j replicas; ends[j]: the end of their first group.
  std::vector<double> least(f.size() + 1, 0);
  std::vector<std::size_t> ends(f.size() + 1, 0);
  for (std::size_t j = k; j <= f.size(); ++j) {
    bool found = false;
    for (std::size_t size = 1; size <= std::min(j, most); ++size) {
      const std::size_t i = j - size;
      if (i != 0 && i < k) continue;
      const double own = static_cast<double>(size) * to_seconds(known.reduce(size)) +
                         to_seconds(from_seconds(known.global.value_or(0)));
      const double cost = (i == 0 ? 0 : least[i]) + pair_sum(f, i, j - 1) + own;
      // Among equal costs the smallest last group wins.
      if (found && cost >= least[j]) continue;
      found = true;
      least[j] = cost;
      ends[j] = i == 0 ? j : ends[i];
    }
  }
  const std::size_t first = ends.back();
  if (first <= k) return true;
  again = std::min(again, others[first - k - 1].latest);
  return false;
}

CgpAnswer CgpOracle::take(const WorldFact& fact) {
  CgpAnswer answer;
  using What = WorldFact::What;
  if (fact.what == What::kJoin) release(fact.replica, false, fact.now, answer);
  if (fact.what == What::kLeave) {
    const auto mine = std::find_if(group_.begin(), group_.end(),
                                   [&](const Event& one) { return one.replica == fact.replica; });
    if (mine != group_.end()) {
      answer.discards.push_back({mine->replica, mine->clock});
      group_.erase(mine);
    }
    events_.push_back({.what = Event::What::kLeave, .at = fact.now, .replica = fact.replica});
    plan_until_ = Time::min();
  }
  if (fact.what == What::kReady) {
    const Event release = computing(fact.replica).value();
    events_.push_back({Event::What::kReady, fact.now, fact.replica, fact.clock, fact.version});
    if (release.by_commit && fact.pulled > Duration::zero()) {
      events_.back().weights = release.at + fact.pulled;
      events_.back().weights_of = release.version;
    }
    group_.push_back(events_.back());
  }
  if (fact.what == What::kComplete && options_.k_max > 1)
    events_.push_back({.what = Event::What::kComplete, .at = fact.now, .replica = ReplicaId(-1)});
  if (fact.what == What::kReady || fact.what == What::kLeave) timer_ = timer(fact.now);
  Time again = Time::max();
  while (!group_.empty() && closes(fact.now, again = Time::max())) close(fact.now, answer);
  was_blocked_ = !group_.empty() && (was_blocked_ || blocked());
  if (!group_.empty() && !blocked() && again != Time::max()) answer.wake = again;
  std::sort(answer.releases.begin(), answer.releases.end());
  return answer;
}

void CgpOracle::close(Time now, CgpAnswer& answer) {
  const Version version = latest().next();
  // The stalest first, of equals who came first.
  std::vector<Event> order = group_;
  std::stable_sort(order.begin(), order.end(),
                   [](const Event& a, const Event& b) { return a.version < b.version; });
  std::vector<Contribution> members;
  paid_.emplace_back();
  const auto live = static_cast<double>(group_.size() + all_computing().size());
  std::vector<double> seconds;
  for (const Event& one : order) {
    const bool fits = static_cast<std::int64_t>(members.size()) < options_.k_max;
    // In the commit after this one τ would be version + 1 − 1 − u.
    const bool could_not_wait =
        options_.staleness != CgpOptions::kNoLimit && version - one.version > options_.staleness;
    if (!fits && !could_not_wait) break;
    members.push_back({one.replica, one.clock});
    const double waited =
        could_go_ ? to_seconds(now - std::max(one.at, *could_go_)) / seconds_of(one.replica) : 0;
    paid_.back().push_back({gradients_since(one.replica), waited, live});
    seconds.push_back(seconds_of(one.replica));
    std::erase_if(group_, [&](const Event& other) { return other.replica == one.replica; });
  }
  for (std::size_t i = 0; could_go_ && i < seconds.size(); ++i)
    paid_.back()[i].waited += dearer(could_go_with_, seconds.size()) / seconds[i];
  std::sort(members.begin(), members.end());
  answer.commits.push_back(members);
  events_.push_back({.what = Event::What::kOrder,
                     .at = now,
                     .replica = ReplicaId(-1),
                     .version = version,
                     .members = members.size()});
  for (const Contribution& member : members) release(member.replica, true, now, answer);
  timer_ = timer(now);
  was_blocked_ = false;
  could_go_.reset();
  plan_until_ = Time::min();
}

// Committed since its newest release.
double CgpOracle::gradients_since(ReplicaId replica) const {
  double gradients = 0;
  for (const Event& event : events_) {
    if (event.what == Event::What::kRelease && event.replica == replica) gradients = 0;
    if (event.what == Event::What::kOrder) gradients += static_cast<double>(event.members);
  }
  return gradients;
}

void CgpOracle::release(ReplicaId replica, bool by_commit, Time now, CgpAnswer& answer) {
  events_.push_back({.what = Event::What::kRelease,
                     .at = now,
                     .replica = replica,
                     .version = latest(),
                     .by_commit = by_commit});
  answer.releases.push_back(replica);
}

}  // namespace paceline::policy::testing
