#include "paceline/parameters/exchange/commit_exchange.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/parameters/ps/fused_update.h"
#include "paceline/transport/collective/weighted_sum.h"

namespace paceline::exchange {

namespace {

// If one host keeps everything, it is the first one, and the only shard is shard 0.
constexpr int kKeeper = 0;

bool has_one(std::span<const HostMember> members, int host) {
  return std::count_if(members.begin(), members.end(),
                       [&](const HostMember& one) { return one.host == host; }) == 1;
}

// The share of all members on these hosts.
double share_of(std::span<const HostMember> members, std::span<const int> hosts) {
  double share = 0;
  for (const HostMember& member : members) {
    if (std::find(hosts.begin(), hosts.end(), member.host) != hosts.end()) share += member.share;
  }
  return share;
}

double share_of(std::span<const HostMember> members, int host) {
  return share_of(members, std::span<const int>(&host, 1));
}

bool went_early(const HostMember& member) { return member.early > EarlyNumber(0); }

}  // namespace

std::vector<bool> moving_blocks(const ps::Layout& part, std::int64_t floats) {
  std::vector<bool> moving(block_count(floats), false);
  // A board has the same number of floats again, for directions, behind the weights.
  for (std::int64_t offset = 0; offset < floats; offset += part.size()) {
    for (const ps::Layout::Range& range : part.moving()) {
      const std::size_t end = blocks_before(floats, offset + range.end);
      for (std::size_t block = block_index(floats, offset + range.begin); block < end; ++block)
        moving[block] = true;
    }
  }
  return moving;
}

CommitExchange::CommitExchange(GradientTraffic& exchange, std::vector<ps::Layout> parts,
                               std::vector<std::vector<int>> kept, int host, bool on_the_way)
    : exchange_(exchange),
      parts_(std::move(parts)),
      kept_(std::move(kept)),
      host_(host),
      copied_(kept_.front().size() > 1),
      in_one_place_(host == kKeeper && parts_.size() > 1 && parts_[1].size() == 0 && !copied_),
      on_the_way_(on_the_way),
      sums_(parts_.size()) {
  if (in_one_place_) made_.emplace(parts_[kKeeper], exchange_.board_floats(kKeeper));
  if (made_ && !made_->any()) made_.reset();
  std::int64_t offset = 0;
  for (const ps::Layout& part : parts_) {
    offsets_.push_back(offset);
    runs_.push_back(part.runs());
    moving_.push_back(moving_blocks(part, part.size()));
    offset += part.size();
  }
}

absl::Status CommitExchange::apply(ps::Shard& shard, ps::Update update, std::span<const HostMember> members) {
  if (update.version <= shard.version()) return absl::OkStatus();
  const Version version = update.version;
  PACELINE_RETURN_IF_ERROR(send(version, members));
  const Gathering from = gather(host_, version, members);
  if (in_one_place_) exchange_.in_turn(version);
  await(host_, from, update);
  update.squares_of_all = [&](double own) { return exchange_.sum_squares(version, own); };
  send_as_made(update, members);
  PACELINE_RETURN_IF_ERROR(shard.apply(update));
  send_last_made(version);
  release(host_, from);
  exchange_.published(version);
  return absl::OkStatus();
}

absl::Status CommitExchange::prepare(std::span<ps::Shard* const> shards, const ps::Update& update,
                                     std::span<const HostMember> members) {
  PACELINE_RETURN_IF_ERROR(send(update.version, members));
  const std::vector<int>& kept = kept_[static_cast<std::size_t>(host_)];
  std::optional<double> squares;  // the own shard, which is the first, asks for the sum over all
  const auto squares_of_all = [&](double own) -> absl::StatusOr<double> {
    if (!squares) {
      PACELINE_ASSIGN_OR_RETURN(squares, exchange_.sum_squares(update.version, own));
    }
    return *squares;
  };
  for (std::size_t i = 0; i < shards.size(); ++i) {
    ps::Update mine = update;
    const Gathering from = gather(kept[i], update.version, members);
    await(kept[i], from, mine);
    mine.squares_of_all = squares_of_all;
    PACELINE_RETURN_IF_ERROR(shards[i]->prepare(mine));
    release(kept[i], from);
  }
  return absl::OkStatus();
}

void CommitExchange::send_as_made(ps::Update& update, std::span<const HostMember> members) {
  if (!made_) return;
  std::vector<int> hosts;
  for (const HostMember& member : members) {
    if (member.host != host_ && member.waits) hosts.push_back(member.host);
  }
  if (hosts.empty()) return;
  exchange_.making(update.version, std::move(hosts));
  made_->begin();
  update.made = [this, version = update.version](std::span<const float> board, std::int64_t begin,
                                                 std::int64_t end) {
    made_->add(begin, end, [&](std::int64_t at, bool last) {
      const std::span<const float> block = block_at(board, at);
      if (!last) return exchange_.made(version, at, block);
      last_made_ = block;
      last_made_begin_ = at;
    });
  };
}

void CommitExchange::send_last_made(Version version) {
  if (!last_made_.empty()) exchange_.made(version, last_made_begin_, last_made_);
  last_made_ = {};
}

std::vector<const HostMember*> CommitExchange::own_of(std::span<const HostMember> members) const {
  std::vector<const HostMember*> own;
  for (const HostMember& member : members) {
    if (member.host == host_) own.push_back(&member);
  }
  return own;
}

CommitExchange::Gathering CommitExchange::gather(int shard, Version version,
                                                 std::span<const HostMember> members) {
  Gathering from;
  // With copies, a sum of several members is used here too, because the other keepers get the same sum.
  const bool own_summed = copied_ && own_of(members).size() > 1;
  std::vector<int> seen;
  // The sum that was made on the way stands for all these members.
  const std::vector<int> way = shard == kKeeper ? way_of(members) : std::vector<int>();
  if (!way.empty()) {
    from.others.push_back({way.back(), version});
    from.members.push_back({exchange_.slice(shard, way.back(), version), 1, share_of(members, way)});
    seen = way;
  }
  for (const HostMember& member : members) {
    if (member.host == host_ && !own_summed) {
      const std::int64_t offset = offsets_[static_cast<std::size_t>(shard)];
      from.members.push_back(
          {member.gradient == nullptr ? nullptr : member.gradient + offset, member.weight, member.share});
      continue;
    }
    if (std::find(seen.begin(), seen.end(), member.host) != seen.end()) continue;
    seen.push_back(member.host);
    if (member.host == host_) {
      from.members.push_back({sums_[static_cast<std::size_t>(shard)].data(), 1, share_of(members, host_)});
      continue;
    }
    const bool alone = has_one(members, member.host);
    if (!alone) drop_early(shard, members, member.host);
    const GradientName gradient =
        alone && went_early(member) ? GradientName(member.early) : GradientName(version);
    from.others.push_back({member.host, gradient});
    from.members.push_back({exchange_.slice(shard, member.host, gradient), alone ? member.weight : 1,
                            share_of(members, member.host)});
  }
  return from;
}

// Skips early gradients of a host whose sum is used instead.
void CommitExchange::drop_early(int shard, std::span<const HostMember> members, int host) {
  for (const HostMember& member : members) {
    if (member.host == host && went_early(member)) exchange_.skip(shard, host, member.early);
  }
}

// `from` outlives the update.
void CommitExchange::await(int shard, const Gathering& from, ps::Update& update) {
  update.members = from.members;
  update.arrival_block = block_floats(parts_[static_cast<std::size_t>(shard)].size());
  update.arrival = [this, shard, &from](std::int64_t begin, std::int64_t end) {
    for (const Other& other : from.others)
      PACELINE_RETURN_IF_ERROR(exchange_.wait(shard, other.host, other.gradient, begin, end));
    return absl::OkStatus();
  };
}

void CommitExchange::release(int shard, const Gathering& from) {
  for (const Other& other : from.others) exchange_.release(shard, other.host, other.gradient);
}

absl::Status CommitExchange::flush() {
  for (int host = 0; host < static_cast<int>(parts_.size()); ++host) {
    if (host != host_) PACELINE_RETURN_IF_ERROR(exchange_.flush(host));
  }
  if (passing_) exchange_.release(kKeeper, passing_->from, passing_->version);
  passing_.reset();
  return absl::OkStatus();
}

std::vector<int> CommitExchange::way_of(std::span<const HostMember> members) const {
  std::vector<int> way;
  for (const HostMember& member : members) {
    if (on_the_way_ && member.host != kKeeper && std::find(way.begin(), way.end(), member.host) == way.end())
      way.push_back(member.host);
  }
  if (way.size() == 1) way.clear();
  return way;
}

absl::Status CommitExchange::add_on_the_way(Version version, std::span<const int> way, double share_there,
                                            std::span<const HostMember* const> own) {
  const auto here = std::find(way.begin(), way.end(), host_);
  const bool first = here == way.begin();
  const int next = here + 1 == way.end() ? kKeeper : *(here + 1);
  std::span<float> sums;
  if (first) {
    sums_[kKeeper].resize(static_cast<std::size_t>(parts_[kKeeper].size()));
    sums = sums_[kKeeper];
  } else {
    passing_ = {*(here - 1), version};
    sums = {exchange_.slice(kKeeper, passing_->from, version),
            static_cast<std::size_t>(parts_[kKeeper].size())};
  }
  for (std::size_t number = 0; number < block_count(std::ssize(sums)); ++number) {
    if (!moving_[kKeeper][number]) continue;
    const std::int64_t begin = block_begin(std::ssize(sums), number);
    const std::span<float> block = block_at(sums, begin);
    if (!first) {
      PACELINE_RETURN_IF_ERROR(
          exchange_.wait(kKeeper, passing_->from, version, begin, begin + std::ssize(block)));
    }
    sum(kKeeper, own, begin, block, first ? std::nullopt : std::optional(share_there));
    exchange_.send(next, kKeeper, version, begin, block);
  }
  return absl::OkStatus();
}

absl::Status CommitExchange::send(Version version, std::span<const HostMember> members) {
  if (version <= sent_) return absl::OkStatus();
  sent_ = version;
  std::vector<const HostMember*> own = own_of(members);
  if (own.size() == 1 && went_early(*own.front())) {
    // This host had not mapped the gradient when `SendEarly` came. The other hosts wait for that number, so
    // send it now.
    if (own.front()->early != sent_early_) send_early(host_, own.front()->early, own.front()->gradient);
    own.clear();
  }
  if (own.empty() && !passing_) return absl::OkStatus();
  PACELINE_RETURN_IF_ERROR(flush());
  if (own.empty()) return absl::OkStatus();
  if (const std::vector<int> way = way_of(members); !way.empty() && host_ != kKeeper)
    return add_on_the_way(version, way,
                          share_of(members, std::span(way.begin(), std::find(way.begin(), way.end(), host_))),
                          own);
  summed_.assign(parts_.size(), 0);
  for_each_block([&](int to, int shard, std::int64_t begin) {
    exchange_.send(to, shard, version, begin, part_block(shard, own, begin));
  });
  return absl::OkStatus();
}

void CommitExchange::send_early(int host, EarlyNumber number, const float* gradient) {
  if (host == host_) {
    sent_early_ = number;
    return for_each_block([&](int to, int shard, std::int64_t begin) {
      exchange_.send(to, shard, number, begin, block_of(gradient, shard, begin));
    });
  }
  // Skips earlier ones: they are in a commit that is made, or in none.
  for (const int shard : kept_[static_cast<std::size_t>(host_)])
    exchange_.skip(shard, host, EarlyNumber(number.value() - 1));
}

bool CommitExchange::reads(const HostMember& member, std::span<const HostMember> members) const {
  const std::vector<int>& kept = kept_[static_cast<std::size_t>(host_)];
  const bool keeps = std::any_of(kept.begin(), kept.end(), [&](int shard) {
    return parts_[static_cast<std::size_t>(shard)].size() > 0;
  });
  return keeps || !went_early(member) || member.early != sent_early_ || !has_one(members, host_);
}

void CommitExchange::for_each_block(
    const std::function<void(int to, int shard, std::int64_t begin)>& send) const {
  std::size_t most = 0;
  for (const ps::Layout& part : parts_) most = std::max(most, block_count(part.size()));
  // Begins with the next host and takes a block for each host in turn, so that all links and all shards are
  // busy at once.
  const int hosts = static_cast<int>(parts_.size());
  for (std::size_t block = 0; block < most; ++block) {
    for (int step = 1; step < hosts; ++step) {
      const int to = (host_ + step) % hosts;
      for (const int shard : kept_[static_cast<std::size_t>(to)]) {
        const auto at = static_cast<std::size_t>(shard);
        const std::int64_t begin = block_begin(parts_[at].size(), block);
        if (begin < parts_[at].size() && moving_[at][block]) send(to, shard, begin);
      }
    }
  }
}

std::span<const float> CommitExchange::block_of(const float* gradient, int shard, std::int64_t begin) const {
  const auto at = static_cast<std::size_t>(shard);
  const auto size = static_cast<std::size_t>(parts_[at].size());
  return block_at(std::span(gradient + offsets_[at], size), begin);
}

// The sum of several members is made once, for the first host that needs the block.
std::span<const float> CommitExchange::part_block(int shard, std::span<const HostMember* const> own,
                                                  std::int64_t begin) {
  const auto at = static_cast<std::size_t>(shard);
  const auto size = static_cast<std::size_t>(parts_[at].size());
  if (own.size() == 1) return block_of(own.front()->gradient, shard, begin);
  sums_[at].resize(size);
  const std::span<float> into = block_at(std::span(sums_[at]), begin);
  if (begin >= summed_[at]) sum(shard, own, begin, into, std::nullopt);
  summed_[at] = std::max(summed_[at], begin + std::ssize(into));
  return into;
}

// Statistics of several members are sent as their mean, and not as their sum by shares. The receiver then sees whether
// all members have the same number (ps::average_statistics).
void CommitExchange::sum(int shard, std::span<const HostMember* const> own, std::int64_t begin,
                         std::span<float> into, std::optional<double> share_there) const {
  const auto at = static_cast<std::size_t>(shard);
  const std::int64_t end = begin + static_cast<std::int64_t>(into.size());
  double share = share_there.value_or(0);
  for (const HostMember* member : own) share += member->share;
  const auto part = [&](double one) { return share > 0 ? static_cast<float>(one / share) : 0.0F; };
  for (const ps::Layout::Run& run : runs_[at]) {
    const std::int64_t from = std::max(begin, run.begin);
    const std::int64_t to = std::min(end, run.end);
    if (from >= to || run.kind == ps::TensorKind::kConstant) continue;
    const bool parameters = run.kind == ps::TensorKind::kParameter;
    float* const there = into.data() + (from - begin);
    std::vector<ps::Weighted> members;
    if (share_there) members.push_back({there, parameters ? 1.0F : part(*share_there)});
    for (const HostMember* member : own) {
      members.push_back({member->gradient + offsets_[at] + from,
                         parameters ? static_cast<float>(member->weight) : part(member->share)});
    }
    if (!parameters) {
      ps::average_statistics(members, there, 0, to - from);
      continue;
    }
    for (const ps::Weighted& member : members) {
      if (member.values == there) continue;
      if (!share_there && &member == &members.front()) {
        collective::product(there, member.values, member.weight, to - from);
      } else {
        collective::accumulate(there, member.values, member.weight, to - from);
      }
    }
  }
}

}  // namespace paceline::exchange
