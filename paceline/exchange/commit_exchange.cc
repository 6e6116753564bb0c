#include "paceline/exchange/commit_exchange.h"

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/collective/weighted_sum.h"

namespace paceline::exchange {

CommitExchange::CommitExchange(Exchange& exchange, std::vector<ps::Layout> parts, int host)
    : exchange_(exchange), parts_(std::move(parts)), host_(host), sums_(parts_.size()) {
  std::int64_t offset = 0;
  for (const ps::Layout& part : parts_) {
    offsets_.push_back(offset);
    runs_.push_back(part.runs());
    offset += part.size();
  }
}

absl::Status CommitExchange::apply(ps::Shard& shard, ps::Update update, std::span<const HostMember> members) {
  if (update.version <= shard.version()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(send(update.version, members));
  const Version version = update.version;
  const std::int64_t own_offset = offsets_[static_cast<std::size_t>(host_)];
  std::vector<int> others;  // hosts, in the order of their first members
  for (const HostMember& member : members) {
    if (member.host == host_) {
      update.members.push_back({member.gradient + own_offset, member.weight, member.share});
      continue;
    }
    if (std::find(others.begin(), others.end(), member.host) != others.end()) continue;
    others.push_back(member.host);
    const float* slice = exchange_.slice(member.host, version);
    const bool alone = std::count_if(members.begin(), members.end(),
                                     [&](const HostMember& one) { return one.host == member.host; }) == 1;
    update.members.push_back({slice, alone ? member.weight : 1, alone ? member.share : 1});
  }
  update.arrival_block = kBlockFloats;
  update.arrival = [&](std::int64_t begin, std::int64_t end) {
    for (const int other : others) PACELINE_RETURN_IF_ERROR(exchange_.wait(other, version, begin, end));
    return absl::OkStatus();
  };
  PACELINE_RETURN_IF_ERROR(shard.apply(update));
  for (const int other : others) exchange_.release(other, version);
  exchange_.published(version);
  return absl::OkStatus();
}

absl::Status CommitExchange::flush() {
  for (int host = 0; host < static_cast<int>(parts_.size()); ++host) {
    if (host != host_) PACELINE_RETURN_IF_ERROR(exchange_.flush(host));
  }
  return absl::OkStatus();
}

absl::Status CommitExchange::send(Version version, std::span<const HostMember> members) {
  std::vector<const HostMember*> own;
  for (const HostMember& member : members) {
    if (member.host == host_) own.push_back(&member);
  }
  if (own.empty()) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(flush());
  std::int64_t longest = 0;
  for (const ps::Layout& part : parts_) longest = std::max(longest, part.size());
  // A block for each host in turn, from the next one on, so that all links and all shards are busy at once.
  const int hosts = static_cast<int>(parts_.size());
  for (std::int64_t begin = 0; begin < longest; begin += kBlockFloats) {
    for (int step = 1; step < hosts; ++step) {
      const int to = (host_ + step) % hosts;
      if (begin < parts_[static_cast<std::size_t>(to)].size())
        exchange_.send(to, version, begin, part_block(to, own, begin));
    }
  }
  return absl::OkStatus();
}

std::span<const float> CommitExchange::part_block(int host, std::span<const HostMember* const> own,
                                                  std::int64_t begin) {
  const auto at = static_cast<std::size_t>(host);
  const auto size = static_cast<std::size_t>(parts_[at].size());
  if (own.size() == 1) return block_at(std::span(own.front()->gradient + offsets_[at], size), begin);
  sums_[at].resize(size);
  const std::span<float> into = block_at(std::span(sums_[at]), begin);
  sum(host, own, begin, into);
  return into;
}

void CommitExchange::sum(int host, std::span<const HostMember* const> own, std::int64_t begin,
                         std::span<float> into) const {
  const auto at = static_cast<std::size_t>(host);
  const std::int64_t end = begin + static_cast<std::int64_t>(into.size());
  for (const ps::Layout::Run& run : runs_[at]) {
    const std::int64_t from = std::max(begin, run.begin);
    const std::int64_t to = std::min(end, run.end);
    if (from >= to) continue;
    const bool parameters = run.kind == ps::TensorKind::kParameter;
    for (const HostMember* member : own) {
      const float* values = member->gradient + offsets_[at] + from;
      const auto weight = static_cast<float>(parameters ? member->weight : member->share);
      float* sum = into.data() + (from - begin);
      if (member == own.front()) {
        collective::product(sum, values, weight, to - from);
      } else {
        collective::accumulate(sum, values, weight, to - from);
      }
    }
  }
}

}  // namespace paceline::exchange
