// The coordinator's process in the made-up cluster: carries out the orders of the real Attempts and Attempt.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "paceline/decisions/control/witnesses.h"
#include "paceline/decisions/coordinator/attempt.h"
#include "paceline/decisions/coordinator/attempts.h"
#include "paceline/decisions/supervisor/events.h"
#include "paceline/simulation/cluster_sim/disks.h"
#include "paceline/simulation/cluster_sim/scenario.h"
#include "paceline/simulation/cluster_sim/stream.h"
#include "paceline/simulation/cluster_sim/watch.h"

namespace paceline::cluster_sim {

using Transitions = std::map<std::pair<coordinator::Phase, coordinator::Phase>, int>;

class CoordinatorProcess final : public Process,
                                 public Host<WorkerKind>,
                                 public Host<ServerKind>,
                                 public Host<EvaluatorKind> {
 public:
  CoordinatorProcess(World& world, const Network& network, const Scenario& scenario, Disks& disks,
                     Watch& watch, Break broken, Home home);

  // Errors: the reason why it cannot lead the run.
  absl::Status lead(const supervisor::StartCoordinator& start);

  // Connects a process. Null if nobody listens.
  template <class K>
  std::shared_ptr<Stream<K>> connect(Process& process, typename Stream<K>::Ends ends) {
    if (!reached_from(process.place()) || !attempt_) return nullptr;
    auto stream = std::make_shared<Stream<K>>(world_, network_, process, *this, *this,
                                              typename K::Peer(next_peer_++), std::move(ends));
    streams<K>().emplace(stream->peer(), stream);
    return stream;
  }
  bool reached_from(int place) const { return alive() && !network_.is_cut(place, this->place()); }

  void heard(coordinator::WorkerPeer peer, wire::WorkerMessage message) override;
  void heard(coordinator::ServerPeer peer, wire::ServerMessage message) override;
  void heard(coordinator::EvaluatorPeer peer, wire::EvaluatorMessage message) override;
  void closed(coordinator::WorkerPeer peer) override;
  void closed(coordinator::ServerPeer peer) override;
  void closed(coordinator::EvaluatorPeer peer) override;

  void stop(const std::string& why, const std::string& cannot_start, StopCause cause) {
    take(coordinator::StopWanted{why, cannot_start, cause});
  }
  void give_way(const coordinator::LeaderIsBack& to) {
    if (attempt_ && !attempt_->can_go_on()) take(to);
  }
  // The answer to a launcher at that place; nothing if nobody listens.
  std::optional<supervisor::Answered> status(int place) const;
  // Lets this process die during its next work, after `actions` more actions, and calls `last` then.
  void die_after(int actions, std::function<void()> last) {
    actions_left_ = actions;
    last_ = std::move(last);
  }
  // The attempt under way; empty when there is none.
  std::string attempt() const;

  // How the run ended, once it has.
  const std::optional<absl::Status>& outcome() const { return outcome_; }
  // Whether it tells its processes that the run is over.
  bool disconnects() const {
    return attempt_ != nullptr && attempt_->phase() == coordinator::Phase::kDisconnecting;
  }
  const config::JobConfig& job() const { return job_; }
  // The transitions of all attempts' phases (before, after), and how often each occurred.
  const Transitions& transitions() const { return transitions_; }
  bool stopped() const { return stopped_; }
  // The hosts that any attempt went on without. A later attempt may take them in again.
  const std::set<HostRank>& left_out() const { return left_out_; }
  // True if the job asks for more hosts than are left.
  bool needs_more_hosts() const { return needs_more_hosts_; }
  bool ever_trained() const { return ever_trained_; }
  // The host that has a copy of the run and would lead it next. Only if hosts share no disk.
  std::optional<int> keeper() const { return attempt_ ? back_or(keeper_) : std::nullopt; }
  std::optional<int> next_leader() const {
    return attempt_ ? back_or(kept_ ? keeper_ : std::nullopt) : std::nullopt;
  }
  // `keeps`: whether that host keeps a copy now for this coordinator.
  void on_keeping(std::function<bool(int host)> keeps) { keeps_ = std::move(keeps); }
  // Calls `see` when this coordinator has begun an attempt for the first time.
  void on_leading(std::function<void()> see) { see_leading_ = std::move(see); }
  // Calls `see` when this coordinator has ended the run.
  void on_finish(std::function<void()> see) { see_finish_ = std::move(see); }
  // Calls `see` when a checkpoint counts that servers wrote because another one is lost.
  void on_saved_copies(std::function<void()> see) { see_saved_copies_ = std::move(see); }
  // Calls `see` when an attempt begins to train.
  void on_training(std::function<void()> see) { see_training_ = std::move(see); }

 private:
  using What = decltype(coordinator::Event::what);
  // The host to which this one leaves the lead, or else `other`.
  std::optional<int> back_or(std::optional<int> other) const {
    const coordinator::LeaderIsBack* const back = attempt_->gives_way_to();
    return back != nullptr ? back->host.value() : other;
  }
  using Answer = std::optional<What>;
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

  // The orders of Attempts.
  void carry_out(const std::vector<coordinator::AttemptsOrder>& orders);
  absl::Status on(const coordinator::LeaveOut& order);
  void on(const coordinator::RunAttempt& order);
  void on(const coordinator::EndRun& order);
  void end_attempt();
  void finish(const absl::Status& outcome);

  // The actions of the attempt under way.
  void tick();
  void tick_later();
  void take(What what);
  void carry_out(std::vector<coordinator::Action> actions);
  Answer on(const coordinator::SendWorker& send);
  Answer on(const coordinator::SendServer& send);
  Answer on(const coordinator::SendServers& all);
  Answer on(const coordinator::SendEvaluator& send);
  Answer on(const coordinator::HangUp& hang_up);
  Answer on(const coordinator::Begin& begin);
  Answer on(const coordinator::Record& record);
  Answer on(const coordinator::FlushRecords&);
  Answer on(const coordinator::WakeUp& wake);
  Answer on(const coordinator::OpenCheckpoint& open);
  Answer on(const coordinator::CountCheckpoint& count);
  Answer on(const coordinator::DropCheckpoint&);
  Answer on(const control::Evaluated&) { return std::nullopt; }
  Answer on(const control::SideWork&) { return std::nullopt; }
  Answer on(const control::ProcessReport&) { return std::nullopt; }
  Answer on(const control::SearchPlan& search);
  Answer on(const coordinator::Tell& tell);
  Answer on(const coordinator::NoteShardLengths&) { return std::nullopt; }
  Answer on(const coordinator::NothingLost&);
  Answer on(const coordinator::End&);
  template <class K>
  void send(typename K::Peer to, typename K::Order order, bool last);
  void send_server(coordinator::ServerPeer to, const wire::ServerOrder& order, bool last);
  void before_sending(const wire::ServerOrder& order);
  // Counts an action, or a part of one. True if the process died before it.
  bool dies();
  void begins_to_train();
  void enough_hosts();
  absl::Status flush_records();
  void abandon_all(bool dead);
  void note_phase();
  // The copy of the run on the keeper's disk, if hosts share no disk.
  void keep();
  void restart_kept(bool kept);
  void fetch_checkpoint(const std::string& name, const std::function<void()>& then);

  const Network& network_;
  const Scenario& scenario_;
  Disks& disks_;
  RunFolder& folder_;  // this host's view of it
  Watch& watch_;
  const Break break_;
  supervisor::StartCoordinator start_;
  int mark_ = 0;           // the number of the mark that this process left in the folder
  bool taken_up_ = false;  // whether this process took up a run that another one left unfinished
  bool begun_ = false;     // whether an attempt was begun
  bool needs_more_hosts_ = false;
  config::JobConfig job_;
  std::string job_toml_;
  std::set<HostRank> left_out_;
  std::optional<coordinator::Attempts> attempts_;
  std::unique_ptr<coordinator::Attempt> attempt_;
  std::int64_t number_ = 0;  // the number of the attempt under way
  std::optional<control::Witnesses> witnesses_;
  std::optional<Version> recorded_;  // the newest commit of this attempt in the journal
  Version ordered_;                  // the newest commit that the watch has heard of
  std::optional<int> keeper_;
  bool kept_ = false;
  bool awaits_copy_ = false;  // whether the attempt waits for a copy of the checkpoint that it goes on from
  bool unkept_ =
      false;  // whether the attempt goes on from a checkpoint that no other host could copy in time
  std::function<bool(int)> keeps_;
  std::string attempt_name_;
  std::string open_checkpoint_;
  std::int64_t next_peer_ = 0;
  Streams<WorkerKind> workers_;
  Streams<ServerKind> servers_;
  Streams<EvaluatorKind> evaluators_;
  bool trained_ = false;  // whether the attempt under way trained
  bool ever_trained_ = false;
  bool ended_attempt_ = false;
  bool stopped_ = false;
  bool told_to_stop_ = false;  // whether this process was
  std::optional<SteadyTime> wake_at_;
  std::function<void()> last_;
  std::optional<int> actions_left_;
  coordinator::Phase phase_ = coordinator::Phase::kStarting;
  Transitions transitions_;
  std::optional<absl::Status> outcome_;
  std::function<void()> see_leading_, see_finish_, see_saved_copies_, see_training_;
  std::optional<std::pair<std::int64_t, wire::ServerMessage>>
      late_;  // an answer, and the number of its attempt; of kLateReply
};

}  // namespace paceline::cluster_sim
