// The measuring of a run's versions: the evaluator, and the versions that wait for it. Pure.
#pragma once

#include <optional>
#include <string>

#include <absl/status/statusor.h>

#include "paceline/base/places.h"
#include "paceline/decisions/coordinator/evaluations.h"
#include "paceline/decisions/coordinator/evaluator_session.h"
#include "paceline/decisions/coordinator/messages.h"
#include "paceline/decisions/coordinator/process_orders.h"
#include "paceline/decisions/coordinator/server_fleet.h"

namespace paceline::coordinator {

class Measuring {
 public:
  // `host`: the evaluator's. The fleet and the outbox outlive this.
  Measuring(ServerFleet& servers, Outbox& out, HostPlace host);

  // ---- The evaluator

  bool here() const { return session_.here(); }
  bool is(EvaluatorPeer peer) const { return session_.is(peer); }
  HostPlace host() const { return host_; }
  // Welcomes an evaluator. False when there is one already.
  bool take(EvaluatorPeer peer, const std::string& job_toml, SteadyTime at) {
    return session_.take(peer, job_toml, at);
  }
  // The evaluator, which is here, has its program: see EvaluatorPrepared.
  void prepared(const EvaluatorPrepared& message);
  void hear(SteadyTime at) { session_.hear(at); }
  // Tells the evaluator where the weights are, once it is prepared and they are there.
  void show_boards();
  bool silent(SteadyTime at) const { return session_.silent(at); }
  void give_up(const std::string& why) { session_.give_up(why); }
  void leave(SteadyTime at);
  void send_disconnect(const Disconnect& disconnect) { session_.send_disconnect(disconnect); }

  // ---- The versions: see Evaluations

  void committed(const control::CommitRecord& record, Time at, bool last) {
    evaluations_.committed(record, at, last);
  }
  void kept(ServerId server, Version version) { evaluations_.kept(server, version); }
  std::optional<Evaluations::Measured> evaluated(const Evaluated& message) {
    return evaluations_.evaluated(message);
  }
  absl::StatusOr<Version> next_out_of_turn() const { return evaluations_.next_out_of_turn(); }
  void request_out_of_turn() { evaluations_.request_out_of_turn(); }
  std::size_t waiting() const { return evaluations_.waiting(); }
  void forget() { evaluations_.forget(); }
  // The run waits for its last evaluations since `since`. An evaluator that does not come must not hold the end up
  // for ever.
  void give_up_waiting(SteadyTime since, SteadyTime at);

 private:
  // Whether the evaluator reads the host's memory, or may do so once it is prepared.
  bool reads_host() const;

  ServerFleet& servers_;
  Outbox& out_;
  const HostPlace host_;
  EvaluatorSession session_;
  Evaluations evaluations_;
};

}  // namespace paceline::coordinator
