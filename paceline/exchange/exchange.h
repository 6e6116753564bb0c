// One host's end of the bulk traffic between the servers of a job, with one server on each host. Workers only
// use the shared memory of their own host; all other traffic goes between the servers:
//
//   gradients  of a host's workers (one, or their sum), to the keeper of a shard: send(), slice(). One that
//              is in no commit yet may go ahead (an early one); the host's number stands for the commit then
//   weights    of a shard, to the mirrors on other hosts where somebody waits for them: want(), published()
//
// Both go in blocks (message.h), each to be worked on as it comes. A thread of the exchange's own moves them;
// it sleeps while there is nothing to do.
//
// Invariant: no thread waits for ever. When a link to another host ends, everything that waits for the
// exchange gets the reason, and so does its owner: a job that lost a server has to go back to its last
// checkpoint.
//
// To be used by one thread, but for what says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <absl/status/statusor.h>

#include "paceline/base/wake_event.h"
#include "paceline/exchange/message.h"
#include "paceline/exchange/mirror.h"
#include "paceline/exchange/outlet.h"
#include "paceline/exchange/send_turns.h"
#include "paceline/exchange/slices.h"
#include "paceline/links/link_dialer.h"
#include "paceline/links/network.h"

namespace paceline::exchange {

// A host's gradients: those for a commit, or early ones by their number.
struct GradientName {
  GradientName(Version commit) : kind(Kind::kSum), version(commit) {}
  GradientName(EarlyNumber number) : kind(Kind::kEarly), version(number.value()) {}

  Kind kind;
  Version version;
};

struct Peer {
  std::string address;  // of its exchange
  // Of the link to it: where the exchange is sealed it is sealed with them, in the clear the host that
  // connects proves itself with its own (links/link_name.h).
  links::LinkKeys keys;
};

struct ExchangeOptions {
  int host = 0;                            // this one
  std::vector<Peer> peers;                 // by host; this one's is not looked at
  std::vector<std::int64_t> part_floats;   // of each shard's gradients, by host
  std::vector<std::int64_t> board_floats;  // of each shard's board; 0: a shard of nothing, which nobody reads
  // Of each shard's board, by block: whether versions differ in it. What does not move is sent once.
  std::vector<std::vector<bool>> moving;
  // Shards for which gradients come: the own, copies of others, and those that pass here on their way.
  std::vector<int> kept_here;
  bool early = false;     // gradients may come before they are in a commit
  bool pass_on = false;   // any host may send any shard's weights, and names the hosts to send them on to
  std::string own_board;  // path of the own shard's
  int readers = 1;        // of each mirror
  int kept = 0;           // versions that may be kept of each
  // From the exchange's thread: this host keeps that version of the own shard now, or the traffic has ended.
  std::function<void(Version)> kept_there;
  std::function<void(const absl::Status&)> failed;
};

class Exchange {
 public:
  // Listens on an address of this host. All hosts' exchanges are of one fabric. `refused`: a line about
  // somebody who was not let in, from the exchange's thread. Errors: as links::Network.
  static absl::StatusOr<std::unique_ptr<Exchange>> listen(
      const std::string& host_address, links::Fabric fabric,
      std::function<void(const std::string&)> refused = [](const std::string&) {});
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool sealed() const { return network_.sealed(); }
  // For the other hosts.
  const std::string& address() const { return listener_->address(); }
  // Connects to the others, which start too. Returns at once. Errors: no memory; no such own board.
  absl::Status start(ExchangeOptions options);

  // Whether the traffic with another host has ended: whatever fails from then on fails because of that. Any
  // thread.
  bool ended();
  // Nobody wants its work any more. What is under way may come to its end within a few seconds; then
  // everything that waits is told why. Any thread.
  void give_up(const absl::Status& why);

  // Where workers of this host read each shard's weights, by host. Requires: started.
  const std::vector<std::string>& boards() const { return boards_; }

  // In a buffer of a shard's board. Requires: started.
  std::int64_t board_floats(int shard) const {
    return options_.board_floats[static_cast<std::size_t>(shard)];
  }

  // What went to a host so far, in bytes of payload. Any thread.
  struct SentBytes {
    std::int64_t gradients = 0;
    std::int64_t weights = 0;
  };
  // By host; empty before the start.
  std::vector<SentBytes> sent_bytes();
  // How fast payloads came from each host. By host; empty before the start. Any thread.
  std::vector<links::Received> received();

  // ---- Gradients out ----
  // A block of this host's gradients for a shard that another host keeps. Its memory stays as it is until
  // flush(); that of an early one may change once nobody asks for it any more.
  void send(int host, int shard, GradientName gradient, std::int64_t begin, std::span<const float> block);
  // Waits until everything that was handed to send() for that host has gone. Errors: why it never will.
  absl::Status flush(int host);

  // ---- Gradients in, for a shard that is kept here (slices.h says more) ----
  float* slice(int shard, int host, GradientName gradient) {
    return slices(shard, gradient.kind).slice(host, gradient.version);
  }
  // Any thread.
  absl::Status wait(int shard, int host, GradientName gradient, std::int64_t begin, std::int64_t end) {
    return slices(shard, gradient.kind).wait(host, gradient.version, begin, end);
  }
  void release(int shard, int host, GradientName gradient);
  // Nobody asks for the early ones of that host up to this one any more, which may still come.
  void skip(int shard, int host, EarlyNumber number);
  // The own shard waits for this version. Of later ones few blocks come at a time, in their versions' order:
  // a link that all of them share carries one commit after the other, which completes the first ones sooner
  // and none of them later. Early gradients come at any time.
  void in_turn(Version version);

