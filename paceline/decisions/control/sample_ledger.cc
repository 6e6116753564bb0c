#include "paceline/decisions/control/sample_ledger.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "paceline/base/check.h"

namespace paceline::control {

namespace {

// Whether what was cut for `asked` samples will do for who is to get `count`. A share of uneven data is a
// little different each time, and what is given back for that would leave scraps of a sample or two, each of
// which costs an iteration. So a small change waits until what is reserved is used up.
bool fits(std::int64_t asked, std::int64_t count) { return 4 * std::abs(asked - count) <= asked; }

}  // namespace

SampleLedger::SampleLedger(std::int64_t dataset_size, std::int64_t total, std::int64_t least)
    : dataset_size_(dataset_size), total_(total), least_at_first_(least), least_(least) {
  PACELINE_CHECK(dataset_size > 0 && total > 0, "{} samples an epoch, {} in all", dataset_size, total);
}

std::int64_t SampleLedger::Saved::committed() const {
  std::int64_t count = next;
  for (const auto& [first, last] : open) count -= last - first;
  return count;
}

SampleLedger::Saved SampleLedger::save() const {
  Ranges open = returned_;
  for (const Lease& lease : held_) insert(open, lease);
  // A reserved range at the end of all leased samples counts as never leased: so a run that starts from this
  // state leases in the same order as one that never reserved anything.
  Ranges reserved;
  reserved_.for_each([&](const Lease& lease) { insert(reserved, lease); });
  std::int64_t next = next_;
  if (!reserved.empty() && reserved.rbegin()->second == next) {
    next = reserved.rbegin()->first;
    reserved.erase(std::prev(reserved.end()));
  }
  for (const auto& [begin, end] : reserved) insert(open, begin, end);
  return {next,
          {open.begin(), open.end()},
          end_was_told_ ? std::optional(total_) : std::nullopt,
          least_ > least_at_first_ ? std::optional(least_) : std::nullopt};
}

bool SampleLedger::restore(const Saved& saved) {
  const std::int64_t total = saved.end.value_or(total_);
  if (total != total_ && (total_ != kUnknownTotal || total < 1)) return false;
  if (saved.next < 0 || saved.next > total) return false;
  Ranges open;
  std::int64_t before = 0;
  for (const auto& [begin, end] : saved.open) {
    if (begin < before || end <= begin || end > saved.next) return false;
    insert(open, begin, end);
    before = end;
  }
  returned_ = std::move(open);
  next_ = saved.next;
  total_ = total;
  end_was_told_ = saved.end.has_value();
  raise_least(saved.least.value_or(1));
  committed_ = saved.committed();
  return true;
}

std::optional<Lease> SampleLedger::lease(ReplicaId replica, std::int64_t count) {
  PACELINE_CHECK(count > 0 && !holds(replica), "replica {} asks for {} samples", replica, count);
  std::optional<Lease> lease = from_reserved(replica, count);
  if (!lease) {
    if (!any_free()) {
      const std::optional<ReplicaId> most = reserved_.who_has_most();
      if (!most) return std::nullopt;
      set_free(reserved_.take_newest(*most).lease);
    }
    lease = first_free(count);
  }
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= held_.size()) held_.resize(index + 1);
  held_[index] = *lease;
  leased_ += lease->size();
  return lease;
}

std::optional<Lease> SampleLedger::from_reserved(ReplicaId replica, std::int64_t count) {
  if (reserved_.empty()) return std::nullopt;
  const std::vector<Reservations::One>& mine = reserved_.of(replica);
  if (mine.empty()) return std::nullopt;
  if (fits(mine.front().asked, count)) return reserved_.take_oldest(replica).lease;
  withdraw(replica);
  return std::nullopt;
}

bool SampleLedger::reserve(ReplicaId replica, std::int64_t count) {
  PACELINE_CHECK(count > 0, "{} samples are to be reserved for replica {}", count, replica);
  if (!any_free()) return false;
  reserved_.add(replica, {first_free(count), count});
  return true;
}

