// A process's connection to the coordinator, both ways.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "paceline/decisions/coordinator/events.h"
#include "paceline/formats/wire/paceline.pb.h"
#include "paceline/simulation/cluster_sim/connection.h"

namespace paceline::cluster_sim {

template <class PeerId, class MessageType, class OrderType, class GoneType>
struct Kind {
  using Peer = PeerId;
  using Message = MessageType;
  using Order = OrderType;
  using Said = coordinator::Said<PeerId, MessageType>;
  using Gone = GoneType;
};
using WorkerKind =
    Kind<coordinator::WorkerPeer, wire::WorkerMessage, wire::WorkerOrder, coordinator::WorkerGone>;
using ServerKind =
    Kind<coordinator::ServerPeer, wire::ServerMessage, wire::ServerOrder, coordinator::ServerGone>;
using EvaluatorKind = Kind<coordinator::EvaluatorPeer, wire::EvaluatorMessage, wire::EvaluatorOrder,
                           coordinator::EvaluatorGone>;

// The coordinator's side of streams of one kind.
template <class K>
class Host {
 public:
  virtual ~Host() = default;
  virtual void heard(typename K::Peer peer, typename K::Message message) = 0;
  virtual void closed(typename K::Peer peer) = 0;
};

template <class K>
class Stream : public std::enable_shared_from_this<Stream<K>> {
 public:
  // The process's side.
  struct Ends {
    std::function<void(typename K::Order)> order;
    std::function<void()> end;
  };

  Stream(World& world, const Network& network, Process& process, Process& coordinator, Host<K>& host,
         typename K::Peer peer, Ends ends)
      : up_(world, network, process, coordinator),
        down_(world, network, coordinator, process),
        host_(&host),
        peer_(peer),
        ends_(std::move(ends)) {}

  typename K::Peer peer() const { return peer_; }

  // Sends a message of the process.
  void say(typename K::Message message) {
    up_.send([self = this->shared_from_this(), message = std::move(message)] {
      if (self->host_ != nullptr) self->host_->heard(self->peer_, message);
    });
  }
  // Messages that the process has sent arrive even if it dies.
  void keep() { up_.keep(); }
  // Ends the stream from the process's side. `dead`: the process died.
  void leave(bool dead) {
    ends_ = {};
    up_.end(dead, [self = this->shared_from_this()] {
      if (self->host_ != nullptr) self->host_->closed(self->peer_);
    });
  }

  // Sends an order of the coordinator.
  void order(typename K::Order order, bool last) {
    down_.send([self = this->shared_from_this(), order = std::move(order)] {
      if (self->ends_.order) self->ends_.order(order);
    });
    if (last) hang_up();
  }
  void hang_up() { end_down(false); }
  // Ends the stream because the attempt is over, or the coordinator's process is dead.
  void abandon(bool dead) {
    host_ = nullptr;
    end_down(dead);
  }

 private:
  void end_down(bool dead) {
    down_.end(dead, [self = this->shared_from_this()] {
      if (const auto end = std::exchange(self->ends_, {}).end) end();
    });
  }

  Pipe up_, down_;
  Host<K>* host_;  // null: the stream belongs to an attempt that is over
  const typename K::Peer peer_;
  Ends ends_;
};

}  // namespace paceline::cluster_sim
