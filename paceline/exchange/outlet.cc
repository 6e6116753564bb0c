#include "paceline/exchange/outlet.h"

#include <algorithm>

namespace paceline::exchange {

void Outlet::want(Version version) {
  wanted_ = std::max(wanted_.value_or(version), version);
  go_on();
}

std::optional<Version> Outlet::published(Version version, std::uint64_t pass_on) {
  published_ = version;
  return go_on(pass_on);
}

bool Outlet::expect(Version version) {
  wanted_ = std::max(wanted_.value_or(version), version);
  return sent_whole_ && blocks_under_way_ == 0;
}

void Outlet::passed_on(Version version) {
  published_ = version;
  sent_ = version;
}

void Outlet::keep(Version version) {
  to_keep_.push_back(version);
  go_on();
}

std::optional<Version> Outlet::go_on(std::uint64_t pass_on) {
  if (blocks_under_way_ > 0) return std::nullopt;
  const bool waited_for = wanted_ && published_ && *published_ >= *wanted_ && (!sent_ || *sent_ < *wanted_);
  if (waited_for) {
    const auto pinned = reader_.pin(*wanted_, std::chrono::nanoseconds::zero());
    if (!pinned) return std::nullopt;
    sent_ = pinned->version;
    send(Kind::kWeights, *pinned, pass_on);
    return sent_;
  }
  while (!to_keep_.empty()) {
    const auto pinned = reader_.pin_exactly(to_keep_.front());
    to_keep_.pop_front();
    if (!pinned) continue;  // it has been dropped since
    send(Kind::kKept, *pinned, 0);
    break;
  }
  return std::nullopt;
}

void Outlet::send(Kind kind, const memory::WeightReader::Pinned& pinned, std::uint64_t pass_on) {
  std::vector<std::int64_t> begins;
  for (std::size_t block = 0; block < moving_.size(); ++block) {
    if (!sent_whole_ || sent_again(moving_, block))
      begins.push_back(static_cast<std::int64_t>(block) * kBlockFloats);
  }
  sent_whole_ = true;
  blocks_under_way_ = begins.size();
  for (const std::int64_t begin : begins) {
    send_({.kind = kind, .version = pinned.version, .begin = begin, .pass_on = pass_on},
          block_at(pinned.weights, begin), [this] {
            if (--blocks_under_way_ > 0) return;
            reader_.unpin();
            go_on();
          });
  }
}

}  // namespace paceline::exchange
