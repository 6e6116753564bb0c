// The coordinator's process in the made-up cluster: attempt after attempt, as
// coordinator_process/coordinator_role.cc has them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/cluster_sim/run_folder.h"
#include "paceline/cluster_sim/scenario.h"
#include "paceline/cluster_sim/stream.h"
#include "paceline/cluster_sim/watch.h"
#include "paceline/control/witnesses.h"
#include "paceline/coordinator/attempt.h"
#include "paceline/supervisor/events.h"
#include "paceline/supervisor/restarts.h"

namespace paceline::cluster_sim {

class CoordinatorProcess final : public Process,
                                 public Host<WorkerKind>,
                                 public Host<ServerKind>,
                                 public Host<EvaluatorKind> {
 public:
  CoordinatorProcess(World& world, const Network& network, const Scenario& scenario, RunFolder& folder,
                     Watch& watch, Break broken);

  // A process comes. Null when nobody listens.
  template <class K>
  std::shared_ptr<Stream<K>> connect(Process& process, typename Stream<K>::Ends ends) {
    if (!alive() || !attempt_) return nullptr;
    auto stream = std::make_shared<Stream<K>>(world_, network_, process, *this, *this,
                                              typename K::Peer(next_peer_++), std::move(ends));
    streams<K>().emplace(stream->peer(), stream);
    return stream;
  }

  void heard(coordinator::WorkerPeer peer, wire::WorkerMessage message) override;
  void heard(coordinator::ServerPeer peer, wire::ServerMessage message) override;
  void heard(coordinator::EvaluatorPeer peer, wire::EvaluatorMessage message) override;
  void closed(coordinator::WorkerPeer peer) override;
  void closed(coordinator::ServerPeer peer) override;
  void closed(coordinator::EvaluatorPeer peer) override;

  void stop(const std::string& why) { take(coordinator::StopWanted{why}); }
  // What it says to the launcher; nothing where nobody listens.
  std::optional<supervisor::Answered> status() const;
  // It dies within what it does next, after so many more actions.
  void die_after(int actions) { actions_left_ = actions; }

  // How the run ended, once it has.
  const std::optional<absl::Status>& outcome() const { return outcome_; }
  std::int64_t attempt_number() const {
    return folder_.attempts.empty() ? 0 : folder_.attempts.back().number;
  }
  // The phases that the attempts were in, each with the one before.
  const std::map<std::pair<coordinator::Phase, coordinator::Phase>, int>& transitions() const {
    return transitions_;
  }
  bool stopped() const { return stopped_; }
  bool ever_trained() const { return ever_trained_; }

 private:
  using What = decltype(coordinator::Event::what);
  template <class K>
  using Streams = std::map<typename K::Peer, std::shared_ptr<Stream<K>>>;
  template <class K>
  Streams<K>& streams() {
    if constexpr (std::is_same_v<K, WorkerKind>) {
      return workers_;
    } else if constexpr (std::is_same_v<K, ServerKind>) {
      return servers_;
    } else {
      return evaluators_;
    }
  }

  void begin() override;
  void gone() override;
  void begin_attempt();
  void tick();
  void take(What what);
  void carry_out(std::vector<coordinator::Action> actions);
  std::optional<What> carry_out(coordinator::Action& action);
  template <class K, class SendOne>
  void send(SendOne& one);
  void before_sending(const wire::ServerOrder& order);
  std::optional<coordinator::CutShort> cut_short(Version from) const;
  absl::Status flush_records();
  void end_attempt();
  void abandon_all(bool dead);
  void note_phase();

  const Network& network_;
  const Scenario& scenario_;
  RunFolder& folder_;
  Watch& watch_;
  const Break break_;
  std::unique_ptr<coordinator::Attempt> attempt_;
  std::optional<control::Witnesses> witnesses_;
  std::optional<Version> recorded_;  // of this attempt's commits
  Version ordered_;                  // commits that the watch has heard of
  std::string open_checkpoint_;
  int checkpoints_opened_ = 0;
  std::int64_t next_peer_ = 0;
  Streams<WorkerKind> workers_;
  Streams<ServerKind> servers_;
  Streams<EvaluatorKind> evaluators_;
  std::map<std::string, std::string> given_up_;
  supervisor::Restarts restarts_;
  bool again_ = false;
  bool trained_ = false;  // this attempt
  bool ever_trained_ = false;
  bool ended_attempt_ = false;
  bool stopped_ = false;
  bool told_to_stop_ = false;  // this process
  std::uint64_t wake_ = 0;
  std::optional<int> actions_left_;
  coordinator::Phase phase_ = coordinator::Phase::kStarting;
  std::map<std::pair<coordinator::Phase, coordinator::Phase>, int> transitions_;
  std::optional<absl::Status> outcome_;
  std::optional<std::pair<std::int64_t, wire::ServerMessage>>
      late_;  // an answer, and to which attempt; of kLateReply
};

}  // namespace paceline::cluster_sim
