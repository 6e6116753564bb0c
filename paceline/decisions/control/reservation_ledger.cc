#include "paceline/decisions/control/reservation_ledger.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace paceline::control {

namespace {
using Complaint = std::optional<std::string>;
}

ReservationLedger::Replica& ReservationLedger::of(ReplicaId replica) {
  const auto index = static_cast<std::size_t>(replica.value());
  if (index >= replicas_.size()) replicas_.resize(index + 1);
  return replicas_[index];
}

Complaint ReservationLedger::released(const Release& release) {
  Replica& mine = of(release.replica);
  if (!mine.ahead.empty() && mine.ahead.front() == release.lease) {
    drop(release.lease);
    mine.ahead.erase(mine.ahead.begin());
  }
  end_reservations(release.lease);
  said_.emplace_back(release.replica, release.ahead);
  return take(release.replica, release.lease, false);
}

Complaint ReservationLedger::settle(const Committed& committed) {
  // All that is given up first: others may have it now. Most often that is nothing.
  for (auto& [replica, ahead] : said_) {
    std::vector<Lease>& mine = of(replica).ahead;
    const auto differs = std::mismatch(mine.begin(), mine.end(), ahead.begin(), ahead.end()).first;
    std::for_each(differs, mine.end(), [&](const Lease& lease) { drop(lease); });
    mine.erase(differs, mine.end());
    ahead.erase(ahead.begin(), ahead.begin() + static_cast<std::ptrdiff_t>(mine.size()));
  }
  Complaint complaint;
  for (const auto& [replica, added] : said_) {
    for (const Lease& lease : added) {
      if (!complaint) complaint = take(replica, lease, true);
      if (complaint || !committed(lease)) continue;
      complaint = fmt::format("{} are reserved for replica {} and committed", in_words(lease), replica);
    }
  }
  said_.clear();
  return complaint;
}

void ReservationLedger::end_reservations(const Lease& lease) {
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    end_reservations(start(lease) + begin, start(lease) + end);
  });
}

void ReservationLedger::end_reservations(std::int64_t begin, std::int64_t end) {
  auto at = taken_.upper_bound(begin);
  if (at != taken_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != taken_.end() && at->first < end) {
    if (!at->second.reserved) {
      ++at;
      continue;
    }
    std::vector<Lease>& ahead = of(at->second.replica).ahead;
    const auto over = std::find_if(ahead.begin(), ahead.end(), [&](const Lease& one) {
      return start(one) + one.begin == at->first ||
             (one.scrap() > 0 && start(one) + one.scrap_begin == at->first);
    });
    const Lease whole = *over;
    ahead.erase(over);
    drop(whole);
    at = taken_.lower_bound(begin);
  }
}

void ReservationLedger::end_reservations() {
  for (Replica& replica : replicas_) {
    for (const Lease& lease : replica.ahead) drop(lease);
    replica.ahead.clear();
  }
}

void ReservationLedger::drop(const Lease& lease) {
  lease.for_each_run([&](std::int64_t begin, std::int64_t) { taken_.erase(start(lease) + begin); });
}

Complaint ReservationLedger::take(ReplicaId replica, const Lease& lease, bool reserved) {
  Complaint complaint;
  if (lease.size() <= 0) complaint = take_run(replica, lease, lease.begin, lease.end, reserved);
  lease.for_each_run([&](std::int64_t begin, std::int64_t end) {
    if (!complaint) complaint = take_run(replica, lease, begin, end, reserved);
  });
  if (complaint) return complaint;
  Replica& mine = of(replica);
  if (reserved) {
    mine.ahead.push_back(lease);
  } else {
    mine.lease = lease;
  }
  return {};
}

Complaint ReservationLedger::take_run(ReplicaId replica, const Lease& lease, std::int64_t first,
                                      std::int64_t last, bool reserved) {
  const char* what = reserved ? "reserved for" : "leased to";
  const std::int64_t begin = start(lease) + first;
  const std::int64_t end = start(lease) + last;
  if (first < 0 || last <= first || last > dataset_size_ || end > total_samples_)
    return fmt::format("{} are {} replica {}, and there are none such", in_words(lease), what, replica);
  auto before = taken_.upper_bound(end - 1);
  if (before != taken_.begin() && (--before)->second.end > begin) {
    return fmt::format("{} are {} replica {} and {} replica {}", in_words(lease), what, replica,
                       before->second.reserved ? "reserved for" : "leased to", before->second.replica);
  }
  taken_.emplace(begin, Taken{end, replica, reserved});
  return {};
}

void ReservationLedger::end_at(std::int64_t total) {
  total_samples_ = total;
  taken_.erase(taken_.lower_bound(total), taken_.end());
  if (!taken_.empty()) {
    Taken& last = taken_.rbegin()->second;
    last.end = std::min(last.end, total);
  }
  const auto ends = [&](Lease& lease) {
    lease = before(total, lease, dataset_size_);
    return lease.size() == 0;
  };
  for (Replica& replica : replicas_) {
    if (replica.lease && ends(*replica.lease)) replica.lease.reset();
    std::erase_if(replica.ahead, ends);
  }
}

void ReservationLedger::unleased(ReplicaId replica) {
  Replica& mine = of(replica);
  if (mine.lease) drop(*mine.lease);
  mine.lease.reset();
}

void ReservationLedger::left(ReplicaId replica) {
  unleased(replica);
  Replica& mine = of(replica);
  for (const Lease& lease : mine.ahead) drop(lease);
  mine.ahead.clear();
}

}  // namespace paceline::control
