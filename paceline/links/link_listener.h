// Other processes connect to it: it identifies them, and hands over the links of those that it accepts. Like
// a link, it is moved by progress() and slept on by fd(). What a stranger can hold of it is bounded: 64 peers
// that have not been let in yet, each for as long as LinkOptions::connect_limit. Where one more comes, or the
// system has no descriptors for it, the one goes that has been silent longest. So an expected peer that
// identifies itself at once gets in. If there is no peer to drop, it waits until there are descriptors again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/base/file_descriptor.h"
#include "paceline/links/frame_port.h"
#include "paceline/links/link.h"

namespace paceline::links {

// What a listener's owner hears, from within progress().
struct LinkGate {
  // Who may come in, and how. A name is a claim; only keys prove it.
  Link::Accept accept;
  // A link that was opened. Its messages wait for its first progress(), and its end if the peer has gone
  // again.
  std::function<void(std::unique_ptr<Link>)> on_link;
  // Somebody was not let in, or went before that: one line why. May be left out.
  std::function<void(const absl::Status&)> on_refused = {};
};

class LinkListener {
 public:
  LinkListener(std::unique_ptr<PortListener> ports, LinkGate gate);
  // False where the system had no descriptors for it: then it is of no use.
  bool watched() const { return watched_; }

  // To be given to connect().
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
  FileDescriptor timer_;  // the end of a pause
  bool watched_ = false;
  bool paused_ = false;
  std::vector<std::unique_ptr<Link>> pending_;
};

}  // namespace paceline::links