  // ---- Norms of gradients ----
  // Tells the others the squared norm of a commit's averaged gradient over the own shard, and waits for
  // theirs. Returns the sum over all shards, the same number on every host. Requires: versions ascend.
  // Errors: why one never comes.
  absl::StatusOr<double> sum_squares(Version version, double own);

  // ---- Weights ----
  // Somebody on that host waits for this version of the own shard. On this host the shard's own board has it.
  void want(int host, Version version);
  // The own shard has made this version.
  void published(Version version);
  // The own shard makes this version now, and those hosts will want it. They get its blocks as they are made;
  // where weights are passed on the first host from here, and each other one from the one before it.
  void making(Version version, std::vector<int> hosts);
  // A block of the version that is being made is whole; it is copied. Any thread.
  void made(Version version, std::int64_t begin, std::span<const float> block);
  // The own shard keeps this version; that host is to keep it as well.
  void keep(int host, Version version);
  // Of the mirrors.
  void drop(Version version);
  void release_reader(int slot);

 private:
  struct Deferred {
    int host;
    Header header;
    std::size_t bytes;
    std::uint64_t message;
  };
  struct Neighbour {
    std::unique_ptr<links::LinkDialer> dialer;  // until it is connected, where this end connects
    std::unique_ptr<links::Link> link;
    std::unique_ptr<Mirror> mirror;                               // null: its shard is empty
    std::unique_ptr<Outlet> outlet;                               // null: the own one is
    std::deque<Deferred> deferred;                                // whose memory is not free yet
    std::size_t unwanted = 0;                                     // blocks on their way that nobody asks for
    std::deque<std::function<void(links::Link&)>> before_it_was;  // what waits for a link
  };

  explicit Exchange(links::Network network) : network_(std::move(network)) {}

  // Of the exchange's thread.
  void run(const std::stop_token& stop);
  bool progress();
  void sleep();
  void connect_to_lower();
  void dial(int host);
  std::optional<int> host_named(const std::string& said) const;
  absl::StatusOr<links::LinkOptions> accept(const std::string& said) const;
  links::LinkOptions options_to(int host) const;
  void count_received(int host);
  void take_link(int host, std::unique_ptr<links::Link> link);
  void heard(int host, const links::Link::Message& message);
  absl::Status heard_squares(int host, const Header& header);
  absl::Status check(int host, const Header& header, std::size_t bytes) const;
  absl::StatusOr<bool> receive(const Deferred& what);
  bool receive_unwanted(const Deferred& what);
  absl::StatusOr<std::optional<std::span<float>>> room(int host, const Header& header);
  void arrived(int host, const Header& header);
  absl::Status check_weights(int host, const Header& header, std::size_t bytes) const;
  void pass_on(Header header, std::shared_ptr<const std::vector<float>> block);
  void send_weights(int to, const Header& header, std::span<const float> block, std::function<void()> sent);
  void try_deferred(int host);
  void try_all_deferred();
  bool has_turn(const Header& sum) const;
  void with_link(int host, std::function<void(links::Link&)> use);
  // The traffic ends with the step that is under way; then all are told.
  void fail(const absl::Status& why);
  void tell_failed();

  void post(std::function<void()> task);
  bool keeps(int shard) const;
  Mirror& mirror_of(const Header& weights) {
    return *neighbours_[static_cast<std::size_t>(weights.shard)].mirror;
  }
  Slices& slices(int shard, Kind kind) {
    return *(kind == Kind::kEarly ? early_ : slices_)[static_cast<std::size_t>(shard)];
  }

  const links::Network network_;
  std::unique_ptr<links::LinkListener> listener_;
  ExchangeOptions options_;
  std::vector<std::string> boards_;
  std::vector<std::unique_ptr<Slices>> slices_;  // by shard; null: it is not kept here
  std::vector<std::unique_ptr<Slices>> early_;   // by shard, as slices_; all null where none come early

  std::mutex mutex_;  // guards what follows
  std::condition_variable sent_;
  std::condition_variable squares_here_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::size_t> unsent_;  // blocks, by host
  std::vector<SentBytes> sent_bytes_;
  std::vector<links::Received> received_;
  // By commit and host. No host is more than one commit ahead of another in this.
  std::map<Version, std::map<int, double>> squares_;
  absl::Status failed_;

  WakeEvent woken_;  // there are tasks
  // Of the exchange's thread.
  std::vector<Neighbour> neighbours_;  // by host
  std::uint64_t way_ = 0;              // the hosts that get the blocks of the version that is being made
  SendTurns weights_;
  std::optional<Version> turn_;  // of the own shard; none where nobody says whose it is
  std::size_t coming_ = 0;       // blocks of sums for the own shard that were let come, and are not there
  bool ended_ = false, told_ = false;
  std::optional<std::chrono::steady_clock::time_point> given_up_at_;
  absl::Status given_up_why_;
  absl::Status ended_why_;
  std::jthread thread_;  // last: it uses all of this
};

}  // namespace paceline::exchange
