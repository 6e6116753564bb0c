// The evaluator from an attempt's view: whether it is here, knows where the weights are, and lives. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "paceline/decisions/coordinator/actions.h"
#include "paceline/decisions/coordinator/process_orders.h"

namespace paceline::coordinator {

class EvaluatorSession {
 public:
  // The limits are fixed, because an evaluator at the lowest priority has no rhythm from which φ could follow. They are
  // long, because a busy machine may leave it nothing for minutes; the end of its stream shows a dead one anyway.
  static constexpr std::chrono::seconds kSilence{300};
  static constexpr std::chrono::seconds kFirst{300};  // until one comes
  // Until another one comes after one that is gone: if the first one ended by itself, no other one comes.
  static constexpr std::chrono::seconds kNext{30};

  // The outbox outlives this.
  explicit EvaluatorSession(Outbox& out) : out_(out) {}

  bool here() const { return peer_.has_value(); }
  bool is(EvaluatorPeer peer) const { return peer_ == peer; }

  // Welcomes an evaluator. False when there is one already.
  bool take(EvaluatorPeer peer, const std::string& job_toml, SteadyTime at) {
    if (here()) return false;
    peer_ = peer;
    heard_at_ = at;
    out_.send(peer, Welcome{.job_toml = job_toml});
    return true;
  }
  void hear(SteadyTime at) { heard_at_ = at; }
  // The evaluator's program is there, and computes on that card; empty: on processors.
  void prepared(std::string card) { card_ = std::move(card); }
  // nullopt: the evaluator is not here, or its program is not there yet.
  const std::optional<std::string>& card() const { return card_; }
  // True if the evaluator is prepared, and was not told where the weights are.
  bool wants_boards() const { return card_ && !has_boards_; }
  void show(Boards boards) {
    has_boards_ = true;
    out_.send(*peer_, std::move(boards));
  }
  // Requires: the evaluator was shown the boards.
  void evaluate(Version version) { out_.send(*peer_, EvaluateVersion{version}); }
  bool silent(SteadyTime at) const { return here() && at > heard_at_ + kSilence; }
  // True if no evaluator has been here for too long since `since`.
  bool missed(SteadyTime since, SteadyTime at) const {
    return !here() && at > (gone_at_ ? std::max(since, *gone_at_) + kNext : since + kFirst);
  }
  void give_up(const std::string& why) {
    if (here()) out_.give_up(*peer_, why);
  }
  void leave(SteadyTime at) {
    peer_.reset();
    card_.reset();
    has_boards_ = false;
    gone_at_ = at;
  }
  void send_disconnect(const Disconnect& disconnect) {
    if (here()) out_.send_disconnect(*peer_, disconnect);
  }

 private:
  Outbox& out_;
  std::optional<EvaluatorPeer> peer_;
  std::optional<std::string> card_;
  bool has_boards_ = false;
  SteadyTime heard_at_{};
  std::optional<SteadyTime> gone_at_;
};

}  // namespace paceline::coordinator
