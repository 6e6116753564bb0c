#include "paceline/decisions/coordinator/heartbeat_reports.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace paceline::coordinator {

void HeartbeatReports::note_process(const std::string& name, const Heartbeat& beat, Time at) {
  if (beat.resident_bytes <= 0) return;
  control::ProcessReport report{at, name, beat.resident_bytes};
  for (const SentBytes& sent : beat.sent) {
    const ServerId to = sent.host;
    if (!servers_.has(to) || report.sent.size() >= 2 * servers_.size()) continue;
    const std::string peer = fmt::format("server{}", servers_.rank(to));
    report.sent.push_back({peer, "gradients", std::max<std::int64_t>(0, sent.gradients)});
    report.sent.push_back({peer, "weights", std::max<std::int64_t>(0, sent.weights)});
  }
  for (const SentToStage& sent : beat.sent_to_stages) {
    const auto& devices = job_.devices;
    const bool known = (sent.kind == kActivations || sent.kind == kGradients) &&
                       std::any_of(devices.begin(), devices.end(),
                                   [&](const auto& device) { return device.name == sent.worker; });
    if (!known || report.sent.size() >= 2 * devices.size()) continue;
    report.sent.push_back({sent.worker, sent.kind, std::max<std::int64_t>(0, sent.bytes)});
  }
  out_.put(std::move(report));
}

std::vector<control::LinkMeasured> HeartbeatReports::links(const std::string& name, HostPlace host,
                                                           const Heartbeat& beat) {
  if (job_.hosts == 1) return {};
  return link_watch_.heard(name, host, beat, [this](const Received& one) { return sender_of(one); });
}

std::optional<HostPlace> HeartbeatReports::sender_of(const Received& received) const {
  if (received.worker.empty()) {
    const ServerId server = received.host;
    return servers_.has(server) ? std::optional(servers_.place(servers_.rank(server))) : std::nullopt;
  }
  for (const JobSettings::Device& device : job_.devices) {
    if (device.name == received.worker) return device.host;
  }
  return std::nullopt;
}

}  // namespace paceline::coordinator
