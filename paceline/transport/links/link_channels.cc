#include "paceline/transport/links/link_channels.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "paceline/base/status_macros.h"
#include "paceline/transport/links/link_name.h"

namespace paceline::links {

namespace {

constexpr int kUntilThereIsSomething = -1;  // links have timers of their own

// The channel in its owner's hands.
class LinkChannel final : public channels::Channel {
 public:
  LinkChannel(std::shared_ptr<LinkEnd> end, std::shared_ptr<const WakeEvent> thread)
      : end_(std::move(end)), thread_(std::move(thread)) {}
  ~LinkChannel() override {
    end_->close();
    thread_->wake();
  }

  absl::StatusOr<std::optional<std::span<std::byte>>> room(std::chrono::nanoseconds timeout) override {
    return end_->room(timeout);
  }
  void send(std::size_t bytes) override {
    end_->send(bytes);
    thread_->wake();
  }
  absl::StatusOr<std::optional<std::span<const std::byte>>> message(
      std::chrono::nanoseconds timeout) override {
    return end_->message(timeout);
  }
  void release() override {
    end_->release();
    thread_->wake();
  }

 private:
  const std::shared_ptr<LinkEnd> end_;
  const std::shared_ptr<const WakeEvent> thread_;
};

LinkOptions options_of(const channels::ChannelSizes& sizes, const LinkKeys& keys, bool sealed) {
  LinkOptions options;
  if (sealed) options.keys = keys;
  options.most_payload =
      static_cast<std::size_t>(std::max(sizes.from_creator.slot_bytes, sizes.from_opener.slot_bytes));
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkChannels>> LinkChannels::listen(
    const std::string& host_address, Fabric fabric, std::function<void(const std::string&)> refused) {
  PACELINE_ASSIGN_OR_RETURN(auto network, Network::open(host_address, fabric));
  std::unique_ptr<LinkChannels> channels(new LinkChannels(std::move(network)));
  PACELINE_ASSIGN_OR_RETURN(auto woken, WakeEvent::create());
  channels->woken_ = std::make_shared<const WakeEvent>(std::move(woken));
  LinkGate gate;
  gate.accept = [it = channels.get()](const std::string& name) { return it->accept(name); };
  gate.on_link = [it = channels.get()](std::unique_ptr<Link> link) {
    Line* line = it->expected(link->peer_name());
    if (line != nullptr) it->take_link(*line, std::move(link));  // otherwise the peer is not wanted any more
  };
  gate.on_refused = [refused = std::move(refused)](const absl::Status& why) {
    refused(std::string(why.message()));
  };
  PACELINE_ASSIGN_OR_RETURN(channels->listener_, channels->network_.listen(0, std::move(gate)));
  channels->thread_ = std::jthread([it = channels.get()](const std::stop_token& stop) { it->run(stop); });
  return channels;
}

LinkChannels::~LinkChannels() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  woken_->wake();
  thread_.join();
  close_lines();
}

std::unique_ptr<channels::Channel> LinkChannels::expect(const std::string& name,
                                                        const channels::ChannelSizes& sizes,
                                                        const LinkKeys& keys,
                                                        std::shared_ptr<ReceivedCount> received) {
  return add({.said = said_name(name, keys.receive, sealed()),
              .address = "",
              .options = options_of(sizes, keys, sealed()),
              .end = std::make_shared<LinkEnd>(sizes.from_creator, sizes.from_opener),
              .received = std::move(received)});
}

std::unique_ptr<channels::Channel> LinkChannels::connect(const std::string& address, const std::string& name,
                                                         const channels::ChannelSizes& sizes,
                                                         const LinkKeys& keys,
                                                         std::shared_ptr<ReceivedCount> received) {
  return add({.said = said_name(name, keys.send, sealed()),
              .address = address,
              .options = options_of(sizes, keys, sealed()),
              .end = std::make_shared<LinkEnd>(sizes.from_opener, sizes.from_creator),
              .received = std::move(received)});
}

std::unique_ptr<channels::Channel> LinkChannels::add(Line line) {
  auto channel = std::make_unique<LinkChannel>(line.end, woken_);
  {
    const std::lock_guard lock(mutex_);
    new_.push_back(std::move(line));
  }
  woken_->wake();
  return channel;
}

// ---- The thread

void LinkChannels::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (!progress()) sleep();
  }
}

