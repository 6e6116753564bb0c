#include "paceline/tools/doctor/cluster_report.h"

#include <algorithm>
#include <functional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "paceline/records/tables/text_table.h"

namespace paceline::doctor {

namespace {

struct Line {
  Finding finding;
  std::vector<int> hosts;
};

// Findings about the same thing stay together, in the order of their first mention.
std::vector<Line> lines_of(const std::vector<HostFinding>& findings) {
  std::vector<Line> lines;
  for (const HostFinding& one : findings) {
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const Line& line) { return line.finding == one.finding; });
    if (same != lines.end()) {
      same->hosts.push_back(one.host);
      continue;
    }
    const auto last = std::find_if(lines.rbegin(), lines.rend(),
                                   [&](const Line& line) { return line.finding.what == one.finding.what; });
    lines.insert(last == lines.rend() ? lines.end() : last.base(), {one.finding, {one.host}});
  }
  return lines;
}

const LinkFacts* link_of(const ClusterFacts& facts, int one, int other) {
  for (const LinkFacts& link : facts.links) {
    if (link.a == std::min(one, other) && link.b == std::max(one, other)) return &link;
  }
  return nullptr;
}

using Cell = std::function<double(const LinkFacts&, bool to_b)>;

// A row for each sender, a column for each receiver.
std::string matrix(const ClusterFacts& facts, const std::string& corner, const Cell& cell) {
  const int hosts = static_cast<int>(facts.hosts.size());
  std::vector<std::string> head = {corner};
  for (int to = 0; to < hosts; ++to) head.push_back(fmt::format("host {}", to));
  report::TextTable table(std::move(head), report::TextTable::LastColumn::kNumbers);
  for (int from = 0; from < hosts; ++from) {
    std::vector<std::string> cells = {fmt::format("host {}", from)};
    for (int to = 0; to < hosts; ++to) {
      const LinkFacts* link = from == to ? nullptr : link_of(facts, from, to);
      const bool any = link != nullptr && link->error.empty();
      cells.push_back(any ? fmt::format("{:.0f}", cell(*link, to == link->b)) : from == to ? "" : "none");
    }
    table.add(std::move(cells));
  }
  return table.text();
}

std::string conclusion(const std::vector<HostFinding>& findings, std::size_t all) {
  std::vector<int> hosts;
  for (const HostFinding& one : findings) {
    if (one.finding.health == Health::kFail) hosts.push_back(one.host);
  }
  if (hosts.empty()) return "nothing has to be fixed\n";
  std::sort(hosts.begin(), hosts.end());
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return fmt::format("before a run, fix what fails above (hosts: {})\n", names_of(hosts, all));
}

nlohmann::json json_of(const Finding& finding) {
  return {{"what", finding.what},
          {"health", word_of(finding.health)},
          {"says", finding.says},
          {"fix", finding.fix}};
}

nlohmann::json json_of(int rank, const HostFacts& host, const std::vector<HostFinding>& findings) {
  nlohmann::json document = {{"host", rank}, {"came", host.came}, {"findings", nlohmann::json::array()}};
  for (const HostFinding& one : findings) {
    if (one.host == rank) document["findings"].push_back(json_of(one.finding));
  }
  if (!host.came) return document;
  document["address"] = host.address;
  document["version"] = host.version;
  document["fabric"] = host.fabric;
  document["build"] = host.build;
  document["data"] = host.data;
  if (host.clock) {
    document["clock_ahead_s"] = host.clock->ahead_s;
    document["clock_uncertainty_s"] = host.clock->uncertainty_s;
  }
  return document;
}

nlohmann::json json_of(const LinkFacts& link) {
  if (!link.error.empty()) return {{"a", link.a}, {"b", link.b}, {"error", link.error}};
  return {{"a", link.a},
          {"b", link.b},
          {"round_trip_us", link.round_trip_us},
          {"to_a_mb_s", link.to_a_mb_s},
          {"to_b_mb_s", link.to_b_mb_s}};
}

}  // namespace

std::string names_of(const std::vector<int>& hosts, std::size_t all) {
  if (hosts.size() == all && all > 1) return "all";
  std::string names;
  for (std::size_t at = 0; at < hosts.size();) {
    std::size_t end = at + 1;
    while (end < hosts.size() && hosts[end] == hosts[end - 1] + 1) ++end;
    if (!names.empty()) names += ", ";
    names += end - at == 1 ? std::to_string(hosts[at]) : fmt::format("{}-{}", hosts[at], hosts[end - 1]);
    at = end;
  }
  return names;
}

std::string text_of(const ClusterFacts& facts, const std::vector<HostFinding>& findings) {
  std::string text;
  for (std::size_t host = 0; host < facts.hosts.size(); ++host) {
    if (facts.hosts[host].came) text += fmt::format("host {} is at {}\n", host, facts.hosts[host].address);
  }
  text += "\n      hosts\n";
  for (const Line& line : lines_of(findings)) {
    text += fmt::format("{:<5} {:<8} {:<16} {}\n", word_of(line.finding.health),
                        names_of(line.hosts, facts.hosts.size()), line.finding.what, line.finding.says);
    if (!line.finding.fix.empty()) text += fmt::format("{:31} fix: {}\n", "", line.finding.fix);
  }
  if (!facts.links.empty()) {
    text += "\n" +
            matrix(facts, "round trip, µs", [](const LinkFacts& link, bool) { return link.round_trip_us; });
    text += "\n" + matrix(facts, "MB/s, from / to", [](const LinkFacts& link, bool to_b) {
              return to_b ? link.to_b_mb_s : link.to_a_mb_s;
            });
  }
  return text + "\n" + conclusion(findings, facts.hosts.size());
}

std::string json_of(const ClusterFacts& facts, const std::vector<HostFinding>& findings) {
  nlohmann::json document = {{"failed", any_failed(findings)},
                             {"runs_dir", facts.runs_dir},
                             {"hosts", nlohmann::json::array()},
                             {"links", nlohmann::json::array()}};
  for (std::size_t host = 0; host < facts.hosts.size(); ++host)
    document["hosts"].push_back(json_of(static_cast<int>(host), facts.hosts[host], findings));
  for (const LinkFacts& link : facts.links) document["links"].push_back(json_of(link));
  return document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace paceline::doctor
