#include "paceline/parameters/exchange/outlet.h"

#include <algorithm>

namespace paceline::exchange {

void Outlet::want(Version version) {
  wanted_ = std::max(wanted_.value_or(version), version);
  go_on();
}

void Outlet::published(Version version) {
  published_ = version;
  go_on();
}

bool Outlet::expect(Version version) {
  wanted_ = std::max(wanted_.value_or(version), version);
  return sent_whole_ && blocks_under_way_ == 0 && (!sent_ || *sent_ < version);
}

void Outlet::sent(Version version) { sent_ = version; }

void Outlet::keep(Version version) {
  to_keep_.push_back(version);
  go_on();
}

void Outlet::go_on() {
  if (blocks_under_way_ > 0) return;
  const bool waited_for = wanted_ && published_ && *published_ >= *wanted_ && (!sent_ || *sent_ < *wanted_);
  if (waited_for) {
    const auto pinned = reader_.pin(*wanted_, std::chrono::nanoseconds::zero());
    if (!pinned) return;
    sent_ = pinned->version;
    return send(Kind::kWeights, *pinned);
  }
  while (!to_keep_.empty()) {
    const auto pinned = reader_.pin_exactly(to_keep_.front());
    to_keep_.pop_front();
    if (pinned) return send(Kind::kKept, *pinned);  // otherwise it has been dropped since
  }
}

void Outlet::send(Kind kind, const memory::WeightReader::Pinned& pinned) {
  std::vector<std::int64_t> begins;
  for (std::size_t block = 0; block < moving_.size(); ++block) {
    if (!sent_whole_ || sent_again(moving_, block))
      begins.push_back(block_begin(std::ssize(pinned.weights), block));
  }
  sent_whole_ = true;
  blocks_under_way_ = begins.size();
  for (const std::int64_t begin : begins) {
    send_({kind, pinned.version, begin}, block_at(pinned.weights, begin), [this] {
      if (--blocks_under_way_ > 0) return;
      reader_.unpin();
      go_on();
    });
  }
}

}  // namespace paceline::exchange
