#include "paceline/records/exports/trace.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "paceline/base/overloaded.h"
#include "paceline/records/pages/json_values.h"

namespace paceline::exports {

namespace {

using report::TimeCause;
using report::TimeSpan;

constexpr int kDevices = 1, kServers = 2;  // processes
constexpr std::size_t kCommits = 1, kEvaluations = 2, kCheckpoints = 3,
                      kUpdates = 4;  // tracks of the servers; of updates one for each of them

std::string quoted(const std::string& text) { return report::one_line(report::Json(text)); }
std::string number(double value) { return report::one_line(report::json_number(value)); }

// The time in microseconds.
std::string stamp(Duration duration) {
  const std::int64_t ns = std::max<std::int64_t>(0, duration.count());
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}
std::string stamp(Time time) { return stamp(time.time_since_epoch()); }

bool waits(const TimeSpan& span) {
  return span.cause == TimeCause::kWaiting || span.cause == TimeCause::kServers;
}

const char* category(TimeCause cause) {
  switch (cause) {
    case TimeCause::kComputing:
      return "compute";
    case TimeCause::kWaiting:
    case TimeCause::kServers:
      return "wait";
    case TimeCause::kLoading:
      return "load";
    case TimeCause::kWeights:
    case TimeCause::kOnTheWay:
    case TimeCause::kStages:
      return "way";
    default:
      return "away";
  }
}

}  // namespace

Trace::Trace(const report::RunInfo& info, Write write)
    : out_(std::move(write)), spans_(info.devices, [this](const TimeSpan& span) { slice(span); }) {
  out_.text() +=
      fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"job\":{},\"policy\":{}}},\"traceEvents\":[",
                  quoted(info.title), quoted(info.policy));
  const auto name_process = [&](int process, const char* name) {
    event(
        fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", process, name));
    event(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
                      process));
  };
  name_process(kDevices, "devices");
  name_process(kServers, "servers");
  name_track(kServers, kCommits, "commits");
  name_track(kServers, kEvaluations, "evaluations");
  name_track(kServers, kCheckpoints, "checkpoints");
}

void Trace::event(std::string_view text) {
  out_.text() += first_ ? "\n" : ",\n";
  out_.text() += text;
  first_ = false;
  out_.flush_if_large();
}

void Trace::name_track(int process, std::size_t track, const std::string& name) {
  event(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})", process,
                    track, quoted(name)));
  event(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                    process, track, track));
}

Trace::Track& Trace::track(std::size_t device) {
  while (tracks_.size() <= device) {
    tracks_.emplace_back();
    name_track(kDevices, tracks_.size(), spans_.devices()[tracks_.size() - 1]);
  }
  return tracks_[device];
}

void Trace::slice(const TimeSpan& span) {
  Track& mine = track(span.device);
  event(fmt::format(R"({{"ph":"X","cat":"{}","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                    category(span.cause), quoted(title(span)), kDevices, span.device + 1, stamp(span.start),
                    stamp(span.end - span.start), arguments(span)));
  if (span.cause == TimeCause::kWaiting && span.on >= 0) arrow(span);
  mine.last = span;
  mine.any = true;
}

std::string Trace::title(const TimeSpan& span) {
  switch (span.cause) {
    case TimeCause::kComputing:
      return "compute";
    case TimeCause::kWaiting:
    case TimeCause::kServers: {
      const std::string whom = spans_.name(span.on);
      return whom.empty() ? "wait" : "wait for " + whom;
    }
    case TimeCause::kLoading:
      return "load";
    case TimeCause::kWeights:
      return "pull";
    case TimeCause::kOnTheWay: {
      const Track& mine = tracks_[span.device];
      const bool computed =
          mine.any && mine.last.cause == TimeCause::kComputing && mine.last.end == span.start;
      return computed ? "push" : "release";
    }
    case TimeCause::kRecovering:
      return span.lost ? "lost iteration" : "recovering";
    default:
      return std::string(report::to_string(span.cause));
  }
}

std::string Trace::arguments(const TimeSpan& span) {
  if (waits(span)) {
    return fmt::format(R"("rule":{},"why":{})", quoted(spans_.rule(span.rule)),
                       quoted(policy::to_string(why_)));
  }
  const bool iterates = span.cause == TimeCause::kComputing || span.cause == TimeCause::kLoading ||
                        span.cause == TimeCause::kWeights || span.cause == TimeCause::kOnTheWay || span.lost;
  return iterates ? fmt::format(R"("iteration":{})", span.iteration.value()) : "";
}

// Draws an arrow from the beginning of a wait to the end of the other device's latest slice.
void Trace::arrow(const TimeSpan& waiting) {
  const std::vector<std::size_t>& devices = spans_.devices_of(waiting.on);
  if (devices.empty() || devices.front() == waiting.device || devices.front() >= tracks_.size()) return;
  const Track& other = tracks_[devices.front()];
  if (!other.any) return;
  const Time there = other.last.end - Duration(1);
  if (there < waiting.start) return;  // the other device's latest slice ends before the wait begins
  const std::uint64_t id = ++arrows_;
  event(fmt::format(R"({{"ph":"s","cat":"wait","name":"waits for","id":{},"pid":{},"tid":{},"ts":{}}})", id,
                    kDevices, waiting.device + 1, stamp(waiting.start)));
  event(fmt::format(
      R"({{"ph":"f","bp":"e","cat":"wait","name":"waits for","id":{},"pid":{},"tid":{},"ts":{}}})", id,
      kDevices, devices.front() + 1, stamp(there)));
}

