// Channels to processes on other hosts: each over a link of its own, as the network has it, sealed or in the
// clear. One end expects the other under a name, which says which channel is meant, and both have keys for
// it: where links are sealed they seal with them, in the clear the end that connects proves itself with its
// own (link_name.h). Who comes under another name, or with other keys, is refused. A thread moves all links,
// so that what was sent goes while its owner computes; it sleeps while there is nothing to do.
//
// A link that ends ends its channel: what has come can still be taken, then both ends' calls say so.
//
// Any thread; each channel is its owner's thread's, and gone before this is.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/wake_event.h"
#include "paceline/channels/channel.h"
#include "paceline/links/link_channel.h"
#include "paceline/links/link_dialer.h"
#include "paceline/links/network.h"

namespace paceline::links {

class LinkChannels {
 public:
  // Listens on an address of this host. `refused`: a line about somebody who was not let in, from the thread.
  // Errors: as Network.
  static absl::StatusOr<std::unique_ptr<LinkChannels>> listen(
      const std::string& host_address, Fabric fabric,
      std::function<void(const std::string&)> refused = [](const std::string&) {});
  ~LinkChannels();
  LinkChannels(const LinkChannels&) = delete;
  LinkChannels& operator=(const LinkChannels&) = delete;

  bool sealed() const { return network_.sealed(); }
  // For the other ends.
  const std::string& address() const { return listener_->address(); }

  // The end that creates a channel, which the other one connects to; and that one. Return at once. What comes
  // is added to `received`, if there is one. Requires: no two of one name at a time.
  std::unique_ptr<channels::Channel> expect(const std::string& name, const channels::ChannelSizes& sizes,
                                            const LinkKeys& keys,
                                            std::shared_ptr<ReceivedCount> received = nullptr);
  std::unique_ptr<channels::Channel> connect(const std::string& address, const std::string& name,
                                             const channels::ChannelSizes& sizes, const LinkKeys& keys,
                                             std::shared_ptr<ReceivedCount> received = nullptr);

 private:
  struct Line {
    std::string said;     // the name that is connected with
    std::string address;  // to connect to; empty: the other end does
    LinkOptions options;
    std::shared_ptr<LinkEnd> end;
    std::shared_ptr<ReceivedCount> received{};  // null: nobody wants to know
    Received counted{};                         // of it
    std::unique_ptr<LinkDialer> dialer{};       // until it is connected
    std::unique_ptr<Link> link{};               // null: not yet, or it has ended
    bool ended = false;
  };

  explicit LinkChannels(Network network) : network_(std::move(network)) {}
  std::unique_ptr<channels::Channel> add(Line line);

  // Of the thread.
  void run(const std::stop_token& stop);
  bool progress();
  void close_lines();
  void sleep();
  void take_new();
  Line* expected(const std::string& said);
  absl::StatusOr<LinkOptions> accept(const std::string& said);
  static void count_received(Line& line);
  void move(Line& line);
  void take_link(Line& line, absl::StatusOr<std::unique_ptr<Link>> link);

  const Network network_;
  std::unique_ptr<LinkListener> listener_;
  std::shared_ptr<const WakeEvent> woken_;  // there is something to do; of the ends as well
  std::mutex mutex_;                        // guards what follows
  std::vector<Line> new_;
  std::vector<Line> lines_;  // of the thread
  std::jthread thread_;      // last: it uses all of this
};

}  // namespace paceline::links
