#include "paceline/transport/links/link_dialer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace paceline::links {

namespace {

using std::chrono::steady_clock;

constexpr auto kBetweenTries = std::chrono::milliseconds(50);
// After a longer trial the reason is not a crowd.
constexpr auto kLongestTrial = std::chrono::seconds(5);

}  // namespace

LinkDialer::LinkDialer(const Network& network, std::string address, std::string name,
                       const LinkOptions& options)
    : network_(network),
      address_(std::move(address)),
      name_(std::move(name)),
      options_(options),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)) {}

std::optional<absl::StatusOr<std::unique_ptr<Link>>> LinkDialer::progress() {
  if (link_ == nullptr) {
    std::uint64_t rings = 0;
    if (std::exchange(pausing_, false) && ::read(timer_.get(), &rings, sizeof rings) <= 0) {
      pausing_ = true;
      return std::nullopt;
    }
    auto link = connect();
    if (!link.ok() && tries_again(link.status()) && pause()) return std::nullopt;
    if (!link.ok()) return link.status();
    link_ = *std::move(link);
  }
  link_->advance();
  // A link that opened and ended still has events to report.
  if (link_->open() || !link_->events_.empty()) return std::move(link_);
  if (link_->state_ != Link::State::kEnded) return std::nullopt;
  // A crowded listener may drop a link even after its answer. A listener that refuses a peer says so.
  const absl::Status why = link_->why_;
  link_.reset();
  if (tries_again(why) && pause()) return std::nullopt;
  return why;
}

absl::StatusOr<std::unique_ptr<Link>> LinkDialer::connect() const {
  LinkOptions options = options_;
  const auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - began_);
  options.connect_limit = std::max(options.connect_limit - gone, std::chrono::milliseconds(1));
  return network_.connect(address_, name_, options);
}

bool LinkDialer::tries_again(const absl::Status& why) const {
  const bool crowded = absl::IsUnavailable(why) || absl::IsResourceExhausted(why);
  const auto end = began_ + std::min<steady_clock::duration>(kLongestTrial, options_.connect_limit);
  return crowded && steady_clock::now() + kBetweenTries < end;
}

// False if the timer cannot be made.
bool LinkDialer::pause() {
  const timespec length{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kBetweenTries).count()};
  const itimerspec once{.it_interval = {}, .it_value = length};
  pausing_ = timer_.valid() && timerfd_settime(timer_.get(), 0, &once, nullptr) == 0;
  return pausing_;
}

}  // namespace paceline::links
