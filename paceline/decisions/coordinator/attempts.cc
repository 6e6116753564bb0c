#include "paceline/decisions/coordinator/attempts.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/counted.h"
#include "paceline/base/exit_reason.h"
#include "paceline/base/status_message.h"

namespace paceline::coordinator {

namespace {

std::string lost_in_words(const AttemptEnded& ended) {
  if (!ended.trained) return "";
  return fmt::format(", {} lost{}", counted(ended.lost_commits(), "commit"),
                     ended.lost_for_good() ? "" : " unless servers still have them");
}

}  // namespace

std::int64_t AttemptEnded::lost_commits() const {
  return std::max<std::int64_t>(0, seen.value() - newest.value_or(Version(0)).value());
}

std::optional<CutShort> cut_short_after(std::optional<CutShort> newest, Version from) {
  if (newest && newest->newest <= from) newest.reset();
  return newest;
}

std::optional<HostRank> keeper_of(const std::vector<HostRank>& hosts, HostRank leader) {
  const auto own = std::find(hosts.begin(), hosts.end(), leader);
  if (own == hosts.end() || hosts.size() < 2) return std::nullopt;
  return std::next(own) == hosts.end() ? hosts.front() : *std::next(own);
}

std::vector<AttemptsOrder> Attempts::begin(const FolderBefore& folder) {
  std::vector<HostRank> lost;
  if (options_.lost_host) lost.push_back(*options_.lost_host);
  const std::vector<HostRank> now = job_without(lost);
  trained_without_ = folder.cut_short ? folder.cut_short->without.size() : options_.without.size();
  if (const absl::Status enough = enough_without(now); !enough.ok()) {
    end(enough);
    return std::exchange(orders_, {});
  }
  std::vector<HostRank> first = now;
  const bool may_be_held = options_.copies > 1 && options_.again && folder.cut_short &&
                           folder.cut_short->newest > folder.newest.value_or(Version(0));
  if (may_be_held && folder.cut_short->without != now) {
    only_look_ = lost;
    first = folder.cut_short->without;
  }
  if (std::find(first.begin(), first.end(), options_.host) != first.end()) {
    end(absl::InvalidArgumentError(
        fmt::format("{}: cluster.without: host {} has the coordinator: no run goes on without it",
                    options_.job_file, options_.host)));
  } else {
    leave_out(first);
    run(options_.again);
  }
  return std::exchange(orders_, {});
}

std::vector<AttemptsOrder> Attempts::ended(const AttemptEnded& ended) {
  given_up_.insert(ended.wrong_workers.begin(), ended.wrong_workers.end());
  const std::string why = message_of(ended.status);
  if (!ended.can_go_on || exit_reason_of(ended.status) == ExitReason::kLeavesLead) {
    end(ended.status);
  } else if (!ended.leads.ok()) {
    end(ended.leads);
  } else if (!ended.access.ok()) {
    // Certificates may have been renewed since, or have expired: then no lost process can come back.
    end(absl::FailedPreconditionError(fmt::format("{}; {}", why, message_of(ended.access))));
  } else if (!restarts_.again(ended.newest)) {
    end(absl::UnavailableError(
        fmt::format("{}, for the {}th time without a new checkpoint", why, supervisor::Restarts::kMost + 1)));
  } else {
    std::vector<HostRank> lost = only_look_ ? *std::exchange(only_look_, std::nullopt) : without_;
    if (ended.trained) trained_without_ = without_.size();
    lost.insert(lost.end(), ended.lost_hosts.begin(), ended.lost_hosts.end());
    const std::vector<HostRank> next = job_without(lost);
    if (const absl::Status enough = enough_without(next); !enough.ok()) {
      end(enough);
      return std::exchange(orders_, {});
    }
    leave_out(next);
    orders_.emplace_back(Tell{
        fmt::format("{}; going on from {}{}", why,
                    ended.newest ? fmt::format("the checkpoint of version {}", *ended.newest) : "the start",
                    lost_in_words(ended)),
        true});
    run(true);
  }
  return std::exchange(orders_, {});
}

void Attempts::run(bool again) { orders_.emplace_back(RunAttempt{again, only_look_, given_up_}); }

void Attempts::leave_out(std::vector<HostRank> hosts) {
  if (hosts == without_) return;
  without_ = hosts;
  orders_.emplace_back(LeaveOut{std::move(hosts)});
}

// If no lock says who leads, two parts of a network that is cut could both go on. Only one of them can have
// more than half of the hosts.
absl::Status Attempts::enough_without(const std::vector<HostRank>& hosts) const {
  const auto all = static_cast<std::size_t>(options_.hosts) + options_.without.size();
  const std::size_t had = all - trained_without_;
  const std::size_t left = all - std::min(all, hosts.size());
  if (options_.shared_folder || 2 * left >= had) return absl::OkStatus();
  return with_exit_reason(
      absl::UnavailableError(fmt::format(
          "{} of the {} hosts that the run had can be reached: it goes on without a host only if at least "
          "half of them are left, because the others may go on too",
          left, had)),
      ExitReason::kLeavesLead);
}

std::vector<HostRank> Attempts::job_without(const std::vector<HostRank>& hosts) const {
  std::set<HostRank> all(options_.without.begin(), options_.without.end());
  all.insert(hosts.begin(), hosts.end());
  return {all.begin(), all.end()};
}

}  // namespace paceline::coordinator
