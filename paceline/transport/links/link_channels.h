// Channels to processes on other hosts: each over a link of its own, in the network's fabric, sealed or in
// the clear. One end expects the other under a name, which identifies the channel, and both have keys for it:
// sealed links use them to seal, and in the clear the connecting end proves itself with its own
// (link_name.h). A peer with another name, or other keys, is refused. A thread moves all links, so that
// messages go while their owner computes; it sleeps while there is nothing to do.
//
// A link that ends ends its channel: messages that have come can still be taken, then both ends' calls return
// the error.
//
// Any thread; each channel belongs to its owner's thread, and is destroyed before this object.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/wake_event.h"
#include "paceline/transport/channels/channel.h"
#include "paceline/transport/links/link_channel.h"
#include "paceline/transport/links/link_dialer.h"
#include "paceline/transport/links/network.h"

namespace paceline::links {

class LinkChannels {
 public:
  // Listens on an address of this host. `refused`: gets a line about each peer that was not let in, from the
  // thread. Errors: those of Network.
  static absl::StatusOr<std::unique_ptr<LinkChannels>> listen(
      const std::string& host_address, Fabric fabric,
      std::function<void(const std::string&)> refused = [](const std::string&) {});
  ~LinkChannels();
  LinkChannels(const LinkChannels&) = delete;
  LinkChannels& operator=(const LinkChannels&) = delete;

  bool sealed() const { return network_.sealed(); }
  // The address for the other ends.
  const std::string& address() const { return listener_->address(); }

  // expect() makes the end that waits for the other one, and connect() the end that connects. Both return at
  // once. Received payloads are added to `received`, unless it is null. Requires: names in use are different.
  std::unique_ptr<channels::Channel> expect(const std::string& name, const channels::ChannelSizes& sizes,
                                            const LinkKeys& keys,
                                            std::shared_ptr<ReceivedCount> received = nullptr);
  std::unique_ptr<channels::Channel> connect(const std::string& address, const std::string& name,
                                             const channels::ChannelSizes& sizes, const LinkKeys& keys,
                                             std::shared_ptr<ReceivedCount> received = nullptr);

 private:
  struct Line {
    std::string said;     // the name with which a peer connects, and its proof
    std::string address;  // the address to connect to; empty: the other end connects
    LinkOptions options;
    std::shared_ptr<LinkEnd> end;
    std::shared_ptr<ReceivedCount> received{};  // null: nobody wants to know
    Received counted{};                         // the part of the link's count that was added to `received`
    std::unique_ptr<LinkDialer> dialer{};       // set until it is connected
    std::unique_ptr<Link> link{};               // null: not connected yet, or ended
    bool ended = false;
  };

  explicit LinkChannels(Network network) : network_(std::move(network)) {}
  std::unique_ptr<channels::Channel> add(Line line);

  // Called by the thread.
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
  std::shared_ptr<const WakeEvent> woken_;  // awake while there is something to do; the ends have it too
  std::mutex mutex_;                        // guards what follows
  std::vector<Line> new_;
  std::vector<Line> lines_;  // used by the thread
  std::jthread thread_;      // last: it uses all members
};

}  // namespace paceline::links
