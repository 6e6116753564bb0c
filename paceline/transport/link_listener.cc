#include "paceline/transport/link_listener.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/check.h"

namespace paceline::transport {

namespace {

constexpr std::size_t kMostPending = 64;

void control(const FileDescriptor& poll, int operation, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  PACELINE_CHECK(epoll_ctl(poll.get(), operation, fd, &event) == 0, "cannot watch descriptor {}", fd);
}

}  // namespace

LinkListener::LinkListener(std::unique_ptr<PortListener> ports, LinkGate gate)
    : ports_(std::move(ports)), gate_(std::move(gate)), poll_(epoll_create1(EPOLL_CLOEXEC)) {
  PACELINE_CHECK(poll_.valid(), "there are no more descriptors");
  control(poll_, EPOLL_CTL_ADD, ports_->fd());
}

void LinkListener::admit(std::unique_ptr<FramePort> port, const std::string& peer) {
  if (pending_.size() >= kMostPending) {
    if (gate_.on_refused) {
      gate_.on_refused(absl::ResourceExhaustedError(
          fmt::format("link to {}: refused: {} others have not said who they are", peer, kMostPending)));
    }
    return;
  }
  pending_.push_back(std::make_unique<Link>(std::move(port), peer, gate_.accept));
  control(poll_, EPOLL_CTL_ADD, pending_.back()->fd());
}

void LinkListener::progress() {
  ports_->progress(
      [this](std::unique_ptr<FramePort> port, const std::string& peer) { admit(std::move(port), peer); });
  std::vector<std::unique_ptr<Link>> known;
  for (std::unique_ptr<Link>& link : pending_) {
    link->advance();
    if (link->open() || link->state_ == Link::State::kEnded) known.push_back(std::move(link));
  }
  std::erase(pending_, nullptr);
  for (std::unique_ptr<Link>& link : known) {
    control(poll_, EPOLL_CTL_DEL, link->fd());
    if (link->open()) {
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

}  // namespace paceline::transport
