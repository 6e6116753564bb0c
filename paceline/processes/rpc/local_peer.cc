#include "paceline/processes/rpc/local_peer.h"

#include <sys/socket.h>

#include <utility>

namespace paceline::rpc {

LocalPeer::LocalPeer(FileDescriptor socket, EventLoop& loop, Told told)
    : socket_(std::move(socket)), loop_(loop), told_(std::move(told)) {}

void LocalPeer::watch() {
  const std::lock_guard lock(mutex_);
  watch_.emplace(loop_, socket_.get(), [this] { take_ready(); });
  watch_->ask_for(true, !bytes_.empty());
}

Frames::Received LocalPeer::take() {
  const Frames::Received received = frames_.receive(socket_.get());
  while (const auto message = frames_.next()) {
    if (!told_.message(*message)) return Frames::Received::kEnded;
  }
  return received;
}

void LocalPeer::take_ready() {
  if (take() != Frames::Received::kEnded) return told_.writable();
  ended_ = true;
  {
    const std::lock_guard lock(mutex_);
    watch_.reset();
  }
  told_.ended();
}

void LocalPeer::take_last() {
  {
    const std::lock_guard lock(mutex_);
    watch_.reset();
  }
  if (std::exchange(ended_, true)) return;
  while (take() == Frames::Received::kSome) {
  }
}

bool LocalPeer::send(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const bool waited = !bytes_.empty();
  bytes_ += bytes;
  const auto sent = send_at_once(socket_.get(), std::string_view(bytes_).substr(sent_));
  if (!sent) return false;
  sent_ += *sent;
  // Moves what is left only now and then: it may be much.
  if (2 * sent_ >= bytes_.size()) bytes_.erase(0, std::exchange(sent_, 0));
  if (watch_ && waited != !bytes_.empty()) watch_->ask_for(true, !bytes_.empty());
  return true;
}

std::size_t LocalPeer::unsent() const {
  const std::lock_guard lock(mutex_);
  return bytes_.size() - sent_;
}

void LocalPeer::close() { ::shutdown(socket_.get(), SHUT_WR); }

}  // namespace paceline::rpc