std::vector<Lease> SampleLedger::reserved_for(ReplicaId replica) const {
  std::vector<Lease> leases;
  const std::vector<Reservations::One>& all = reserved_.of(replica);
  leases.reserve(all.size());
  for (const Reservations::One& one : all) leases.push_back(one.lease);
  return leases;
}

void SampleLedger::withdraw(ReplicaId replica) {
  while (!reserved_.of(replica).empty()) set_free(reserved_.take_newest(replica).lease);
}

void SampleLedger::set_free(const Lease& reserved) {
  insert(returned_, reserved);
  const auto last = std::prev(returned_.end());
  if (last->second != next_) return;
  next_ = last->first;
  returned_.erase(last);
}

SampleLedger::Run SampleLedger::cut(std::int64_t begin, std::int64_t count) {
  const auto again = returned_.find(begin);
  const std::int64_t limit = again != returned_.end() ? again->second : total_;
  const std::int64_t last = std::min(limit, end_of_epoch(begin));
  std::int64_t end = std::min(begin + count, last);
  const std::int64_t lacking = least_ - (last - end);  // in the rest of this run, to be a lease
  if (end < last && lacking > 0) end = end - begin - lacking >= least_ ? end - lacking : last;
  if (again == returned_.end()) {
    next_ = end;
  } else {
    returned_.erase(again);
    if (end < limit) returned_.emplace(end, limit);
  }
  return {begin, end};
}

Lease SampleLedger::first_free(std::int64_t count) {
  count = std::max(count, least_);
  const std::int64_t first = returned_.empty() ? next_ : returned_.begin()->first;
  const auto epoch = static_cast<std::int32_t>(first / dataset_size_);
  const std::int64_t start = epoch * dataset_size_;
  const Run run = cut(first, count);
  if (run.size() < least_) {
    if (const auto more = run_for(run)) {
      const Run rest = cut(*more, count - run.size());
      if (rest.begin == run.end) return {epoch, run.begin - start, rest.end - start};
      return {epoch, rest.begin - start, rest.end - start, run.begin - start, run.end - start};
    }
  }
  return {epoch, run.begin - start, run.end - start};
}

std::optional<std::int64_t> SampleLedger::run_for(const Run& scrap) const {
  const std::int64_t last = end_of_epoch(scrap.begin);
  std::optional<std::int64_t> first;
  const auto enough = [&](std::int64_t begin, std::int64_t end) {
    if (!first && begin < std::min(end, last)) first = begin;
    return std::min(end, last) - begin + scrap.size() >= least_;
  };
  for (auto run = returned_.lower_bound(scrap.end); run != returned_.end() && run->first < last; ++run) {
    if (enough(run->first, run->second)) return run->first;
  }
  return next_ >= scrap.end && enough(next_, total_) ? std::optional(next_) : first;
}

void SampleLedger::raise_least(std::int64_t least) {
  if (least <= least_) return;
  least_ = least;
  for (const ReplicaId replica : reserved_.who_has_any()) withdraw(replica);
}

bool SampleLedger::could_be_larger(ReplicaId replica, std::int64_t least) const {
  SampleLedger after = *this;
  const std::int64_t begin = position(held_by(replica));
  after.give_back(replica);
  after.raise_least(least);
  while (after.any_free()) {
    const Lease lease = after.first_free(least);
    bool has_it = false;
    lease.for_each_run([&](std::int64_t from, std::int64_t to) {
      const std::int64_t start = lease.epoch * dataset_size_;
      has_it |= start + from <= begin && begin < start + to;
    });
    if (has_it) return lease.size() >= least;
  }
  return false;
}

