// The end of a link that connects, until it is open. A listener that is crowded by strangers may drop a
// connection before it knows who it is: then the dialer tries again, for a while. After an answer it does not
// try again.
//
// Like a link, it is moved by progress() and slept on by fd(). One thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/transport/links/network.h"

namespace paceline::links {

class LinkDialer {
 public:
  // `network` outlives it. The link's connect_limit is for all tries together.
  LinkDialer(const Network& network, std::string address, std::string name, const LinkOptions& options);

  // Nothing while it goes on. Then, once and for the last time: the open link, whose messages wait for its
  // first progress(), or why there is none.
  std::optional<absl::StatusOr<std::unique_ptr<Link>>> progress();
  int fd() const { return link_ ? link_->fd() : timer_.get(); }
  bool arm() { return link_ ? link_->arm() : pausing_; }

 private:
  absl::StatusOr<std::unique_ptr<Link>> connect() const;
  bool tries_again(const absl::Status& why) const;
  bool pause();

  const Network& network_;
  const std::string address_, name_;
  const LinkOptions options_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  FileDescriptor timer_;        // rings at the end of a pause
  std::unique_ptr<Link> link_;  // null: between two tries, or before the first
  bool pausing_ = false;
};

}  // namespace paceline::links
