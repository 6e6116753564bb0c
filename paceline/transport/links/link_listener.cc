#include "paceline/transport/links/link_listener.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::links {

namespace {

constexpr std::size_t kMostPending = 64;

// The pause in which others may go and leave their descriptors.
constexpr auto kPause = std::chrono::milliseconds(500);

bool control(const FileDescriptor& poll, int operation, int fd, std::uint32_t events = EPOLLIN) {
  epoll_event event{};
  event.events = events;
  return epoll_ctl(poll.get(), operation, fd, &event) == 0;
}

}  // namespace

LinkListener::LinkListener(std::unique_ptr<PortListener> ports, LinkGate gate)
    : ports_(std::move(ports)),
      gate_(std::move(gate)),
      poll_(epoll_create1(EPOLL_CLOEXEC)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      watched_(control(poll_, EPOLL_CTL_ADD, ports_->fd()) && control(poll_, EPOLL_CTL_ADD, timer_.get())) {}

void LinkListener::admit(std::unique_ptr<FramePort> port, const std::string& peer) {
  const auto refuse = [&](const std::string& why) {
    if (gate_.on_refused)
      gate_.on_refused(absl::ResourceExhaustedError(fmt::format("link to {}: refused: {}", peer, why)));
  };
  if (pending_.size() >= kMostPending && !let_go_silent()) let_go(pending_.begin());
  auto link = std::make_unique<Link>(std::move(port), peer, gate_.accept);
  if (!link->why_.ok() || !control(poll_, EPOLL_CTL_ADD, link->fd()))
    return refuse("there are no more descriptors");
  pending_.push_back(std::move(link));
}

// Drops the first of the peers that have said nothing. An expected peer identifies itself at once.
bool LinkListener::let_go_silent() {
  const auto silent = [](const std::unique_ptr<Link>& link) {
    if (link->state_ == Link::State::kHello) link->advance();  // its first frame may not have been read yet
    return link->state_ == Link::State::kHello;
  };
  return let_go(std::ranges::find_if(pending_, silent));
}

bool LinkListener::let_go(std::vector<std::unique_ptr<Link>>::iterator one) {
  if (one == pending_.end()) return false;
  const std::unique_ptr<Link> link = std::move(*one);
  pending_.erase(one);
  if (gate_.on_refused) {
    gate_.on_refused(absl::ResourceExhaustedError(
        fmt::format("link to {}: refused: it did not prove who it is, and others came", link->peer_)));
  }
  return true;
}

void LinkListener::take_in() {
  std::uint64_t rings = 0;
  if (::read(timer_.get(), &rings, sizeof rings) > 0) pause(false);
  if (paused_) return;
  const bool had_means = ports_->progress(
      [this](std::unique_ptr<FramePort> port, const std::string& peer) { admit(std::move(port), peer); });
  // A stranger's descriptors are enough for a peer that waits.
  if (!had_means && !let_go_silent()) pause(true);
}

// While a peer waits that cannot be accepted, the listener accepts nobody, so that the owner can sleep.
void LinkListener::pause(bool paused) {
  paused_ = paused;
  const timespec limit{.tv_sec = 0, .tv_nsec = paused ? std::chrono::nanoseconds(kPause).count() : 0};
  const itimerspec once{.it_interval = {}, .it_value = limit};
  PACELINE_CHECK(timerfd_settime(timer_.get(), 0, &once, nullptr) == 0 &&
                     control(poll_, EPOLL_CTL_MOD, ports_->fd(), paused ? 0u : std::uint32_t{EPOLLIN}),
                 "cannot watch a listener: {}", std::strerror(errno));
}

void LinkListener::progress() {
  take_in();
  std::vector<std::unique_ptr<Link>> known;
  for (std::unique_ptr<Link>& link : pending_) {
    link->advance();
    if (link->open() || link->state_ == Link::State::kEnded) known.push_back(std::move(link));
  }
  std::erase(pending_, nullptr);
  for (std::unique_ptr<Link>& link : known) {
    control(poll_, EPOLL_CTL_DEL, link->fd());
    if (link->open() || !link->events_.empty()) {
      gate_.on_link(std::move(link));
    } else if (gate_.on_refused) {
      gate_.on_refused(link->why_);
    }
  }
}

bool LinkListener::arm() {
  return ports_->arm() && std::ranges::all_of(pending_, [](const auto& link) { return link->arm(); });
}

void LinkListener::wait(std::chrono::milliseconds limit) {
  if (!arm()) return;
  pollfd watched{.fd = fd(), .events = POLLIN, .revents = 0};
  ::poll(&watched, 1, static_cast<int>(limit.count()));
}

}  // namespace paceline::links
