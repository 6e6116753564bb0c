// The end to which other processes connect: it identifies them, and hands over the links of those that it
// accepts. Like a link, it is moved by progress() and slept on by fd(). A stranger's use of it is bounded: 64
// peers may wait that have not been let in yet, each for as long as LinkOptions::connect_limit. If one more
// comes, or the system has no descriptors for it, the one that has been silent longest is dropped. So an
// expected peer that identifies itself at once gets in. If there is no peer to drop, the listener waits until
// there are descriptors again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/links/frame_port.h"
#include "paceline/transport/links/link.h"

namespace paceline::links {

// Callbacks to a listener's owner, from within progress().
struct LinkGate {
  // Decides who may come in, and with which options. A name is a claim; only keys prove it.
  Link::Accept accept;
  // Gets a link that was opened. Its messages wait for its first progress(), and so does its end if the peer
  // has gone again.
  std::function<void(std::unique_ptr<Link>)> on_link;
  // Gets one line about each peer that was not let in, or went before that. May be left out.
  std::function<void(const absl::Status&)> on_refused = {};
};

class LinkListener {
 public:
  LinkListener(std::unique_ptr<PortListener> ports, LinkGate gate);
  // False if the system had no descriptors for it: then it is of no use.
  bool watched() const { return watched_; }

  // The address for connect().
  const std::string& address() const { return ports_->address(); }
  void progress();
  int fd() const { return poll_.get(); }
  bool arm();
  void wait(std::chrono::milliseconds limit);

 private:
  void take_in();
  bool let_go_silent();
  bool let_go(std::vector<std::unique_ptr<Link>>::iterator one);
  void admit(std::unique_ptr<FramePort> port, const std::string& peer);
  void pause(bool paused);

  std::unique_ptr<PortListener> ports_;
  LinkGate gate_;
  FileDescriptor poll_;
  FileDescriptor timer_;  // rings at the end of a pause
  bool watched_ = false;
  bool paused_ = false;
  std::vector<std::unique_ptr<Link>> pending_;
};

}  // namespace paceline::links