bool SampleLedger::end_at(std::int64_t total) {
  if (total == total_) return true;
  if (total_ != kUnknownTotal || total < 1 || any_committed_from(total)) return false;
  end_reservations_at(total);
  for (Lease& held : held_) {
    const std::int64_t size = held.size();
    held = before(total, held, dataset_size_);
    leased_ -= size - held.size();
  }
  returned_.erase(returned_.lower_bound(total), returned_.end());
  if (!returned_.empty()) {
    auto& last = *returned_.rbegin();
    last.second = std::min(last.second, total);
  }
  next_ = std::min(next_, total);
  total_ = total;
  end_was_told_ = true;
  return true;
}

bool SampleLedger::any_committed_from(std::int64_t position) const {
  std::int64_t open = 0;
  const auto count = [&](std::int64_t begin, std::int64_t end) {
    open += std::max<std::int64_t>(0, end - std::max(begin, position));
  };
  for (const auto& [begin, end] : returned_) count(begin, end);
  const auto count_lease = [&](const Lease& lease) {
    const std::int64_t start = lease.epoch * dataset_size_;
    lease.for_each_run([&](std::int64_t begin, std::int64_t end) { count(start + begin, start + end); });
  };
  std::for_each(held_.begin(), held_.end(), count_lease);
  reserved_.for_each(count_lease);
  return open < next_ - position;
}

void SampleLedger::end_reservations_at(std::int64_t total) {
  for (const ReplicaId replica : reserved_.who_has_any()) {
    std::vector<Reservations::One> kept;
    while (!reserved_.of(replica).empty()) {
      Reservations::One one = reserved_.take_oldest(replica);
      one.lease = before(total, one.lease, dataset_size_);
      if (one.lease.size() > 0) kept.push_back(one);
    }
    for (const Reservations::One& one : kept) reserved_.add(replica, one);
  }
}

Lease SampleLedger::commit(ReplicaId replica) {
  const Lease lease = held_by(replica);
  held_[static_cast<std::size_t>(replica.value())] = {};
  committed_ += lease.size();
  leased_ -= lease.size();
  return lease;
}

void SampleLedger::give_back(ReplicaId replica) {
  if (!holds(replica)) return;
  Lease& held = held_[static_cast<std::size_t>(replica.value())];
  insert(returned_, held);
  leased_ -= held.size();
  held = {};
}

const Lease& SampleLedger::held_by(ReplicaId replica) const {
  PACELINE_CHECK(holds(replica), "replica {} holds no lease", replica);
  return held_[static_cast<std::size_t>(replica.value())];
}

void SampleLedger::insert(Ranges& ranges, const Lease& lease) const {
  const std::int64_t start = lease.epoch * dataset_size_;
  lease.for_each_run(
      [&](std::int64_t begin, std::int64_t end) { insert(ranges, start + begin, start + end); });
}

void SampleLedger::insert(Ranges& ranges, std::int64_t begin, std::int64_t end) {
  auto after = ranges.lower_bound(begin);
  if (after != ranges.begin()) {
    const auto before = std::prev(after);
    PACELINE_CHECK(before->second <= begin, "position {} is open twice", begin);
    if (before->second == begin) {
      begin = before->first;
      ranges.erase(before);
    }
  }
  if (after != ranges.end()) {
    PACELINE_CHECK(after->first >= end, "position {} is open twice", after->first);
    if (after->first == end) {
      end = after->second;
      ranges.erase(after);
    }
  }
  ranges.emplace(begin, end);
}

bool SampleLedger::holds(ReplicaId replica) const {
  const auto index = static_cast<std::size_t>(replica.value());
  return index < held_.size() && held_[index].size() > 0;
}

bool SampleLedger::holds_from(std::int64_t total, ReplicaId replica) const {
  return holds(replica) && !(before(total, held_by(replica), dataset_size_) == held_by(replica));
}

std::int64_t SampleLedger::position(const Lease& lease) const {
  return lease.epoch * dataset_size_ + lease.begin;
}

}  // namespace paceline::control
