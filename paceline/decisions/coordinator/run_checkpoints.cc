#include "paceline/decisions/coordinator/run_checkpoints.h"

#include <utility>

#include <absl/strings/strip.h>
#include <fmt/format.h>

#include "paceline/base/status_message.h"

namespace paceline::coordinator {

void RunCheckpoints::write(control::ControllerState state, Duration elapsed, SteadyTime at) {
  retries_.tried();
  since_ = at;
  checkpoints_.request(std::move(state), elapsed);
}

void RunCheckpoints::want(const std::string& why) {
  if (!ends_) wanted_ = why;
}

bool RunCheckpoints::is_wanted(Version version, SteadyTime at) {
  if (!wanted_ || writing() || opening()) return false;
  if (version == newest()) {
    fulfil_wish("there");
    return false;
  }
  return version > Version(0) && !waits(at);
}

void RunCheckpoints::fulfil_wish(const std::string& how) {
  if (!wanted_) return;
  out_.tell_and_remember(fmt::format("{}: the checkpoint of version {} is {}, and training goes on",
                                     *std::exchange(wanted_, std::nullopt), *newest(), how));
}

void RunCheckpoints::end() {
  ends_ = true;
  wanted_.reset();
  retries_.end();
}

void RunCheckpoints::forget() {
  ends_ = true;
  wanted_.reset();
  checkpoints_.forget();
}

absl::Status RunCheckpoints::opened(const absl::StatusOr<std::string>& folder, SteadyTime at) {
  return failed(checkpoints_.opened(folder), at);
}

absl::Status RunCheckpoints::written(ServerId server, const ServerWritten& message, SteadyTime at) {
  return failed(checkpoints_.written(server, message), at);
}

absl::Status RunCheckpoints::lost(ServerId server, const std::string& why, SteadyTime at) {
  const std::optional<Version> version = checkpoints_.awaited(server);
  if (!version) return absl::OkStatus();
  return written(server, {*version, why}, at);
}

absl::Status RunCheckpoints::counted(const absl::Status& status, SteadyTime at, Time time) {
  if (const auto one = checkpoints_.counted(status)) return failed(one, at);
  out_.put(control::SideWork{
      .at = time, .kind = control::SideWork::Kind::kCheckpoint, .version = *newest(), .took = at - since_});
  if (retries_.written())
    out_.tell_and_remember(fmt::format("the checkpoint of version {} is written", *newest()));
  fulfil_wish("written");
  return absl::OkStatus();
}

absl::Status RunCheckpoints::failed(const std::optional<Checkpoints::Failed>& failed, SteadyTime at) {
  if (!failed) return absl::OkStatus();
  const std::string line = fmt::format("the checkpoint of version {} could not be written: {}",
                                       failed->version, message_of(failed->why));
  const auto pause = retries_.failed(at, ends_);
  if (!pause) return absl::Status(failed->why.code(), line);
  // The next try is the run's own.
  std::string again = fmt::format("{}; it is tried again in {} s",
                                  std::string(absl::StripSuffix(line, " and try again")), pause->count());
  if (retries_.is_news(at)) {
    out_.tell_and_remember(std::move(again));
  } else {
    out_.tell(std::move(again));
  }
  return absl::OkStatus();
}

}  // namespace paceline::coordinator