// True if there may be more to do.
bool LinkChannels::progress() {
  take_new();
  listener_->progress();
  for (Line& line : lines_) move(line);
  close_lines();
  bool idle = listener_->arm();
  for (const Line& line : lines_) {
    idle = (line.link == nullptr || line.link->arm()) && idle;
    idle = (line.dialer == nullptr || line.dialer->arm()) && idle;
  }
  return !idle;
}

// Closes all lines together: links to a host that is cut off would wait one after the other, and the other
// links meanwhile.
void LinkChannels::close_lines() {
  const auto open = std::stable_partition(lines_.begin(), lines_.end(),
                                          [](const Line& line) { return !line.end->closed(); });
  std::vector<std::unique_ptr<Link>> links;
  for (auto line = open; line != lines_.end(); ++line) {
    if (line->link != nullptr) links.push_back(std::move(line->link));
  }
  if (!links.empty()) Link::close(std::move(links));
  lines_.erase(open, lines_.end());
}

void LinkChannels::sleep() {
  std::vector<pollfd> watched{{woken_->fd(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}};
  for (const Line& line : lines_) {
    if (line.link != nullptr) watched.push_back({line.link->fd(), POLLIN, 0});
    if (line.dialer != nullptr) watched.push_back({line.dialer->fd(), POLLIN, 0});
  }
  poll(watched.data(), watched.size(), kUntilThereIsSomething);
  woken_->clear();
}

void LinkChannels::take_new() {
  std::vector<Line> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(new_);
  }
  for (Line& line : added) {
    if (!line.address.empty())
      line.dialer = std::make_unique<LinkDialer>(network_, line.address, line.said, line.options);
    lines_.push_back(std::move(line));
  }
}

LinkChannels::Line* LinkChannels::expected(const std::string& said) {
  for (Line& line : lines_) {
    const bool waits = line.link == nullptr && !line.ended && !line.end->closed();
    if (waits && line.address.empty() && same_name(line.said, said)) return &line;
  }
  return nullptr;
}

absl::StatusOr<LinkOptions> LinkChannels::accept(const std::string& said) {
  take_new();  // a peer that connects may have been expected only just now
  const Line* line = expected(said);
  if (line == nullptr) return absl::PermissionDeniedError("no peer of that name is expected");
  return line->options;
}

void LinkChannels::take_link(Line& line, absl::StatusOr<std::unique_ptr<Link>> link) {
  if (!link.ok()) {
    line.ended = true;
    return line.end->end(absl::UnavailableError(link.status().message()));
  }
  line.end->attach(**link);
  line.link = *std::move(link);
}

void LinkChannels::count_received(Line& line) {
  const Received& so_far = line.link->received();
  if (line.received == nullptr || so_far == line.counted) return;
  line.received->add(so_far - line.counted);
  line.counted = so_far;
}

void LinkChannels::move(Line& line) {
  auto connected = line.dialer == nullptr ? std::nullopt : line.dialer->progress();
  if (connected) {
    line.dialer.reset();
    take_link(line, *std::move(connected));
  }
  if (line.link == nullptr) return;
  line.end->pump(*line.link);
  absl::Status status = line.link->progress();
  count_received(line);
  if (status.ok()) status = line.end->trouble();
  if (status.ok()) return;
  line.link.reset();
  line.ended = true;
  line.end->end(absl::UnavailableError(status.message()));
}

}  // namespace paceline::links
