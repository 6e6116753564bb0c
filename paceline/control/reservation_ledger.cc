#include "paceline/control/reservation_ledger.h"

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
      complaint = fmt::format("samples {} to {} of epoch {} are reserved for replica {} and committed",
                              lease.begin, lease.end, lease.epoch, replica);
    }
  }
  said_.clear();
  return complaint;
}

void ReservationLedger::end_reservations(const Lease& lease) {
  const std::int64_t begin = position(lease);
  auto at = taken_.upper_bound(begin);
  if (at != taken_.begin() && std::prev(at)->second.end > begin) --at;
  while (at != taken_.end() && at->first < begin + lease.size()) {
    if (!at->second.reserved) {
      ++at;
      continue;
    }
    std::erase_if(of(at->second.replica).ahead, [&](const Lease& one) { return position(one) == at->first; });
    at = taken_.erase(at);
  }
}

Complaint ReservationLedger::take(ReplicaId replica, const Lease& lease, bool reserved) {
  const char* what = reserved ? "reserved for" : "leased to";
  const std::int64_t begin = position(lease);
  const std::int64_t end = begin + lease.size();
  if (lease.begin < 0 || lease.size() <= 0 || lease.end > dataset_size_ || end > total_samples_) {
    return fmt::format("samples {} to {} of epoch {} are {} replica {}, and there are none such", lease.begin,
                       lease.end, lease.epoch, what, replica);
  }
  auto before = taken_.upper_bound(end - 1);
  if (before != taken_.begin() && (--before)->second.end > begin) {
    return fmt::format("samples {} to {} of epoch {} are {} replica {} and {} replica {}", lease.begin,
                       lease.end, lease.epoch, what, replica,
                       before->second.reserved ? "reserved for" : "leased to", before->second.replica);
  }
  taken_.emplace(begin, Taken{end, replica, reserved});
  Replica& mine = of(replica);
  if (reserved) {
    mine.ahead.push_back(lease);
  } else {
    mine.lease = lease;
  }
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
