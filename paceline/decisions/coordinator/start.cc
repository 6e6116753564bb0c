#include "paceline/decisions/coordinator/start.h"

#include <algorithm>
#include <map>
#include <set>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "paceline/base/check.h"
#include "paceline/base/start_patience.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/status_message.h"
#include "paceline/decisions/coordinator/server_parts.h"

namespace paceline::coordinator {

namespace {

// A server that lives comes again within a second.
constexpr std::chrono::seconds kVotePatience{2};
// Launchers ask a few times a second, and hear then to which host this one leaves the lead.
constexpr std::chrono::seconds kAllHear{2};

}  // namespace

Start::Start(const AttemptOptions& options, Processes& processes, Outbox& out)
    : options_(options),
      processes_(processes),
      out_(out),
      awaits_copy_(options.awaits_copy),
      first_weights_(processes.workers, processes.servers, options.job),
      missing_(options.job.host_patience_s) {
  if (options.job.copies == 1 || !options.cut_short) return;
  vote_.emplace(shards_kept(static_cast<int>(processes.servers.size()), static_cast<int>(options.job.copies)),
                options.cut_short->attempt, options.cut_short->newest, options.state_text.read);
}

// ---- The version that the run goes on from

void Start::came(ServerId server, const Ballot& ballot, SteadyTime at) {
  if (!vote_) return;
  const auto came = vote_->came(server, ballot);
  const auto found = came.ok() ? vote_->found() : came;
  if (!found.ok()) {
    vote_found_since_.reset();
    return out_.tell(fmt::format("what server {} says that it still has makes no sense: {}", server,
                                 message_of(found.status())));
  }
  if (!*found) {
    vote_found_since_.reset();
  } else if (!vote_found_since_) {
    vote_found_since_ = at;
  }
}

// The servers that came have every shard. The others are worth waiting for: if one of these servers dies
// while it writes, the copy of another one may be of an older version, and then no version is complete any
// more.
std::optional<RecoveryVote::Found> Start::newer_version(SteadyTime at) {
  if (!vote_found_since_ || gives_way_) return std::nullopt;
  if (!all_awaited_servers_here() && at - *vote_found_since_ < kVotePatience) return std::nullopt;
  auto found = vote_->found();
  PACELINE_CHECK(found.ok() && *found, "the vote found a version, and has none");
  const bool is_newer = (*found)->snapshot.state.version > options_.begins_with();
  if (!is_newer && awaits_copy_) return std::nullopt;
  end_vote();
  if (is_newer) return *std::move(found);
  out_.put(NothingLost{});
  return std::nullopt;
}

bool Start::all_awaited_servers_here() const {
  const std::vector<HostRank> without = options_.only_look_without.value_or(std::vector<HostRank>{});
  const ServerFleet& servers = processes_.servers;
  for (const ServerId server : servers.ids()) {
    const bool awaited = std::find(without.begin(), without.end(), servers.rank(server)) == without.end();
    if (awaited && !servers.here(server)) return false;
  }
  return true;
}

// ---- The servers

absl::StatusOr<bool> Start::start_servers(bool announce) {
  if (options_.only_look_without || awaits_copy_ || gives_way_) return false;
  if (!processes_.servers.all_here() || !processes_.job_facts) return false;
  if (processes_.servers.told_to_start()) {
    give_weights();
    return false;
  }
  PACELINE_ASSIGN_OR_RETURN(const auto cards, cards_for_shards());
  if (!cards) return false;
  std::vector<std::string> weights;
  if (!options_.restart) weights = first_weights_.known();
  if (!options_.restart && weights.size() < processes_.servers.size()) return false;
  if (vote_) {
    out_.tell_and_remember(fmt::format(
        "{}; going on from {}", kNoWholeVersion,
        options_.restart ? fmt::format("the checkpoint of version {}", options_.restart->state.version)
                         : "the start"));
    end_vote();
  }
  split_by_memory(*cards);
  processes_.servers.start(start_order(announce), weights, *cards, holders(*cards));
  return true;
}

void Start::split_by_memory(const std::vector<std::string>& cards) {
  if (!options_.job.card_required) return;
  std::vector<CardMemory> found;
  for (const auto& [peer, worker] : processes_.workers.all()) {
    if (worker.attached && worker.attached->card_memory) found.push_back(*worker.attached->card_memory);
  }
  const std::int64_t model_bytes =
      processes_.servers.whole().size() * static_cast<std::int64_t>(sizeof(float));
  if (const auto shares = shares_by_memory(cards, found, model_bytes)) processes_.servers.split_by(*shares);
}

// One card for each server's shard, empty for the host's memory; nothing while a device may yet come that decides it.
// The servers see the card of the first device, which was started beside them; other devices may see cards of their own.
// Several servers take the cards of the devices in turn.
absl::StatusOr<std::optional<std::vector<std::string>>> Start::cards_for_shards() const {
  const std::size_t servers = processes_.servers.size();
  if (!options_.job.card_possible) return std::vector(servers, std::string());
  std::map<DevicePlace, const WorkerAttached*> attached;
  for (const auto& [peer, worker] : processes_.workers.all()) {
    if (worker.attached) attached.emplace(worker.device, &*worker.attached);
  }
  const std::set<DevicePlace> awaited = awaited_cards();
  if (attached.empty() || awaited.contains(DevicePlace(0))) return std::nullopt;
  const WorkerAttached& first = *attached.begin()->second;
  if (!options_.job.card_required) {
    // Devices that might use several cards are better served from the host's memory.
    const bool one_card = options_.job.devices.size() == 1 || first.cards == 1;
    return std::vector(servers, one_card ? first.card : "");
  }
  const bool enough = servers == 1 && !first.card.empty();
  if (!enough && !awaited.empty()) return std::nullopt;
  std::vector<std::string> cards;
  for (const auto& [device, said] : attached) {
    const std::string& card = said->card;
    if (!card.empty() && std::find(cards.begin(), cards.end(), card) == cards.end()) cards.push_back(card);
  }
  if (cards.empty())
    return absl::FailedPreconditionError(
        "cluster.memory is \"gpu\", and no device of the job computes on a GPU whose memory processes can "
        "share; write "
        "\"auto\" or \"host\"");
  std::vector<std::string> each;
  while (each.size() < servers) each.push_back(cards[each.size() % cards.size()]);
  return each;
}

std::set<DevicePlace> Start::awaited_cards() const {
  const std::vector<DevicePlace> missing = processes_.workers.missing();
  std::set<DevicePlace> awaited(missing.begin(), missing.end());
  for (const DevicePlace device : overdue_) awaited.erase(device);
  for (const auto& [peer, worker] : processes_.workers.all()) {
    if (!worker.attached) awaited.insert(worker.device);
  }
  return awaited;
}

// A device that has not come yet may compute on any card.
std::vector<std::int32_t> Start::holders(const std::vector<std::string>& cards) const {
  if (std::holds_alternative<policy::BspSpec>(options_.job.policy))  // all hold the same version
    return std::vector<std::int32_t>(cards.size(), 1);
  std::vector<std::int32_t> each;
  for (const std::string& card : cards) {
    std::set<DevicePlace> elsewhere;
    for (const auto& [peer, worker] : processes_.workers.all()) {
      if (worker.attached && worker.attached->card != card) elsewhere.insert(worker.device);
    }
    each.push_back(static_cast<std::int32_t>(options_.job.devices.size() - elsewhere.size()));
  }
  return each;
}

ServerStart Start::start_order(bool announce) const {
  ServerStart start;
  start.job_toml = options_.job_toml;
  // A worker that died and its successor may both hold a version for a moment.
  start.readers = static_cast<std::int32_t>(2 * options_.job.devices.size() + 1);
  start.announce = announce;
  start.mark_file = options_.mark_file;
  start.mark_text = options_.mark_text;
  if (options_.restart) {
    start.version = options_.restart->state.version;
    start.checkpoint_dir = options_.restart->checkpoint_dir;
    start.checkpoint_files = options_.restart->files;
  }
  start.evaluator_host = processes_.measuring.host();
  start.copies = static_cast<std::int32_t>(options_.job.copies);
  start.attempt = options_.attempt;
  start.first_passed_on = !options_.restart && first_weights_.passed_on();
  return start;
}

absl::StatusOr<const Worker*> Start::refused_weights(ServerId server) {
  if (options_.restart || !processes_.servers.told_to_start() || !first_weights_.refused(server))
    return absl::FailedPreconditionError(fmt::format("server {} started out of turn", server));
  return first_weights_.owner(server);
}

// ---- Waiting

Start::Step Start::time_passed(SteadyTime at, SteadyTime::duration listened, bool hears) {
  if (gives_way_) {
    if (at - gives_way_->since < kAllHear) return std::monostate();
    return LeaveLead{};
  }
  if (auto newer = newer_version(at)) return *std::move(newer);
  if (const auto over = why_look_is_over(); over && hears) return GoBack{*over};
  if (absl::Status hosts = check_hosts(listened); !hosts.ok()) return hosts;
  if (auto lost = lost_hosts(listened)) return *std::move(lost);
  if (auto absent = overdue(listened)) return *std::move(absent);
  return std::monostate();
}

// An attempt that only looks for a newer version ends once there is none, or it cannot be complete.
std::optional<std::string> Start::why_look_is_over() const {
  if (!options_.only_look_without || awaits_copy_) return std::nullopt;
  if (!vote_) return "the servers have nothing newer";
  if (!all_awaited_servers_here()) return std::nullopt;
  return kNoWholeVersion;
}

// People start the hosts of a new run, maybe minutes apart.
absl::Status Start::check_hosts(std::chrono::duration<double> listened) const {
  if (options_.job.hosts == 1 || options_.again || listened < kStartPatience) return absl::OkStatus();
  const std::vector<HostRank> missing = processes_.servers.missing();
  if (missing.empty()) return absl::OkStatus();
  return absl::UnavailableError(
      fmt::format("host {} has not come within {} s; is `paceline node` running there, "
                  "and does a firewall let it reach this host?",
                  fmt::join(missing, ", host "), kStartPatience.count()));
}

// A run that has begun before goes on without hosts that did not come back. This host is here.
std::optional<Start::GoBack> Start::lost_hosts(std::chrono::duration<double> listened) const {
  const double patience_s = options_.hosts_start
                                ? std::max<double>(kStartPatience.count(), options_.job.host_patience_s)
                                : options_.job.host_patience_s;
  if (options_.job.hosts == 1 || !options_.again || listened.count() < patience_s) return std::nullopt;
  std::vector<HostRank> lost = processes_.servers.missing();
  std::erase(lost, options_.host);
  if (lost.empty()) return std::nullopt;
  std::string why = fmt::format("host {} did not come back within {} s; going on without it",
                                fmt::join(lost, ", host "), patience_s);
  return GoBack{std::move(why), std::move(lost)};
}

// ---- The lead

// Servers that were told to start have dropped what they had. An earlier attempt may have saved a version here.
void Start::give_way(const LeaderIsBack& back, SteadyTime at) {
  if (!options_.first || gives_way_ || processes_.servers.told_to_start()) return;
  gives_way_ = {back, at};
}

// ---- The devices and replicas

std::optional<Start::Absent> Start::overdue(SteadyTime::duration listened) {
  const bool waits = options_.again && !options_.only_look_without && processes_.job_facts &&
                     processes_.servers.all_here() && processes_.workers.size() > 0;
  std::vector<DevicePlace> missing = missing_.overdue(processes_.workers.missing(), waits, listened);
  if (missing.empty()) return std::nullopt;
  overdue_ = missing;
  std::string why =
      fmt::format("{} did not come within {} s", fmt::join(processes_.workers.names(missing), ", "),
                  options_.job.host_patience_s);
  return Absent{std::move(missing), std::move(why)};
}

void Start::begin_without(const Absent& absent) {
  missing_.give_up(absent.devices);
  absent_ = absent;
}

}  // namespace paceline::coordinator
