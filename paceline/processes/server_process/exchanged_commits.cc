#include "paceline/processes/server_process/exchanged_commits.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/status_macros.h"
#include "paceline/decisions/coordinator/server_parts.h"
#include "paceline/formats/config/server_parts.h"
#include "paceline/formats/wire/wire.h"
#include "paceline/processes/rpc/link_keys.h"

namespace paceline::server_process {

namespace {

absl::StatusOr<exchange::Peer> peer_of(const wire::HostShard& host) {
  PACELINE_ASSIGN_OR_RETURN(const links::LinkKeys keys, rpc::link_keys(host.send_key(), host.receive_key()));
  return exchange::Peer{host.exchange(), keys};
}

// The shards of each server, as numbers.
std::vector<std::vector<int>> numbers_of(const coordinator::ServerShards& kept) {
  std::vector<std::vector<int>> numbers(kept.size());
  for (const ServerId server : kept.ids()) {
    for (const ShardId shard : kept[server])
      numbers[static_cast<std::size_t>(server.value())].push_back(shard.value());
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExchangedCommits>> ExchangedCommits::start(
    const wire::ServerStart& order, const config::JobConfig& job, const KeptShards& shards,
    Gradients& gradients, exchange::Exchange& exchange, const server::Shards::Traffic& traffic) {
  if (order.evaluator_host() < 0 || order.evaluator_host() >= order.hosts_size())
    return absl::InternalError(
        fmt::format("the coordinator has its evaluator on host {}", order.evaluator_host()));
  const int host = order.shard();
  exchange::ExchangeOptions options;
  options.host = host;
  std::vector<ps::Layout> parts;
  for (const wire::HostShard& one : order.hosts()) {
    PACELINE_ASSIGN_OR_RETURN(ps::Layout part, wire::part_from_wire(one.part()));
    PACELINE_ASSIGN_OR_RETURN(exchange::Peer peer, peer_of(one));
    options.peers.push_back(std::move(peer));
    options.part_floats.push_back(part.size());
    options.board_floats.push_back(ps::Shard::board_floats(part, job.look_ahead));
    options.moving.push_back(exchange::moving_blocks(part, options.board_floats.back()));
    parts.push_back(std::move(part));
  }
  std::vector<std::vector<int>> kept =
      numbers_of(coordinator::shards_kept(order.hosts_size(), std::max(1, order.copies())));
  options.kept_here = kept[static_cast<std::size_t>(host)];
  const bool on_the_way = config::sums_on_the_way(job);
  if (on_the_way && host > 0) options.kept_here.push_back(0);
  options.early = config::sends_early(job);
  options.pass_on = on_the_way;
  options.own_board = shards.own().board().path();
  options.readers = order.readers();
  options.kept = server::kMostKept;
  options.kept_there = traffic.kept_there;
  options.failed = traffic.failed;
  PACELINE_RETURN_IF_ERROR(exchange.start(std::move(options)));
  std::unique_ptr<ExchangedCommits> commits(
      new ExchangedCommits(shards, gradients, exchange, host, order.evaluator_host()));
  commits->commits_.emplace(exchange, std::move(parts), std::move(kept), host, on_the_way);
  return commits;
}

// The weights go as a sum of version 0, which no commit makes: commits begin with 1.
absl::Status ExchangedCommits::pass_on_first(const FirstWeights& first) {
  constexpr int kKeeper = 0, kSender = 1;
  constexpr Version kFirst(0);
  if (host_ == kSender) {
    if (!first.state.empty())
      return absl::FailedPreconditionError(
          "the first host has no device, and the state that the optimizer has at join() cannot go to its "
          "server; "
          "add a [[device]] with host = 0, or give join() an optimizer without a state");
    const std::span<const float> weights = first.weights;
    for (std::size_t block = 0; block < exchange::block_count(std::ssize(weights)); ++block) {
      const std::int64_t begin = exchange::block_begin(std::ssize(weights), block);
      exchange_.send(kKeeper, kKeeper, kFirst, begin, exchange::block_at(weights, begin));
    }
    return exchange_.flush(kKeeper);
  }
  if (host_ != kKeeper) return absl::OkStatus();
  const float* const passed_on = exchange_.slice(kKeeper, kSender, kFirst);
  PACELINE_RETURN_IF_ERROR(exchange_.wait(kKeeper, kSender, kFirst, 0, gradients_.floats()));
  PACELINE_RETURN_IF_ERROR(
      shards_.begin_with({.weights = {passed_on, static_cast<std::size_t>(gradients_.floats())}}));
  exchange_.release(kKeeper, kSender, kFirst);
  return absl::OkStatus();
}

absl::Status ExchangedCommits::map_gradient(const wire::MapGradient& order) {
  hosts_[order.replica()] = order.host();
  return order.host() == host_ ? gradients_.map(order.replica(), order.path()) : absl::OkStatus();
}

absl::Status ExchangedCommits::unmap_gradient(std::int32_t replica) {
  if (gradients_.maps(replica)) PACELINE_RETURN_IF_ERROR(commits_->flush());
  gradients_.unmap(replica);
  hosts_.erase(replica);
  return absl::OkStatus();
}

absl::StatusOr<int> ExchangedCommits::host_of(std::int32_t replica) const {
  const auto found = hosts_.find(replica);
  if (found == hosts_.end())
    return absl::FailedPreconditionError(fmt::format("no host has replica {}", replica));
  return found->second;
}

// If the gradient is not on this host, nothing is sent. That becomes an error only when a commit names it; it
// may never be committed.
absl::Status ExchangedCommits::send_early(const wire::SendEarly& order) {
  PACELINE_ASSIGN_OR_RETURN(const int host, host_of(order.replica()));
  const float* values = nullptr;
  if (host == host_) {
    values = gradients_.place_if_here(order.replica(), Clock(order.clock()));
    if (values == nullptr) return absl::OkStatus();
  }
  commits_->send_early(host, EarlyNumber(order.number()), values);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<exchange::HostMember>> ExchangedCommits::members_of(const wire::Apply& order) {
  std::vector<exchange::HostMember> members;
  for (const auto& member : order.members()) {
    PACELINE_ASSIGN_OR_RETURN(const int host, host_of(member.replica()));
    members.push_back(
        {host, nullptr, member.weight(), member.share(), member.waits(), EarlyNumber(member.early())});
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    exchange::HostMember& one = members[i];
    if (one.host != host_ || !commits_->reads(one, members)) continue;
    const auto& member = order.members(static_cast<int>(i));
    PACELINE_ASSIGN_OR_RETURN(const ps::GradientPlace place,
                              gradients_.place(member.replica(), Clock(member.clock())));
    one.gradient = place.wide;
  }
  return members;
}

absl::Status ExchangedCommits::make(const wire::Apply& order) {
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
  return commits_->apply(shards_.own(), update_of(order), members);
}

absl::Status ExchangedCommits::prepare(const wire::Apply& order) {
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
  return commits_->prepare(shards_.all(), update_of(order), members);
}

absl::Status ExchangedCommits::send_ahead(const wire::Apply& order) {
  PACELINE_ASSIGN_OR_RETURN(const auto members, members_of(order));
  return commits_->send(Version(order.version()), members);
}

void ExchangedCommits::publish(Version version) {
  shards_.publish();
  exchange_.published(version);
}

// The evaluator reads it on its own host, if there is anything to read.
bool ExchangedCommits::keeps_elsewhere(Version version) {
  if (host_ == evaluator_host_ || shards_.own().layout().size() == 0) return false;
  exchange_.keep(evaluator_host_, version);
  return true;
}

void ExchangedCommits::drop(Version version, bool checkpoint) {
  if (!checkpoint) exchange_.drop(version);
}

}  // namespace paceline::server_process
