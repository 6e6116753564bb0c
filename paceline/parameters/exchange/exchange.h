// One host's end of the bulk traffic between the servers of a job, with one server on each host. Workers only
// use the shared memory of their own host; all other traffic goes between the servers:
//
//   gradients  of a host's workers (one, or their sum), to the keeper of a shard: send(), slice(). An early
//              one goes before it is in a commit, under the host's number instead of the commit's
//   weights    of a shard, to the mirrors on other hosts whose workers wait for them: want(), published()
//
// Both go in blocks (message.h), each of which can be used as soon as it has come. A thread of the exchange
// moves them; it sleeps while there is nothing to do.
//
// Invariant: no thread waits for ever. When a link to another host ends, everything that waits for the
// exchange gets the reason, and so does its owner: a job that lost a server has to go back to its last
// checkpoint.
//
// Used by one thread, except where a comment says otherwise.
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
#include "paceline/parameters/exchange/gradient_traffic.h"
#include "paceline/parameters/exchange/message.h"
#include "paceline/parameters/exchange/mirror.h"
#include "paceline/parameters/exchange/outlet.h"
#include "paceline/parameters/exchange/send_turns.h"
#include "paceline/parameters/exchange/slices.h"
#include "paceline/transport/links/link_dialer.h"
#include "paceline/transport/links/network.h"

namespace paceline::exchange {

struct Peer {
  std::string address;  // its exchange's
  // The keys of the link to it. A sealed link is sealed with them; in the clear the connecting host proves
  // itself with its own (links/link_name.h).
  links::LinkKeys keys;
};

struct ExchangeOptions {
  int host = 0;                           // this host
  std::vector<Peer> peers;                // indexed by host; this host's entry is ignored
  std::vector<std::int64_t> part_floats;  // the size of each shard's gradients, indexed by host
  // the size of each shard's board; 0: an empty shard, which nobody reads
  std::vector<std::int64_t> board_floats;
  // For each block of each shard's board: whether versions differ in it. Other blocks are sent once.
  std::vector<std::vector<bool>> moving;
  // Shards whose gradients come here: the own one, copies of others, and those that pass here on their way.
  std::vector<int> kept_here;
  bool early = false;     // gradients may come before they are in a commit
  bool pass_on = false;   // any host may send any shard's weights, and names the hosts to send them on to
  std::string own_board;  // the path of the own shard's board
  int readers = 1;        // the number of readers of each mirror
  int kept = 0;           // how many versions of each shard may be kept
  // Called on the exchange's thread: another host keeps that version of the own shard now; and: the traffic
  // has ended.
  std::function<void(Version)> kept_there;
  std::function<void(const absl::Status&)> failed;
};

class Exchange final : public GradientTraffic {
 public:
  // Listens on an address of this host. All hosts' exchanges have the same fabric. `refused`: gets a line
  // about each peer that was not let in, on the exchange's thread. Errors: those of links::Network.
  static absl::StatusOr<std::unique_ptr<Exchange>> listen(
      const std::string& host_address, links::Fabric fabric,
      std::function<void(const std::string&)> refused = [](const std::string&) {});
  ~Exchange() override;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool sealed() const { return network_.sealed(); }
  // The address for the other hosts.
  const std::string& address() const { return listener_->address(); }
  // Begins to connect to the other hosts, which start too. Returns at once. Errors: no memory; no such own
  // board.
  absl::Status start(ExchangeOptions options);

  // True if the traffic with another host has ended, which explains any failure from then on. Any thread.
  bool ended();
  // Called when nobody wants the results any more. Work under way may finish within a few seconds; then
  // everything that waits gets `why`. Any thread.
  void give_up(const absl::Status& why);

  // The path of the board from which this host's workers read each shard's weights, indexed by host.
  // Requires: started.
  const std::vector<std::string>& boards() const { return boards_; }

  // Requires: started.
  std::int64_t board_floats(int shard) const override {
    return options_.board_floats[static_cast<std::size_t>(shard)];
  }

  // The payload sent to a host so far, in bytes. Any thread.
  struct SentBytes {
    std::int64_t gradients = 0;
    std::int64_t weights = 0;
  };
  // Indexed by host; empty before the start.
  std::vector<SentBytes> sent_bytes();
  // The payload received from each host, and its speed; indexed by host, empty before the start. Any thread.
  std::vector<links::Received> received();

  // ---- Gradients (gradient_traffic.h) ----
  void send(int host, int shard, GradientName gradient, std::int64_t begin,
            std::span<const float> block) override;
  absl::Status flush(int host) override;
  float* slice(int shard, int host, GradientName gradient) override {
    return slices(shard, gradient.kind).slice(host, gradient.version);
  }
  absl::Status wait(int shard, int host, GradientName gradient, std::int64_t begin,
                    std::int64_t end) override {
    return slices(shard, gradient.kind).wait(host, gradient.version, begin, end);
  }
  void release(int shard, int host, GradientName gradient) override;
  void skip(int shard, int host, EarlyNumber number) override;
  void in_turn(Version version) override;
  absl::StatusOr<double> sum_squares(Version version, double own) override;

  // ---- Weights ----
  // A worker on that host waits for this version of the own shard. Does nothing for this host, whose workers
  // read the shard's own board.
  void want(int host, Version version);
  void published(Version version) override;
  void making(Version version, std::vector<int> hosts) override;
  void made(Version version, std::int64_t begin, std::span<const float> block) override;
  // The own shard keeps this version; that host is to keep it as well.
  void keep(int host, Version version);
  // Both are about the mirrors.
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
    std::unique_ptr<links::LinkDialer> dialer;  // set until connected, if this end connects
    std::unique_ptr<links::Link> link;
    std::unique_ptr<Mirror> mirror;                                  // null: its shard is empty
    std::unique_ptr<Outlet> outlet;                                  // null: the own shard is empty
    std::deque<Deferred> deferred;                                   // blocks whose memory is not free yet
    std::size_t unwanted = 0;                                        // blocks under way for which nobody asks
    std::deque<std::function<void(links::Link&)>> waiting_for_link;  // uses that wait for the link
  };

  explicit Exchange(links::Network network) : network_(std::move(network)) {}

  // Called by the exchange's thread.
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
  // Ends the traffic after the step that is under way; then all who wait are told.
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
  std::vector<std::unique_ptr<Slices>> slices_;  // indexed by shard; null: not kept here
  std::vector<std::unique_ptr<Slices>> early_;   // likewise; all null if no early ones come

  std::mutex mutex_;  // guards what follows
  std::condition_variable sent_;
  std::condition_variable squares_here_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::size_t> unsent_;  // the number of blocks, indexed by host
  std::vector<SentBytes> sent_bytes_;
  std::vector<links::Received> received_;
  // Keyed by commit and host. No host is more than one commit ahead of another one in this.
  std::map<Version, std::map<int, double>> squares_;
  absl::Status failed_;

  WakeEvent woken_;  // awake while there are tasks
  // Used by the exchange's thread.
  std::vector<Neighbour> neighbours_;  // indexed by host
  std::uint64_t way_ = 0;              // the hosts that get the blocks of the version that is being made
  SendTurns weights_;
  std::optional<Version> turn_;  // the own shard's version; none if in_turn() is not used
  std::size_t coming_ = 0;       // blocks of sums for the own shard that are under way
  bool ended_ = false, told_ = false;
  std::optional<std::chrono::steady_clock::time_point> given_up_at_;
  absl::Status given_up_why_;
  absl::Status ended_why_;
  std::jthread thread_;  // last: it uses all members
};

}  // namespace paceline::exchange
