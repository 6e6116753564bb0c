// The reports in heartbeats: the memory and traffic of processes, for the run's report, and how fast payloads came
// from other hosts, for the planner. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/processes/coordinator/link_watch.h"
#include "paceline/processes/coordinator/processes.h"

namespace paceline::coordinator {

class HeartbeatReports {
 public:
  // The references outlive this.
  HeartbeatReports(const config::JobConfig& job, const ServerFleet& servers, Outbox& out)
      : job_(job), servers_(servers), out_(out), link_watch_(job.hosts) {}

  // Reports the process. Impossible numbers are ignored: they only feed the report.
  void note_process(const std::string& name, const wire::Heartbeat& beat, Time at);
  // The news for the planner about links, from a process on that host.
  std::vector<control::LinkMeasured> links(const std::string& name, HostPlace host,
                                           const wire::Heartbeat& beat);

 private:
  std::optional<HostPlace> sender_of(const wire::Received& received) const;

  const config::JobConfig& job_;
  const ServerFleet& servers_;
  Outbox& out_;
  LinkWatch link_watch_;
};

}  // namespace paceline::coordinator