void Trace::instant(int process, std::size_t track, Time at, const std::string& name,
                    const std::string& arguments) {
  event(fmt::format(R"({{"ph":"i","s":"t","name":{},"pid":{},"tid":{},"ts":{},"args":{{{}}}}})", quoted(name),
                    process, track, stamp(at), arguments));
}

void Trace::instant_of(ReplicaId replica, Time at, const std::string& name, const std::string& why) {
  for (const std::size_t device : spans_.devices_of(replica)) {
    track(device);
    instant(kDevices, device + 1, at, name, why.empty() ? "" : fmt::format(R"("why":{})", quoted(why)));
  }
}

void Trace::on_fact(const control::Fact& fact) {
  why_ = {};
  spans_.on_fact(fact);
  std::visit(
      Overloaded{
          [&](const control::ReplicaJoined& joined) { instant_of(joined.replica, fact.at, "joined", ""); },
          [&](const control::ReplicaLeft& left) { instant_of(left.replica, fact.at, "left", left.why); },
          [](const auto&) {}},
      fact.what);
}

void Trace::on_order(Time at, const control::Order& order) {
  const auto* release = std::get_if<control::Release>(&order);
  why_ = release != nullptr ? release->why : policy::Reason{};
  spans_.on_order(at, order);
  if (const auto* record = std::get_if<control::CommitRecord>(&order)) commit(at, *record);
}

void Trace::commit(Time at, const control::CommitRecord& record) {
  instant(kServers, kCommits, at, fmt::format("commit {}", record.version),
          fmt::format(R"("gradients":{},"samples":{},"why":{})", record.members.size(), record.samples,
                      quoted(policy::to_string(record.why))));
  if (record.checkpoint) {
    checkpoint_as_instant();
    checkpoint_.emplace(record.version, at);
  }
  count(at, record);
}

void Trace::checkpoint_as_instant() {
  if (!checkpoint_) return;
  instant(kServers, kCheckpoints, checkpoint_->second, fmt::format("checkpoint {}", checkpoint_->first), "");
  checkpoint_.reset();
}

void Trace::on_side_work(const control::SideWork& done) {
  using Kind = control::SideWork::Kind;
  if (done.kind == Kind::kEvaluation) evaluation_ = done;
  if (done.kind == Kind::kCheckpoint) {
    checkpoint_.reset();
    work(kCheckpoints, done, fmt::format("checkpoint {}", done.version), "");
  }
  if (done.kind != Kind::kUpdate) return;
  const std::size_t track = kUpdates + static_cast<std::size_t>(done.server);
  if (!worked_until_.contains(track))
    name_track(kServers, track, fmt::format("updates of server {}", done.server));
  work(track, done, fmt::format("update {}", done.version),
       fmt::format(R"("gradients":{},"bytes":{},"threads":{})", done.members, done.bytes, done.threads));
}

// Only the message about the work says when it was done, so it may seem to overlap with the work before.
void Trace::work(std::size_t track, const control::SideWork& done, const std::string& name,
                 const std::string& arguments) {
  Time& until = worked_until_[track];
  const Time start = std::max(until, done.at - done.took);
  if (done.at <= start) return;
  until = done.at;
  event(
      fmt::format(R"({{"ph":"X","cat":"server","name":{},"pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}}}})",
                  quoted(name), kServers, track, stamp(start), stamp(done.at - start), arguments));
}

void Trace::count(Time at, const control::CommitRecord& record) {
  bulk_.samples += record.samples;
  bulk_.gradients += std::ssize(record.members);
  for (const control::CommitMember& member : record.members) {
    const std::int64_t staleness = record.version - member.base - 1;
    bulk_.staleness += staleness;
    bulk_.staleness_max = std::max(bulk_.staleness_max, staleness);
  }
  if (bulk_.samples < record.nominal || at <= bulk_.since) return;
  const double mean =
      static_cast<double>(bulk_.staleness) / static_cast<double>(std::max<std::int64_t>(1, bulk_.gradients));
  event(fmt::format(R"({{"ph":"C","name":"staleness","pid":{},"ts":{},"args":{{"mean":{},"largest":{}}}}})",
                    kServers, stamp(at), number(mean), bulk_.staleness_max));
  event(fmt::format(R"({{"ph":"C","name":"samples/s","pid":{},"ts":{},"args":{{"samples/s":{}}}}})", kServers,
                    stamp(at), number(static_cast<double>(bulk_.samples) / to_seconds(at - bulk_.since))));
  bulk_ = {.since = at};
}

void Trace::on_evaluated(const control::Evaluated& evaluated) {
  std::string values =
      fmt::format(R"("loss":{},"accuracy":{})", number(evaluated.loss), number(evaluated.accuracy));
  for (const auto& [name, value] : evaluated.metrics)
    values += fmt::format(",{}:{}", quoted(name), number(value));
  const auto done = std::exchange(evaluation_, std::nullopt);
  const std::string name = fmt::format("evaluation of {}", evaluated.version);
  if (done && done->version == evaluated.version) {
    work(kEvaluations, *done, name, values);
  } else {
    instant(kServers, kEvaluations, evaluated.at, name, values);
  }
}

absl::Status Trace::finish(Time now) {
  why_ = {};
  checkpoint_as_instant();
  spans_.see_open(now, [this](const TimeSpan& span) { slice(span); });
  out_.text() += "\n]}\n";
  return out_.flush();
}

}  // namespace paceline::exports
