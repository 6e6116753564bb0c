// The entrance for connections to a job: a process that is silent, or cannot prove that it has the job's
// token, never reaches gRPC. gRPC itself limits neither the number of connections nor their silence.
//
// Without TLS both sides show that they have the token (security/proof.h), and then gRPC gets the connection.
// With TLS gRPC gets it once its first byte is that of a handshake; certificates tell the two who they are.
//
// A stranger is a connection that has not got in. Invariant: there are at most kMostStrangers; if another one
// comes, the source (an address of a host) with the most strangers loses its first. A stranger has kPatience.
// With TLS at most kMostHandshakes get in within the time that gRPC gives a handshake, and a source takes no
// more of these places than it leaves to others. So one host that floods the gate keeps only itself out. No
// connection may take the last quarter of the process's file descriptors.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include <absl/status/statusor.h>

#include "paceline/base/file_descriptor.h"
#include "paceline/base/wake_event.h"

namespace paceline::rpc {

class Gate {
 public:
  static constexpr std::size_t kMostStrangers = 1024;
  static constexpr std::size_t kMostHandshakes = 512;
  static constexpr std::chrono::seconds kPatience{5};
  static constexpr std::chrono::seconds kHandshakeLimit{5};

  struct Options {
    std::string token;
    bool tls = false;
    std::function<void(FileDescriptor)> admit;        // from the gate's thread
    std::function<void(const std::string&)> refused;  // one line; from the gate's thread
  };

  // Accepts connections to a socket that listens (base/listening_socket.h). Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Gate>> open(FileDescriptor listening, Options options);
  // Closes the gate: nobody comes in any more.
  ~Gate();

 private:
  using Clock = std::chrono::steady_clock;

  struct Stranger {
    FileDescriptor connection;
    std::string source;   // the address without its port
    std::string address;  // for people
    Clock::time_point until;
    std::string said;                    // the bytes so far, never more than the awaited ones
    std::string peers_nonce, own_nonce;  // known once the opening is here
    bool waits = false;                  // with TLS: it waits until other handshakes are over
  };
  using Strangers = std::list<Stranger>;  // the oldest first

  Gate(FileDescriptor listening, WakeEvent woken, Options options);
  void run(const std::stop_token& stop);
  void accept_some();
  // False if the connection is no stranger any more: it got in, or was dropped.
  bool hear(Stranger& stranger);
  bool hear_first_of_tls(Stranger& stranger);
  bool hear_proof(Stranger& stranger);
  bool answer(Stranger& stranger);
  void let_in(Stranger& stranger);
  bool may_shake_hands(const std::string& source);
  void drop_one();
  Strangers::iterator forget(Strangers::iterator stranger);
  void forget_handshakes();
  void drop_late();
  void say_dropped();

  const FileDescriptor listening_;
  const WakeEvent woken_;
  const Options options_;
  const std::size_t most_strangers_;  // kMostStrangers, or fewer if there are few file descriptors
  const int most_descriptors_;        // a connection with a higher number does not get in
  const std::size_t most_at_once_;    // kMostHandshakes, or fewer if there are few file descriptors
  Strangers strangers_;
  struct Handshake {
    Clock::time_point began;
    std::string source;
  };
  std::deque<Handshake> handshakes_;                                 // handshakes that may still go on
  std::map<std::string, std::size_t> strangers_of_, handshakes_of_;  // counted for each source; never 0
  std::size_t most_handshakes_ = 0;   // the most at a time since memory was given back
  Clock::time_point accept_again_{};  // not before this time, because no file descriptor was left
  std::size_t dropped_ = 0;           // since the last line about dropped strangers
  Clock::time_point said_dropped_{};
  std::jthread thread_;
};

}  // namespace paceline::rpc
